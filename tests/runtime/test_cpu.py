"""The CPU device: entry points, status, devices by name."""

import pickle
import threading

import numpy as np
import pytest

from firebox import config
from firebox.errors import CompilerError, DeviceError, IndexRangeError, ShapeError
from firebox.runtime import opencl
from firebox.runtime.code_cache import compile_image
from firebox.runtime.cpu import CpuDevice, Entry, slots
from firebox.runtime.device import Device, default_device, devices
from firebox.runtime.status import GUARD_UNMET, INDEX_OUT_OF_RANGE, OUT_OF_MEMORY, Status, fault

# out[i] = a[i] + b[i] for i < dims[0]; fails with the status (dims[1], 42, dims[2], dims[3]) when dims[1] is not 0.
TEXT = """
define void @add(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) nounwind {
entry:
  %a = load ptr, ptr %args, align 8
  %b.p = getelementptr i64, ptr %args, i64 1
  %b = load ptr, ptr %b.p, align 8
  %out = load ptr, ptr %outs, align 8
  %n = load i64, ptr %dims, align 8
  %code.p = getelementptr i64, ptr %dims, i64 1
  %code = load i64, ptr %code.p, align 8
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %x.p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %x.p, align 4
  %y.p = getelementptr float, ptr %b, i64 %i
  %y = load float, ptr %y.p, align 4
  %z = fadd float %x, %y
  %z.p = getelementptr float, ptr %out, i64 %i
  store float %z, ptr %z.p, align 4
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %loop, label %end
end:
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %out.of.here
fail:
  %d0.p = getelementptr i64, ptr %dims, i64 2
  %d0 = load i64, ptr %d0.p, align 8
  %d1.p = getelementptr i64, ptr %dims, i64 3
  %d1 = load i64, ptr %d1.p, align 8
  %s1 = getelementptr i64, ptr %status, i64 1
  %s2 = getelementptr i64, ptr %status, i64 2
  %s3 = getelementptr i64, ptr %status, i64 3
  store i64 %code, ptr %status, align 8
  store i64 42, ptr %s1, align 8
  store i64 %d0, ptr %s2, align 8
  store i64 %d1, ptr %s3, align 8
  br label %out.of.here
out.of.here:
  ret void
}
"""


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


@pytest.fixture(scope="module")
def entry(device: CpuDevice) -> Entry:
    return device.make_entry(device.load(compile_image([TEXT], device.target)), "add")


def test_entry_computes(device: CpuDevice, entry: Entry) -> None:
    a, b = (device.from_numpy(np.arange(5, dtype=np.float32) * scale) for scale in (1, 10))
    out = device.allocate(20)
    entry(device.environment(), slots([a.ptr, b.ptr]), slots([5, 0]), slots([out.ptr, 0]))
    np.testing.assert_array_equal(out.as_numpy(np.dtype(np.float32), (5,)), [0, 11, 22, 33, 44])


def test_faults_come_back_and_leave_nothing_behind(device: CpuDevice, entry: Entry) -> None:
    env, none = device.environment(), slots([0, 0])
    assert entry.run(env, none, slots([0, 1, 7, 5]), none) == Status(1, 42, 7, 5)
    assert entry.run(env, none, slots([0, 0]), none) is None
    with pytest.raises(IndexRangeError, match="op 42"):
        entry(env, none, slots([0, INDEX_OUT_OF_RANGE, 7, 5]), none)
    entry(env, none, slots([0, 0]), none)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (
            INDEX_OUT_OF_RANGE,
            IndexRangeError,
            "take: index out of range\n  expected: an index from 0 to 4\n  found:    7",
        ),
        (GUARD_UNMET, ShapeError, "expected: 5\n  found:    7"),
        (OUT_OF_MEMORY, DeviceError, "out of memory"),
        (99, CompilerError, "unknown status"),
    ],
)
def test_faults_become_errors(code: int, error: type[Exception], text: str) -> None:
    raised = fault(Status(code, 3, 7, 5), "take", "model.py:12")
    assert type(raised) is error
    assert text in str(raised) and "model.py:12" in str(raised)


def test_entry_keeps_its_code(device: CpuDevice) -> None:
    loaded = device.load(compile_image([TEXT], device.target))
    entry = device.make_entry(loaded, "add")
    del loaded
    assert entry.run(device.environment(), slots([0, 0]), slots([0, 0]), slots([0])) is None


def test_closed_code_gives_no_entry(device: CpuDevice) -> None:
    loaded = device.load(compile_image([TEXT], device.target))
    loaded.close()
    with pytest.raises(DeviceError, match="unloaded"):
        device.make_entry(loaded, "add")


def test_calls_from_several_threads(device: CpuDevice, entry: Entry) -> None:
    wrong: list[int] = []

    def work(code: int) -> None:
        env, none, dims = device.environment(), slots([0, 0]), slots([0, code, code, 0])
        expected = Status(code, 42, code, 0) if code else None
        for _ in range(2000):
            if entry.run(env, none, dims, none) != expected:
                wrong.append(code)

    threads = [threading.Thread(target=work, args=(code,)) for code in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_slots_are_signed_words() -> None:
    assert slots([1, -1]) == b"\1" + bytes(7) + b"\xff" * 8
    assert slots([]) == b""


def test_copies_are_separate(device: CpuDevice) -> None:
    source = np.arange(4, dtype=np.int64)
    copied = device.copy(device.from_numpy(source))
    source[:] = 0
    np.testing.assert_array_equal(copied.as_numpy(np.dtype(np.int64), (4,)), np.arange(4))
    assert copied.root is copied


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = Device("cpu")
    assert Device() is cpu and Device("cpu:0") is cpu and Device(cpu) is cpu
    assert repr(cpu) == 'Device("cpu")'
    assert devices()[0] is cpu and [d.name.partition(":")[0] for d in devices()[1:]] == ["opencl"] * opencl.count()
    assert pickle.loads(pickle.dumps(cpu)) is cpu
    assert cpu.target is cpu.backend.target
    assert default_device() is cpu
    monkeypatch.setenv("FIREBOX_DEVICE", "abacus")
    config.reload()
    with pytest.raises(DeviceError, match="abacus"):
        default_device()


@pytest.mark.parametrize(
    ("name", "message"), [("opencl:99", "OpenCL|no such device"), ("opencl:x", "such"), ("tpu", "such"), ("", "cpu")]
)
def test_unknown_devices(name: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        Device(name)
