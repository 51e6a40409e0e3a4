"""The OpenCL device of the tests of this folder."""

import pytest

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")

from tests.lowering.opencl.device_runner import Runner  # noqa: E402  # it needs pyopencl


@pytest.fixture(scope="session")
def device() -> Runner:
    """The first device of the first platform."""
    try:
        return Runner()
    except (cl.Error, IndexError):
        pytest.skip("no OpenCL platform (for tests: the package pocl-opencl-icd)")
