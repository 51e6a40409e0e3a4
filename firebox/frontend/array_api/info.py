"""What the namespace can do: the standard's inspection."""

from typing import Any

from firebox import dtypes
from firebox.dtypes import DType
from firebox.frontend.data_types import of_kinds
from firebox.frontend.devices import current_device
from firebox.runtime import device as runtime_device
from firebox.runtime.device import Device


class Info:
    """The namespace's capabilities, devices and types."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results of unknown size work wherever values are known; the rank is not limited by the library."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        return current_device()

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        return {"real floating": dtypes.f32, "integral": dtypes.i64, "indexing": dtypes.i64}

    def dtypes(self, *, device: object = None, kind: Any = None) -> dict[str, DType]:
        return of_kinds(kind)

    def devices(self) -> list[Device]:
        """The devices of this machine, and the present default, which may be one for tests."""
        return list(dict.fromkeys((*runtime_device.devices(), current_device())))


def __array_namespace_info__() -> Info:
    return Info()
