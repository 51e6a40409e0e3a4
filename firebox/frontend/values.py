"""Data of Python, NumPy and other libraries as computed values."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError, ShapeError, TraceError
from firebox.frontend import dlpack
from firebox.frontend.devices import is_host, place, place_bytes
from firebox.frontend.entries import intern
from firebox.frontend.graph import Var
from firebox.frontend.stats import COUNTERS
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer

Array = npt.NDArray[Any]
_NO_NUMBERS = "OSUMmc"  # NumPy's kinds of objects, texts, times and complex numbers


def static_shape(aval: Aval) -> tuple[int, ...]:
    """The shape in numbers.

    Raises:
        TraceError: a dim is symbolic.
    """
    if not dims.is_static(aval.shape):
        hint = "do not read values while tracing"
        raise TraceError("a size is known only when the program runs", found=aval, hint=hint)
    return cast("tuple[int, ...]", aval.shape)


def of_buffer(buffer: Buffer, aval: Aval, device: Device) -> Var:
    """A value in memory that never changes from now on."""
    return Var(intern(aval), device, buffer=buffer)


def of_array(array: Array, device: Device, copy: bool) -> Var:
    """The values of a NumPy array; without a copy when asked for, the array is C-contiguous and the device can.

    Raises:
        DTypeError: an element type that tensors do not have.
    """
    dtype = as_dtype(array.dtype.newbyteorder("=") if array.dtype.byteorder == ">" else array.dtype)
    shared = not copy and is_host(device)
    if shared and array.flags.c_contiguous and array.flags.aligned and array.dtype == dtype.numpy:
        buffer = Buffer.from_numpy(array)
    else:
        buffer = place(array.astype(dtype.numpy, copy=False), device)
        COUNTERS.bytes_copied += buffer.nbytes
    return of_buffer(buffer, Aval(dtype, array.shape), device)


def of_data(data: Any, device: Device, copy: bool = True, wanted: DType | None = None) -> Var:
    """Numbers, nested lists, NumPy arrays and what other libraries exchange by DLPack or as arrays.

    Args:
        wanted: the type that the user wants in the end, which Python numbers take without a detour if it is of their
            kind; the device's default for None.

    Raises:
        DTypeError: no element type for such data. ShapeError: nested lists of different lengths.
    """
    if isinstance(data, np.ndarray | np.generic):
        return of_array(np.asarray(data), device, copy)
    if isinstance(data, bool | int | float):
        return _of_number(data, device, wanted)
    if hasattr(data, "__dlpack__"):
        return of_array(dlpack.array_of(data, "tensor"), device, copy)
    try:
        array = np.asarray(_plain(data))
    except ValueError as error:
        raise ShapeError("nested lists of different lengths", op="tensor", found=str(error)) from error
    if array.dtype.kind in _NO_NUMBERS:
        expected = "bools, integers of at most 64 bits, floats, nested lists or arrays of these"
        raise DTypeError("no data of a tensor", expected=expected, found=f"{type(data).__name__} of {array.dtype}")
    if not hasattr(data, "__array__"):
        array = _default_type(array, device, wanted)
    return of_array(array, device, copy=True)


def _default_type(array: Array, device: Device, wanted: DType | None) -> Array:
    """What NumPy has made of Python numbers, in the type that they take here."""
    if array.dtype == np.float64:
        dtype = wanted if wanted is not None and wanted.is_float else device.float_dtype
        with np.errstate(over="ignore"):
            return array.astype(dtype.numpy)
    return _integers(array, device.int_dtype) if array.dtype == np.int64 and wanted is None else array


def _integers(array: Array, dtype: DType) -> Array:
    """Integers in the type of a device.

    Raises:
        DTypeError: the type does not hold them.
    """
    found = array.astype(dtype.numpy, copy=False)
    if (found != array).any():
        hint = "pass dtype="
        raise DTypeError("the number does not fit", op="tensor", expected=dtype.name, found=f"{array}", hint=hint)
    return found


def _plain(data: Any) -> Any:
    """Nested lists with what is an array of its own in them as NumPy arrays."""
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return np.asarray(data) if hasattr(data, "__array__") else data


def _of_number(value: bool | int | float, device: Device, wanted: DType | None) -> Var:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise DTypeError("the number is not in the range of i64", op="tensor", found=value)
    array = _default_type(np.asarray(value), device, wanted)
    return of_buffer(place_bytes(array.tobytes(), device), Aval(as_dtype(array.dtype), ()), device)
