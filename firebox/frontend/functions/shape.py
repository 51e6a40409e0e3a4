"""Joining, splitting, repeating, masking, ordering and looking up; values move, little is computed."""

from collections.abc import Sequence
from typing import Any, TypeVar

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike, Axes, normalize_axis
from firebox.dialects.nd.base import lookup
from firebox.dims import DimLike
from firebox.dtypes import as_dtype, result_type
from firebox.errors import DTypeError, IndexRangeError, ShapeError
from firebox.frontend.functions.support import (
    A,
    differ,
    equals,
    positions,
    require_int,
    shape_text,
    static_size,
    stop_gradient,
)

S = TypeVar("S", bound=ArrayLike)

# ---- joining -----------------------------------------------------------------------------------------------------


def concat(arrays: Sequence[A], axis: int = 0) -> A:
    """Arrays one after the other along an axis; their types are promoted.

    Raises:
        ShapeError: no arrays, or shapes that differ elsewhere.
    """
    if not arrays:
        raise ShapeError("needs at least one array", op="concat")
    first = arrays[0]
    at = normalize_axis(axis, first.rank)
    for position, array in enumerate(arrays):
        same_rank = array.rank == first.rank
        if not same_rank or any(k != at and differ(array.shape[k], d) for k, d in enumerate(first.shape)):
            expected = ", ".join("*" if k == at else str(d) for k, d in enumerate(first.shape))
            found = shape_text(array)
            raise ShapeError(f"array {position} does not fit", op="concat", expected=f"({expected})", found=found)
    dtype = first.dtype
    for array in arrays[1:]:
        dtype = result_type(dtype, array.dtype)
    cast = [a.astype(dtype) for a in arrays]
    return cast[0] if len(cast) == 1 else first.one("concat", *cast, axis=at)


def stack(arrays: Sequence[A], axis: int = 0) -> A:
    """Arrays of one shape along a new axis.

    Raises:
        ShapeError: no arrays, or shapes that differ.
    """
    if not arrays:
        raise ShapeError("needs at least one array", op="stack")
    for position, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise ShapeError(f"array {position} does not fit", op="stack", expected=arrays[0].shape, found=array.shape)
    at = normalize_axis(axis, arrays[0].rank + 1)
    return concat([a.expand_dims(at) for a in arrays], at)


# ---- splitting ---------------------------------------------------------------------------------------------------


def narrow(x: A, axis: int, start: DimLike, stop: DimLike) -> A:
    """``x[.., start:stop, ..]`` along one axis."""
    at = normalize_axis(axis, x.rank)
    low: list[DimLike] = [0] * x.rank
    high = list(x.shape)
    low[at], high[at] = start, stop
    return x.slice(low, high)


def split(x: A, size: int | Sequence[int], axis: int = 0) -> list[A]:
    """Pieces of ``size`` along an axis, the last one maybe smaller; or pieces of the given sizes.

    Raises:
        ShapeError: the sizes do not add up, or the axis is symbolic and ``size`` one integer.
    """
    at = normalize_axis(axis, x.rank)
    total = x.shape[at]
    if isinstance(size, int):
        whole = static_size("split", x, at)
        if size < 1:
            raise ShapeError("bad size", op="split", expected="at least 1", found=size)
        size = [min(size, whole - k) for k in range(0, whole, size)]
    if differ(sum(size), total):
        raise ShapeError("the sizes do not add up", op="split", expected=f"a sum of {total}", found=list(size))
    ends = [sum(size[: k + 1]) for k in range(len(size))]
    return [narrow(x, at, end - length, end) for end, length in zip(ends, size, strict=True)]


