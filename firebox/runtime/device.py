"""Devices by name, and what every kind of device offers to the dispatcher."""

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from firebox import config
from firebox.errors import DeviceError
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

    __slots__ = ("backend", "name")

    name: str
    backend: Backend

    def __new__(cls, name: "str | Device" = "cpu") -> "Device":
        if isinstance(name, Device):
            return name
        key = _ALIASES.get(name, name)
        with _lock:
            if key not in _open:
                device = super().__new__(cls)
                device.backend = _open_backend(key)
                device.name = key
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
