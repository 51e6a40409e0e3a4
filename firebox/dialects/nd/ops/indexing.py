"""Ops that read and write where integer arrays say. Indices are not wrapped here: a negative one is out of range."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Read, broadcast_read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import INT as INTEGERS
from firebox.dialects.nd.ops.common import (
    NUMBER,
    Arrays,
    Grads,
    batch_size,
    broadcast_shapes,
    check_axes,
    check_dtype,
    check_same_dtype,
    computed,
    same_rank,
    shape_text,
    short_name,
    spread,
)
from firebox.dialects.nd.params import INT
from firebox.dims import DimLike, dim
from firebox.errors import ONE_OF_SEVERAL, ShapeError, index_error


def check_range(cls: type[NdOp], indices: Array, size: int) -> None:
    """Refuse indices outside ``[0, size)``.

    Raises:
        IndexRangeError: names the op and the first such index.
    """
    bad = indices[(indices < 0) | (indices >= size)]
    if bad.size:
        raise index_error(short_name(cls), int(bad.flat[0]), size)


@register
class Gather(NdOp):
    """``out[pre, j.., post] = x[pre, indices[j..], post]`` with the indices along ``axis``.

    In the formula an index out of range reads as 0 and is guarded; generated code reports it.
    """

    name = "nd.gather"
    kind = Kind.MAP
    arity = 2
    checks_indices = True
    params = {"axis": INT}

    @classmethod
    def infer(cls, x: Aval, indices: Aval, axis: int) -> Aval:
        check_dtype(cls, indices, INTEGERS)
        check_axes(cls, (axis,), len(x.shape))
        return Aval(x.dtype, taken_shape(x.shape, indices.shape, axis))

    @classmethod
    def evaluate(cls, x: Array, indices: Array, axis: int) -> Array:
        check_range(cls, indices, x.shape[axis])
        return np.asarray(np.take(x, indices.astype(np.int64), axis))

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int) -> Formula:
        x, indices = avals
        loops = loop_names("i", results[0].rank)
        end = axis + indices.rank
        picked = Read(1, loops[axis:end])
        at = dim("v0")
        row = Read(0, (*loops[:axis], at, *loops[end:]), (Guard(at, x.shape[axis]),))
        return Formula(results[0].shape, (picked, row), lambda s, index, value: value)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        x, indices = operands
        zeros = cts[0].literal(0).broadcast_to(x.shape)
        return [zeros.scatter_add(indices, cts[0], axis), None]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int) -> ArrayLike:
        x, indices = operands
        if not batched[1]:
            return x.take(indices, axis + 1)
        if not batched[0]:
            return _moved(x.take(indices, axis), axis, 0)
        rows = _rows(x, axis + 1)
        taken: ArrayLike = rows.take(batched_rows(indices, x.shape[axis + 1]), 0)
        return _runs_swapped(taken, indices.rank - 1, axis)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, axis, picks in (((5,), 0, (3,)), ((2, 4, 3), 1, (2, 2)), ((3, 2), 1, ()), ((2, 3), 0, (0,))):
                for kind in (dtypes.i64, dtypes.i32, dtypes.u8):
                    indices = cases.values(rng, kind, picks, (0.0, shape[axis] - 1.0))
                    yield Sample((cases.values(rng, dtype, shape), indices), {"axis": axis})


def taken_shape(shape: Shape, indices: Shape, axis: int) -> Shape:
    """The shape of rows picked along an axis."""
    return (*shape[:axis], *indices, *shape[axis + 1 :])


def _moved(x: ArrayLike, source: int, target: int) -> ArrayLike:
    """A dim moved to another place."""
    order = [k for k in range(x.rank) if k != source]
    order.insert(target, source)
    return x.transpose(tuple(order))


def _rows(x: ArrayLike, axis: int) -> ArrayLike:
    """The batch axis 0 and the indexed ``axis`` merged in front."""
    moved = _moved(x, axis, 1)
    return moved.reshape((moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def _runs_swapped(x: ArrayLike, first: int, second: int) -> ArrayLike:
    """After the batch axis, the next ``first`` dims exchanged with the ``second`` dims that follow them."""
    middle, end = 1 + first, 1 + first + second
    return x.transpose((0, *range(middle, end), *range(1, middle), *range(end, x.rank)))


def batched_rows(indices: ArrayLike, size: DimLike) -> ArrayLike:
    """Indices per batch entry as indices of the merged rows; those out of range stay so."""
    wide = indices.astype(dtypes.i64)
    lead = (indices.shape[0], *(1,) * (indices.rank - 1))
    offset = wide.one("iota", shape=lead, axis=0, dtype=dtypes.i64) * amount(wide, size)
    inside: ArrayLike = (wide >= 0) & (wide < amount(wide, size))
    return inside.where(wide + offset, ONE_OF_SEVERAL)


def amount(x: ArrayLike, size: DimLike) -> Any:
    """A dim as an operand beside an i64 array."""
    return size if isinstance(size, int) else x.size_of(size)


@register
class TakeAlongAxis(NdOp):
    """``out[.., j, ..] = x[.., indices[.., j, ..], ..]`` along ``axis``; the other dims broadcast."""

    name = "nd.take_along_axis"
    kind = Kind.MAP
    arity = 2
    checks_indices = True
    params = {"axis": INT}

    @classmethod
    def infer(cls, x: Aval, indices: Aval, axis: int) -> Aval:
        check_dtype(cls, indices, INTEGERS)
        check_axes(cls, (axis,), len(x.shape))
        if len(indices.shape) != len(x.shape):
            expected = f"{len(x.shape)} dims, as in {shape_text(x.shape)}"
            raise ShapeError("ranks differ", op="take_along_axis", expected=expected, found=shape_text(indices.shape))
        others = broadcast_shapes(cls, _without(x.shape, axis), _without(indices.shape, axis))
        return Aval(x.dtype, (*others[:axis], indices.shape[axis], *others[axis + 1 :]))

    @classmethod
    def evaluate(cls, x: Array, indices: Array, axis: int) -> Array:
        check_range(cls, indices, x.shape[axis])
        others = np.broadcast_shapes(_without(x.shape, axis), _without(indices.shape, axis))
        full_x = np.broadcast_to(x, (*others[:axis], x.shape[axis], *others[axis + 1 :]))
        full = np.broadcast_to(indices, (*others[:axis], indices.shape[axis], *others[axis + 1 :]))
        return np.take_along_axis(full_x, full.astype(np.int64), axis)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int) -> Formula:
        x, indices = avals
        picked = broadcast_read(1, indices.shape, results[0].shape)
        at = dim("v0")
        index = list(broadcast_read(0, x.shape, results[0].shape).index)
        index[axis] = at
        row = Read(0, tuple(index), (Guard(at, x.shape[axis]),))
        return Formula(results[0].shape, (picked, row), lambda s, position, value: value)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        x, indices = operands
        if indices.shape[axis] == 1:  # one pick per row, as in a loss: element-wise, so that it fuses with its row
            places = x.one("iota", shape=(x.shape[axis], *(1,) * (x.rank - 1 - axis)), axis=0, dtype=indices.dtype)
            return [(places == indices).where(cts[0], 0), None]
        full = indices.broadcast_to(cts[0].shape)
        return [scatter_along_axis(cts[0], full, axis, x.shape[axis]), None]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int) -> ArrayLike:
        x, indices = (same_rank(o, b) for o, b in zip(operands, batched, strict=True))
        return x.take_along_axis(indices, axis + 1)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, picks, axis in (
                ((5,), (3,), 0),
                ((2, 4, 3), (2, 2, 3), 1),
                ((2, 4), (1, 3), 1),
                ((1, 4), (3, 2), 1),
                ((3, 2), (0, 2), 0),
            ):
                indices = cases.values(rng, dtypes.i64, picks, (0.0, shape[axis] - 1.0))
                yield Sample((cases.values(rng, dtype, shape), indices), {"axis": axis})


def _without(shape: Any, axis: int) -> Any:
    """The shape with size 1 at the axis."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def scatter_along_axis(x: ArrayLike, indices: ArrayLike, axis: int, size: DimLike) -> ArrayLike:
    """The transpose of `TakeAlongAxis`: x summed into zeros at ``indices`` (of x's shape) along an axis of ``size``."""
    outer, inner = dims.product(x.shape[:axis]), dims.product(x.shape[axis + 1 :])
    three = (outer, x.shape[axis], inner)
    wide = indices.astype(dtypes.i64).reshape(three)
    lead, trail = (
        wide.one("iota", shape=s, axis=k, dtype=dtypes.i64) for s, k in (((outer, 1, 1), 0), ((1, 1, inner), 2))
    )
    position = (lead * amount(wide, size) + wide) * amount(wide, inner) + trail
    zeros = x.literal(0).broadcast_to((outer * size * inner,))
    total: ArrayLike = zeros.scatter_add(position.reshape((position.size,)), x.reshape((x.size,)), 0)
    return total.reshape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


