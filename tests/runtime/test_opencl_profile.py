"""Kernels of a device are timed by its own clock, and nothing else changes meanwhile."""

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DeviceError, UserError
from firebox.runtime import opencl
from firebox.runtime.opencl_profile import KernelTime, Profile
from firebox.runtime.program import KernelInfo

GPU = "opencl:0"
needs_device = pytest.mark.skipif(not opencl.count(), reason="no OpenCL device")


def test_launches_of_a_kernel_are_added_up_and_the_slowest_comes_first() -> None:
    found = Profile()
    info = KernelInfo("loops_0", "loops", ("nd.mul", "nd.add", "nd.exp", "nd.sub", "nd.tanh"))
    for seconds in (1e-6, 2e-6):
        found.add(7, "loops_0", seconds, info)
    found.add(7, "copy", 5e-6, None)
    found.add(8, "loops_0", 1e-7, None)  # of another program
    found.calls = 3
    assert found.launches == 4
    assert found.seconds == pytest.approx(8.1e-6)
    assert [(k.name, k.launches) for k in found.slowest()] == [("copy", 1), ("loops_0", 2), ("loops_0", 1)]
    assert str(found).splitlines() == [
        "       8.1 us      4 x  in 3 calls of programs",
        "       5.0 us      1 x  copy",
        "       3.0 us      2 x  loops_0        add exp sub tanh +1",
        "       0.1 us      1 x  loops_0",
    ]
    assert str(KernelTime("fill", 1, 1e-3)) == "    1000.0 us      1 x  fill"


@needs_device
def test_a_profile_holds_the_kernels_of_the_calls_inside() -> None:
    x = fb.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=GPU)
    double = fb.jit(lambda a: a * 2.0)
    expected = 2 * np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(double(x).numpy(), expected)
    with fb.profile(GPU) as found:
        once = double(x)
        twice = double(once)
    assert np.array_equal(twice.numpy(), 2 * expected)
    (kernel,) = found.slowest()
    assert (kernel.launches, found.calls) == (2, 2)
    assert kernel.seconds > 0
    assert kernel.info is not None and "nd.mul" in kernel.info.ops
    assert np.array_equal(double(once).numpy(), 2 * expected)
    assert found.calls == 2  # what is called afterwards does not count


@needs_device
def test_what_is_recorded_inside_is_run_and_counted() -> None:
    x = fb.ones(8, device=GPU)
    before = x + 1
    with fb.profile(GPU) as found:
        assert found.calls == 0  # what was pending has run before
        y = x * 3
    assert found.calls == 1
    assert y.tolist() == [3.0] * 8
    assert before.tolist() == [2.0] * 8


@needs_device
def test_faults_are_reported_as_ever() -> None:
    x, at = fb.ones(4, device=GPU), fb.tensor(9, device=GPU)
    with fb.profile(GPU), pytest.raises(fb.IndexRangeError):
        x[at].item()
    assert (x + 1).tolist() == [2.0] * 4


@needs_device
def test_one_profile_at_a_time() -> None:
    with fb.profile(GPU), pytest.raises(DeviceError, match="a profile is under way already"), fb.profile(GPU):
        pass
    with fb.profile(GPU) as found:
        pass
    assert (found.calls, found.launches, found.slowest()) == (0, 0, [])


def test_only_opencl_devices_are_profiled() -> None:
    with pytest.raises(UserError, match="profile: no clock for kernels"):
        fb.profile("cpu")
