"""`embedding_bag`: sums, means or maxima of bags of rows of a table."""

import math
from typing import Literal, get_args

from firebox.dtypes import i64
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.shape import embedding, is_padding
from firebox.frontend.functions.support import (
    A,
    arange_like,
    require_int,
    require_same_shape,
    shape_text,
)

BagMode = Literal["sum", "mean", "max"]
_OP = "embedding_bag"


def embedding_bag(
    indices: A,
    weight: A,
    offsets: A | None = None,
    mode: BagMode = "mean",
    per_sample_weights: A | None = None,
    padding_idx: int | None = None,
) -> A:
    """The sum, mean or maximum of the rows of ``weight`` in each bag: (bags, features); 0 for an empty bag.

    Args:
        indices: (bags, elements); or (elements,) of all bags one after the other, with ``offsets``.
        offsets: (bags,), where each bag starts; the first does at 0.
        per_sample_weights: a factor for each element, of the shape of ``indices``; in mode ``"sum"`` only.
        padding_idx: elements of this value are no part of their bag; a negative one counts rows from the end.

    Raises:
        ShapeError: shapes that do not fit. DTypeError: indices that are no integers.
        UserError: no such mode, or one that does not go with the other arguments.
    """
    _check(indices, weight, offsets, mode, per_sample_weights)
    rows = embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.astype(weight.dtype).expand_dims(-1)
    counted = None if padding_idx is None else ~is_padding(indices, weight, padding_idx).expand_dims(-1)
    if mode == "max":
        return _largest(rows, counted)
    rows = rows if counted is None else counted.where(rows, 0.0)
    ones = rows.literal(1) if counted is None else counted.astype(rows.dtype)
    ones = ones.broadcast_to((*indices.shape, 1))
    total, count = _added(rows, offsets), _added(ones, offsets)
    return total if mode == "sum" else total / count.maximum(1.0)


def _check(indices: A, weight: A, offsets: A | None, mode: str, factors: A | None) -> None:
    if mode not in get_args(BagMode):
        expected = ", ".join(map(repr, get_args(BagMode)))
        raise UserError("no such mode", op=_OP, expected=expected, found=repr(mode))
    require_int(_OP, indices, "indices")
    if weight.rank != 2 or indices.rank != (2 if offsets is None else 1):
        expected = "(bags, elements) without offsets, or (elements,) with them; a weight (rows, features)"
        found = f"{shape_text(indices)} and a weight {shape_text(weight)}"
        raise ShapeError("wrong number of dims", op=_OP, expected=expected, found=found)
    if offsets is not None:
        require_int(_OP, offsets, "offsets")
        if mode == "max":
            hint = "give the bags as rows of a matrix, padded with padding_idx"
            raise UserError("mode 'max' takes no offsets", op=_OP, found=f"offsets {shape_text(offsets)}", hint=hint)
    if factors is not None:
        require_same_shape(_OP, indices, factors)
        if mode != "sum":
            raise UserError("per_sample_weights go with mode 'sum' only", op=_OP, found=repr(mode))


def _largest(rows: A, counted: A | None) -> A:
    """The maximum over axis 1 of what counts."""
    if counted is None:
        return rows.max(1)
    some = counted.any(1)
    return some.where(counted.where(rows, -math.inf).max(1), 0.0)


def _added(rows: A, offsets: A | None) -> A:
    """The sum of each bag."""
    if offsets is None:
        return rows.sum(1)
    place = arange_like(rows, rows.shape[0], i64).expand_dims(1)
    bag = (place >= offsets.astype(i64)).sum(1) - 1
    return rows.literal(0).broadcast_to((offsets.shape[0], rows.shape[1])).scatter_add(bag, rows, 0)
