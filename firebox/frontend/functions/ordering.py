"""Order statistics and searching in sorted arrays."""

import math
from collections.abc import Sequence

from firebox import dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.dialects.nd.base import lookup
from firebox.errors import IndexRangeError, ShapeError, UserError
from firebox.frontend.functions.shape import narrow, sort, stack, topk
from firebox.frontend.functions.support import A, as_float, equals, positions, promote, require_rank, static_size

METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def argtopk(x: A, k: int, axis: int = -1, largest: bool = True) -> A:
    """Indices (i64) of the ``k`` largest (or smallest) elements along an axis, in order."""
    return topk(x, k, axis, largest)[1]


def kthvalue(x: A, k: int, axis: int = -1, keepdims: bool = False) -> tuple[A, A]:
    """The k-th smallest element along an axis, counted from 1, and its index (i64); NaN counts as largest.

    Raises:
        IndexRangeError: ``k`` is not between 1 and the size of the axis.
    """
    at = normalize_axis(axis, x.rank)
    size = x.shape[at]
    if k < 1 or (isinstance(size, int) and k > size):
        raise IndexRangeError("bad k", op="kthvalue", expected=f"1 to {size}", found=k)
    values, indices = (narrow(v, at, k - 1, k) for v in topk(x, k, at, largest=False))
    return (values, indices) if keepdims else (values.squeeze(at), indices.squeeze(at))


def quantile(
    x: A, q: float | Sequence[float], axis: int | None = None, keepdims: bool = False, method: str = "linear"
) -> A:
    """The values below which shares ``q`` of the elements lie; several q make a new leading dim. NaN if any is NaN.

    Args:
        axis: None is all elements.
        method: how to choose between two neighbours, as in NumPy: linear, lower, higher, nearest or midpoint.

    Raises:
        UserError: a share outside of [0, 1], or another method. ShapeError: no elements, or a symbolic size.
    """
    if method not in METHODS:
        raise UserError("no such method", op="quantile", expected=" or ".join(METHODS), found=repr(method))
    x = as_float(x)
    if axis is None:
        result = quantile(x.reshape((x.size,)), q, 0, False, method)
        return result.reshape((*result.shape, *(1,) * x.rank)) if keepdims else result
    at = normalize_axis(axis, x.rank)
    size = static_size("quantile", x, at)
    if size == 0:
        raise ShapeError("nothing has no quantile", op="quantile", expected="at least one element", found=x.aval)
    ordered = sort(x, at)
    last = narrow(ordered, at, size - 1, size)
    shares = [float(share) for share in q] if isinstance(q, Sequence) else [float(q)]
    picked = [_between(ordered, at, share, size, method) for share in shares]
    found = [last.isnan().where(last, value) for value in picked]
    found = found if keepdims else [value.squeeze(at) for value in found]
    return stack(found, 0) if isinstance(q, Sequence) else found[0]


def _between(ordered: A, axis: int, share: float, size: int, method: str) -> A:
    """The element at a share of the way through, between two neighbours if need be."""
    if not 0.0 <= share <= 1.0:
        raise UserError("not a share", op="quantile", expected="0 to 1", found=share)
    place = share * (size - 1)
    low, high = math.floor(place), math.ceil(place)
    near = round(place) - low
    weight = {"linear": place - low, "lower": 0.0, "higher": 1.0, "nearest": near, "midpoint": 0.5}[method]
    if weight in (0.0, 1.0) or low == high:
        at = high if weight == 1.0 else low
        return narrow(ordered, axis, at, at + 1)
    below, above = narrow(ordered, axis, low, low + 1), narrow(ordered, axis, high, high + 1)
    return equals(below, above).where(below, below + (above - below) * weight)


def median(x: A, axis: int | None = None, keepdims: bool = False) -> A:
    """The middle element, or the mean of the two in the middle, as a float; NaN if any element is NaN."""
    return quantile(x, 0.5, axis, keepdims)


