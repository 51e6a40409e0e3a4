"""Memory exchanged by DLPack. NumPy makes and reads the capsules; it does not know bf16, which passes it as u16.

What a capsule holds says what the elements are in one byte, at a place that DLPack's header fixes (``dlpack.h``,
versions 0.x and 1.x); that byte is all that is changed.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.dtypes import bf16
from firebox.errors import DTypeError

CPU, OPENCL = 1, 4
"""Kinds of devices as DLPack counts them."""
READ_ONLY_SINCE = (1, 0)
"""The version of DLPack that can say that memory must not be written."""

Array = NDArray[Any]

_UINT, _BFLOAT = 1, 4
_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Where in what a capsule of a name points to the type stands: code, bits and lanes in 1, 1 and 2 bytes."""

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def capsule_of(array: Array, options: Mapping[str, Any]) -> Any:
    """The array's memory for another library; ``options`` are those of ``__dlpack__``."""
    if array.dtype != bf16.numpy:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _type_in(capsule)[0] = _BFLOAT
    return capsule


def array_of(x: Any, op: str) -> Array:
    """The memory of another library's array, as it is.

    Raises:
        DTypeError: there is no way to exchange it: it is not in the host's memory, NumPy has no such element type, or
            its library refuses, as PyTorch does for what takes gradients.
    """
    try:
        capsule = _asked(x)
        dtype = _type_in(capsule)
        is_bf16 = (dtype[0], dtype[1]) == (_BFLOAT, 16)
        if is_bf16:
            dtype[0] = _UINT
        array: Array = np.from_dlpack(_Given(capsule, x.__dlpack_device__()))
    except (AttributeError, TypeError, BufferError, RuntimeError, ValueError) as error:
        raise DTypeError(
            f"no such exchange: {error}",
            op=op,
            expected="an array in the memory of the CPU, of an element type that NumPy knows or bf16",
            found=f"{type(x).__module__}.{type(x).__qualname__}",
            hint="copy it to the CPU, and detach what takes gradients, with its own library first",
        ) from None
    return array.view(bf16.numpy) if is_bf16 else array


def _asked(x: Any) -> Any:
    """The capsule of an array, of the newest version that its library has."""
    try:
        return x.__dlpack__(max_version=READ_ONLY_SINCE)
    except TypeError:  # from before versions
        return x.__dlpack__()


def _type_in(capsule: Any) -> Any:
    """The four bytes of a capsule that say what the elements are, to read and to write."""
    name = _name_of(capsule)
    if name not in _TYPE_AT:
        raise TypeError(f"not a capsule of DLPack: {name!r}")
    return (ctypes.c_uint8 * 4).from_address(_pointer_of(capsule, name) + _TYPE_AT[name])


class _Given:
    """A capsule as something that NumPy takes."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
