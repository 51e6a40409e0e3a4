"""Buffers from reused blocks of a device's memory; on the host 64-byte aligned, exchanged with NumPy without a copy."""

import contextlib
import ctypes
import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firebox.errors import DeviceError, InputError

ALIGNMENT = 64
_LARGE = 1 << 20
_PAGE = 4096
_MIN_CLASS = 64


class Buffer:
    """A range of memory, here the host's. It stays valid while this object, a view of it or an array from it lives.

    Attributes:
        ptr: what native code takes for it: the address of the first byte.
        nbytes: size.
        owner: what keeps the memory alive when this buffer does not own it: a buffer, or a NumPy array.
        offset: of the first byte in `owner`, when that is a buffer.
    """

    __slots__ = ("__weakref__", "_capacity", "_exported", "_pool", "nbytes", "offset", "owner", "ptr")

    def __init__(
        self, ptr: int, nbytes: int, owner: object = None, offset: int = 0, capacity: int = 0, pool: Any = None
    ) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.owner = owner
        self.offset = offset
        self._capacity = capacity  # bytes to give back to the pool, 0 when the memory is not ours
        self._exported = False
        self._pool = pool

    def __del__(self) -> None:
        if self._capacity:
            self._pool.give_back(self.ptr, self._capacity, self.nbytes)

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes at {self.ptr:#x})"

    @staticmethod
    def from_numpy(array: NDArray[Any]) -> "Buffer":
        """The memory of a C-contiguous array, without a copy. It counts as exported: others may see it change.

        Raises:
            InputError: the array is not C-contiguous.
        """
        if not array.flags.c_contiguous:
            raise InputError("array is not C-contiguous", found=f"strides {array.strides}", hint="np.ascontiguousarray")
        buffer = Buffer(data_address(array), array.nbytes, array)
        buffer._exported = True
        return buffer

    @property
    def exported(self) -> bool:
        """Whether code outside may hold this memory, so that it must never be written in place."""
        return self._exported or (isinstance(self.owner, Buffer) and self.owner._exported)

    @property
    def root(self) -> "Buffer":
        """The buffer this one is a view of, or itself."""
        return self.owner if isinstance(self.owner, Buffer) else self

    def view(self, offset: int, nbytes: int) -> "Buffer":
        """The bytes [offset, offset + nbytes) as a buffer that keeps this memory alive.

        Raises:
            InputError: the range is not inside the buffer.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            expected = f"a range inside {self.nbytes} bytes"
            raise InputError("view outside its buffer", expected=expected, found=f"{nbytes} bytes at {offset}")
        return Buffer(self.ptr + offset, nbytes, self.root, self.offset + offset)

    def mark_exported(self) -> None:
        """Say that code outside holds this memory from now on."""
        self.root._exported = self._exported = True

    def as_numpy(
        self, dtype: "np.dtype[Any]", shape: tuple[int, ...], *, writable: bool = False, internal: bool = False
    ) -> NDArray[Any]:
        """An array over the first bytes of this memory, without a copy; it keeps the memory alive.

        Args:
            dtype: element type.
            shape: extents, row-major.
            writable: whether the array may be written; tensors are values, so read-only is the rule.
            internal: the array stays in the runtime, so the buffer does not count as exported.

        Raises:
            InputError: the array would reach beyond the buffer.
        """
        size = math.prod(shape) * dtype.itemsize
        if size > self.nbytes:
            raise InputError("array larger than its buffer", expected=f"at most {self.nbytes} bytes", found=size)
        if not internal:
            self.mark_exported()
        array: NDArray[Any] = np.asarray(_Bytes(self, size, writable)).view(dtype).reshape(shape)
        return array


class _Bytes:
    """Shows a buffer to NumPy, which keeps this object, and so the buffer, as the base of its arrays."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Buffer, size: int, writable: bool) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "version": 3, "shape": (size,), "typestr": "|u1", "data": (buffer.ptr, not writable)
        }  # fmt: skip


@dataclass(frozen=True)
class MemoryStatistics:
    """Bytes of a device's memory.

    Attributes:
        live: asked for by buffers that live now.
        peak: largest `live` since the start or the last `MemoryPool.reset_peak`.
        pooled: kept for reuse.
        reserved: taken from the system: live blocks with their rounding, and pooled ones.
    """

    live: int
    peak: int
    pooled: int
    reserved: int


class BlockSource(Protocol):
    """Where a pool's blocks come from.

    Attributes:
        limit: bytes that there are.
    """

    @property
    def limit(self) -> int: ...

    def acquire(self, nbytes: int) -> int | None:
        """A new block, as `Buffer.ptr` holds it, or None when memory is short."""

    def release(self, block: int) -> None:
        """Give a block back."""

    def settle(self) -> None:
        """Wait until blocks that were given back are free."""


class HostBlocks:
    """Blocks of the host's memory, from the C library."""

    limit = 1 << 62  # the system knows better

    def acquire(self, nbytes: int) -> int | None:
        found: int | None = _aligned_alloc(ALIGNMENT, nbytes)
        return found

    def release(self, block: int) -> None:
        _free(block)

    def settle(self) -> None:
        """Memory is free as soon as it is given back."""


