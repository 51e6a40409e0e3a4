"""Scans: every element is combined with all elements before it (or after it) along an axis."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    ANY,
    NUMBER,
    Arrays,
    Grads,
    check_axes,
    check_dtype,
    computed,
    short_name,
)
from firebox.dialects.nd.ops.indexing import scatter_along_axis
from firebox.dialects.nd.ops.monoids import monoid
from firebox.dialects.nd.params import BOOL, INT
from firebox.dims import dim
from firebox.dtypes import DType


class Scan(NdOp):
    """``out[i] = x[0] . x[1] ... . x[i]`` along ``axis``; with ``reverse`` from the other end.

    The formula says so literally: a reduction over ``r0`` that reads only where ``r0 <= i`` (``>=`` in reverse).
    """

    kind = Kind.SCAN
    arity = 1
    params = {"axis": INT, "reverse": BOOL}
    accepts: ClassVar[frozenset[DType]] = NUMBER
    function: ClassVar[np.ufunc]

    @classmethod
    def infer(cls, x: Aval, axis: int, reverse: bool) -> Aval:
        check_dtype(cls, x, cls.accepts)
        check_axes(cls, (axis,), len(x.shape))
        return x

    @classmethod
    def evaluate(cls, x: Array, axis: int, reverse: bool) -> Array:
        ordered = np.flip(x, axis) if reverse else x
        result: Array = computed(lambda a: cls.function.accumulate(a, axis=axis, dtype=a.dtype), ordered)
        return np.flip(result, axis) if reverse else result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int, reverse: bool) -> Formula:
        x = avals[0]
        loops = list(loop_names("i", x.rank))
        here, at, size = loops[axis], dim("r0"), x.shape[axis]
        loops[axis] = at
        combined = monoid(short_name(cls).removeprefix("cum"), x.dtype)
        guard = Guard(at - here if reverse else here - at, size)
        read = Read(0, tuple(loops), (guard,), combined.init[0])
        return Formula(x.shape, (read,), lambda s, value: value, (size,), combined)

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int, reverse: bool) -> ArrayLike:
        return scanned(operands[0], short_name(cls), axis + 1, reverse)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for shape, axis in (((5,), 0), ((2, 4, 3), 1), ((1, 3), 0), ((0, 2), 0), ((2, 0), 0)):
                for reverse in (False, True):
                    x = cases.values(rng, dtype, shape, (-2.0, 2.0))
                    yield Sample((x,), {"axis": axis, "reverse": reverse})


def scanned(x: ArrayLike, name: str, axis: int, reverse: bool) -> ArrayLike:
    """Apply a scan."""
    return x.one(name, x, axis=axis, reverse=reverse)


@register
class CumSum(Scan):
    """Running sums."""

    name = "nd.cumsum"
    function = np.add

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int, reverse: bool) -> Grads:
        return [scanned(cts[0], "cumsum", axis, not reverse)]


@register
class CumProd(Scan):
    """Running products. The gradient is right at zeros too; its own derivative is not where two or more are zero."""

    name = "nd.cumprod"
    function = np.multiply

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int, reverse: bool) -> Grads:
        """Before the first zero: sums of ct * y over what follows, divided by x. At it: the same with the zero taken
        for 1. After it: nothing, since every product has the zero as a factor."""
        ct, x, y = cts[0], operands[0], results[0]
        is_zero = x == 0.0
        zeros = scanned(is_zero.astype(dtypes.i32), "cumsum", axis, reverse)
        is_first = is_zero & (zeros == 1)
        filled = is_first.where(1.0, x)
        at_first = scanned(ct * scanned(filled, "cumprod", axis, reverse), "cumsum", axis, not reverse)
        before = scanned(ct * y, "cumsum", axis, not reverse) / is_zero.where(1.0, x)
        return [is_first.where(at_first, (zeros == 0).where(before, 0.0))]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        for zeros in ([2], [0, 3], [1, 2, 4]):
            x = cases.values(rng, dtypes.f64, (5,), (0.5, 2.0))
            x[zeros] = 0.0
            for reverse in (False, True):
                yield Sample((x,), {"axis": 0, "reverse": reverse})


class RunningExtreme(Scan):
    """The extreme element so far; NaN wins. The gradient goes to the latest of equal elements, as in PyTorch."""

    accepts = ANY

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int, reverse: bool) -> Grads:
        x, y = operands[0], results[0]
        position = x.one("iota", shape=x.shape, axis=axis, dtype=dtypes.i64)
        taken = (x == y) | x.isnan()
        if reverse:
            last = position.size_of(x.shape[axis] - 1)
            source = scanned(taken.where(position, last), "cummin", axis, True)
        else:
            source = scanned(taken.where(position, 0), "cummax", axis, False)
        return [scatter_along_axis(cts[0], source, axis, x.shape[axis])]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        x = np.array([[1.0, np.nan, 3.0, -np.inf], [-1.0, np.inf, 0.0, 2.0]])
        yield Sample((x,), {"axis": 1, "reverse": False}, differentiable=())


@register
class CumMax(RunningExtreme):
    """Running maxima."""

    name = "nd.cummax"
    function = np.maximum


@register
class CumMin(RunningExtreme):
    """Running minima."""

    name = "nd.cummin"
    function = np.minimum
