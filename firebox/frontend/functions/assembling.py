"""Matrices put together from parts, arrays with a part replaced, and masks of triangles and diagonals."""

from collections.abc import Sequence
from typing import Any

from firebox import dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.errors import ShapeError, UserError
from firebox.frontend.creation import arange, meshgrid
from firebox.frontend.functions.matrices import diag_embed
from firebox.frontend.functions.shape import concat, stack
from firebox.frontend.functions.support import A, arange_like, equals, shape_text, static_size
from firebox.frontend.tensor import Tensor


def diagflat(x: A, offset: int = 0) -> A:
    """All elements as the diagonal of a matrix of zeros."""
    return diag_embed(x.reshape((x.size,)), offset)


def block_diag(*arrays: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one of zeros; vectors are rows.

    Raises:
        UserError: no arrays. ShapeError: one of more than two dims.
    """
    if not arrays:
        raise UserError("needs at least one array", op="block_diag", expected="matrices", found="none")
    for x in arrays:
        if x.rank > 2:
            raise ShapeError("takes matrices", op="block_diag", expected="two dims or fewer", found=shape_text(x))
    blocks = [x.reshape((1,) * (2 - x.rank) + x.shape) for x in arrays]
    width = sum(static_size("block_diag", b, 1) for b in blocks)
    rows, before = [], 0
    for block in blocks:
        columns = static_size("block_diag", block, 1)
        rows.append(block.pad((0, before), (0, width - before - columns)))
        before += columns
    return concat(rows, 0)


# ---- one part replaced -------------------------------------------------------------------------------------------


def _given(x: A, source: Any, shape: tuple[Any, ...]) -> A:
    """What replaces a part, in the type of x and the shape of the part."""
    value: Any = x.lift(source)
    result: A = value.astype(x.dtype).broadcast_to(shape)
    return result


def slice_scatter(x: A, source: Any, axis: int = 0, start: int = 0, stop: int | None = None, step: int = 1) -> A:
    """x with every ``step``-th of the slices from ``start`` to ``stop`` along an axis replaced by those of the source.

    Raises:
        UserError: a step below 1. ShapeError: a source that does not broadcast to that part.
    """
    if step < 1:
        raise UserError("not a step", op="slice_scatter", expected="1 or more", found=step)
    at = normalize_axis(axis, x.rank)
    size = static_size("slice_scatter", x, at)
    first, last, _ = slice(start, stop, step).indices(size)
    count = max(0, -(-(last - first) // step))
    given = _given(x, source, (*x.shape[:at], count, *x.shape[at + 1 :]))
    if count == 0:
        return x
    place = arange_like(x, size).reshape((-1, *(1,) * (x.rank - 1 - at)))
    offset = place - first
    chosen = (offset >= 0) & (offset < count * step) & equals(offset % step, 0)
    index = (offset // step).clip(0, count - 1).reshape((size,))
    return chosen.where(given.take(index, at), x)


def select_scatter(x: A, source: Any, axis: int, index: int) -> A:
    """x with one slice along an axis, which the source lacks, replaced.

    Raises:
        ShapeError: an index out of range, or a source that does not fit.
    """
    at = normalize_axis(axis, x.rank)
    size = static_size("select_scatter", x, at)
    if not -size <= index < size:
        raise ShapeError("no such slice", op="select_scatter", expected=f"{-size} to {size - 1}", found=index)
    given = _given(x, source, (*x.shape[:at], *x.shape[at + 1 :]))
    place = arange_like(x, size).reshape((-1, *(1,) * (x.rank - 1 - at)))
    return equals(place, index % size).where(given.expand_dims(at), x)


def slice_fill(x: A, value: Any, axis: int = 0, start: int = 0, stop: int | None = None, step: int = 1) -> A:
    """x with every ``step``-th of the slices from ``start`` to ``stop`` along an axis filled with one value."""
    return slice_scatter(x, value, axis, start, stop, step)


def diagonal_scatter(x: A, source: Any, offset: int = 0) -> A:
    """Matrices with a diagonal of the last two dims replaced; the source has it as its last dim."""
    if x.rank < 2:
        raise ShapeError("needs two dims", op="diagonal_scatter", expected="matrices", found=shape_text(x))
    rows, columns = (static_size("diagonal_scatter", x, k) for k in (-2, -1))
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    given = _given(x, source, (*x.shape[:-2], count))
    if count == 0:
        return x
    place = arange_like(x, rows).expand_dims(-1)
    index = (arange_like(x, columns) - max(offset, 0)).clip(0, count - 1)
    on = equals(arange_like(x, columns), place + offset)
    return on.where(given.take(index, -1).expand_dims(-2), x)


# ---- masks and grids ---------------------------------------------------------------------------------------------


def _places(op: str, shape: Sequence[int], device: object) -> tuple[Tensor, Tensor]:
    if len(shape) < 2:
        raise ShapeError("needs matrices", op=op, expected="two sizes or more", found=tuple(shape))
    return arange(shape[-2], device=device).expand_dims(-1), arange(shape[-1], device=device)


def tril_mask(shape: Sequence[int], offset: int = 0, device: object = None) -> Tensor:
    """False on and below a diagonal, True above: `masked_fill` with it keeps the lower triangle."""
    rows, columns = _places("tril_mask", shape, device)
    return (columns > rows + offset).broadcast_to(tuple(shape))


def triu_mask(shape: Sequence[int], offset: int = 0, device: object = None) -> Tensor:
    """False on and above a diagonal, True below: `masked_fill` with it keeps the upper triangle."""
    rows, columns = _places("triu_mask", shape, device)
    return (columns < rows + offset).broadcast_to(tuple(shape))


def diag_mask(shape: Sequence[int], offset: int = 0, device: object = None) -> Tensor:
    """False on a diagonal, True elsewhere: `masked_fill` with it keeps the diagonal."""
    rows, columns = _places("diag_mask", shape, device)
    return (columns != rows + offset).broadcast_to(tuple(shape))


def meshgrid_stack(*arrays: Tensor, axis: int = -1, indexing: str = "ij") -> Tensor:
    """`meshgrid` as one array, with the coordinates of a point along an axis."""
    return stack(meshgrid(*arrays, indexing=indexing), axis)


def cartesian_grid(shape: Sequence[int], device: object = None) -> Tensor:
    """The index (i64) of every element of a shape: (*shape, dims)."""
    if not shape:
        raise ShapeError("needs a shape", op="cartesian_grid", expected="one size or more", found=())
    return stack(meshgrid(*(arange(n, dtype=dtypes.i64, device=device) for n in shape), indexing="ij"), -1)
