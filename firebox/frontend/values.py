"""Data of Python, NumPy and other libraries as computed values."""

import struct
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError, ShapeError, TraceError
from firebox.frontend.devices import is_host, place, place_bytes
from firebox.frontend.entries import intern
from firebox.frontend.stats import COUNTERS
from firebox.frontend.trace import Var
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


def of_data(data: Any, device: Device, copy: bool = True, floats: DType = dtypes.f32) -> Var:
    """Numbers, nested lists, NumPy arrays and what other libraries exchange by DLPack or as arrays.

    Args:
        floats: element type that Python floats take.

    Raises:
        DTypeError: no element type for such data. ShapeError: nested lists of different lengths.
    """
    if isinstance(data, np.ndarray | np.generic):
        return of_array(np.asarray(data), device, copy)
    if isinstance(data, bool | int) or (isinstance(data, float) and floats is dtypes.f32):
        return _of_number(data, device)
    if hasattr(data, "__dlpack__"):
        return of_array(np.from_dlpack(data), device, copy)
    try:
        array = np.asarray(_plain(data))
    except ValueError as error:
        raise ShapeError("nested lists of different lengths", op="tensor", found=str(error)) from error
    if array.dtype.kind in _NO_NUMBERS:
        expected = "bools, integers of at most 64 bits, floats, nested lists or arrays of these"
        raise DTypeError("no data of a tensor", expected=expected, found=f"{type(data).__name__} of {array.dtype}")
    if array.dtype == np.float64 and not hasattr(data, "__array__"):
        with np.errstate(over="ignore"):
            array = array.astype(floats.numpy)
    return of_array(array, device, copy=True)


def _plain(data: Any) -> Any:
    """Nested lists with what is an array of its own in them as NumPy arrays."""
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return np.asarray(data) if hasattr(data, "__array__") else data


def _of_number(value: bool | int | float, device: Device) -> Var:
    if isinstance(value, bool):
        dtype, data = dtypes.bool_, struct.pack("?", value)
    elif isinstance(value, float):
        with np.errstate(over="ignore"):
            dtype, data = dtypes.f32, np.float32(value).tobytes()
    elif -(1 << 63) <= value < 1 << 63:
        dtype, data = dtypes.i64, struct.pack("<q", value)
    else:
        raise DTypeError("the number is not in the range of i64", op="tensor", found=value)
    return of_buffer(place_bytes(data, device), Aval(dtype, ()), device)
