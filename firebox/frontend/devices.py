"""The device of new tensors, devices by name, and data in a device's memory."""

import threading
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.dtypes import DType
from firebox.runtime.cpu import CpuDevice
from firebox.runtime.device import Device, default_device
from firebox.runtime.memory import POOL, Buffer

_BYTES = np.dtype(np.uint8)
_chosen: list[Device] = []


class _Inside(threading.local):
    """The devices of the ``with`` blocks that a thread is in."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_inside = _Inside()


def current_device() -> Device:
    """The device of new tensors: that of ``with device(..)``, else what `set_default_device` said, else FIREBOX_DEVICE,
    else the CPU."""
    if _inside.devices:
        return _inside.devices[-1]
    return _chosen[-1] if _chosen else default_device()


def set_default_device(device: object) -> None:
    """Make new tensors live on this device, in all threads; None goes back to FIREBOX_DEVICE, else the CPU."""
    _chosen.clear()
    if device is not None:
        _chosen.append(as_device(device))


class device:
    """Inside, new tensors of this thread live on a device: ``with fb.device("opencl:0"): ...``.

    Raises:
        DeviceError: there is no such device.
    """

    def __init__(self, name: object) -> None:
        self.device = as_device(name)

    def __enter__(self) -> Device:
        _inside.devices.append(self.device)
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _inside.devices.pop()


def as_device(device: object) -> Device:
    """A device by name; None is the default device.

    Raises:
        DeviceError: there is no such device.
    """
    if device is None:
        return current_device()
    return device if isinstance(device, Device) else Device(str(device))


def default_float(device: object) -> DType:
    """The type of new floats on a device (None: the default one): f32, unless `Device.configure` says otherwise."""
    return as_device(device).float_dtype


# ---- memory ------------------------------------------------------------------------------------------------------


def is_host(device: Device) -> bool:
    """Whether the device computes in this process's memory, where NumPy can read and share it."""
    return isinstance(device.backend, CpuDevice)


def place(array: NDArray[Any], device: Device) -> Buffer:
    """A copy of an array of any strides in a device's memory."""
    if not is_host(device):
        dense = np.ascontiguousarray(array)
        return device.backend.from_numpy(dense, stable=dense is not array)
    buffer = POOL.allocate(array.nbytes)
    buffer.as_numpy(array.dtype, array.shape, writable=True, internal=True)[...] = array
    return buffer


def place_bytes(data: bytes, device: Device) -> Buffer:
    """Bytes, such as those of one number, in a device's memory."""
    return place(np.frombuffer(data, _BYTES), device)


def move(buffer: Buffer, source: Device, target: Device) -> Buffer:
    """The same bytes on another device; the buffer itself between devices that compute in the host's memory."""
    if is_host(source) and is_host(target):
        return buffer
    return place(buffer.as_numpy(_BYTES, (buffer.nbytes,), internal=True), target)