class MemoryPool:
    """Gives out buffers and takes their blocks back when they die.

    Blocks are kept in lists by size class (steps of at most a quarter, from 1 MB an eighth), so that a program that
    runs again gets warm memory. List operations and in-place additions are atomic in CPython, so there is no lock: a
    buffer may die anywhere, also while this thread is allocating.

    Args:
        max_pooled: bytes kept for reuse at most; blocks beyond go back to the system.
        source: of the blocks; the host's memory when not given.
        kind: class of the buffers.
    """

    def __init__(
        self, max_pooled: int | None = None, source: BlockSource | None = None, kind: type[Buffer] = Buffer
    ) -> None:
        self.source = source or HostBlocks()
        self._kind = kind
        self._free: dict[int, list[int]] = {}
        self._live = 0
        self._peak = 0
        self._pooled = 0
        self._reserved = 0
        self._max_pooled = quarter_of_memory() if max_pooled is None else max_pooled

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer of `nbytes` bytes with arbitrary content, aligned to 64 bytes.

        Raises:
            DeviceError: there is no more memory.
        """
        capacity = size_class(nbytes)
        try:
            ptr = self._free[capacity].pop()
            self._pooled -= capacity
        except (KeyError, IndexError):
            ptr = self._from_system(capacity)
        live = self._live = self._live + nbytes
        if live > self._peak:
            self._peak = live
        return self._kind(ptr, nbytes, None, 0, capacity, self)

    def allocator(self, nbytes: int) -> Callable[[], Buffer]:
        """`allocate` for one size, made once."""
        capacity = size_class(nbytes)
        blocks = self._free.setdefault(capacity, [])
        kind = self._kind

        def allocate() -> Buffer:
            try:
                ptr = blocks.pop()
            except IndexError:
                return self.allocate(nbytes)
            self._pooled -= capacity
            live = self._live = self._live + nbytes
            if live > self._peak:
                self._peak = live
            return kind(ptr, nbytes, None, 0, capacity, self)

        return allocate

    def give_back(self, ptr: int, capacity: int, nbytes: int) -> None:
        """Take a dead buffer's block."""
        self._live -= nbytes
        if self._pooled + capacity > self._max_pooled:
            self._reserved -= capacity
            self.source.release(ptr)
            return
        self._pooled += capacity
        blocks = self._free.get(capacity)
        if blocks is None:
            blocks = self._free.setdefault(capacity, [])
        blocks.append(ptr)

    def trim(self) -> None:
        """Return every pooled block to the system."""
        for capacity, blocks in list(self._free.items()):
            with contextlib.suppress(IndexError):  # another thread may take the last one
                while True:
                    self.source.release(blocks.pop())
                    self._pooled -= capacity
                    self._reserved -= capacity

    def statistics(self) -> MemoryStatistics:
        return MemoryStatistics(self._live, self._peak, self._pooled, self._reserved)

    def reset_peak(self) -> None:
        """Start measuring `peak` anew, from what lives now."""
        self._peak = self._live

    def _from_system(self, capacity: int) -> int:
        source = self.source
        block = source.acquire(capacity) if self._reserved + capacity <= source.limit else None
        if block is None:
            self.trim()
            source.settle()
            block = source.acquire(capacity)
        if block is None:
            left = None if source.limit == HostBlocks.limit else f"at most {source.limit - self._reserved} bytes"
            message = f"out of memory: the system refuses {capacity} bytes"
            raise DeviceError(message, op="allocate", expected=left, found=self.statistics())
        self._reserved += capacity
        return block


def size_class(nbytes: int) -> int:
    """Bytes of the block that holds `nbytes`: rounded up to a quarter of a power of two, from 1 MB to an eighth."""
    if nbytes <= _MIN_CLASS:
        return _MIN_CLASS
    if nbytes < _LARGE:
        step = max(_MIN_CLASS, 1 << ((nbytes - 1).bit_length() - 3))
    else:
        step = max(_PAGE, 1 << ((nbytes - 1).bit_length() - 4))
    return -(-nbytes // step) * step


def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between addresses; the ranges may overlap."""
    ctypes.memmove(target, source, nbytes)


def quarter_of_memory() -> int:
    """A quarter of the machine's memory, or of the container's when that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no control group, or "max"
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total // 4


def _address_by_interface(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _address_by_layout(array: NDArray[Any]) -> int:
    # PyArrayObject begins with the object header (16 bytes) and the data pointer: 0.13 us instead of 1 us.
    return _pointer_at(id(array) + 16).value or 0


def _layout_is_known() -> bool:
    if platform.python_implementation() != "CPython" or object.__basicsize__ != 16:
        return False
    probe = np.zeros(8, np.uint8)[3:]
    return _address_by_layout(probe) == _address_by_interface(probe)


_pointer_at = ctypes.c_void_p.from_address
data_address = _address_by_layout if _layout_is_known() else _address_by_interface
"""Address of an array's first element."""

_libc = ctypes.CDLL(None)
_aligned_alloc = _libc.aligned_alloc
_aligned_alloc.restype = ctypes.c_void_p
_aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_free = _libc.free
_free.restype = None
_free.argtypes = [ctypes.c_void_p]

POOL = MemoryPool()
