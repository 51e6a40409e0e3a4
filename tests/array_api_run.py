"""Run data-apis/array-api-tests against ``firebox.array_api``:

    python -m tests.array_api_run CHECKOUT [pytest options]

CHECKOUT is a checkout of https://github.com/data-apis/array-api-tests with its submodule. The suite is copied to a
temporary folder and adapted there to a library without complex types, which it does not foresee: it asks for the
widest of them when it is loaded, and has special cases of complex functions. ``array_api_skips.txt`` says what else is
left out, and why. The device is FIREBOX_DEVICE, by default ``interpret``: the compiler has tests of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SKIPS = HERE / "array_api_skips.txt"
_WIDEST = "    [(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=lambda x: x[1]\n"
_ADAPTED = _WIDEST.rstrip() + ", default=(xp.float64, 64)\n"
_PLUGIN = """

def pytest_itemcollected(item):
    if "imag(" in item.name or "complex" in item.name:
        item.add_marker(mark.skip(reason="there are no complex types"))
"""


def prepare(checkout: Path, target: Path) -> None:
    """A copy of the suite that loads without complex types.

    Raises:
        SystemExit: the checkout is not that of the suite, or of another version.
    """
    shutil.copytree(checkout, target, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    helpers = target / "array_api_tests" / "dtype_helpers.py"
    text = helpers.read_text() if helpers.exists() else ""
    if _WIDEST not in text:
        raise SystemExit(f"{checkout}: not the suite, or a version of it that this script does not know")
    helpers.write_text(text.replace(_WIDEST, _ADAPTED))
    conftest = target / "conftest.py"
    conftest.write_text(conftest.read_text() + _PLUGIN)


def main(arguments: list[str]) -> int:
    """Run the suite; the exit status is pytest's."""
    if not arguments:
        raise SystemExit(__doc__)
    environment = {
        "FIREBOX_DEVICE": "interpret",
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "exec('import firebox; xp = firebox.array_api')",
        "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "PYTHONPATH": str(HERE.parent),
    }
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "suite"
        prepare(Path(arguments[0]), suite)
        options = ["-q", "--disable-deadline", "--skips-file", str(SKIPS), *arguments[1:]]
        command = [sys.executable, "-m", "pytest", "array_api_tests", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=suite, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
