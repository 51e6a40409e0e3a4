"""Fixtures of the frontend's tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firebox as fb
from firebox.errors import DeviceError
from firebox.frontend import execute
from firebox.frontend.cli.main import main
from tests.frontend.command_line import IR, Result
from tests.frontend.two_devices import HERE

host_only = pytest.mark.skipif(
    os.environ.get("FIREBOX_DEVICE", "").startswith("opencl"), reason="only the host's memory is shared with NumPy"
)


@pytest.fixture
def frontend() -> Iterator[None]:
    """Run programs in NumPy unless FIREBOX_DEVICE names another device; seeds and counters start anew."""
    fb.set_default_device(os.environ.get("FIREBOX_DEVICE", "interpret"))
    fb.manual_seed(0)
    fb.flush()
    execute.forget_programs()
    fb.reset_stats()
    yield
    fb.set_default_device(None)


@pytest.fixture
def ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("a.mlir").write_text(IR)
    return "a.mlir"


@pytest.fixture
def firebox(capsys: pytest.CaptureFixture[str]) -> Any:
    """`firebox("run", ...)` runs a command line in this process."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as exit_:  # argparse
            code = exit_.code if isinstance(exit_.code, int) else 1
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(params=["interpret", "opencl:0"])
def there(request: pytest.FixtureRequest) -> Iterator[fb.Device]:
    """A second device; the first one is the default."""
    try:
        device = fb.Device(request.param)
    except DeviceError as error:
        pytest.skip(str(error))
    fb.set_default_device(HERE)
    fb.flush()
    yield device
    fb.set_default_device(None)
