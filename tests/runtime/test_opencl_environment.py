"""OpenCL in other processes: what is missing is said, several devices work at once, forked children are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firebox.runtime import opencl, opencl_library
from tests.programs import opencl_device

ROOT = Path(__file__).parents[2]


def run(code: str, **env: str) -> str:
    """What a program prints; it must not fail."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100)
    assert found.returncode == 0, found.stderr
    return found.stdout


_REPORT = """
import firebox as fb
print([device.name for device in fb.devices()])
try:
    fb.Device("opencl")
except fb.DeviceError as error:
    print(error)
"""


def test_without_pyopencl() -> None:
    found = run(f"import sys; sys.modules['pyopencl'] = None\n{_REPORT}")
    assert found.startswith("['cpu']\n") and "needs the package pyopencl" in found and "pip install pyopencl" in found


def test_without_a_driver(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    found = run(_REPORT, OCL_ICD_VENDORS=str(tmp_path), OPENCL_VENDOR_PATH=str(tmp_path))
    assert found.startswith("['cpu']\n") and "no OpenCL platform" in found and "pocl-opencl-icd" in found


def test_importing_does_not_load_opencl() -> None:
    assert run("import sys, firebox.runtime.device; print('pyopencl' in sys.modules)") == "False\n"


def test_listing_devices_opens_none() -> None:
    opencl_device()
    code = "import firebox as fb; print(['_queue' in d.backend.__dict__ for d in fb.devices()[1:2]])"
    assert run(code) == "[False]\n"


_TWO = """
import numpy as np
import firebox as fb
from firebox.runtime.dispatch import Executable
from tests.handmade_opencl import TWICE, code, twice_steps
print(len(fb.devices()))
x = np.arange(32, dtype=np.float32)
for device in fb.devices()[1:]:
    executable = Executable(TWICE, code(TWICE, twice_steps), device)
    assert np.array_equal(executable.run_arrays({"x": x})["y"], 2 * x)
    kept = executable.run([device.backend.from_numpy(x)])
try:
    Executable(TWICE, code(TWICE, twice_steps), fb.devices()[1]).run(kept)
except fb.DeviceError as error:
    print(error.message)
"""


def test_two_devices_in_one_process() -> None:
    if "pocl" not in str(opencl_device().target):
        pytest.skip("only PoCL can be asked for two devices")
    assert run(_TWO, POCL_DEVICES="pthread pthread") == "3\na buffer of another device\n"


_FORK = """
import os
import numpy as np
import firebox as fb
device = fb.Device("opencl")
array = np.arange(4.0)
buffer = device.backend.from_numpy(array)
view = buffer.view(8, 8)
child = os.fork()
if child == 0:
    for act in (lambda: buffer.as_numpy(array.dtype, (4,)), lambda: device.backend.from_numpy(array),
                lambda: device.backend.allocate(1 << 22), device.synchronize):
        try:
            act()
        except fb.DeviceError as error:
            print(error.message, flush=True)
    del buffer, view
    print(len(fb.devices()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(buffer.as_numpy(array.dtype, (4,)).sum())
"""


def test_a_forked_child_is_refused_and_harms_nothing() -> None:
    opencl_device()
    lines = run(_FORK).splitlines()
    assert lines == ["OpenCL cannot be used in a forked process"] * 4 + ["1", "6.0"]


def test_a_process_may_end_in_the_middle_of_work() -> None:
    opencl_device()
    code = """
import numpy as np
import firebox as fb
kept = [fb.Device("opencl").backend.from_numpy(np.ones(1 << 20)) for _ in range(20)]
"""
    assert run(code) == ""


def test_nvidias_driver_is_registered_where_nobody_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    for name in opencl_library._VENDOR_PATHS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opencl_library, "_DEFAULT_VENDORS", tmp_path)
    monkeypatch.setattr("ctypes.CDLL", loaded.append)
    (tmp_path / "pocl.icd").write_text("libpocl.so.2\n")
    with opencl_library._with_nvidia():
        directory = Path(os.environ["OCL_ICD_VENDORS"])
        assert sorted(path.read_text() for path in directory.iterdir()) == ["libnvidia-opencl.so.1\n", "libpocl.so.2\n"]
    assert "OCL_ICD_VENDORS" not in os.environ and not directory.exists()
    assert loaded == ["libnvidia-opencl.so.1"]
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    with opencl_library._with_nvidia():
        assert "OCL_ICD_VENDORS" not in os.environ
    monkeypatch.setenv("OCL_ICD_VENDORS", "/elsewhere")
    with opencl_library._with_nvidia():
        assert os.environ["OCL_ICD_VENDORS"] == "/elsewhere"


def test_count_is_that_of_the_devices() -> None:
    opencl_device()
    assert opencl.count() == len(opencl_library.devices()) >= 1
