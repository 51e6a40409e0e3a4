"""OpenCL itself: the loader library with the functions that we call directly, and the devices that it finds.

pyopencl brings the loader and describes devices; what happens at every call goes to the loader's functions through
ctypes, without an object per memory block or event.
"""

import ctypes
import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firebox.errors import DeviceError
from firebox.runtime.opencl_errors import SUCCESS, call_error

_NVIDIA = "libnvidia-opencl.so.1"
_VENDORS = "OCL_ICD_VENDORS"
_VENDOR_PATHS = (_VENDORS, "OPENCL_VENDOR_PATH")
_DEFAULT_VENDORS = Path("/etc/OpenCL/vendors")
ICD_HINT = (
    "install the driver of a device: apt install pocl-opencl-icd for CPUs, the vendor's driver for GPUs; "
    "OCL_ICD_VENDORS names the directory of the .icd files"
)

_Pointer = ctypes.c_void_p
_Size = ctypes.c_size_t
_Int = ctypes.c_int32
_Uint = ctypes.c_uint32
_Handles = ctypes.POINTER(ctypes.c_void_p)
_EVENTS = (_Uint, _Pointer, _Handles)  # number of events to wait for, those events, this command's event

# Name -> result type, argument types (OpenCL 1.2 specification).
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "clCreateBuffer": (_Pointer, (_Pointer, ctypes.c_uint64, _Size, _Pointer, ctypes.POINTER(_Int))),
    "clReleaseMemObject": (_Int, (_Pointer,)),
    "clEnqueueReadBuffer": (_Int, (_Pointer, _Pointer, _Uint, _Size, _Size, _Pointer, *_EVENTS)),
    "clEnqueueWriteBuffer": (_Int, (_Pointer, _Pointer, _Uint, _Size, _Size, _Pointer, *_EVENTS)),
    "clEnqueueCopyBuffer": (_Int, (_Pointer, _Pointer, _Pointer, _Size, _Size, _Size, *_EVENTS)),
    "clEnqueueFillBuffer": (_Int, (_Pointer, _Pointer, _Pointer, _Size, _Size, _Size, *_EVENTS)),
    "clEnqueueNDRangeKernel": (_Int, (_Pointer, _Pointer, _Uint, _Pointer, _Pointer, _Pointer, *_EVENTS)),
    "clEnqueueMapBuffer": (
        _Pointer,
        (_Pointer, _Pointer, _Uint, ctypes.c_uint64, _Size, _Size, *_EVENTS, ctypes.POINTER(_Int)),
    ),
    "clWaitForEvents": (_Int, (_Uint, _Handles)),
    "clCreateCommandQueue": (_Pointer, (_Pointer, _Pointer, ctypes.c_uint64, ctypes.POINTER(_Int))),
    "clReleaseCommandQueue": (_Int, (_Pointer,)),
    "clFinish": (_Int, (_Pointer,)),
    "clGetEventProfilingInfo": (_Int, (_Pointer, _Uint, _Size, _Pointer, _Pointer)),
    "clGetEventInfo": (_Int, (_Pointer, _Uint, _Size, _Pointer, _Pointer)),
    "clReleaseEvent": (_Int, (_Pointer,)),
    "clCreateProgramWithSource": (_Pointer, (_Pointer, _Uint, _Pointer, _Pointer, ctypes.POINTER(_Int))),
    "clCreateProgramWithBinary": (
        _Pointer,
        (_Pointer, _Uint, _Handles, _Pointer, _Pointer, ctypes.POINTER(_Int), ctypes.POINTER(_Int)),
    ),
    "clBuildProgram": (_Int, (_Pointer, _Uint, _Handles, ctypes.c_char_p, _Pointer, _Pointer)),
    "clGetProgramBuildInfo": (_Int, (_Pointer, _Pointer, _Uint, _Size, _Pointer, ctypes.POINTER(_Size))),
    "clGetProgramInfo": (_Int, (_Pointer, _Uint, _Size, _Pointer, ctypes.POINTER(_Size))),
    "clReleaseProgram": (_Int, (_Pointer,)),
    "clCreateKernel": (_Pointer, (_Pointer, ctypes.c_char_p, ctypes.POINTER(_Int))),
    "clReleaseKernel": (_Int, (_Pointer,)),
}
ENTRY_CALLS = ("clSetKernelArg", "clEnqueueNDRangeKernel", "clEnqueueCopyBuffer", "clEnqueueFillBuffer")
"""What a program's entry calls to start work, in the order of its environment."""
STATUS_CALLS = ("clEnqueueReadBuffer", "clWaitForEvents", "clReleaseEvent")
"""What it calls to read back, in the order of its environment."""


