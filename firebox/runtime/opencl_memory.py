"""Memory of an OpenCL device: blocks for the pool, buffers, and transfers in the device's in-order queue."""

import contextlib
import ctypes
import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.errors import InputError
from firebox.runtime.memory import Buffer, MemoryPool, data_address
from firebox.runtime.opencl_errors import SUCCESS, call_error, may_be_memory
from firebox.runtime.opencl_library import Library

Array = NDArray[Any]

_READ_WRITE = 1  # CL_MEM_READ_WRITE
_EXECUTION_STATUS = 0x11D3  # CL_EVENT_COMMAND_EXECUTION_STATUS; 0 is complete, negative an error
_SNAPSHOT_BYTES = 64 << 20  # larger arrays are written at once rather than copied first
_TOUCH_BYTES = 1 << 20

_Place = ctypes.c_int64 * 2  # memory object, byte offset
_handle_at = ctypes.c_int64.from_address


class DeviceBuffer(Buffer):
    """A range of a device's memory.

    Attributes:
        ptr: address of its place for a program's entry: memory object and byte offset, 8 bytes each.
    """

    __slots__ = ("_place",)

    _place: "ctypes.Array[ctypes.c_int64]"  # of a view; those of blocks belong to `DeviceMemory`

    @property
    def handle(self) -> int:
        """The memory object."""
        return _handle_at(self.ptr).value

    @property
    def pool(self) -> MemoryPool:
        """The pool of the device's memory."""
        pool: MemoryPool = self._pool
        return pool

    def __repr__(self) -> str:
        return f"DeviceBuffer({self.nbytes} bytes at {self.handle:#x}+{self.offset})"

    def view(self, offset: int, nbytes: int) -> "DeviceBuffer":
        """The bytes [offset, offset + nbytes) as a buffer that keeps this memory alive.

        Raises:
            InputError: the range is not inside the buffer.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            expected = f"a range inside {self.nbytes} bytes"
            raise InputError("view outside its buffer", expected=expected, found=f"{nbytes} bytes at {offset}")
        place = _Place(self.handle, self.offset + offset)
        made = DeviceBuffer(ctypes.addressof(place), nbytes, self.root, self.offset + offset, 0, self._pool)
        made._place = place
        return made

    def as_numpy(
        self, dtype: "np.dtype[Any]", shape: tuple[int, ...], *, writable: bool = False, internal: bool = False
    ) -> Array:
        """A fresh array with the first bytes of this memory; waits for the work that writes them.

        Args:
            dtype: element type.
            shape: extents, row-major.
            writable: whether the array may be written.
            internal: makes no difference here, as the array is a copy.

        Raises:
            InputError: the array would reach beyond the buffer.
            DeviceError: the device failed.
        """
        size = math.prod(shape) * dtype.itemsize
        if size > self.nbytes:
            raise InputError("array larger than its buffer", expected=f"at most {self.nbytes} bytes", found=size)
        array = np.empty(shape, dtype)
        memory = self.pool.source
        assert isinstance(memory, DeviceMemory)
        memory.read(self, data_address(array), size)
        array.flags.writeable = writable
        return array


class DeviceMemory:
    """A device's memory: where its pool's blocks come from, and transfers.

    Args:
        library: OpenCL.
        context, queue: handles.
        limit: bytes of the device's memory.
    """

    def __init__(self, library: Library, context: int, queue: int, limit: int) -> None:
        self.limit = limit
        self._library = library
        self._context = context
        self._queue = queue
        self._places: dict[int, ctypes.Array[ctypes.c_int64]] = {}  # of the blocks, by address
        self._create = library.function("clCreateBuffer")
        self._read = library.function("clEnqueueReadBuffer")
        self._pending: deque[tuple[ctypes.c_void_p, Array]] = deque()  # writes under way: event, array
        self._failed = SUCCESS  # of a write that failed later than its call

    # ---- blocks of the pool ----------------------------------------------------------------------------------------

    def acquire(self, nbytes: int) -> int | None:
        """A new block: the address of its place; None when memory is short.

        Raises:
            DeviceError: the device fails for another reason.
        """
        self._library.check()
        code = ctypes.c_int32()
        handle = self._create(self._context, _READ_WRITE, nbytes, None, ctypes.byref(code))
        if code.value == SUCCESS and nbytes >= _TOUCH_BYTES:
            code.value = self._touch(handle)
        if code.value != SUCCESS:
            if may_be_memory(code.value):
                return None
            raise call_error("clCreateBuffer", code.value, f"{nbytes} bytes")
        place = _Place(handle, 0)
        address = ctypes.addressof(place)
        self._places[address] = place
        return address

    def _touch(self, handle: int) -> int:
        """NVIDIA allocates at first use: use the block now, while it can still be refused. Returns OpenCL's code."""
        zero = ctypes.c_int32(0)
        fill = self._library.function("clEnqueueFillBuffer")
        code: int = fill(self._queue, handle, ctypes.byref(zero), 4, 0, 4, 0, None, None)
        if code != SUCCESS:
            self._library.function("clReleaseMemObject")(handle)
        return code

    def release(self, block: int) -> None:
        """Give a block back; OpenCL keeps its memory until the work that uses it is done."""
        handle = self._places.pop(block)[0]
        if not self._library.lost:
            self._library.function("clReleaseMemObject")(handle)

    def settle(self) -> None:
        """Wait for the device, so that released blocks are free. What failed meanwhile shows at the next call."""
        self._library.check()
        self._library.function("clFinish")(self._queue)

    # ---- transfers -------------------------------------------------------------------------------------------------

    def write(self, buffer: Buffer, array: Array, stable: bool = False) -> None:
        """Copy a C-contiguous array into a buffer.

        Args:
            buffer: of at least the array's size.
            array: what to write.
            stable: nobody changes the array from now on; otherwise a copy is taken, or the call waits.

        Raises:
            DeviceError: the device refuses.
        """
        self._sweep()
        if array.nbytes == 0:
            return
        waits = not stable and array.nbytes > _SNAPSHOT_BYTES
        kept = array if stable or waits else np.array(array)
        event = ctypes.c_void_p()
        self._library.call(
            "clEnqueueWriteBuffer",
            self._queue,
            _handle_at(buffer.ptr).value,
            int(waits),
            buffer.offset,
            array.nbytes,
            data_address(kept),
            0,
            None,
            None if waits else ctypes.byref(event),
            op=f"write {array.nbytes} bytes",
        )
        if not waits:
            self._pending.append((event, kept))

    def read(self, buffer: Buffer, address: int, nbytes: int) -> None:
        """Copy the first bytes of a buffer to host memory, when all work before is done.

        Raises:
            DeviceError: the device failed, now or in work before.
        """
        if nbytes:
            handle = _handle_at(buffer.ptr).value
            self._library.check()
            code = self._read(self._queue, handle, 1, buffer.offset, nbytes, address, 0, None, None)
            if code != SUCCESS:
                raise call_error("clEnqueueReadBuffer", code, f"read {nbytes} bytes")
        if self._pending or self._failed:
            self._sweep()
            self._raise_failed()

    def copy(self, target: Buffer, source: Buffer, nbytes: int) -> None:
        """Copy bytes between buffers of this device.

        Raises:
            DeviceError: the device refuses.
        """
        if nbytes:
            handles = _handle_at(source.ptr).value, _handle_at(target.ptr).value
            places = source.offset, target.offset
            op = f"copy {nbytes} bytes"
            self._library.call("clEnqueueCopyBuffer", self._queue, *handles, *places, nbytes, 0, None, None, op=op)

    def finish(self) -> None:
        """Wait until all work is done.

        Raises:
            DeviceError: some of it failed.
        """
        self._library.call("clFinish", self._queue, op="synchronize")
        self._sweep()
        self._raise_failed()

    def _raise_failed(self) -> None:
        if self._failed != SUCCESS:
            code, self._failed = self._failed, SUCCESS
            raise call_error("clEnqueueWriteBuffer", code, "write")

    def _sweep(self) -> None:
        """Let go of the arrays whose writes are done; the queue is in order, so are they."""
        with contextlib.suppress(IndexError):  # empty, or another thread took the last one
            while True:
                event, array = self._pending.popleft()
                status = self._status(event)
                if status > 0:
                    self._pending.appendleft((event, array))
                    return
                self._library.function("clReleaseEvent")(event)
                self._failed = status or self._failed

    def _status(self, event: ctypes.c_void_p) -> int:
        status = ctypes.c_int32()
        arguments = (event, _EXECUTION_STATUS, ctypes.sizeof(status), ctypes.byref(status), None)
        self._library.call("clGetEventInfo", *arguments, op="write")
        return status.value
