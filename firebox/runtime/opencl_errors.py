"""What OpenCL's error codes mean, and the error that a failed call becomes."""

from firebox.errors import DeviceError

SUCCESS = 0
NAMES = {
    -1: "CL_DEVICE_NOT_FOUND",
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -3: "CL_COMPILER_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -8: "CL_MEM_COPY_OVERLAP",
    -11: "CL_BUILD_PROGRAM_FAILURE",
    -12: "CL_MAP_FAILURE",
    -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -30: "CL_INVALID_VALUE",
    -33: "CL_INVALID_DEVICE",
    -34: "CL_INVALID_CONTEXT",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -38: "CL_INVALID_MEM_OBJECT",
    -42: "CL_INVALID_BINARY",
    -43: "CL_INVALID_BUILD_OPTIONS",
    -44: "CL_INVALID_PROGRAM",
    -45: "CL_INVALID_PROGRAM_EXECUTABLE",
    -46: "CL_INVALID_KERNEL_NAME",
    -48: "CL_INVALID_KERNEL",
    -49: "CL_INVALID_ARG_INDEX",
    -50: "CL_INVALID_ARG_VALUE",
    -51: "CL_INVALID_ARG_SIZE",
    -52: "CL_INVALID_KERNEL_ARGS",
    -53: "CL_INVALID_WORK_DIMENSION",
    -54: "CL_INVALID_WORK_GROUP_SIZE",
    -55: "CL_INVALID_WORK_ITEM_SIZE",
    -59: "CL_INVALID_OPERATION",
    -61: "CL_INVALID_BUFFER_SIZE",
    -63: "CL_INVALID_GLOBAL_WORK_SIZE",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
}
_NO_MEMORY = {-4, -6, -61}
_OUT_OF_RESOURCES = -5
_LOST = {_OUT_OF_RESOURCES, -14, -36}
_CALLS = ("clSetKernelArg", "clEnqueueNDRangeKernel", "clEnqueueCopyBuffer", "clEnqueueFillBuffer")


def error_name(code: int) -> str:
    """OpenCL's name of an error code."""
    return NAMES.get(code, f"OpenCL error {code}")


def may_be_memory(code: int) -> bool:
    """Whether a call may have failed for lack of memory; drivers also say that they are out of resources."""
    return code in _NO_MEMORY or code == _OUT_OF_RESOURCES


def call_error(call: str, code: int, op: str) -> DeviceError:
    """The error for an OpenCL call that failed.

    Args:
        call: OpenCL's function.
        code: what it returned.
        op: what was to be done, e.g. ``kernel add``.
    """
    name = error_name(code)
    if code in _NO_MEMORY:
        hint = "use smaller batches, drop tensors that are not needed, or call synchronize() and try again"
        return DeviceError("the device is out of memory", op=op, found=f"{name} from {call}", hint=hint)
    hint = ""
    if code in _LOST:
        hint = "the device gave up, mostly for lack of memory or after a fault; start a new process if this goes on"
    return DeviceError("the device refuses a call", op=op, found=f"{name} from {call}", hint=hint)


def entry_error(op: str, code: int, call: int) -> DeviceError:
    """The error for a call of a program's entry that failed; `call` is its number in the status block."""
    return call_error(_CALLS[call] if 0 <= call < len(_CALLS) else "a call", code, op)
