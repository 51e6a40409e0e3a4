"""Sums, counts, running values and differences beyond the plain reductions."""

from firebox import dtypes
from firebox.dialects.nd.array import Axes, normalize_axis
from firebox.dims import DimLike
from firebox.dtypes import DType
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.normalization import var
from firebox.frontend.functions.ordering import searchsorted
from firebox.frontend.functions.shape import concat, narrow
from firebox.frontend.functions.support import (
    A,
    arange_like,
    as_float,
    promote,
    require_float,
    require_int,
    require_rank,
)

# ---- counting ----------------------------------------------------------------------------------------------------


def count_nonzero(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """How many elements over axes are not 0 (i64)."""
    return x.astype(dtypes.bool_).astype(dtypes.i64).sum(axis, keepdims)


def histogram(x: A, bins: int, low: float, high: float, weights: A | None = None) -> tuple[A, A]:
    """How many elements lie in each of ``bins`` equal parts of [low, high] (i64), and the edges of the parts.

    The last part holds ``high`` too; elements outside and NaN are not counted.

    Args:
        weights: what each element counts for, in place of 1.

    Raises:
        UserError: no parts, or an empty range.
    """
    if bins < 1 or not low < high:
        raise UserError("bad parts", op="histogram", expected="bins >= 1 and low < high", found=(bins, low, high))
    x = as_float(x)
    edges = arange_like(x, bins + 1, dtypes.f64) * ((high - low) / bins) + low
    edges = edges.astype(x.dtype)
    flat = x.reshape((x.size,))
    place = searchsorted(edges, flat, "right") - 1
    inside = (flat >= low) & (flat <= high)
    counted = inside.where(place.minimum(bins - 1), bins)
    each = counted.literal(1).broadcast_to(counted.shape) if weights is None else weights.reshape((weights.size,))
    return narrow(each.literal(0).broadcast_to((bins + 1,)).scatter_add(counted, each, 0), 0, 0, bins), edges


def counts_of(x: A, size: DimLike, weights: A | None = None) -> A:
    """How often each of the integers 0, 1, .., size - 1 is in a vector (i64), or the sums of its weights.

    Raises:
        DTypeError: not integers. ShapeError: not a vector.
        IndexRangeError: an integer that is out of range; raised when the result is read.
    """
    require_int("bincount", x, "input")
    require_rank("bincount", x, 1, "integers")
    each = x.literal(1, dtypes.i64).broadcast_to(x.shape) if weights is None else weights
    return each.literal(0).broadcast_to((size,)).scatter_add(x, each, 0)


# ---- without NaN -------------------------------------------------------------------------------------------------


def nansum(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The sum of the elements that are not NaN."""
    return x.isnan().where(0, x).sum(axis, keepdims)


def nanprod(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The product of the elements that are not NaN."""
    return x.isnan().where(1, x).prod(axis, keepdims)


def nanmean(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The mean of the elements that are not NaN; NaN where all are."""
    x = as_float(x)
    return nansum(x, axis, keepdims) / (~x.isnan()).astype(x.dtype).sum(axis, keepdims)


def nanvar(x: A, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> A:
    """The variance of the elements that are not NaN."""
    x = as_float(x)
    missing = x.isnan()
    deviation = missing.where(0.0, x - nanmean(x, axis, True))
    count = (~missing).astype(x.dtype).sum(axis, keepdims)
    left = count - correction
    return (deviation * deviation).sum(axis, keepdims) / (left > 0).where(left, float("nan"))


def nanstd(x: A, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> A:
    """The standard deviation of the elements that are not NaN."""
    return nanvar(x, axis, keepdims, correction).sqrt()


def nanmax(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The largest element that is not NaN; NaN where all are."""
    if not x.dtype.is_float:
        return x.max(axis, keepdims)
    missing = x.isnan()
    top = missing.where(float("-inf"), x).max(axis, keepdims)
    return missing.all(axis, keepdims).where(float("nan"), top)


def nanmin(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The smallest element that is not NaN; NaN where all are."""
    return -nanmax(-x, axis, keepdims) if x.dtype.is_float else x.min(axis, keepdims)


# ---- over axes ---------------------------------------------------------------------------------------------------


def ptp(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The largest minus the smallest element."""
    return x.max(axis, keepdims) - x.min(axis, keepdims)


def max_abs(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """The largest magnitude."""
    return x.abs().max(axis, keepdims)


def var_mean(x: A, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> tuple[A, A]:
    """Variance and mean over axes."""
    x = as_float(x)
    return var(x, axis, keepdims, correction), x.mean(axis, keepdims)


def average(x: A, axis: Axes = None, weights: A | None = None, keepdims: bool = False) -> A:
    """The mean, each element counted by its weight; weights broadcast to x."""
    x = as_float(x)
    if weights is None:
        return x.mean(axis, keepdims)
    spread = weights.astype(x.dtype).broadcast_to(x.shape)
    return (x * spread).sum(axis, keepdims) / spread.sum(axis, keepdims)


# ---- along an axis -----------------------------------------------------------------------------------------------


def cummax(x: A, axis: int = 0) -> A:
    """The largest element so far; NaN wins."""
    return x.cummax(axis)


def cummin(x: A, axis: int = 0) -> A:
    """The smallest element so far; NaN wins."""
    return x.cummin(axis)


def logcumsumexp(x: A, axis: int = 0) -> A:
    """The logarithm of the running sum of exp(x), without overflow."""
    require_float("logcumsumexp", x)
    return x.one("logcumsumexp", x, axis=normalize_axis(axis, x.rank), reverse=False)


def linear_scan(decay: A, x: A, axis: int = -1, reverse: bool = False) -> A:
    """h[t] = decay[t] * h[t-1] + x[t] along an axis, from h = 0 on: the core of state-space layers.

    Args:
        reverse: run from the other end.

    Raises:
        ShapeError: operands of different shapes. DTypeError: not floats.
    """
    decay, x = promote("linear_scan", decay, x)
    return x.one("linear_scan", decay, x, axis=normalize_axis(axis, x.rank), reverse=reverse)


def cumulative_sum(x: A, axis: int | None = None, dtype: object = None, include_initial: bool = False) -> A:
    """Running sums along an axis, which a vector need not name.

    Args:
        dtype: of the result and the sums; small integers are summed as i64 or u64 by default.
        include_initial: begin with 0.
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: A, axis: int | None = None, dtype: object = None, include_initial: bool = False) -> A:
    """Running products along an axis, which a vector need not name; see `cumulative_sum`."""
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def _cumulative(op: str, x: A, axis: int | None, dtype: object, include_initial: bool) -> A:
    if axis is None and x.rank != 1:
        raise ShapeError("an axis is needed", op=op, expected="an axis, or one dim", found=x.aval)
    at = normalize_axis(axis or 0, x.rank)
    wide = x.astype(sum_type(x.dtype) if dtype is None else dtype)
    result = wide.cumsum(at) if op == "cumulative_sum" else wide.cumprod(at)
    if not include_initial:
        return result
    before = [0] * x.rank
    before[at] = 1
    return result.pad(before, [0] * x.rank, 0 if op == "cumulative_sum" else 1)


def sum_type(dtype: DType) -> DType:
    """The type in which the array API sums: 64 bits for small integers and bools, of their own signedness."""
    if dtype.is_float or dtype.itemsize == 8:
        return dtype
    return dtypes.i64 if dtype.is_signed or dtype.is_bool else dtypes.u64


def diff(x: A, n: int = 1, axis: int = -1, prepend: A | None = None, append: A | None = None) -> A:
    """Differences of neighbours along an axis, ``n`` times over.

    Args:
        prepend, append: put before and after x first.

    Raises:
        UserError: a negative ``n``. ShapeError: a 0-d array.
    """
    if n < 0:
        raise UserError("a negative number of differences", op="diff", expected="n >= 0", found=n)
    at = normalize_axis(axis, x.rank)
    x = concat([v for v in (prepend, x, append) if v is not None], at) if n else x
    for _ in range(n):
        size = x.shape[at]
        if size == 0:
            return x
        after, before = narrow(x, at, 1, size), narrow(x, at, 0, size - 1)
        x = after != before if x.dtype.is_bool else after - before
    return x


def trapezoid(y: A, x: A | None = None, dx: float = 1.0, axis: int = -1) -> A:
    """The integral along an axis by the trapezoidal rule, at points ``x`` or at distances ``dx``."""
    at = normalize_axis(axis, y.rank)
    return trapezoid_parts(y, x, dx, at).sum(at)


def trapezoid_parts(y: A, x: A | None, dx: float, axis: int) -> A:
    """The integral between neighbours."""
    y = as_float(y)
    size = y.shape[axis]
    means = (narrow(y, axis, 1, size) + narrow(y, axis, 0, size - 1)) * 0.5
    if x is None:
        return means * dx
    if x.rank == 1:
        x = x.reshape((*(1,) * axis, -1, *(1,) * (y.rank - 1 - axis)))
    return means * diff(x, 1, axis)
