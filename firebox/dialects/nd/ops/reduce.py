"""Reductions over axes."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Read
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    ANY,
    BOOL,
    NUMBER,
    Arrays,
    Grads,
    check_axes,
    check_dtype,
    computed,
    short_name,
)
from firebox.dialects.nd.ops.monoids import arg_monoid, highest, lowest, monoid
from firebox.dialects.nd.params import BOOL as BOOL_PARAM
from firebox.dialects.nd.params import INTS
from firebox.dims import DimLike, dim
from firebox.dtypes import DType, as_dtype
from firebox.errors import ShapeError

Axes = tuple[int, ...]


class Reduction(NdOp):
    """One value for all elements along ``axes``, which leave the shape or stay with size 1."""

    kind = Kind.REDUCE
    arity = 1
    params = {"axes": INTS, "keepdims": BOOL_PARAM}
    accepts: ClassVar[frozenset[DType]] = NUMBER
    needs_elements: ClassVar[bool] = False

    @classmethod
    def infer(cls, x: Aval, axes: Axes, keepdims: bool) -> Aval:
        check_dtype(cls, x, cls.accepts)
        check_axes(cls, axes, len(x.shape))
        if not axes:
            raise ShapeError("no axis to reduce", op=short_name(cls), expected="at least one axis", found=axes)
        if cls.needs_elements and 0 in [x.shape[a] for a in axes]:
            raise ShapeError(
                "nothing has no extreme value", op=short_name(cls), expected="at least one element", found=x
            )
        return Aval(cls.result_dtype(x.dtype), reduced_shape(x.shape, axes, keepdims))

    @classmethod
    def result_dtype(cls, dtype: DType) -> DType:
        """Element type of the result."""
        return dtype

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axes: Axes, keepdims: bool) -> Formula:
        x = avals[0]
        name = short_name(cls).removeprefix("reduce_")
        reduced = tuple(x.shape[a] for a in axes)
        read = Read(0, reduction_index(x.rank, axes, keepdims))
        return Formula(results[0].shape, (read,), lambda s, value: value, reduced, monoid(name, x.dtype))

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axes: Axes, keepdims: bool) -> ArrayLike:
        shifted = tuple(a + 1 for a in axes)
        return operands[0].apply(cls, operands, {"axes": shifted, "keepdims": keepdims})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for shape, axes in (((7,), (0,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((1, 1), (0, 1)), ((0, 3), (1,))):
                yield Sample((cases.distinct(rng, dtype, shape),), {"axes": axes, "keepdims": False})
            yield Sample((cases.values(rng, dtype, (2, 3, 4)),), {"axes": (0, 2), "keepdims": True}, ())
            if not cls.needs_elements:
                yield Sample((cases.values(rng, dtype, (0, 3)),), {"axes": (0,), "keepdims": False})


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape after reducing over axes."""
    if keepdims:
        return tuple(1 if k in axes else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in axes)


def reduction_index(rank: int, axes: Sequence[int], keepdims: bool) -> tuple[DimLike, ...]:
    """Where the operand is read: ``r*`` along the reduced axes, ``i*`` elsewhere."""
    index: list[DimLike] = []
    kept = 0
    for k in range(rank):
        if k in axes:
            index.append(dim(f"r{axes.index(k)}"))
            kept += keepdims
        else:
            index.append(dim(f"i{kept}"))
            kept += 1
    return tuple(index)


def expanded(x: ArrayLike, shape: Shape, axes: Sequence[int]) -> ArrayLike:
    """A reduced array repeated along the reduced axes: back to ``shape``."""
    return x.reshape(reduced_shape(shape, axes, True)).broadcast_to(shape)


@register
class ReduceSum(Reduction):
    """The sum in the operand's type; f16 and bf16 add up in f32."""

    name = "nd.reduce_sum"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        result: Array = computed(lambda a: np.sum(a, axis=axes, keepdims=keepdims, dtype=a.dtype), x)
        return result

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axes: Axes, keepdims: bool) -> Grads:
        return [expanded(cts[0], operands[0].shape, axes)]


@register
class ReduceProd(Reduction):
    """The product in the operand's type. The gradient is the product of all other elements, right at zeros."""

    name = "nd.reduce_prod"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        result: Array = computed(lambda a: np.prod(a, axis=axes, keepdims=keepdims, dtype=a.dtype), x)
        return result

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axes: Axes, keepdims: bool) -> Grads:
        x = operands[0]
        kept = tuple(k for k in range(x.rank) if k not in axes)
        moved = x.transpose(kept + tuple(axes))
        rows = moved.reshape((*moved.shape[: len(kept)], _size(x, axes)))
        others = _exclusive_product(rows, False) * _exclusive_product(rows, True)
        back = tuple(int(k) for k in np.argsort(kept + tuple(axes)))
        return [expanded(cts[0], x.shape, axes) * others.reshape(moved.shape).transpose(back)]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        for zeros in (1, 2):
            x = np.array([[2.0, -1.5, 0.5, 3.0]])
            x[0, 1 : 1 + zeros] = 0.0
            yield Sample((x,), {"axes": (1,), "keepdims": False})


