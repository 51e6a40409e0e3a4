"""The OpenCL device: calls, views, faults, errors, threads."""

import pickle
import re
import threading

import numpy as np
import pytest

from firebox.dialects import plan
from firebox.dtypes import f32
from firebox.errors import ArtifactError, CompilerError, DeviceError, IndexRangeError, ShapeError
from firebox.runtime import opencl, opencl_library
from firebox.runtime.device import Device, devices
from firebox.runtime.dispatch import Executable
from firebox.runtime.opencl import OpenClDevice
from firebox.runtime.program import Program
from firebox.runtime.status import DEVICE_CALL, Status, fault
from firebox.signature import TensorSpec
from tests import handmade
from tests.handmade_opencl import (
    ADD,
    CHAIN,
    LOOK_UP,
    TWICE,
    VECTOR,
    B,
    Plan,
    add_steps,
    chain_steps,
    code,
    look_up_steps,
    twice_steps,
)
from tests.programs import opencl_device

F32 = np.dtype(np.float32)
X = np.arange(32, dtype=np.float32)


@pytest.fixture
def device() -> Device:
    return opencl_device()


@pytest.fixture
def backend(device: Device) -> OpenClDevice:
    assert isinstance(device.backend, OpenClDevice)
    return device.backend


@pytest.fixture
def add(device: Device) -> Executable:
    return Executable(ADD, code(ADD, add_steps), device)


@pytest.fixture
def twice(device: Device) -> Executable:
    return Executable(TWICE, code(TWICE, twice_steps), device)


def test_devices_by_name(device: Device) -> None:
    assert Device("opencl") is Device("opencl:0") is device
    assert device in devices() and devices()[0] is Device("cpu")
    assert pickle.loads(pickle.dumps(device)) is device
    count = opencl.count()
    with pytest.raises(DeviceError, match=rf"(?s)no such device.*opencl:0 \(.*found:    opencl:{count}"):
        Device(f"opencl:{count}")
    with pytest.raises(AttributeError):
        _ = device.nonsense


def test_what_a_device_says_about_itself(backend: OpenClDevice) -> None:
    info = backend.info
    assert info.name and info.platform and info.driver and info.memory > 1 << 20
    assert info.compute_units == backend.target.compute_units >= 1
    assert info.features == backend.target.features
    assert backend.name == "opencl:0"


@pytest.mark.parametrize("b", [1, 3, 4, 100])
def test_symbolic_dims(add: Executable, b: int) -> None:
    x, w = np.random.default_rng(b).random((b, 8), np.float32), X[:8]
    np.testing.assert_array_equal(add.run_arrays({"x": x, "w": w})["y"], x + w)


def test_nothing_is_launched_for_an_empty_batch(add: Executable) -> None:
    x = np.empty((0, 8), np.float32)
    assert add.run_arrays({"x": x, "w": X[:8]})["y"].shape == (0, 8)


def test_temporaries_and_workspace(device: Device) -> None:
    executable = Executable(CHAIN, code(CHAIN, chain_steps), device)
    np.testing.assert_array_equal(executable.run_arrays({"x": X})["y"], np.full(32, 2 * X.sum()))
    assert executable.arena_bytes() == 1024


