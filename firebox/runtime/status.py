"""What native code reports about a call: the status block, and the error that a fault becomes."""

from typing import NamedTuple

from firebox.errors import CompilerError, DeviceError, FireboxError, ShapeError, index_error
from firebox.runtime.opencl_errors import entry_error

STATUS_SLOTS = 4
OK, INDEX_OUT_OF_RANGE, GUARD_UNMET, OUT_OF_MEMORY, DEVICE_CALL = range(5)


class Status(NamedTuple):
    """A fault as native code wrote it.

    Attributes:
        code: one of INDEX_OUT_OF_RANGE, GUARD_UNMET, OUT_OF_MEMORY, DEVICE_CALL.
        op_id: number of the op in the program's location table; of the kernel for DEVICE_CALL.
        detail0: the index, the dim that was found, the bytes asked for, or OpenCL's error code.
        detail1: the extent, the dim that was expected, or which call of OpenCL it was.
    """

    code: int
    op_id: int
    detail0: int
    detail1: int


def fault(status: Status, op: str = "", location: str = "") -> FireboxError:
    """The error to raise for a fault; the caller looks up the op's name and the user's line by `Status.op_id`."""
    return _error(status, op or f"op {status.op_id}").at(location)


def _error(status: Status, op: str) -> FireboxError:
    code, _, first, second = status
    if code == INDEX_OUT_OF_RANGE:
        return index_error(op, first, second)
    if code == GUARD_UNMET:
        return ShapeError("sizes do not fit what the program was compiled for", op=op, expected=second, found=first)
    if code == OUT_OF_MEMORY:
        return DeviceError("out of memory", op=op, expected=f"{first} bytes")
    if code == DEVICE_CALL:
        return entry_error(op, first, second)
    return CompilerError("unknown status from generated code", op=op, found=tuple(status))
