"""Devices by name, and what every kind of device offers to the dispatcher."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from firebox import config
from firebox.errors import DeviceError
from firebox.runtime.cpu import CpuDevice
from firebox.runtime.image import CodeImage, LoadedImage
from firebox.runtime.memory import Buffer
from firebox.runtime.pool import Env
from firebox.runtime.status import Status
from firebox.runtime.target import Target


class EntryPoint(Protocol):
    """A program's native entry, ready to call; see `firebox.runtime.cpu.Entry`."""

    def run(self, env: Env, args: bytes | int, dims: bytes | int, outs: bytes | int) -> Status | None: ...

    def __call__(self, env: Env, args: bytes | int, dims: bytes | int, outs: bytes | int) -> None: ...


class Backend(Protocol):
    """What a kind of device implements."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def allocate(self) -> Callable[[int], Buffer]: ...

    def allocator(self, nbytes: int) -> Callable[[], Buffer]: ...

    def from_numpy(self, array: NDArray[Any]) -> Buffer: ...

    def copy(self, source: Buffer) -> Buffer: ...

    def load(self, code: CodeImage) -> LoadedImage: ...

    def make_entry(self, loaded: LoadedImage, symbol: str) -> EntryPoint: ...

    def environment(self) -> Env: ...

    def synchronize(self) -> None: ...


class Device:
    """A device by name; the same name is the same object, so compare with ``is``.

    Args:
        name: ``cpu``, or another device's name, or an existing device.

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
        key = "cpu" if name == "cpu:0" else name
        with _lock:
            if key not in _open:
                device = super().__new__(cls)
                device.backend = _open_backend(key)
                device.name = key
                _open[key] = device
            return _open[key]

    def __repr__(self) -> str:
        return f'Device("{self.name}")'

    def __reduce__(self) -> "tuple[type[Device], tuple[str]]":
        return Device, (self.name,)

    @property
    def target(self) -> Target:
        """What to compile for."""
        return self.backend.target


class ReferenceDevice(CpuDevice):
    """This machine's memory, for programs that the compiler's user runs in NumPy rather than as native code."""

    name = "interpret"


def devices() -> tuple[Device, ...]:
    """Every device of this machine."""
    return (Device("cpu"),)


def default_device() -> Device:
    """The device of new tensors: FIREBOX_DEVICE, else the CPU.

    Raises:
        DeviceError: FIREBOX_DEVICE names no device.
    """
    return Device(config.default_device())


def _open_backend(name: str) -> Backend:
    if name == "cpu":
        return CpuDevice()
    if name == "interpret":
        return ReferenceDevice()
    if name.partition(":")[0] == "opencl":
        raise DeviceError("OpenCL devices are not available yet in this build", op=name, hint='use Device("cpu")')
    raise DeviceError("no such device", op="device", expected="cpu or interpret", found=name)


_lock = threading.Lock()
_open: dict[str, Device] = {}