class Library:
    """The OpenCL loader of this process.

    Attributes:
        lost: whether this process was forked off the one that loaded it; then nothing may be called any more.
        entry_calls: addresses of `ENTRY_CALLS`.
        status_calls: addresses of `STATUS_CALLS`.
    """

    def __init__(self, path: str) -> None:
        loaded = ctypes.CDLL(path)
        self.lost = False
        self._functions: dict[str, Any] = {}
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self.entry_calls = tuple(_address(getattr(loaded, name)) for name in ENTRY_CALLS)
        self.status_calls = tuple(_address(getattr(loaded, name)) for name in STATUS_CALLS)
        os.register_at_fork(after_in_child=self._lose)

    def function(self, name: str) -> Any:
        """A function of OpenCL."""
        return self._functions[name]

    def call(self, name: str, *arguments: Any, op: str) -> None:
        """Call a function that returns an error code; its result must be success.

        Raises:
            DeviceError: it is not, or this process may not use OpenCL.
        """
        self.check()
        code = self._functions[name](*arguments)
        if code != SUCCESS:
            raise call_error(name, code, op)

    def create(self, name: str, *arguments: Any, op: str) -> int:
        """Call a function that makes an object, and whose last argument is where the error code goes.

        Raises:
            DeviceError: it makes none, or this process may not use OpenCL.
        """
        self.check()
        code = _Int(SUCCESS)
        handle = self._functions[name](*arguments, ctypes.byref(code))
        if code.value != SUCCESS or not handle:
            raise call_error(name, code.value, op)
        return int(handle)

    def check(self) -> None:
        """See that this process may use OpenCL.

        Raises:
            DeviceError: it was forked from one that did: drivers do not survive that.
        """
        if self.lost:
            hint = 'start processes with multiprocessing.get_context("spawn"), or fork before OpenCL is first used'
            raise DeviceError("OpenCL cannot be used in a forked process", op="opencl", hint=hint)

    def _lose(self) -> None:
        self.lost = True


@functools.cache
def library() -> Library:
    """The loader, with the platforms found.

    Raises:
        DeviceError: pyopencl is not installed, or its loader cannot be used.
    """
    platforms()
    return Library(_loader_path())


@functools.cache
def devices() -> tuple[Any, ...]:
    """Every device of every platform as pyopencl's objects: GPUs first, else in the order of the loader.

    Raises:
        DeviceError: pyopencl is not installed, or no platform is registered.
    """
    cl = _pyopencl()
    found = []
    for platform in platforms():
        try:
            found += platform.get_devices()
        except cl.Error:  # a driver without a device
            continue
    return tuple(sorted(found, key=lambda device: not device.type & cl.device_type.GPU))


@functools.cache
def platforms() -> tuple[Any, ...]:
    """The platforms that the loader finds. An NVIDIA driver that nobody registered is registered for this process.

    Raises:
        DeviceError: pyopencl is not installed, or there is no platform.
    """
    cl = _pyopencl()
    with _with_nvidia():
        try:
            found = tuple(cl.get_platforms())
        except cl.Error:  # CL_PLATFORM_NOT_FOUND_KHR
            found = ()
    if not found:
        raise DeviceError("no OpenCL platform is registered", op="opencl", hint=ICD_HINT)
    return found


def _pyopencl() -> Any:
    try:
        import pyopencl  # optional, and takes 0.2 s
    except ImportError as error:
        hint = "pip install pyopencl, and a driver: apt install pocl-opencl-icd for CPUs, the vendor's for GPUs"
        raise DeviceError(f"OpenCL needs the package pyopencl: {error}", op="opencl", hint=hint) from None
    return pyopencl


def _loader_path() -> str:
    """The loader library in this process: pyopencl's wheel has its own, under a name of its own."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rpartition(" ")[2].rstrip("\n")
            if os.path.basename(path).startswith("libOpenCL"):
                return path
    raise DeviceError("the OpenCL loader library is not in this process", op="opencl", expected="libOpenCL")


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


@contextmanager
def _with_nvidia() -> Iterator[None]:
    """While the loader reads its configuration: the registered drivers, and NVIDIA's if it is there unregistered."""
    if not _nvidia_is_unregistered():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="firebox-icd-") as name:
        directory = Path(name)
        for path in _DEFAULT_VENDORS.glob("*.icd"):
            (directory / path.name).write_bytes(path.read_bytes())
        (directory / "nvidia-unregistered.icd").write_text(_NVIDIA + "\n")
        os.environ[_VENDORS] = name
        try:
            yield
        finally:
            del os.environ[_VENDORS]


def _nvidia_is_unregistered() -> bool:
    """Containers often get NVIDIA's libraries without the file that registers them. The user's own settings stay."""
    if any(os.environ.get(name) for name in _VENDOR_PATHS):
        return False
    try:
        if any("nvidia" in path.read_text(errors="replace") for path in _DEFAULT_VENDORS.glob("*.icd")):
            return False
        ctypes.CDLL(_NVIDIA)
    except OSError:
        return False
    return True
