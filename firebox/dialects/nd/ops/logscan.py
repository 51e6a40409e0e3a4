"""Running sums of exponentials as logarithms."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Monoid, Read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import FLOAT, Arrays, Grads
from firebox.dialects.nd.ops.scan import Scan
from firebox.dims import dim
from firebox.dtypes import DType


@lru_cache(maxsize=8)
def _log_sum(dtype: DType) -> Monoid:
    """Sums of exp(x) as pairs: the largest x, and the sum of exp(x - largest)."""

    def combine(s: Any, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        top = s.max(a[0], b[0])
        same = s.isinf(top)  # of infinities the distance is NaN
        low = [s.exp(s.select(s.and_(same, s.eq(v, top)), 0.0, s.sub(v, top))) for v in (a[0], b[0])]
        return top, s.fma(a[1], low[0], s.mul(b[1], low[1]))

    return Monoid(
        name="logcumsumexp",
        dtypes=(dtype.compute, dtype.compute),
        init=(float("-inf"), 0.0),
        combine=combine,
        lift=lambda s, x: (x, s.const(1.0, dtype.compute)),
        finish=lambda s, state: (s.add(state[0], s.log(state[1])),),
    )


@register
class LogCumSumExp(Scan):
    """log(exp(x[0]) + .. + exp(x[i])), without overflow; f16 and bf16 are added up in f32."""

    name = "nd.logcumsumexp"
    accepts = FLOAT
    transcendental = True
    function = np.logaddexp

    @classmethod
    def evaluate(cls, x: Array, axis: int, reverse: bool) -> Array:
        """In the widest type, since here a rounding error of one step would stay in all later ones."""
        ordered = (np.flip(x, axis) if reverse else x).astype(np.longdouble)
        result = np.logaddexp.accumulate(ordered, axis=axis).astype(x.dtype)
        return np.flip(result, axis) if reverse else result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int, reverse: bool) -> Formula:
        x = avals[0]
        loops = list(loop_names("i", x.rank))
        here, at, size = loops[axis], dim("r0"), x.shape[axis]
        loops[axis] = at
        guard = Guard(at - here if reverse else here - at, size)
        read = Read(0, tuple(loops), (guard,), float("-inf"))
        return Formula(x.shape, (read,), lambda s, value: value, (size,), _log_sum(x.dtype))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int, reverse: bool) -> Grads:
        """exp(x - y) times the sum of ct * exp(y - y of it) over this and all later places: a recurrence whose factors,
        exp of how much y grows from one place to the next, are at most 1."""
        ct, x, y = cts[0], operands[0], results[0]
        growth = (y - _next(y, axis, reverse)).exp()
        finite = y.isfinite() & growth.isfinite()
        total = ct.one("linear_scan", finite.where(growth, 0.0), ct, axis=axis, reverse=not reverse)
        return [(x - y).exp() * total]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for shape, axis in (((5,), 0), ((2, 4, 3), 1), ((1, 3), 0), ((0, 2), 0), ((2, 0), 0)):
                for reverse in (False, True):  # away from 0, where no digit of a difference is left
                    x = cases.values(rng, dtype, shape, (0.5, 4.0))
                    yield Sample((x,), {"axis": axis, "reverse": reverse})
        large = np.array([[-900.0, 3.0, 900.0, 890.0], [-np.inf, -np.inf, 2.0, np.inf]])
        yield Sample((large,), {"axis": 1, "reverse": False}, differentiable=())
        yield Sample((cases.values(rng, dtypes.f64, (4,), (-40.0, 40.0)),), {"axis": 0, "reverse": False})


def _next(y: ArrayLike, axis: int, reverse: bool) -> ArrayLike:
    """The element after each one in the order of the scan; infinity after the last."""
    size = y.shape[axis]
    if size == 0:
        return y
    first, ends, one = [0] * y.rank, list(y.shape), [int(k == axis) for k in range(y.rank)]
    none = [0] * y.rank
    if reverse:
        ends[axis] = size - 1
        return y.slice(first, ends).pad(one, none, float("inf"))
    first[axis] = 1
    return y.slice(first, ends).pad(none, one, float("inf"))
