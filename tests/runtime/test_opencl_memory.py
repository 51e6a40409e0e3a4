"""Memory of an OpenCL device: transfers, views, reuse, and running out of it."""

import numpy as np
import pytest

from firebox.errors import DeviceError, InputError
from firebox.runtime import opencl_memory
from firebox.runtime.dispatch import Executable
from firebox.runtime.memory import Buffer, HostBlocks, MemoryPool, size_class
from firebox.runtime.opencl import OpenClDevice
from firebox.runtime.opencl_memory import DeviceBuffer, DeviceMemory
from tests.handmade_opencl import CHAIN, TWICE, chain_steps, code, twice_steps
from tests.programs import opencl_device

X = np.arange(32, dtype=np.float32)
F32 = np.dtype(np.float32)


@pytest.fixture
def backend() -> OpenClDevice:
    found = opencl_device().backend
    assert isinstance(found, OpenClDevice)
    return found


def read(buffer: Buffer) -> np.ndarray:
    return buffer.as_numpy(F32, (buffer.nbytes // 4,))


@pytest.mark.parametrize("stable", [False, True])
def test_arrays_go_there_and_back(backend: OpenClDevice, stable: bool) -> None:
    array = np.random.default_rng(0).random((3, 5, 7))
    buffer = backend.from_numpy(array, stable)
    assert isinstance(buffer, DeviceBuffer) and buffer.nbytes == array.nbytes and "DeviceBuffer(840" in repr(buffer)
    found = buffer.as_numpy(array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable and buffer.as_numpy(array.dtype, array.shape, writable=True).flags.writeable


def test_the_callers_array_may_change_at_once(backend: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (opencl_memory._SNAPSHOT_BYTES, 16):
        monkeypatch.setattr(opencl_memory, "_SNAPSHOT_BYTES", limit)
        array = np.ones(1 << 16, np.float32)
        buffer = backend.from_numpy(array)
        array[:] = 5
        np.testing.assert_array_equal(read(buffer), np.ones(1 << 16))


def test_arrays_of_writes_that_are_done_are_let_go(backend: OpenClDevice) -> None:
    for _ in range(20):
        backend.from_numpy(X, stable=True)
    backend.synchronize()
    assert not backend.memory._pending


def test_empty_buffers(backend: OpenClDevice) -> None:
    buffer = backend.from_numpy(np.empty((0, 4), np.float32))
    assert buffer.nbytes == 0 and buffer.as_numpy(F32, (0, 4)).shape == (0, 4)
    assert backend.copy(buffer).nbytes == 0
    assert buffer.view(0, 0).as_numpy(F32, (0,)).size == 0


def test_views(backend: OpenClDevice) -> None:
    whole = backend.from_numpy(X)
    part = whole.view(16, 64)
    inner = part.view(8, 16)
    np.testing.assert_array_equal(read(part), X[4:20])
    np.testing.assert_array_equal(read(inner), X[6:10])
    assert inner.root is whole and part.owner is whole and inner.offset == 24 and not inner.exported
    copied = backend.copy(inner)
    assert copied.root is copied and copied.offset == 0
    np.testing.assert_array_equal(read(copied), X[6:10])
    del whole, part
    np.testing.assert_array_equal(read(inner), X[6:10])
    for offset, nbytes in ((-4, 4), (0, 17), (4, 16)):
        with pytest.raises(InputError, match="view outside"):
            inner.view(offset, nbytes)
    with pytest.raises(InputError, match="larger than its buffer"):
        inner.as_numpy(F32, (5,))


def test_blocks_are_reused(backend: OpenClDevice) -> None:
    backend.pool.trim()
    before = backend.pool.statistics()
    buffer = backend.allocate(5000)
    handle = buffer.ptr
    during = backend.pool.statistics()
    assert during.live == before.live + 5000 and during.reserved == before.reserved + size_class(5000)
    view = buffer.view(0, 8)
    del buffer
    assert backend.pool.statistics() == during  # the view keeps it
    del view
    after = backend.pool.statistics()
    assert (after.live, after.pooled, after.reserved) == (before.live, size_class(5000), during.reserved)
    assert backend.allocator(5000)().ptr == handle
    backend.pool.trim()
    assert backend.pool.statistics().reserved == before.reserved


def test_steps_take_no_more_memory(backend: OpenClDevice) -> None:
    device = opencl_device()
    executables = [
        Executable(CHAIN, code(CHAIN, chain_steps), device),
        Executable(TWICE, code(TWICE, twice_steps), device),
    ]
    calls = [executable.bound() for executable in executables]
    x = device.backend.from_numpy(X)

    def step() -> None:
        nonlocal x
        (y,) = calls[1]([x], None)
        calls[0]([y], None)
        x = device.backend.from_numpy(X)

    for _ in range(10):
        step()
    reserved = backend.pool.statistics().reserved
    for _ in range(1000):
        step()
    assert backend.pool.statistics().reserved == reserved
    np.testing.assert_array_equal(read(calls[1]([x], None)[0]), 2 * X)


def test_an_absurd_size_is_an_error_with_numbers_and_harms_nothing(backend: OpenClDevice) -> None:
    before = backend.pool.statistics()
    with pytest.raises(DeviceError, match=r"(?s)out of memory.*17592186044416.*at most \d+ bytes"):
        backend.allocate(1 << 44)
    after = backend.pool.statistics()
    assert (after.live, after.peak) == (before.live, before.peak)
    np.testing.assert_array_equal(read(backend.from_numpy(X)), X)


class _Small(HostBlocks):
    """A source with few bytes, which notes what it is asked for."""

    limit = 4096

    def __init__(self) -> None:
        self.left = self.limit
        self.settled = 0

    def acquire(self, nbytes: int) -> int | None:
        if nbytes > self.left:
            return None
        self.left -= nbytes
        return super().acquire(nbytes)

    def release(self, block: int) -> None:
        super().release(block)
        self.left = self.limit

    def settle(self) -> None:
        self.settled += 1


def test_pooled_blocks_are_given_up_when_memory_is_short() -> None:
    source = _Small()
    pool = MemoryPool(1 << 20, source)
    del (first := [pool.allocate(2048)])[:]
    assert first == [] and pool.statistics().pooled == 2048
    second = pool.allocate(3072)
    assert second.nbytes == 3072 and source.settled == 1 and pool.statistics().pooled == 0
    with pytest.raises(DeviceError, match=r"(?s)refuses 2048 bytes.*at most 1024 bytes"):
        pool.allocate(2048)


def test_memory_that_is_refused_at_first_use(backend: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA allocates lazily: then pooled blocks are given up, and it is tried again."""
    del (kept := [backend.allocate(1 << 20)])[:]
    assert kept == [] and backend.pool.statistics().pooled >= 1 << 20
    answers = [-5, 0]
    monkeypatch.setattr(DeviceMemory, "_touch", lambda self, handle: answers.pop(0))
    buffer = backend.allocate(1 << 22)
    assert not answers and backend.pool.statistics().pooled == 0
    monkeypatch.setattr(DeviceMemory, "_touch", lambda self, handle: -4)
    with pytest.raises(DeviceError, match="out of memory"):
        backend.allocate(1 << 22)
    del buffer


def test_a_write_that_fails_later_shows_at_the_next_read(
    backend: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = backend.from_numpy(X)
    monkeypatch.setattr(DeviceMemory, "_status", lambda self, event: -5)
    with pytest.raises(DeviceError, match="CL_OUT_OF_RESOURCES"):
        read(buffer)
    np.testing.assert_array_equal(read(buffer), X)
