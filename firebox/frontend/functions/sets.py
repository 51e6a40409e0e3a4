"""Functions whose results have as many elements as the values say: what is nonzero, chosen by a mask, or unique.

The size of such a result is not known while tracing. There, and wherever a result should have a fixed shape, ``size=``
says how many elements it has: what is missing is filled with ``fill_value``, what is too much is left out. Without it
the values are read, which runs what is pending, and the indices are found on the host.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.errors import TraceError
from firebox.frontend.functions.ordering import run_starts, sort_with_indices
from firebox.frontend.functions.scattering import masked_fill
from firebox.frontend.functions.shape import narrow, stack
from firebox.frontend.functions.statistics import counts_of
from firebox.frontend.functions.support import arange_like, stop_gradient

if TYPE_CHECKING:
    from firebox.frontend.tensor import Tensor
else:
    Tensor = ArrayLike

_Array = Any  # of NumPy


class UniqueAll(NamedTuple):
    """Distinct values in order, the index of the first of each, where each element is in them, and how often."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values in order, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values in order, and where each element is in them."""

    values: Tensor
    inverse_indices: Tensor


def known_values(op: str, x: Tensor) -> _Array:
    """The values of x, for a result whose size depends on them.

    Raises:
        TraceError: they are not known while tracing.
    """
    try:
        return x.detach().numpy()
    except TraceError as error:
        raise TraceError(
            "the size of the result is not known while tracing",
            op=op,
            expected="values that are known, or size=",
            found=f"a traced {x.aval}",
            hint=f"say how many elements there are: {op}(..., size=n, fill_value=...)",
        ) from error


def _placed(array: _Array, like: Tensor) -> Tensor:
    result: Tensor = like._as_operand(np.asarray(array))
    return result


# ---- nonzero and masks -------------------------------------------------------------------------------------------


def nonzero(x: Tensor, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """The indices (i64) of the elements that are not 0, one vector for each dim; see the module for ``size``.

    Raises:
        TraceError: while tracing without ``size``. ShapeError: a 0-d array.
    """
    if size is None:
        return tuple(_placed(index, x) for index in np.nonzero(known_values("nonzero", x)))
    place, valid = _first_true(x.bool().reshape((x.size,)), size)
    found: list[Tensor] = []
    for length in reversed(x.shape):
        extent = place.size_of(length)
        found.append(valid.where(place % extent, fill_value))
        place = place // extent
    return tuple(reversed(found))


def argwhere(x: Tensor, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The indices (i64) of the elements that are not 0, one row for each; see the module for ``size``."""
    if size is None:
        return _placed(np.argwhere(known_values("argwhere", x)), x)
    return stack(nonzero(x, size, fill_value), 1)


def flatnonzero(x: Tensor, size: int | None = None, fill_value: int = 0) -> Tensor:
    """`nonzero` of all elements in one dim."""
    return nonzero(x.reshape((x.size,)), size, fill_value)[0]


def masked_select(x: Tensor, mask: Tensor, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """The elements where the mask holds, in one dim; the two broadcast. Derivatives flow. See the module for ``size``.

    Raises:
        TraceError: while tracing without ``size``.
    """
    chosen = mask.bool()
    shape = (x.one("select", chosen, x, x)).shape
    flat, where = x.broadcast_to(shape).reshape((-1,)), chosen.broadcast_to(shape).reshape((-1,))
    if size is None:
        return flat.take(_placed(np.flatnonzero(known_values("masked_select", where)), x), 0)
    place, valid = _first_true(where, size)
    return masked_fill(flat.take(place, 0), ~valid, fill_value)


def compress(condition: Tensor, x: Tensor, axis: int = 0) -> Tensor:
    """The slices along an axis where a vector of bools holds."""
    return x.take(flatnonzero(condition), axis)


def _first_true(mask: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Positions of the first ``size`` elements that hold, 0 where there are fewer, and which of them there are."""
    order = sort_with_indices(~mask, 0)[1]
    count = mask.astype(dtypes.i64).sum()
    total = mask.shape[0]
    if isinstance(total, int) and total < size:
        order = order.pad((0,), (size - total,))
    valid = arange_like(mask, size) < count
    return valid.where(narrow(order, 0, 0, size), 0), valid


# ---- distinct values ---------------------------------------------------------------------------------------------


def unique_all(x: Tensor, size: int | None = None, fill_value: Any = 0) -> UniqueAll:
    """Distinct values in order, the index of the first of each in x as one dim, where in them each element is, counts.

    Each NaN is distinct; of 0.0 and -0.0 the first counts. No derivative flows. See the module for ``size``.

    Raises:
        TraceError: while tracing without ``size``.
    """
    value = x.detach()
    if size is None:
        found = _host_unique(known_values("unique_all", value))
        return UniqueAll(*(_placed(part, value) for part in found))
    ordered, order = sort_with_indices(value.reshape((value.size,)), 0)
    first = run_starts(ordered, 0)
    number = first.astype(dtypes.i64).cumsum(0) - 1
    start, valid = _first_true(first, size)
    counts = narrow(counts_of(number.minimum(size), size + 1), 0, 0, size)
    inverse = number.take(sort_with_indices(order, 0)[1], 0).reshape(value.shape)
    values = valid.where(ordered.take(start, 0), fill_value).astype(value.dtype)
    return UniqueAll(stop_gradient(values), valid.where(order.take(start, 0), 0), inverse, counts)


def _host_unique(array: _Array) -> tuple[_Array, ...]:
    """`unique_all` in NumPy, whose own sort is not stable for the types of ml_dtypes."""
    flat = array.reshape(-1)
    keys = flat.astype(np.float32) if dtypes.as_dtype(array.dtype) is dtypes.bf16 else flat
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(flat.shape, np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    number = np.cumsum(first) - 1
    inverse = np.empty(flat.shape, np.int64)
    inverse[order] = number
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, flat.size))
    indices = order[starts].astype(np.int64)
    return flat[indices], indices, inverse.reshape(array.shape), counts.astype(np.int64)


def unique_counts(x: Tensor, size: int | None = None, fill_value: Any = 0) -> UniqueCounts:
    """Distinct values in order, and how often each occurs; see `unique_all`."""
    found = unique_all(x, size, fill_value)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, size: int | None = None, fill_value: Any = 0) -> UniqueInverse:
    """Distinct values in order, and where in them each element is; see `unique_all`."""
    found = unique_all(x, size, fill_value)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """Distinct values in order; see `unique_all`."""
    return unique_all(x, size, fill_value).values


unique = unique_values


def isin(x: Tensor, values: Tensor) -> Tensor:
    """Whether each element is one of the values."""
    return (x.expand_dims(-1) == values.reshape((values.size,))).any(-1)


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0, size: int | None = None) -> Tensor:
    """How often each of the integers 0, 1, .. is in a vector (i64), or the sums of its weights.

    Args:
        minlength: at least that many counts.
        size: exactly that many counts; without it the largest integer is read.

    Raises:
        DTypeError: not integers. TraceError: while tracing without ``size``.
        IndexRangeError: a negative integer, or one of ``size`` and more; raised when the result is read.
    """
    if size is None:
        largest = int(known_values("bincount", x.max()).item()) if x.size != 0 else -1
        size = max(largest + 1, minlength)
    return counts_of(x, size, weights)
