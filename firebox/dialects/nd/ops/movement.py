"""Ops that move elements without computing: reshape, transpose, broadcast, flip."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from firebox import dims
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Read, broadcast_read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    Arrays,
    Grads,
    check_axes,
    shape_text,
    static_shape,
)
from firebox.dialects.nd.params import DIMS, INTS
from firebox.dims import DimLike, dim
from firebox.errors import ShapeError

Ints = tuple[int, ...]


def same(s: Any, x: Any) -> Any:
    """The scalar part of a move."""
    return x


class Movement(NdOp):
    """A result element is an operand element."""

    kind = Kind.MAP
    arity: ClassVar[int | None] = 1
    movement = True

    @classmethod
    def cost(cls, avals: Sequence[Aval], results: Sequence[Aval], **params: Any) -> float:
        return 0.0


@register
class Reshape(Movement):
    """The same elements in row-major order under another shape."""

    name = "nd.reshape"
    kind = Kind.RESHAPE
    params = {"shape": DIMS}

    @classmethod
    def infer(cls, x: Aval, shape: Shape) -> Aval:
        if not _same_size(x.shape, shape):
            expected = f"{x.size} elements of {shape_text(x.shape)}"
            raise ShapeError(
                "the number of elements must stay", op="reshape", expected=expected, found=shape_text(shape)
            )
        return Aval(x.dtype, shape)

    @classmethod
    def evaluate(cls, x: Array, shape: Shape) -> Array:
        return np.ascontiguousarray(x).reshape(static_shape(shape))

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], shape: Shape) -> Formula:
        return Formula(shape, (Read(0, reshape_index(avals[0].shape, shape)),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, shape: Shape) -> Grads:
        return [cts[0].reshape(operands[0].shape)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], shape: Shape) -> ArrayLike:
        return operands[0].reshape((operands[0].shape[0], *shape))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for old, new in (
                ((), (1, 1)),
                ((6,), (2, 3)),
                ((2, 3, 4), (6, 4)),
                ((2, 3, 4), (2, 12)),
                ((6, 4), (3, 8)),
                ((4, 1, 6), (3, 1, 8, 1)),
                ((2, 0), (0, 5)),
                ((5, 2, 9), (5, 6, 3)),
            ):
                yield Sample((cases.values(rng, dtype, old),), {"shape": new})


@lru_cache(maxsize=16384)
def _same_size(a: Shape, b: Shape) -> bool:
    return dims.product(a) == dims.product(b)


@lru_cache(maxsize=4096)
def reshape_index(old: Shape, new: Shape) -> tuple[DimLike, ...]:
    """Where element ``(i0, i1, ...)`` of the new shape stands in the old one.

    Dims are matched in groups of equal size, so that only dims which really merge or split need division.
    """
    if any(d == 0 for d in (*old, *new)):
        return (0,) * len(old)
    index: list[DimLike] = [0] * len(old)
    olds = [k for k, d in enumerate(old) if d != 1]
    news = [k for k, d in enumerate(new) if d != 1]
    for old_group, new_group in _groups(old, olds, new, news):
        flat: DimLike = 0
        for k in new_group:
            flat = dims.multiply(flat, new[k]) + dim(f"i{k}")
        for k in reversed(old_group):
            is_first = k == old_group[0]
            index[k] = flat if is_first else dims.mod(flat, old[k])
            flat = flat if is_first else dims.floordiv(flat, old[k])
    return tuple(index)


def _groups(old: Shape, olds: list[int], new: Shape, news: list[int]) -> Iterable[tuple[list[int], list[int]]]:
    """Runs of old and of new dims with equal products, as short as possible; both lists are without dims of size 1."""
    ends = {dims.product(new[k] for k in news[:count]): count for count in range(1, len(news) + 1)}
    old_start, new_start = 0, 0
    for old_end in range(1, len(olds) + 1):
        new_end = ends.get(dims.product(old[k] for k in olds[:old_end]), 0)
        if new_end > new_start:
            yield olds[old_start:old_end], news[new_start:new_end]
            old_start, new_start = old_end, new_end


@register
class Transpose(Movement):
    """Dims in another order: dim k of the result is dim ``permutation[k]`` of the operand."""

    name = "nd.transpose"
    params = {"permutation": INTS}

    @classmethod
    def infer(cls, x: Aval, permutation: Ints) -> Aval:
        if sorted(permutation) != list(range(len(x.shape))):
            expected = f"a permutation of {len(x.shape)} axes"
            raise ShapeError("not a permutation of the axes", op="transpose", expected=expected, found=permutation)
        return Aval(x.dtype, tuple(x.shape[k] for k in permutation))

    @classmethod
    def evaluate(cls, x: Array, permutation: Ints) -> Array:
        return np.transpose(x, permutation)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], permutation: Ints) -> Formula:
        index = tuple(dim(f"i{permutation.index(k)}") for k in range(len(permutation)))
        return Formula(results[0].shape, (Read(0, index),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, permutation: Ints) -> Grads:
        return [cts[0].transpose(tuple(permutation.index(k) for k in range(len(permutation))))]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], permutation: Ints) -> ArrayLike:
        return operands[0].transpose((0, *(k + 1 for k in permutation)))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, order in (
                ((), ()),
                ((4,), (0,)),
                ((2, 3), (1, 0)),
                ((2, 3, 4), (2, 0, 1)),
                ((0, 2, 1), (1, 2, 0)),
            ):
                yield Sample((cases.values(rng, dtype, shape),), {"permutation": order})


@register
class BroadcastTo(Movement):
    """Repeated along new leading dims and dims of size 1, as in NumPy."""

    name = "nd.broadcast_to"
    params = {"shape": DIMS}

    @classmethod
    def infer(cls, x: Aval, shape: Shape) -> Aval:
        missing = len(shape) - len(x.shape)
        fits = missing >= 0 and all(d in (1, e) for d, e in zip(x.shape, shape[max(missing, 0) :], strict=True))
        if not fits:
            expected = f"a shape that {shape_text(x.shape)} broadcasts to"
            raise ShapeError("cannot broadcast", op="broadcast_to", expected=expected, found=shape_text(shape))
        return Aval(x.dtype, shape)

    @classmethod
    def evaluate(cls, x: Array, shape: Shape) -> Array:
        return np.broadcast_to(x, static_shape(shape))

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], shape: Shape) -> Formula:
        return Formula(shape, (broadcast_read(0, avals[0].shape, shape),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, shape: Shape) -> Grads:
        return [cts[0]]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], shape: Shape) -> ArrayLike:
        x = operands[0]
        lined_up = x.reshape((x.shape[0], *(1,) * (len(shape) - x.rank + 1), *x.shape[1:]))
        return lined_up.broadcast_to((x.shape[0], *shape))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for old, new in (((), (2, 3)), ((3,), (2, 3)), ((2, 1, 3), (2, 4, 3)), ((1,), (0,)), ((1, 1), (1, 1))):
                yield Sample((cases.values(rng, dtype, old),), {"shape": new})


@register
class Flip(Movement):
    """Reversed along axes."""

    name = "nd.flip"
    params = {"axes": INTS}

    @classmethod
    def infer(cls, x: Aval, axes: Ints) -> Aval:
        check_axes(cls, axes, len(x.shape))
        return x

    @classmethod
    def evaluate(cls, x: Array, axes: Ints) -> Array:
        return np.flip(x, axes)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axes: Ints) -> Formula:
        shape = results[0].shape
        loops = loop_names("i", len(shape))
        index = tuple(d - 1 - i if k in axes else i for k, (i, d) in enumerate(zip(loops, shape, strict=True)))
        return Formula(shape, (Read(0, index),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axes: Ints) -> Grads:
        return [cts[0].flip(axes)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axes: Ints) -> ArrayLike:
        return operands[0].flip(tuple(a + 1 for a in axes))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, axes in (((), ()), ((5,), (0,)), ((2, 3, 4), (0, 2)), ((0, 3), (1,))):
                yield Sample((cases.values(rng, dtype, shape),), {"axes": axes})
