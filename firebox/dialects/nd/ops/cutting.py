"""Ops that take arrays apart and put them together: slice, pad, concat."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    Arrays,
    Grads,
    batch_size,
    check_axes,
    check_count,
    check_same_dtype,
    shape_text,
    short_name,
    spread,
    static_shape,
)
from firebox.dialects.nd.ops.movement import Ints, Movement, same
from firebox.dialects.nd.params import DIMS, INT, INTS, LITERAL, Literal
from firebox.dims import DimLike
from firebox.errors import DTypeError, ShapeError


@register
class Slice(Movement):
    """``x[start:stop:step]`` in each dim, with 0 <= start <= stop <= size and step > 0."""

    name = "nd.slice"
    params = {"start": DIMS, "stop": DIMS, "step": INTS}

    @classmethod
    def infer(cls, x: Aval, start: Shape, stop: Shape, step: Ints) -> Aval:
        return Aval(x.dtype, _sliced(x.shape, start, stop, step))

    @classmethod
    def needs(cls, avals: Sequence[Aval], start: Shape, stop: Shape, step: Ints) -> Sequence[DimLike]:
        return [d for a, b, size in zip(start, stop, avals[0].shape, strict=True) for d in (a, size - b)]

    @classmethod
    def evaluate(cls, x: Array, start: Shape, stop: Shape, step: Ints) -> Array:
        _sliced(x.shape, start, stop, step)  # NumPy would cut bounds that are out of range
        bounds = zip(static_shape(start), static_shape(stop), step, strict=True)
        return x[tuple(slice(*entries) for entries in bounds)]

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], start: Shape, stop: Shape, step: Ints) -> Formula:
        loops = loop_names("i", avals[0].rank)
        index = tuple(dims.multiply(i, s) + first for i, first, s in zip(loops, start, step, strict=True))
        return Formula(results[0].shape, (Read(0, index),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, start: Shape, stop: Shape, step: Ints) -> Grads:
        ct, x = cts[0], operands[0]
        for axis, stride in enumerate(step):
            if stride > 1:
                ct = _spaced(ct, axis, stride)
        ends = [first + size for first, size in zip(start, ct.shape, strict=True)]
        return [ct.pad(start, tuple(size - end for size, end in zip(x.shape, ends, strict=True)))]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], start: Shape, stop: Shape, step: Ints) -> ArrayLike:
        return operands[0].slice((0, *start), (operands[0].shape[0], *stop), (1, *step))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, start, stop, step in (
                ((), (), (), ()),
                ((7,), (2,), (6,), (1,)),
                ((7, 4), (1, 0), (7, 4), (3, 2)),
                ((5, 3), (2, 1), (2, 3), (1, 1)),
                ((5,), (5,), (5,), (2,)),
                ((6,), (0,), (6,), (7,)),
            ):
                yield Sample((cases.values(rng, dtype, shape),), {"start": start, "stop": stop, "step": step})


@lru_cache(maxsize=16384)
def _sliced(shape: Shape, start: Shape, stop: Shape, step: Ints) -> Shape:
    for what, entries in (("start", start), ("stop", stop), ("step", step)):
        check_count(Slice, what, entries, len(shape))
    for axis, bounds in enumerate(zip(start, stop, shape, step, strict=True)):
        _check_bounds(axis, *bounds)
    return tuple(_steps(*bounds) for bounds in zip(start, stop, step, strict=True))


def _check_bounds(axis: int, start: DimLike, stop: DimLike, size: DimLike, step: int) -> None:
    numbers = [d for d in (start, stop, size) if isinstance(d, int)]
    ordered = numbers == sorted(numbers) and all(d >= 0 for d in numbers)
    if not ordered or step < 1:
        found = f"start {start}, stop {stop}, size {size}, step {step}"
        expected = "0 <= start <= stop <= size, step > 0"
        raise ShapeError(f"bad bounds at axis {axis}", op="slice", expected=expected, found=found)


def _steps(start: DimLike, stop: DimLike, step: int) -> DimLike:
    return stop - start if step == 1 else dims.ceildiv(stop - start, step)


def _spaced(x: ArrayLike, axis: int, stride: int) -> ArrayLike:
    """``stride - 1`` zeros between the elements along an axis."""
    if x.shape[axis] == 0:
        return x
    split = x.expand_dims(axis + 1)
    filled = split.pad((0,) * split.rank, tuple(stride - 1 if k == axis + 1 else 0 for k in range(split.rank)))
    merged = filled.reshape((*x.shape[:axis], x.shape[axis] * stride, *x.shape[axis + 1 :]))
    last = (x.shape[axis] - 1) * stride + 1
    return merged.slice((0,) * x.rank, tuple(last if k == axis else d for k, d in enumerate(merged.shape)))


@register
class Pad(Movement):
    """Surrounded with ``value``: ``low``/``high`` elements before and after in each dim."""

    name = "nd.pad"
    params = {"low": DIMS, "high": DIMS, "value": LITERAL}

    @classmethod
    def infer(cls, x: Aval, low: Shape, high: Shape, value: Literal) -> Aval:
        for what, entries in (("low", low), ("high", high)):
            check_count(cls, what, entries, len(x.shape))
            if any(isinstance(d, int) and d < 0 for d in entries):
                raise ShapeError(
                    f"negative padding in '{what}'", op="pad", expected=">= 0", found=entries, hint="slice"
                )
        check_fill(cls, x, value)
        return Aval(x.dtype, tuple(a + d + b for a, d, b in zip(low, x.shape, high, strict=True)))

    @classmethod
    def needs(cls, avals: Sequence[Aval], low: Shape, high: Shape, value: Literal) -> Sequence[DimLike]:
        return (*low, *high)

    @classmethod
    def evaluate(cls, x: Array, low: Shape, high: Shape, value: Literal) -> Array:
        before, after = static_shape(low), static_shape(high)
        result = np.full([a + d + b for a, d, b in zip(before, x.shape, after, strict=True)], value.array(), x.dtype)
        result[tuple(slice(a, a + d) for a, d in zip(before, x.shape, strict=True))] = x
        return result

    @classmethod
    def formula(
        cls, avals: Sequence[Aval], results: Sequence[Aval], low: Shape, high: Shape, value: Literal
    ) -> Formula:
        x = avals[0]
        index = tuple(i - a for i, a in zip(loop_names("i", x.rank), low, strict=True))
        padded = [a != 0 or b != 0 for a, b in zip(low, high, strict=True)]
        guards = tuple(Guard(e, d) for e, d, is_padded in zip(index, x.shape, padded, strict=True) if is_padded)
        return Formula(results[0].shape, (Read(0, index, guards, value.array().item()),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, low: Shape, high: Shape, value: Literal) -> Grads:
        return [cts[0].slice(low, tuple(a + d for a, d in zip(low, operands[0].shape, strict=True)))]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], low: Shape, high: Shape, value: Literal) -> ArrayLike:
        x = operands[0]
        return x.apply(cls, operands, {"low": (0, *low), "high": (0, *high), "value": value})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, low, high, value in (
                ((), (), (), 0),
                ((3,), (2,), (1,), 1),
                ((2, 3), (0, 1), (1, 0), 1),
                ((0, 2), (1, 0), (2, 0), 0),
            ):
                fill = Literal.of(np.asarray(value).astype(dtype.numpy))
                yield Sample((cases.values(rng, dtype, shape),), {"low": low, "high": high, "value": fill})
        fill = Literal.of(np.asarray(-np.inf, np.float32))
        yield Sample((cases.values(rng, dtypes.f32, (2,)),), {"low": (1,), "high": (0,), "value": fill})


def check_fill(cls: type[NdOp], x: Aval, value: Literal) -> None:
    """Refuse a fill value that is not a 0-d literal of the operand's type.

    Raises:
        DTypeError: names both types.
    """
    if value.dtype != x.dtype.name or value.shape != ():
        raise DTypeError("unfit fill value", op=short_name(cls), expected=f"a 0-d {x.dtype.name} literal", found=value)


@register
class Concat(Movement):
    """Arrays one after another along an axis."""

    name = "nd.concat"
    arity = None
    params = {"axis": INT}

    @classmethod
    def infer(cls, *avals: Aval, axis: int) -> Aval:
        if not avals:
            raise ShapeError("nothing to join", op="concat", expected="at least one array", found="none")
        first = avals[0]
        check_axes(cls, (axis,), len(first.shape))
        total: DimLike = 0
        for aval in avals:
            check_same_dtype(cls, first, aval)
            _check_joins(first.shape, aval.shape, axis)
            total = total + aval.shape[axis]
        return Aval(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))

    @classmethod
    def evaluate(cls, *arrays: Array, axis: int) -> Array:
        return np.concatenate(arrays, axis)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int) -> Formula:
        loops = loop_names("i", results[0].rank)
        ends: list[DimLike] = []
        reads = []
        for operand, aval in enumerate(avals):
            at = loops[axis] - (ends[-1] if ends else 0)
            index = (*loops[:axis], at, *loops[axis + 1 :])
            reads.append(Read(operand, index, (Guard(at, aval.shape[axis]),)))
            ends.append((ends[-1] if ends else 0) + aval.shape[axis])

        def scalar(s: Any, *values: Any) -> Any:
            result = values[-1]
            for value, end in reversed(list(zip(values[:-1], ends[:-1], strict=True))):
                result = s.select(s.lt(s.index(loops[axis]), s.index(end)), value, result)
            return result

        return Formula(results[0].shape, tuple(reads), scalar)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        ct = cts[0]
        at: DimLike = 0
        grads: list[ArrayLike | None] = []
        for operand in operands:
            end = at + operand.shape[axis]
            start = tuple(at if k == axis else 0 for k in range(ct.rank))
            grads.append(ct.slice(start, tuple(end if k == axis else d for k, d in enumerate(ct.shape))))
            at = end
        return grads

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int) -> ArrayLike:
        size = batch_size(operands, batched)
        joined = [spread(o, b, size) for o, b in zip(operands, batched, strict=True)]
        return operands[0].apply(cls, joined, {"axis": axis + 1})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shapes, axis in (
                (((3,),), 0),
                (((2,), (0,), (3,)), 0),
                (((2, 3), (2, 1), (2, 2)), 1),
                (((0, 2), (1, 2)), 0),
            ):
                yield Sample(tuple(cases.values(rng, dtype, shape) for shape in shapes), {"axis": axis})


def _check_joins(first: Shape, other: Shape, axis: int) -> None:
    if len(first) != len(other):
        raise ShapeError("arrays of different rank", op="concat", expected=shape_text(first), found=shape_text(other))
    for k, (a, b) in enumerate(zip(first, other, strict=True)):
        if k != axis and a != b:
            found = f"{shape_text(first)} and {shape_text(other)}"
            raise ShapeError(f"sizes differ at dim {k}", op="concat", expected=f"equal but at axis {axis}", found=found)
