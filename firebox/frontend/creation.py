"""Making tensors of given shapes: filled, counting, diagonal. A filled tensor is a number broadcast, not memory."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.base import lookup
from firebox.dims import Dim, DimLike
from firebox.dtypes import DType, as_dtype
from firebox.errors import ShapeError, UserError
from firebox.frontend.devices import as_device, default_float
from firebox.frontend.functions.shape import stack
from firebox.frontend.graph import scalar_var
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import record
from firebox.runtime.device import Device

Number = bool | int | float


def as_shape(shape: Sequence[Any]) -> tuple[DimLike, ...]:
    """Sizes given as arguments or as one tuple or list.

    Raises:
        ShapeError: a size that is negative or not an integer.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else tuple(shape)
    for size in sizes:
        if not isinstance(size, Dim) and (not hasattr(size, "__index__") or size.__index__() < 0):
            raise ShapeError("not a shape", expected="sizes of 0 or more", found=sizes)
    return tuple(s if isinstance(s, Dim) else int(s) for s in sizes)


def full(shape: DimLike | Sequence[DimLike], value: Any, dtype: object = None, device: object = None) -> Tensor:
    """A tensor of ``shape`` with ``value`` everywhere.

    Args:
        value: a number, or a 0-d tensor.
        dtype: default is the device's float or int type (f32, i64), or bool, by the value's kind.
    """
    sizes = as_shape(shape if isinstance(shape, tuple | list) else (shape,))
    if isinstance(value, ArrayLike):
        source = as_tensor(value)
        return (source if dtype is None else source.astype(dtype)).broadcast_to(sizes)
    where = as_device(device)
    kind = as_dtype(dtype) if dtype is not None else _default(value, where)
    number = scalar_var(value, kind)
    return wrap(record(lookup("nd.broadcast_to"), (number,), {"shape": sizes}, where)[0])


def _default(value: Number, device: Device) -> DType:
    if isinstance(value, bool):
        return dtypes.bool_
    return device.int_dtype if isinstance(value, int) else device.float_dtype


def zeros(*shape: Any, dtype: object = None, device: object = None) -> Tensor:
    """Zeros, f32 unless ``dtype`` or `Device.configure` says otherwise: ``zeros(2, 3)`` or ``zeros((2, 3))``."""
    return full(as_shape(shape), 0, dtype or default_float(device), device)


def ones(*shape: Any, dtype: object = None, device: object = None) -> Tensor:
    """Ones, f32 unless ``dtype`` or `Device.configure` says otherwise."""
    return full(as_shape(shape), 1, dtype or default_float(device), device)


def empty(*shape: Any, dtype: object = None, device: object = None) -> Tensor:
    """Zeros: there is no memory without values."""
    return zeros(*shape, dtype=dtype, device=device)


def full_like(x: Tensor, value: Any, dtype: object = None) -> Tensor:
    """``value`` everywhere in the shape, type and device of ``x``."""
    return full(x.shape, value, dtype or x.dtype, x.device)


def zeros_like(x: Tensor, dtype: object = None) -> Tensor:
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: object = None) -> Tensor:
    return full_like(x, 1, dtype)


empty_like = zeros_like


def iota(shape: Sequence[DimLike], axis: int = 0, dtype: object = dtypes.i64, device: object = None) -> Tensor:
    """The index along ``axis`` of every element."""
    params = {"shape": as_shape(shape), "axis": axis, "dtype": as_dtype(dtype)}
    return wrap(record(lookup("nd.iota"), (), params, as_device(device))[0])


def arange(
    start: float | Dim, stop: float | Dim | None = None, step: float = 1, dtype: object = None, device: object = None
) -> Tensor:
    """``start, start + step, ..`` up to but without ``stop``; i64 when all are integers, else f32.

    Floats are computed in f64 as ``start + k * step`` and rounded once.

    Raises:
        UserError: ``step`` is 0, or something is no finite number.
    """
    first, last = (0, start) if stop is None else (start, stop)
    for value in (first, last, step):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not isinstance(value, Dim) and not (is_number and math.isfinite(value)):
            raise UserError("not a range", op="arange", expected="finite numbers", found=repr(value))
    if step == 0:
        raise UserError("the step is 0", op="arange", expected="a step other than 0")
    integers = not any(isinstance(v, float) for v in (first, last, step))
    kind = as_dtype(dtype) if dtype is not None else _default(0 if integers else 0.0, as_device(device))
    if isinstance(first, Dim) or isinstance(last, Dim):
        if first != 0 or step != 1 or isinstance(last, float):
            raise UserError("a symbolic range starts at 0 and has step 1", op="arange", found=(first, last, step))
        return iota((last,), 0, kind, device)
    count = max(0, math.ceil((last - first) / step))
    if integers:
        counts = iota((count,), 0, dtypes.i64, device)
        return _affine(counts, int(first), int(step)).astype(kind)
    return _affine(iota((count,), 0, dtypes.f64, device), float(first), float(step)).astype(kind)


