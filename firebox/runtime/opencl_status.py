"""The words in which kernels report a fault: in a device's memory, and where the host reads them.

A program's entry asks for the words behind the last kernel that may write them, starts what follows, and waits for the
answer only before a kernel that overwrites an input, or at its end. The device works on meanwhile; so the answer must
go to pinned memory, as drivers wait for the device when the host's memory is not.
"""

import ctypes

from firebox.runtime.opencl_library import Library
from firebox.runtime.status import OK, STATUS_SLOTS, Status

_BYTES = 8 * STATUS_SLOTS
_READ_WRITE = 1  # CL_MEM_READ_WRITE
_HOST = 1 | 1 << 4  # CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR
_MAP = 1 | 2  # CL_MAP_READ | CL_MAP_WRITE

_Words = ctypes.c_int64 * STATUS_SLOTS


class StatusWords:
    """The words of one program; zero but for a fault that nobody has taken yet.

    Args:
        library: OpenCL.
        context, queue: handles.

    Attributes:
        handle: the memory object that kernels write to.
        answer: address of the host's words.

    Raises:
        DeviceError: the device has no memory for them.
    """

    def __init__(self, library: Library, context: int, queue: int) -> None:
        self._library = library
        self._queue = queue
        self.handle = library.create("clCreateBuffer", context, _READ_WRITE, _BYTES, None, op="status words")
        self._pinned = library.create("clCreateBuffer", context, _HOST, _BYTES, None, op="status words")
        place = (queue, self._pinned, 1, _MAP, 0, _BYTES, 0, None, None)
        self.answer = library.create("clEnqueueMapBuffer", *place, op="status words")
        self._words = _Words.from_address(self.answer)
        self._clear()

    def take(self) -> Status | None:
        """The fault in the answer to the last call, if any; the words are zero again then."""
        if self._words[0] == OK:
            return None
        status = Status(*self._words)
        self._clear()
        return status

    def _clear(self) -> None:
        ctypes.memset(self.answer, 0, _BYTES)
        zero = ctypes.c_int64(0)
        pattern = (ctypes.byref(zero), 8, 0, _BYTES, 0, None, None)
        self._library.call("clEnqueueFillBuffer", self._queue, self.handle, *pattern, op="status words")

    def __del__(self) -> None:
        if not self._library.lost:
            for handle in (self._pinned, self.handle):
                self._library.function("clReleaseMemObject")(handle)