def test_a_program_without_workspace_may_name_places_in_it(device: Device) -> None:
    program = Program(ADD.name, ADD.inputs, ADD.outputs, ADD.dims, B * 64, kernels=ADD.kernels)

    def steps(p: Plan) -> None:
        between = p.alloc(B * 32, B * 32)
        p.launch("add", [*p.inputs, between], (B * 8 + 31) // 32)
        p.block.add_op(plan.CopyOp.make(between, p.outputs[0], B * 32))

    executable = Executable(program, code(program, steps), device)
    x = np.ones((5, 8), np.float32)
    np.testing.assert_array_equal(executable.run_arrays({"x": x, "w": X[:8]})["y"], x + X[:8])
    bound = executable.bound([0])
    from_numpy = device.backend.from_numpy
    bound([from_numpy(x[:0]), from_numpy(X[:8])], None)
    device.synchronize()


def test_copies_and_fills(device: Device) -> None:
    """Parts of the output are copied and zeroed; one of them has a size that no word of 4 bytes divides."""
    program = Program("parts", (VECTOR,), (TensorSpec("y", f32, (32,)),))

    def steps(p: Plan) -> None:
        x, y = p.inputs[0], p.outputs[0]
        p.block.add_op(plan.CopyOp.make(x, y, 128))
        p.block.add_op(plan.FillOp.make(p.add(plan.ViewOp.make(y, 16)), 32))
        p.block.add_op(plan.FillOp.make(p.add(plan.ViewOp.make(y, 64)), 3))
        p.block.add_op(plan.FillOp.make(y, 0))
        p.block.add_op(plan.CopyOp.make(y, y, 128))

    found = Executable(program, code(program, steps, ""), device).run_arrays({"x": X})["y"]
    expected = X.copy()
    expected[4:12] = 0
    expected.view(np.uint8)[64:67] = 0
    np.testing.assert_array_equal(found, expected)


def test_bound_calls_give_what_run_gives(twice: Executable, device: Device) -> None:
    x = device.backend.from_numpy(X)
    (first,), (second,) = twice.run([x]), twice.bound()([x], None)
    np.testing.assert_array_equal(first.as_numpy(F32, (32,)), 2 * X)
    np.testing.assert_array_equal(second.as_numpy(F32, (32,)), 2 * X)


def test_donated_inputs_are_overwritten(device: Device) -> None:
    program = Program(TWICE.name, TWICE.inputs, TWICE.outputs, aliases=((0, 0),), kernels=TWICE.kernels)
    executable = Executable(program, code(program, twice_steps), device)
    x = device.backend.from_numpy(X)
    assert executable.run([x], (), [True])[0] is x
    np.testing.assert_array_equal(x.as_numpy(F32, (32,)), 2 * X)
    assert executable.run([x], (), [False])[0] is not x


def test_inputs_at_odd_places_are_copied(twice: Executable, backend: OpenClDevice) -> None:
    whole = backend.from_numpy(np.arange(64, dtype=np.float32))
    before = backend.realigned
    for offset in (0, 4, 16, 60):
        part = whole.view(offset, 128)
        expected = 2 * (X + offset // 4)
        np.testing.assert_array_equal(twice.run([part])[0].as_numpy(F32, (32,)), expected)
        np.testing.assert_array_equal(twice.bound()([part], None)[0].as_numpy(F32, (32,)), expected)
    assert backend.realigned - before == 4


def test_a_buffer_of_another_device_is_refused(twice: Executable) -> None:
    with pytest.raises(DeviceError, match="another device"):
        twice.run([Device("cpu").backend.from_numpy(X)])


# ---- faults and errors -----------------------------------------------------------------------------------------------


def test_faults_are_raised_with_op_and_line_and_leave_no_trace(device: Device) -> None:
    look_up = Executable(LOOK_UP, code(LOOK_UP, look_up_steps), device)
    table = X[:4]
    for index in (2, 7, 1, -9):
        arrays = {"table": table, "index": np.int64(index)}
        if 0 <= index < 4:
            assert look_up.run_arrays(arrays)["y"] == table[index]
            continue
        with pytest.raises(IndexRangeError, match=rf"(?s)nd.look_up.*found:    {index}\n.*model.py:7"):
            look_up.run_arrays(arrays)


def test_the_drivers_message_about_a_bad_source(device: Device) -> None:
    source = "__kernel void twice(__global float *x) { x[0] = nonsense; }"
    with pytest.raises(CompilerError, match=r"(?s)cannot build.*nonsense") as caught:
        Executable(TWICE, code(TWICE, twice_steps, source), device)
    assert "twice" in caught.value.op


def test_a_kernel_that_is_not_in_the_source(device: Device) -> None:
    with pytest.raises(CompilerError, match="lacks a kernel"):
        Executable(TWICE, code(TWICE, twice_steps, "__kernel void other(int n) {}"), device)


def test_a_refused_call_names_kernel_and_opencls_error(device: Device) -> None:
    source = "__kernel void twice(__global float *x, ulong o) { x[o] = 1; }"  # two arguments where the entry sets four
    executable = Executable(TWICE, code(TWICE, twice_steps, source), device)
    with pytest.raises(DeviceError, match=r"kernel twice(?s:.*)CL_INVALID_ARG_INDEX from clSetKernelArg"):
        executable.run_arrays({"x": X})


def test_a_refused_launch(device: Device) -> None:
    source = """__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
    void twice(__global float *x, ulong xo, __global float *y, ulong yo) {}"""
    executable = Executable(TWICE, code(TWICE, twice_steps, source), device)
    with pytest.raises(DeviceError, match="CL_INVALID_WORK_GROUP_SIZE from clEnqueueNDRangeKernel"):
        executable.run_arrays({"x": X})


@pytest.mark.parametrize(
    ("code_", "call", "message"),
    [(-4, 1, r"out of memory.*CL_MEM_OBJECT_ALLOCATION_FAILURE from clEnqueueNDRangeKernel.*hint:"),
     (-5, 2, "CL_OUT_OF_RESOURCES from clEnqueueCopyBuffer.*new process"),
     (-9999, 3, "OpenCL error -9999 from clEnqueueFillBuffer"), (-30, 17, "CL_INVALID_VALUE from a call")],
)  # fmt: skip
def test_errors_of_opencl_in_words(code_: int, call: int, message: str) -> None:
    error = fault(Status(DEVICE_CALL, 0, code_, call), "kernel a")
    assert isinstance(error, DeviceError)
    assert re.search(f"(?s)^kernel a: .*{message}", str(error))


def test_code_of_another_kind_of_device(device: Device) -> None:
    with pytest.raises(ArtifactError, match="another kind"):
        Executable(handmade.ADD, handmade.add_image(), device)
    with pytest.raises(ArtifactError, match="another kind"):
        Executable(TWICE, code(TWICE, twice_steps), "cpu")


def test_a_guard_is_checked_before_anything_runs(device: Device) -> None:
    program = Program.from_json(ADD.to_json().replace('"guards":[]', '"guards":[{"condition":"b >= 2","op":0}]'))
    executable = Executable(program, code(ADD, add_steps), device)
    with pytest.raises(ShapeError, match="b = 1"):
        executable.run_arrays({"x": np.ones((1, 8), np.float32), "w": X[:8]})


# ---- several at once -------------------------------------------------------------------------------------------------


def test_threads_share_an_executable(twice: Executable) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for k in range(50):
            x = X + 100 * number + k
            if not np.array_equal(twice.run_arrays({"x": x})["y"], 2 * x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_equal_sources_are_built_once(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    library = opencl_library.library()
    built: list[str] = []
    create = library.create

    def noting(name: str, *arguments: object, op: str) -> int:
        built.append(name)
        return create(name, *arguments, op=op)

    monkeypatch.setattr(library, "create", noting)
    executables = [Executable(CHAIN, code(CHAIN, chain_steps), device) for _ in range(3)]
    assert sum(name.startswith("clCreateProgram") for name in built) == 1
    for executable in executables:
        assert executable.run_arrays({"x": X})["y"][0] == 2 * X.sum()


def test_cpu_and_device_side_by_side(device: Device) -> None:
    on_cpu = Executable(handmade.ADD, handmade.add_image())
    on_device = Executable(ADD, code(ADD, add_steps), device)
    arrays = {"x": np.ones((4, 8), np.float32), "w": X[:8]}
    np.testing.assert_array_equal(on_cpu.run_arrays(arrays)["y"], on_device.run_arrays(arrays)["y"])
