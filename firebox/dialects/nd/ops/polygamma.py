"""The derivatives of digamma, element by element."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import FLOAT, Arrays, Grads, check_dtype
from firebox.dialects.nd.ops.special import by_formula
from firebox.dialects.nd.params import INT
from firebox.errors import UserError

LARGEST = 8
"""The highest order: the errors of powers grow with it, and so does the program."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _times_power(s: Any, factor: Any, x: Any, exponent: int) -> Any:
    """factor * x^exponent, step by step: too small or too large only where the result is."""
    for _ in range(exponent):
        factor = s.mul(factor, x)
    return factor


def magnitude_of(s: Any, x: Any, order: int) -> Any:
    """``n! sum (x + k)^-(n + 1)`` for x > 0: first terms as they are, the rest by Euler's and Maclaurin's formula."""
    factor, turns = float(math.factorial(order)), 10 + 2 * order
    small = s.lt(x, float(turns))
    inverse = s.div(1.0, s.select(small, s.add(x, float(turns)), x))
    square = s.mul(inverse, inverse)
    series = s.const(0.0, x.dtype)
    for j, bernoulli in reversed(list(enumerate(_BERNOULLI, 1))):
        rising = math.prod(range(order + 1, order + 2 * j))
        series = s.fma(series, square, bernoulli * rising / math.factorial(2 * j))
    rest = s.fma(s.fma(series, inverse, 0.5), inverse, 1.0 / order)
    total = s.const(0.0, x.dtype)
    for k in reversed(range(turns)):  # the smallest first
        total = s.add(total, _times_power(s, s.const(factor, x.dtype), s.div(1.0, s.add(x, float(k))), order + 1))
    return s.add(_times_power(s, s.mul(rest, factor), inverse, order), s.select(small, total, 0.0))


@functools.cache
def cotangent_derivative(order: int) -> tuple[int, ...]:
    """The polynomial p of ``d^order/dx^order cot(x) = p(cot(x))``, constant term first: cot' = -1 - cot^2."""
    p = [0, 1]
    for _ in range(order):
        slope = [k * v for k, v in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(p)


@register
class Polygamma(NdOp):
    """The derivative of digamma of that order, 1 to 8; at 0 and the negative integers infinite or NaN."""

    name = "nd.polygamma"
    kind = Kind.MAP
    arity = 1
    params = {"order": INT}
    transcendental = True

    @classmethod
    def infer(cls, x: Aval, order: int) -> Aval:
        check_dtype(cls, x, FLOAT)
        if not 1 <= order <= LARGEST:
            raise UserError("no such order", op="polygamma", expected=f"1 to {LARGEST}", found=order)
        return x

    @classmethod
    def evaluate(cls, x: Array, order: int) -> Array:
        return by_formula(cls, x, order)

    @classmethod
    def scalar(cls, s: Any, x: Any, order: int) -> Any:
        """By the zeta function; below 0 by reflection: (-1)^n f(1 - x) - f(x) = pi (d/dx)^n cot(pi x)."""
        sign = 1.0 if order % 2 else -1.0
        below = s.lt(x, 0.0)
        a = s.select(below, s.sub(1.0, x), x)
        found = s.mul(magnitude_of(s, a, order), sign)
        cot = s.div(1.0, s.tan(s.mul(s.sub(x, s.round(x)), math.pi)))
        p = cotangent_derivative(order)
        series = s.const(float(p[-1]), x.dtype)
        for coefficient in reversed(p[:-1]):
            series = s.fma(series, cot, float(coefficient))
        mirrored = s.sub(s.neg(s.mul(found, sign)), s.mul(series, math.pi ** (order + 1)))
        pole = s.or_(s.eq(s.floor(x), x), s.isinf(x))
        at_pole = s.select(s.isinf(x), float("nan"), s.const(float("inf") if order % 2 else float("nan"), x.dtype))
        return s.select(below, s.select(pole, at_pole, mirrored), found)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], order: int) -> Formula:
        return elementwise(avals, results[0].shape, lambda s, x: cls.scalar(s, x, order))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, order: int) -> Grads:
        return [cts[0] * operands[0].one("polygamma", operands[0], order=order + 1)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], order: int) -> ArrayLike:
        return operands[0].apply(cls, operands, {"order": order})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(FLOAT):
            for shape in cases.UNARY_SHAPES:
                yield Sample((cases.values(rng, dtype, shape, (0.5, 12.0)),), {"order": 1})
        for order in (2, 5):
            yield Sample((cases.values(rng, dtypes.f64, (7,), (0.5, 12.0)),), {"order": order})
            yield Sample((cases.values(rng, dtypes.f64, (3,), (-2.7, -2.3)),), {"order": order})
        edges = np.array([0.0, 1.0, -1.0, -2.5, 40.0, np.inf, -np.inf, np.nan], np.float32)
        yield Sample((edges,), {"order": 1})
