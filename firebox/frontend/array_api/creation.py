"""Creation functions of the standard."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dims import DimLike
from firebox.dtypes import as_dtype
from firebox.errors import ShapeError
from firebox.frontend import creation
from firebox.frontend.functions import shape as shaping
from firebox.frontend.tensor import Tensor, tensor
from firebox.frontend.tensor import from_dlpack as imported

Size = int | Sequence[DimLike]


def asarray(obj: Any, /, *, dtype: object = None, device: object = None, copy: bool | None = None) -> Tensor:
    """An array of numbers, nested sequences or another library's array.

    Raises:
        ValueError: ``copy`` is False and the data cannot be shared.
    """
    shared = isinstance(obj, Tensor) or (isinstance(obj, np.ndarray) and obj.flags.c_contiguous)
    if copy is False and (not shared or (dtype is not None and as_dtype(obj.dtype) is not as_dtype(dtype))):
        expected, found = "an array of that type", type(obj).__name__
        raise ShapeError("the data cannot be shared", op="asarray", expected=expected, found=found)
    where = obj.device if device is None and isinstance(obj, Tensor) else device
    return tensor(obj, dtype, where, copy=copy is not False)


def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Tensor:
    """An array over another library's memory; a copy of it only if asked for."""
    found = imported(x, device)
    return tensor(np.array(found.numpy()), device=device) if copy else found


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: object = None, device: object = None
) -> Tensor:
    return creation.arange(start, stop, step, dtype, device)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: object = None, device: object = None, endpoint: bool = True
) -> Tensor:
    return creation.linspace(start, stop, num, dtype, device, endpoint)


def full(shape: Size, fill_value: Any, *, dtype: object = None, device: object = None) -> Tensor:
    return creation.full(_sizes(shape), fill_value, dtype, device)


def zeros(shape: Size, *, dtype: object = None, device: object = None) -> Tensor:
    return creation.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Size, *, dtype: object = None, device: object = None) -> Tensor:
    return creation.ones(_sizes(shape), dtype=dtype, device=device)


def empty(shape: Size, *, dtype: object = None, device: object = None) -> Tensor:
    """Zeros: there is no memory without values."""
    return zeros(shape, dtype=dtype, device=device)


def _sizes(shape: Size) -> tuple[DimLike, ...]:
    return tuple(shape) if isinstance(shape, Sequence) else (shape,)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: object = None, device: object = None) -> Tensor:
    return creation.full(x.shape, fill_value, dtype or x.dtype, device or x.device)


def zeros_like(x: Tensor, /, *, dtype: object = None, device: object = None) -> Tensor:
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: object = None, device: object = None) -> Tensor:
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: object = None, device: object = None) -> Tensor:
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = None, device: object = None
) -> Tensor:
    return creation.eye(n_rows, n_cols, k, dtype or dtypes.f32, device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    return creation.meshgrid(*arrays, indexing=indexing)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    return shaping.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    return shaping.triu(x, k)
