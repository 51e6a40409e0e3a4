"""Times of the kernels on a device."""

from types import TracebackType

from firebox.errors import UserError
from firebox.frontend.devices import as_device
from firebox.frontend.execute import flush
from firebox.runtime.opencl import OpenClDevice
from firebox.runtime.opencl_profile import Profile


class profile:
    """Time the kernels of an OpenCL device: ``with fb.profile("opencl:0") as found: ...``, then ``print(found)``.

    Each call of a program waits for its kernels meanwhile, so that what the host does in between takes longer than
    usual; times of kernels are those of the device. What was recorded before is run before, and what is recorded
    inside is run at the end.

    Args:
        device: None is the default device.

    Raises:
        UserError: not an OpenCL device.
        DeviceError: a profile of the device is under way already.
    """

    def __init__(self, device: object = None) -> None:
        used = as_device(device)
        if not isinstance(used.backend, OpenClDevice):
            expected, hint = "an OpenCL device", "tools such as perf show the kernels of a CPU"
            raise UserError("no clock for kernels", op="profile", expected=expected, found=used.name, hint=hint)
        self._inside = used.backend.profile()

    def __enter__(self) -> Profile:
        flush()
        return self._inside.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            flush()
        self._inside.__exit__(kind, error, trace)
