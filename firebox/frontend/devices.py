"""The device of new tensors, and devices by name."""

from firebox.runtime.device import Device, default_device

_chosen: list[Device] = []


def current_device() -> Device:
    """The device of new tensors: what `set_default_device` said, else FIREBOX_DEVICE, else the CPU."""
    return _chosen[-1] if _chosen else default_device()


def set_default_device(device: object) -> None:
    """Make new tensors live on this device; None goes back to FIREBOX_DEVICE, else the CPU."""
    _chosen.clear()
    if device is not None:
        _chosen.append(as_device(device))


def as_device(device: object) -> Device:
    """A device by name; None is the default device.

    Raises:
        DeviceError: there is no such device.
    """
    if device is None:
        return current_device()
    return device if isinstance(device, Device) else Device(str(device))
