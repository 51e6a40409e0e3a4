"""Buffers: alignment, reuse, lifetime, exchange with NumPy, accounting."""

import gc
import itertools
import threading

import ml_dtypes
import numpy as np
import pytest

from firebox.errors import DeviceError, InputError
from firebox.runtime import memory
from firebox.runtime.memory import ALIGNMENT, Buffer, MemoryPool, MemoryStatistics, size_class

F32 = np.dtype(np.float32)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 100_000, (1 << 20) + 1, 5_000_000])
def test_buffers_are_aligned_and_whole(nbytes: int) -> None:
    buffer = MemoryPool().allocate(nbytes)
    assert buffer.ptr and buffer.ptr % ALIGNMENT == 0
    assert buffer.nbytes == nbytes
    array = buffer.as_numpy(np.dtype(np.uint8), (nbytes,), writable=True)
    array[:] = 7
    assert array.nbytes == nbytes and (array == 7).all()


def test_size_classes_hold_their_sizes_and_waste_little() -> None:
    previous = 0
    for nbytes in [*range(5000), *range(10_000, 3_000_000, 997)]:
        size = size_class(nbytes)
        assert size >= nbytes and size % 64 == 0 and size >= previous
        if nbytes > 512:
            assert size <= nbytes * 1.25 + 1
        previous = size


def test_dead_buffers_are_reused() -> None:
    pool = MemoryPool()
    buffer = pool.allocate(3_000_000)
    ptr = buffer.ptr
    del buffer
    assert pool.allocate(2_999_000).ptr == ptr
    assert pool.allocate(100).ptr != ptr


def test_live_buffers_do_not_overlap() -> None:
    pool = MemoryPool()
    buffers = [pool.allocate(1000) for _ in range(50)]
    buffers = [b for i, b in enumerate(buffers) if i % 2] + [pool.allocate(1000) for _ in range(40)]
    starts = sorted(b.ptr for b in buffers)
    assert all(b - a >= 1000 for a, b in itertools.pairwise(starts))


def test_statistics() -> None:
    pool = MemoryPool()
    a, b = pool.allocate(1000), pool.allocate(64)
    assert pool.statistics() == MemoryStatistics(live=1064, peak=1064, pooled=0, reserved=1024 + 64)
    del a
    assert pool.statistics() == MemoryStatistics(live=64, peak=1064, pooled=1024, reserved=1088)
    pool.reset_peak()
    pool.trim()
    assert pool.statistics() == MemoryStatistics(live=64, peak=64, pooled=0, reserved=64)
    del b


def test_pooled_memory_is_bounded() -> None:
    pool = MemoryPool(max_pooled=10_000)
    buffers = [pool.allocate(4096) for _ in range(10)]
    buffers.clear()
    assert pool.statistics() == MemoryStatistics(live=0, peak=40_960, pooled=8192, reserved=8192)


def test_arrays_share_and_keep_memory() -> None:
    pool = MemoryPool()
    buffer = pool.allocate(24)
    array = buffer.as_numpy(F32, (2, 3), writable=True)
    array[...] = np.arange(6).reshape(2, 3)
    again = buffer.as_numpy(F32, (6,))
    np.testing.assert_array_equal(again, np.arange(6, dtype=np.float32))
    assert not again.flags.writeable and array.ctypes.data == buffer.ptr
    part = array[1:]
    del buffer, array, again
    gc.collect()
    assert pool.statistics().live == 24
    np.testing.assert_array_equal(part, [[3, 4, 5]])
    del part
    assert pool.statistics().live == 0


def test_bfloat16_arrays() -> None:
    buffer = MemoryPool().allocate(8)
    array = buffer.as_numpy(np.dtype(ml_dtypes.bfloat16), (4,), writable=True)
    array[:] = [1.5, 2, 3, 4]
    assert array.view(np.uint16).tolist() == [0x3FC0, 0x4000, 0x4040, 0x4080]


def test_export_is_remembered() -> None:
    buffer = MemoryPool().allocate(64)
    view = buffer.view(16, 16)
    assert not buffer.exported and not view.exported
    buffer.as_numpy(F32, (4,), internal=True)
    assert not buffer.exported
    view.as_numpy(F32, (4,))
    assert buffer.exported and view.exported and buffer.view(0, 4).exported


def test_views() -> None:
    pool = MemoryPool()
    buffer = pool.allocate(100)
    inner = buffer.view(10, 50).view(5, 20)
    assert (inner.ptr, inner.nbytes, inner.offset, inner.root) == (buffer.ptr + 15, 20, 15, buffer)
    assert buffer.root is buffer
    del buffer
    assert pool.statistics().live == 100
    del inner
    assert pool.statistics().live == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 2), (0, 101), (100, 1), (5, -1)])
def test_views_stay_inside(offset: int, nbytes: int) -> None:
    with pytest.raises(InputError, match="view outside"):
        MemoryPool().allocate(100).view(offset, nbytes)


def test_arrays_stay_inside() -> None:
    with pytest.raises(InputError, match="larger"):
        MemoryPool().allocate(100).as_numpy(F32, (26,))


@pytest.mark.parametrize("array", [np.arange(10.0), np.arange(10)[3:], np.zeros((0, 3)), np.array(5, np.int8)])
def test_wrapping_arrays(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    buffer = Buffer.from_numpy(array)
    assert (buffer.ptr, buffer.nbytes, buffer.exported) == (array.ctypes.data, array.nbytes, True)
    assert buffer.owner is array
    np.testing.assert_array_equal(buffer.as_numpy(array.dtype, array.shape), array)


def test_strided_arrays_are_refused() -> None:
    with pytest.raises(InputError, match="C-contiguous"):
        Buffer.from_numpy(np.zeros((4, 4)).T)


def test_copy() -> None:
    source = np.arange(100, dtype=np.int32)
    buffer = MemoryPool().allocate(400)
    memory.copy(buffer.ptr, source.ctypes.data, 400)
    np.testing.assert_array_equal(buffer.as_numpy(np.dtype(np.int32), (100,)), source)


def test_out_of_memory_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="out of memory"):
        MemoryPool().allocate(1 << 60)


def test_threads_allocate_at_once() -> None:
    pool = MemoryPool()
    failures = []

    def work(mark: int) -> None:
        for _ in range(3000):
            array = pool.allocate(256).as_numpy(np.dtype(np.uint8), (256,), writable=True)
            array[:] = mark
            if not (array == mark).all():
                failures.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert pool.statistics().live == 0