@register
class ScatterAdd(NdOp):
    """x with ``updates[pre, j.., post]`` added to ``x[pre, indices[j..], post]``: the transpose of `Gather`.

    Sums run in the order of the indices, so the result is the same every time; f16 and bf16 add up in f32.
    """

    name = "nd.scatter_add"
    kind = Kind.OPAQUE
    arity = 3
    splats = (0,)
    checks_indices = True
    params = {"axis": INT}

    @classmethod
    def infer(cls, x: Aval, indices: Aval, updates: Aval, axis: int) -> Aval:
        check_dtype(cls, x, NUMBER)
        check_dtype(cls, indices, INTEGERS)
        check_same_dtype(cls, x, updates)
        check_axes(cls, (axis,), len(x.shape))
        expected = taken_shape(x.shape, indices.shape, axis)
        if updates.shape != expected:
            raise ShapeError(
                "unfit updates", op="scatter_add", expected=shape_text(expected), found=shape_text(updates.shape)
            )
        return x

    @classmethod
    def evaluate(cls, x: Array, indices: Array, updates: Array, axis: int) -> Array:
        check_range(cls, indices, x.shape[axis])
        where: Any = (*(slice(None),) * axis, indices.astype(np.int64))

        def add(base: Array, values: Array) -> Array:
            total = base.copy()
            np.add.at(total, where, values)
            return total

        result: Array = computed(add, x, updates)
        return result

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        return [cts[0], None, cts[0].take(operands[1], axis)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int) -> ArrayLike:
        size = batch_size(operands, batched)
        x, updates = spread(operands[0], batched[0], size), spread(operands[2], batched[2], size)
        indices = operands[1]
        if not batched[1]:
            return x.scatter_add(indices, updates, axis + 1)
        rows = _rows(x, axis + 1)
        picked = batched_rows(indices, x.shape[axis + 1])
        total = rows.scatter_add(picked, _runs_swapped(updates, axis, indices.rank - 1), 0)
        moved = total.reshape((size, x.shape[axis + 1], *total.shape[1:]))
        return _moved(moved, 1, axis + 1)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(NUMBER):
            for shape, axis, picks in (((5,), 0, (7,)), ((2, 4, 3), 1, (2, 2)), ((3, 2), 1, ()), ((2, 3), 0, (0,))):
                indices = cases.values(rng, dtypes.i64, picks, (0.0, shape[axis] - 1.0))
                updates = cases.values(rng, dtype, (*shape[:axis], *picks, *shape[axis + 1 :]))
                yield Sample((cases.values(rng, dtype, shape), indices, updates), {"axis": axis})
