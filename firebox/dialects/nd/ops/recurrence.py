"""Linear recurrences."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Monoid, Read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    FLOAT,
    Arrays,
    Grads,
    batch_size,
    check_axes,
    check_dtype,
    check_same_dtype,
    computed,
    spread,
)
from firebox.dialects.nd.params import BOOL, INT
from firebox.dims import dim
from firebox.dtypes import DType
from firebox.errors import ShapeError

Pair = tuple[Any, Any]


@register
class LinearScan(NdOp):
    """h[t] = decay[t] * h[t-1] + x[t] along ``axis``, starting from 0; with ``reverse`` from the other end."""

    name = "nd.linear_scan"
    kind = Kind.SCAN
    arity = 2
    params = {"axis": INT, "reverse": BOOL}

    @classmethod
    def infer(cls, decay: Aval, x: Aval, axis: int, reverse: bool) -> Aval:
        check_same_dtype(cls, decay, x)
        check_dtype(cls, x, FLOAT)
        check_axes(cls, (axis,), x.rank)
        if decay.shape != x.shape:
            raise ShapeError("operands differ in shape", op="linear_scan", expected=decay.shape, found=x.shape)
        return x

    @classmethod
    def evaluate(cls, decay: Array, x: Array, axis: int, reverse: bool) -> Array:
        def run(a: Array, b: Array) -> Array:
            h = b.copy()
            for t in range(1, b.shape[axis]):
                here, before = ((slice(None),) * axis + (-1 - k if reverse else k,) for k in (t, t - 1))
                h[here] += a[here] * h[before]
            return h

        result: Array = computed(run, decay, x)
        return result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int, reverse: bool) -> Formula:
        """A reduction over all elements up to the present one, which the generator of scans does step by step."""
        shape = avals[0].shape
        index = list(loop_names("i", len(shape)))
        here, at = index[axis], dim("r0")
        index[axis] = at
        past = (Guard(at - here if reverse else here - at, shape[axis]),)
        reads = (Read(0, tuple(index), past, 1.0), Read(1, tuple(index), past, 0.0))
        return Formula(shape, reads, lambda s, decay, x: (decay, x), (shape[axis],), _steps(avals[0].dtype, reverse))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int, reverse: bool) -> Grads:
        """The cotangents follow the recurrence backwards, each with the decay of the step after it."""
        decay = _shifted(operands[0], axis, -1 if reverse else 1)
        ct = decay.apply(cls, (decay, cts[0]), {"axis": axis, "reverse": not reverse})[0]
        return [ct * _shifted(results[0], axis, 1 if reverse else -1), ct]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int, reverse: bool) -> ArrayLike:
        size = batch_size(operands, batched)
        full = [spread(o, b, size) for o, b in zip(operands, batched, strict=True)]
        return full[0].apply(cls, full, {"axis": axis + 1, "reverse": reverse})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(FLOAT):
            for shape, axis in (((5,), 0), ((2, 4, 3), 1), ((3, 70), 1), ((0, 2), 0), ((2, 0), 1)):
                for reverse in (False, True):
                    decay = cases.values(rng, dtype, shape, (-0.9, 0.9))
                    yield Sample((decay, cases.values(rng, dtype, shape)), {"axis": axis, "reverse": reverse})


def _steps(dtype: DType, reverse: bool) -> Monoid:
    """Steps h -> a h + b as pairs (a, b): two steps one after the other are one step."""

    def combine(s: Any, low: Pair, high: Pair) -> Pair:
        first, then = (high, low) if reverse else (low, high)
        return s.mul(then[0], first[0]), s.fma(then[0], first[1], then[1])

    return Monoid(
        name="linear_scan",
        dtypes=(dtype.compute, dtype.compute),
        init=(1.0, 0.0),
        combine=combine,
        lift=lambda s, a, b: (a, b),
        finish=lambda s, state: (state[1],),
    )


def _shifted(x: ArrayLike, axis: int, by: int) -> ArrayLike:
    """``x[t + by]`` along an axis, 0 beyond the end; by is 1 or -1."""
    if x.shape[axis] == 0:
        return x
    low, high = [0] * x.rank, list(x.shape)
    if by > 0:
        low[axis] = 1
    else:
        high[axis] = x.shape[axis] - 1
    pad = [int(k == axis) for k in range(x.rank)]
    none = [0] * x.rank
    part = x.slice(low, high)
    return part.pad(none, pad) if by > 0 else part.pad(pad, none)
