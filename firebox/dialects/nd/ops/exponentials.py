"""Powers and logarithms to the bases 2 and 10, and the cube root, element by element."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import math
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.base import register
from firebox.dialects.nd.ops.common import Arrays, Grads
from firebox.dialects.nd.ops.elementwise_unary import Transcendental
from firebox.dtypes import DType

# 1 / log(10) as a number of the type, rounded down so that infinities meet no opposite ones, and the rest of it
_PER_TEN: dict[DType, tuple[float, float]] = {
    dtypes.f32: (0.4342944622039794921875, 1.9699272335463627e-8),
    dtypes.f64: (0.4342944819032518, 1.098319650216765e-17),
}


@register
class Exp2(Transcendental):
    """2 to the x."""

    name = "nd.exp2"
    function = np.exp2

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * (results[0] * math.log(2.0))]


@register
class Log2(Transcendental):
    """The logarithm to base 2."""

    name = "nd.log2"
    domain = (0.1, 5.0)
    function = np.log2

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / (operands[0] * math.log(2.0))]


@register
class Log10(Transcendental):
    """The logarithm to base 10."""

    name = "nd.log10"
    domain = (0.1, 5.0)
    function = np.log10

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        natural = s.log(x)
        high, low = _PER_TEN[x.dtype]
        return s.fma(natural, high, s.mul(natural, low))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / (operands[0] * math.log(10.0))]


@register
class Cbrt(Transcendental):
    """The cube root, of negative numbers too."""

    name = "nd.cbrt"
    domain = (0.2, 5.0)
    function = np.cbrt

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        """A power, then one step of Newton's method on r^3 - a."""
        a = s.abs(x)
        r = s.pow(a, 1.0 / 3.0)
        square = s.mul(r, r)
        step = s.div(s.fma(square, r, s.neg(a)), s.mul(square, 3.0))
        inside = s.and_(s.gt(a, 0.0), s.isfinite(a))
        return s.copysign(s.select(inside, s.sub(r, step), a), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / (results[0] * results[0] * 3.0)]