def _size(x: ArrayLike, axes: Axes) -> DimLike:
    size: DimLike = 1
    for axis in axes:
        size = size * x.shape[axis]
    return size


def _exclusive_product(rows: ArrayLike, reverse: bool) -> ArrayLike:
    """The product of all elements before (or after) each one, along the last axis."""
    last = rows.rank - 1
    none, one = (0,) * rows.rank, (*(0,) * last, 1)
    stop = (*rows.shape[:last], rows.shape[last] + 1)
    low, high, start, end = (none, one, one, stop) if reverse else (one, none, none, rows.shape)
    shifted = rows.pad(low, high, 1).slice(start, end)
    return shifted.one("cumprod", shifted, axis=last, reverse=reverse)


class Extreme(Reduction):
    """The largest or smallest element; NaN wins. The gradient is shared evenly among all that are equal to it."""

    accepts = ANY
    needs_elements = True

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axes: Axes, keepdims: bool) -> Grads:
        x = operands[0]
        kept = reduced_shape(x.shape, axes, True)
        chosen = (x == results[0].reshape(kept)).astype(x.dtype)
        share = cts[0].reshape(kept) / chosen.sum(axes, keepdims=True)
        return [chosen * share]


@register
class ReduceMax(Extreme):
    """The largest element; of nothing (possible with symbolic dims only) the lowest value there is."""

    name = "nd.reduce_max"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        init = lowest(as_dtype(x.dtype))
        result: Array = computed(lambda a: np.max(a, axis=axes, keepdims=keepdims, initial=init), x)
        return result


@register
class ReduceMin(Extreme):
    """The smallest element; of nothing (possible with symbolic dims only) the highest value there is."""

    name = "nd.reduce_min"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        init = highest(as_dtype(x.dtype))
        result: Array = computed(lambda a: np.min(a, axis=axes, keepdims=keepdims, initial=init), x)
        return result


class Quantifier(Reduction):
    """A question about all bools along axes."""

    accepts = BOOL
    differentiable = False


@register
class ReduceAny(Quantifier):
    """Whether one element is true."""

    name = "nd.reduce_any"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        return np.asarray(np.any(x, axis=axes, keepdims=keepdims))


@register
class ReduceAll(Quantifier):
    """Whether every element is true."""

    name = "nd.reduce_all"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        return np.asarray(np.all(x, axis=axes, keepdims=keepdims))


class ArgExtreme(Reduction):
    """The index (i64) of the first extreme element along the one axis; the first NaN wins."""

    accepts = ANY
    differentiable = False
    needs_elements = True

    @classmethod
    def infer(cls, x: Aval, axes: Axes, keepdims: bool) -> Aval:
        if len(axes) != 1:
            raise ShapeError("takes one axis", op=short_name(cls), expected="1 axis", found=axes)
        return super().infer(x, axes, keepdims)

    @classmethod
    def result_dtype(cls, dtype: DType) -> DType:
        return dtypes.i64

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axes: Axes, keepdims: bool) -> Formula:
        x = avals[0]
        read = Read(0, reduction_index(x.rank, axes, keepdims))

        def scalar(s: Any, value: Any) -> tuple[Any, Any]:
            return value, s.cast(s.index(dim("r0")), dtypes.i64)

        return Formula(results[0].shape, (read,), scalar, (x.shape[axes[0]],), arg_monoid(short_name(cls), x.dtype))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for shape, axis in (((7,), 0), ((2, 5, 3), 1), ((1, 4), 0), ((0, 3), 1)):
                yield Sample((cases.values(rng, dtype, shape, (-2.0, 2.0)),), {"axes": (axis,), "keepdims": False})
            yield Sample((cases.values(rng, dtype, (3, 4)),), {"axes": (1,), "keepdims": True})
        special = np.array([[1.0, np.nan, np.inf, np.nan], [-np.inf, -np.inf, -np.inf, -np.inf]])
        yield Sample((special,), {"axes": (1,), "keepdims": False})


@register
class ArgMax(ArgExtreme):
    """The index of the first largest element."""

    name = "nd.argmax"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        return np.asarray(np.argmax(x, axis=axes[0], keepdims=keepdims)).astype(np.int64)


@register
class ArgMin(ArgExtreme):
    """The index of the first smallest element."""

    name = "nd.argmin"

    @classmethod
    def evaluate(cls, x: Array, axes: Axes, keepdims: bool) -> Array:
        return np.asarray(np.argmin(x, axis=axes[0], keepdims=keepdims)).astype(np.int64)
