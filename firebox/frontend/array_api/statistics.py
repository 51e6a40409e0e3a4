"""Statistical and utility functions of the standard."""

from firebox.dialects.nd.array import Axes
from firebox.frontend.functions import normalization, statistics
from firebox.frontend.tensor import Tensor


def sum(x: Tensor, /, *, axis: Axes = None, dtype: object = None, keepdims: bool = False) -> Tensor:
    """Sums; small integers are summed as i64 or u64 unless ``dtype`` says otherwise."""
    wide = x.astype(statistics.sum_type(x.dtype) if dtype is None else dtype)
    return wide.sum(axis, keepdims).astype(wide.dtype)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: object = None, keepdims: bool = False) -> Tensor:
    """Products; small integers are multiplied as i64 or u64 unless ``dtype`` says otherwise."""
    wide = x.astype(statistics.sum_type(x.dtype) if dtype is None else dtype)
    return wide.prod(axis, keepdims).astype(wide.dtype)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return x.max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return x.min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return x.mean(axis, keepdims)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    return normalization.var(x, axis, keepdims, correction)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    return normalization.std(x, axis, keepdims, correction)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    return statistics.cumulative_sum(x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    return statistics.cumulative_prod(x, axis, dtype, include_initial)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return x.all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return x.any(axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    return statistics.diff(x, n, axis, prepend, append)