def chunk(x: A, chunks: int, axis: int = 0) -> list[A]:
    """At most ``chunks`` pieces of ceil(size / chunks) along an axis."""
    if chunks < 1:
        raise ShapeError("bad number of chunks", op="chunk", expected="at least 1", found=chunks)
    size = static_size("chunk", x, axis)
    return split(x, max(1, -(-size // chunks)), axis)


def unbind(x: A, axis: int = 0) -> list[A]:
    """The slices along an axis, without that axis."""
    return [piece.squeeze(axis) for piece in split(x, 1, axis)]


# ---- repeating and moving ----------------------------------------------------------------------------------------


def tile(x: A, repetitions: int | Sequence[int]) -> A:
    """The array laid out ``repetitions[k]`` times along each dim, or along the last one (NumPy's ``tile``)."""
    repetitions = (repetitions,) if isinstance(repetitions, int) else repetitions
    rank = max(x.rank, len(repetitions))
    counts = (1,) * (rank - len(repetitions)) + tuple(repetitions)
    shape = (1,) * (rank - x.rank) + x.shape
    if min(counts, default=0) < 0:
        raise ShapeError("bad repetitions", op="tile", expected="at least 0", found=list(repetitions))
    split_shape = tuple(d for size in shape for d in (1, size))
    wide = tuple(d for count, size in zip(counts, shape, strict=True) for d in (count, size))
    merged = tuple(dims.multiply(size, count) for count, size in zip(counts, shape, strict=True))
    return x.reshape(split_shape).broadcast_to(wide).reshape(merged)


def repeat(x: A, count: int, axis: int | None = None) -> A:
    """Each element ``count`` times in a row along an axis; None: of all elements in one dim (NumPy's ``repeat``)."""
    if axis is None:
        return repeat(x.reshape((x.size,)), count, 0)
    at = normalize_axis(axis, x.rank)
    if count < 0:
        raise ShapeError("bad count", op="repeat", expected="at least 0", found=count)
    wide = (*x.shape[: at + 1], count, *x.shape[at + 1 :])
    merged = (*x.shape[:at], dims.multiply(x.shape[at], count), *x.shape[at + 1 :])
    return x.expand_dims(at + 1).broadcast_to(wide).reshape(merged)


def roll(x: A, shift: int | Sequence[int], axis: Axes = None) -> A:
    """Elements moved by ``shift`` along an axis; those that fall off come in at the other end.

    Several axes take a shift each, or one for all; None moves through all elements as one dim.

    Raises:
        ShapeError: another number of shifts than of axes.
    """
    if axis is None:
        shifts = shift if isinstance(shift, Sequence) else (shift,)
        return roll(x.reshape((x.size,)), sum(shifts), 0).reshape(x.shape)
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    shifts = tuple(shift) if isinstance(shift, Sequence) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError("one shift for each axis", op="roll", expected=f"{len(axes)} shifts", found=shifts)
    for by, at in zip(shifts, axes, strict=True):
        x = _rolled(x, by, normalize_axis(at, x.rank))
    return x


def _rolled(x: A, shift: int, at: int) -> A:
    size = x.shape[at]
    by = dims.mod(shift, size) if size != 0 else 0
    if by == 0:
        return x
    return concat([narrow(x, at, size - by, size), narrow(x, at, 0, size - by)], at)


def flip(x: A, axis: Axes = None) -> A:
    """Reversed along the axes (None: all)."""
    return x.flip(axis)


def clip(x: A, low: Any = None, high: Any = None) -> A:
    """Values held between the bounds; None is no bound."""
    return x.clip(low, high)


# ---- masks -------------------------------------------------------------------------------------------------------


def where(condition: A, a: Any, b: Any) -> A:
    """``a`` where the condition holds, else ``b``; all broadcast."""
    return condition.where(a, b)


def triu(x: A, diagonal: int = 0) -> A:
    """The last two dims with zeros below the diagonal (``diagonal`` > 0 lies above the main one)."""
    _need_matrix("triu", x)
    return (positions(x, -1) >= positions(x, -2) + diagonal).where(x, 0)


def tril(x: A, diagonal: int = 0) -> A:
    """The last two dims with zeros above the diagonal."""
    _need_matrix("tril", x)
    return (positions(x, -1) <= positions(x, -2) + diagonal).where(x, 0)


def _need_matrix(op: str, x: A) -> None:
    if x.rank < 2:
        raise ShapeError("needs at least two dims", op=op, found=shape_text(x))


# ---- looking up --------------------------------------------------------------------------------------------------


def embedding(indices: A, weight: A, padding_idx: int | None = None) -> A:
    """Rows of ``weight`` (rows, features) picked by integers of any shape.

    Args:
        padding_idx: the row that gets no gradient; a negative one counts from the end.

    Raises:
        DTypeError: the indices are no integers. ShapeError: the weight is no matrix.
        IndexRangeError: an index was out of range; raised when the result is read.
    """
    require_int("embedding", indices, "indices")
    if weight.rank != 2:
        found = shape_text(weight)
        raise ShapeError("the weight must be a matrix", op="embedding", expected="(rows, features)", found=found)
    rows = weight.take(indices, 0)
    if padding_idx is None:
        return rows
    return is_padding(indices, weight, padding_idx).expand_dims(-1).where(stop_gradient(rows), rows)


def is_padding(indices: A, weight: A, padding_idx: int) -> A:
    """Where the indices are that row of ``weight``; a negative ``padding_idx`` counts from the end."""
    return equals(indices, padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx)


def one_hot(indices: A, num_classes: DimLike, dtype: object = dtypes.i64) -> A:
    """1 at the index and 0 elsewhere along a new last axis; an index out of range gives zeros."""
    require_int("one_hot", indices, "indices")
    wide = indices.expand_dims(-1)
    classes = indices.one("iota", shape=(num_classes,), axis=0, dtype=indices.dtype)
    return equals(wide, classes).astype(as_dtype(dtype))


# ---- ordering ----------------------------------------------------------------------------------------------------


def sort(x: A, axis: int = -1, descending: bool = False) -> A:
    """Sorted along an axis, NaN last in either direction."""
    return _sorted(x, axis, descending)[0]


def argsort(x: A, axis: int = -1, descending: bool = False) -> A:
    """Indices (i64) that sort along an axis; equal elements keep their order."""
    return _sorted(x, axis, descending)[1]


def topk(x: A, k: int, axis: int = -1, largest: bool = True) -> tuple[A, A]:
    """The ``k`` largest (or smallest) elements along an axis in order, and their indices (i64).

    Raises:
        IndexRangeError: ``k`` is not between 0 and the size of the axis.
    """
    at = normalize_axis(axis, x.rank)
    size = x.shape[at]
    if k < 0 or (isinstance(size, int) and k > size):
        raise IndexRangeError("bad k", op="topk", expected=f"0 to {size}", found=k)
    values, indices = _sorted(x, at, largest)
    return narrow(values, at, 0, k), narrow(indices, at, 0, k)


def _sorted(x: A, axis: int, descending: bool) -> tuple[A, A]:
    params = {"axis": normalize_axis(axis, x.rank), "descending": descending}
    values, indices = x.apply(lookup("nd.sort"), (x,), params)
    return values, indices


# ---- comparing ---------------------------------------------------------------------------------------------------


def isclose(a: A, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> A:
    """|a - b| <= atol + rtol * |b|, element by element; infinities are close to themselves."""
    other = a.lift(b)
    if not isinstance(other, type(a)):
        raise DTypeError("not an operand", op="isclose", expected="an array or a number", found=type(b).__name__)
    near = equals(a, other) | (((a - other).abs() <= other.abs() * rtol + atol) & other.isfinite())
    return near | (a.isnan() & other.isnan()) if equal_nan else near


def allclose(a: A, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> A:
    """Whether all elements are close, as a 0-d bool."""
    return isclose(a, b, rtol, atol, equal_nan).all()