def _affine(counts: Tensor, first: Any, step: Any) -> Tensor:
    scaled = counts if step == 1 else counts * step
    return scaled if first == 0 else scaled + first


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    dtype: object = None,
    device: object = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` values from ``start`` to ``stop``, equally spaced; f32 unless ``dtype`` says otherwise.

    Args:
        endpoint: whether ``stop`` is the last value, or the one after it.
    """
    if num < 0:
        raise ShapeError("a negative number of values", op="linspace", expected="0 or more", found=num)
    counts = iota((num,), 0, dtypes.f64, device)
    parts = num - 1 if endpoint else num
    step = (float(stop) - float(start)) / parts if parts > 0 else 0.0
    values = counts * step + float(start)
    exact = (counts == float(num - 1)).where(float(stop), values) if endpoint and num > 1 else values
    return exact.astype(dtype or default_float(device))


def logspace(
    start: float, stop: float, num: int = 50, base: float = 10.0, dtype: object = None, device: object = None
) -> Tensor:
    """``num`` powers of ``base`` with exponents from ``start`` to ``stop``, equally spaced."""
    return (base ** linspace(start, stop, num, dtypes.f64, device)).astype(dtype or default_float(device))


def eye(n: int, m: int | None = None, k: int = 0, dtype: object = None, device: object = None) -> Tensor:
    """Ones on the diagonal ``k`` (above the main one when positive) of an n x m matrix of zeros."""
    rows, columns = _grid(n, m, device)
    return (columns == rows + k).astype(dtype or default_float(device))


def tri(n: int, m: int | None = None, k: int = 0, dtype: object = None, device: object = None) -> Tensor:
    """Ones at and below the diagonal ``k``."""
    rows, columns = _grid(n, m, device)
    return (columns <= rows + k).astype(dtype or default_float(device))


def _grid(n: int, m: int | None, device: object) -> tuple[Tensor, Tensor]:
    return iota((n, 1), 0, device=device), iota((1, n if m is None else m), 1, device=device)


def tril_indices(n: int, k: int = 0, m: int | None = None, device: object = None) -> tuple[Tensor, Tensor]:
    """Rows and columns (i64) of the elements at and below the diagonal ``k`` of an n x m matrix."""
    return _indices(np.tril_indices(n, k, m), device)


def triu_indices(n: int, k: int = 0, m: int | None = None, device: object = None) -> tuple[Tensor, Tensor]:
    """Rows and columns (i64) of the elements at and above the diagonal ``k`` of an n x m matrix."""
    return _indices(np.triu_indices(n, k, m), device)


def _indices(found: tuple[Any, Any], device: object) -> tuple[Tensor, Tensor]:
    rows, columns = (as_tensor(part.astype(np.int64), as_device(device)) for part in found)
    return rows, columns


def cartesian_prod(*arrays: Tensor) -> Tensor:
    """Every combination of elements of 1-D arrays, one row for each, the last array's running fastest.

    Of one array, that array, without a dim for the one column.

    Raises:
        ShapeError: an array that is not 1-D.
    """
    if len(arrays) == 1 and arrays[0].rank == 1:
        return arrays[0]
    grids = meshgrid(*arrays, indexing="ij")
    return stack([g.reshape((g.size,)) for g in grids], 1)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from 1-D arrays; ``"xy"`` swaps the first two dims, as in NumPy, ``"ij"`` does not.

    A 0-d array is one coordinate.

    Raises:
        UserError: another indexing. ShapeError: an array of more dims.
    """
    if indexing not in ("xy", "ij"):
        raise UserError("no such indexing", op="meshgrid", expected="xy or ij", found=repr(indexing))
    for array in arrays:
        if array.rank > 1:
            raise ShapeError("takes 1-D arrays", op="meshgrid", expected="1 dim", found=array.shape)
    sizes = tuple(a.size for a in arrays)
    count = len(arrays)
    grids = [a.reshape((1,) * k + (-1,) + (1,) * (count - k - 1)).broadcast_to(sizes) for k, a in enumerate(arrays)]
    return [g.swapaxes(0, 1) for g in grids] if indexing == "xy" and count > 1 else grids
