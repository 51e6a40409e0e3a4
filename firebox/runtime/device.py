"""Devices by name, and what every kind of device offers to the dispatcher."""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from firebox import config
from firebox.dtypes import DType, as_dtype, f32, f64, i64
from firebox.errors import DeviceError, DTypeError
from firebox.runtime import opencl
from firebox.runtime.cpu import CpuDevice
from firebox.runtime.describe import describe
from firebox.runtime.memory import Buffer, MemoryPool
from firebox.runtime.opencl_code import Code
from firebox.runtime.opencl_target import AnyTarget
from firebox.runtime.pool import Env
from firebox.runtime.program import KernelInfo
from firebox.runtime.status import Status


class EntryPoint(Protocol):
    """A program's native entry, ready to call; see `firebox.runtime.cpu.Entry`, `firebox.runtime.opencl_entry`."""

    def run(self, env: Env, args: bytes | int, dims: bytes | int, outs: bytes | int) -> Status | None: ...

    def __call__(self, env: Env, args: bytes | int, dims: bytes | int, outs: bytes | int) -> None: ...


class Backend(Protocol):
    """What a kind of device implements.

    Attributes:
        name: of the device.
        target: what to compile for.
        pool: its memory.
        align: gives the buffers as kernels need them, copies where they lie badly; None where all lie well.
    """

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> AnyTarget: ...

    @property
    def pool(self) -> MemoryPool: ...

    @property
    def align(self) -> Callable[[Sequence[Buffer]], Sequence[Buffer]] | None: ...

    @property
    def allocate(self) -> Callable[[int], Buffer]: ...

    def allocator(self, nbytes: int) -> Callable[[], Buffer]: ...

    def from_numpy(self, array: NDArray[Any], stable: bool = False) -> Buffer: ...

    def copy(self, source: Buffer) -> Buffer: ...

    def load(self, code: Code) -> Any: ...

    def make_entry(self, loaded: Any, symbol: str, kernels: Sequence[KernelInfo] = ()) -> EntryPoint: ...

    def environment(self) -> Env: ...

    def synchronize(self) -> None: ...


@dataclass(frozen=True, eq=False)
class DeviceSettings:
    """The element types that new tensors of a device take where nothing else says so.

    Attributes:
        float_dtype: of Python floats, of what is made without a type (`zeros`, `randn`, parameters), and of integers
            and bools where a float is needed.
        int_dtype: of Python integers.
    """

    float_dtype: DType = f32
    int_dtype: DType = i64


class Device:
    """A device by name; the same name is the same object, so compare with ``is``.

    Args:
        name: ``cpu``, ``opencl:0`` (also ``opencl``), ``opencl:1``, ..., or an existing device.

    Attributes:
        name: canonical name.
        backend: the implementation.

    Raises:
        DeviceError: there is no such device.
    """

    __slots__ = ("_in_use", "_settings", "backend", "name")

    name: str
    backend: Backend
    _settings: DeviceSettings
    _in_use: bool

    def __new__(cls, name: "str | Device" = "cpu") -> "Device":
        if isinstance(name, Device):
            return name
        key = _ALIASES.get(name, name)
        with _lock:
            if key not in _open:
                device = super().__new__(cls)
                device.backend = _open_backend(key)
                device.name = key
                device._settings, device._in_use = DeviceSettings(), False
                _open[key] = device
            return _open[key]

    def __repr__(self) -> str:
        about = f": {describe(self.backend)}; {' '.join(self.target.features)}" if self.target.kind == "opencl" else ""
        return f'Device("{self.name}"{about})'

    def __reduce__(self) -> "tuple[type[Device], tuple[str]]":
        return Device, (self.name,)

    @property
    def target(self) -> AnyTarget:
        """What to compile for."""
        return self.backend.target

    def configure(self, *, float_dtype: object = None, int_dtype: object = None) -> "Device":
        """Choose the types of new tensors where nothing else says so; once, before the first of them; gives the device.

        Explicit types, NumPy arrays and the promotion of two tensors are not affected, and indices and sums stay i64.

        Raises:
            DTypeError: not a float type, not an integer type. DeviceError: the device does not have the type, has been
                configured already, or tensors have been made whose types the old settings chose.
        """
        settings = DeviceSettings(
            self._chosen("float_dtype", float_dtype, self._settings.float_dtype),
            self._chosen("int_dtype", int_dtype, self._settings.int_dtype),
        )
        with _lock:
            if self._in_use:
                raise DeviceError(
                    "the default types are in use",
                    op="configure",
                    expected=f"one call, before the first tensor on {self.name}",
                    found=f"float_dtype={self._settings.float_dtype.name}, int_dtype={self._settings.int_dtype.name}",
                    hint="configure the device at the start of the program, or pass dtype= where tensors are made",
                )
            self._settings, self._in_use = settings, True
        return self

    def _chosen(self, name: str, wanted: object, default: DType) -> DType:
        if wanted is None:
            return default
        dtype = as_dtype(wanted)
        fits, kind = (dtype.is_float, "a float type") if name == "float_dtype" else (dtype.is_int, "an int type")
        if not fits:
            raise DTypeError(f"{name} is of another kind", op="configure", expected=kind, found=dtype.name)
        if not self.supports_dtype(dtype):
            raise DeviceError("no such type on this device", op="configure", expected=self.name, found=dtype.name)
        return dtype

    @property
    def settings(self) -> DeviceSettings:
        """The types that `configure` has chosen; looking at them does not settle them."""
        return self._settings

    @property
    def float_dtype(self) -> DType:
        """The type of a new float tensor. Who asks is making one: from now on it cannot be configured."""
        self._in_use = True
        return self._settings.float_dtype

    @property
    def int_dtype(self) -> DType:
        """The type of a new tensor of Python integers; see `float_dtype`."""
        self._in_use = True
        return self._settings.int_dtype

    def supports_dtype(self, dtype: object) -> bool:
        """Whether the device computes in an element type; every one does in all but f64, which some GPUs lack."""
        return as_dtype(dtype) is not f64 or self.target.kind == "cpu" or self.target.has("fp64")

    def synchronize(self) -> None:
        """Wait until all work on this device is done.

        Raises:
            DeviceError: some of it failed.
        """
        self.backend.synchronize()


class ReferenceDevice(CpuDevice):
    """This machine's memory, for programs that the compiler's user runs in NumPy rather than as native code."""

    name = "interpret"


def devices() -> tuple[Device, ...]:
    """Every device of this machine that can be used: the CPU, and what OpenCL finds (GPUs first)."""
    return (Device("cpu"), *(Device(f"opencl:{index}") for index in range(opencl.count())))


def default_device() -> Device:
    """The device of new tensors: FIREBOX_DEVICE, else the CPU.

    Raises:
        DeviceError: FIREBOX_DEVICE names no device.
    """
    return Device(config.default_device())


def _open_backend(name: str) -> Backend:
    number = _OPENCL.fullmatch(name)
    if number is not None:
        return opencl.OpenClDevice(int(number[1]))
    if name not in _HOSTS:
        expected = "cpu, opencl:0, opencl:1, ... or interpret"
        raise DeviceError("no such device", op="device", expected=expected, found=name)
    return _HOSTS[name]()


_HOSTS: dict[str, Callable[[], Backend]] = {"cpu": CpuDevice, "interpret": ReferenceDevice}
_OPENCL = re.compile(r"opencl:(0|[1-9]\d{0,3})")
_ALIASES = {"cpu:0": "cpu", "opencl": "opencl:0"}
_lock = threading.Lock()
_open: dict[str, Device] = {}