def mode(x: A, axis: int = -1, keepdims: bool = False) -> tuple[A, A]:
    """The most frequent element along an axis (the smallest of several), and how often it is there (i64)."""
    at = normalize_axis(axis, x.rank)
    size = static_size("mode", x, at)
    if size == 0:
        raise ShapeError("nothing has no mode", op="mode", expected="at least one element", found=x.aval)
    ordered = sort(x, at)
    place = positions(ordered, at)
    first = run_starts(ordered, at)
    begin = first.where(place, 0).cummax(at)
    lengths = place - begin + 1
    longest = lengths.argmax(at, keepdims=True)
    values, counts = ordered.take_along_axis(longest, at), lengths.take_along_axis(longest, at)
    return (values, counts) if keepdims else (values.squeeze(at), counts.squeeze(at))


def run_starts(ordered: A, axis: int) -> A:
    """Where an element of a sorted array differs from the one before it; NaN differs from NaN."""
    size = ordered.shape[axis]
    first = positions(ordered, axis).__eq__(0)
    if size == 0:
        return first.broadcast_to(ordered.shape)
    before = [0] * ordered.rank
    before[axis] = 1
    shifted = narrow(ordered, axis, 0, size - 1).pad(before, [0] * ordered.rank)
    return first | (ordered != shifted)


# ---- searching ---------------------------------------------------------------------------------------------------


def searchsorted(edges: A, x: A, side: str = "left", sorter: A | None = None) -> A:
    """Where to insert ``x`` into sorted ``edges`` so that they stay sorted (i64); NaN belongs at the end.

    A search by halving: about log2(edges) steps, each of which looks up one edge for every element.

    Args:
        side: ``left`` gives the first such place, ``right`` the last.
        sorter: indices that sort the edges.

    Raises:
        ShapeError: edges that are not 1-D, or of symbolic size. UserError: another side.
    """
    if side not in ("left", "right"):
        raise UserError("no such side", op="searchsorted", expected="left or right", found=repr(side))
    require_rank("searchsorted", edges, 1, "sorted values")
    edges = edges if sorter is None else edges.take(sorter, 0)
    edges, x = promote("searchsorted", edges, x)
    count = static_size("searchsorted", edges, 0)
    found = x.literal(0, dtypes.i64).broadcast_to(x.shape)
    step = 1 << (count.bit_length() - 1) if count else 0
    while step:
        further = found + step
        edge = edges.take((further - 1).minimum(count - 1), 0)
        goes = (further <= count) & (_before(edge, x) if side == "left" else ~_before(x, edge))
        found = goes.where(further, found)
        step >>= 1
    return found


def _before(a: A, b: A) -> A:
    """a < b, with NaN after all numbers."""
    return (a < b) | (b.isnan() & ~a.isnan())


def bucketize(x: A, boundaries: A, right: bool = False) -> A:
    """The index (i64) of the bucket of each element: between which of the sorted boundaries it lies.

    Args:
        right: whether a boundary belongs to the bucket above it (PyTorch's meaning).
    """
    return searchsorted(boundaries, x, "right" if right else "left")


def sort_with_indices(x: A, axis: int = -1, descending: bool = False) -> tuple[A, A]:
    """Sorted along an axis, and where the elements came from (i64)."""
    params = {"axis": normalize_axis(axis, x.rank), "descending": descending}
    values, indices = x.apply(lookup("nd.sort"), (x,), params)
    return values, indices


def max_with_indices(x: A, axis: int = -1, keepdims: bool = False) -> tuple[A, A]:
    """The largest element along an axis and its index (i64), the first of several; NaN wins. One gets the gradient."""
    return _with_indices(x, x.argmax(axis, keepdims=True), axis, keepdims)


def min_with_indices(x: A, axis: int = -1, keepdims: bool = False) -> tuple[A, A]:
    """The smallest element along an axis and its index (i64), the first of several; NaN wins. One gets the gradient."""
    return _with_indices(x, x.argmin(axis, keepdims=True), axis, keepdims)


def _with_indices(x: A, index: A, axis: int, keepdims: bool) -> tuple[A, A]:
    value = x.take_along_axis(index, axis)
    return (value, index) if keepdims else (value.squeeze(axis), index.squeeze(axis))
