"""Element-wise trigonometric and hyperbolic functions, written with the scalar builder's elementary ones.

Arguments are reduced by identities; what is left is a polynomial (f32: Cephes' asinf, and a minimax fit to atan; f64:
fdlibm's asin and Cephes' atan) or an exponential or logarithm that is accurate near 0.
"""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.base import Rng, Sample, register
from firebox.dialects.nd.ops.common import Arrays, Grads
from firebox.dialects.nd.ops.elementwise_unary import Transcendental
from firebox.dtypes import DType

# pi/2 as a number of the type and the rest of it
HALF_PI: dict[DType, tuple[float, float]] = {
    dtypes.f32: (1.57079637050628662109375, -4.37113900018624283e-8),
    dtypes.f64: (1.5707963267948966, 6.123233995736766e-17),
}
_ASIN_F32 = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ASIN_P = (
    3.47933107596021167570e-05,
    7.91534994289814532176e-04,
    -4.00555345006794114027e-02,
    2.01212532134862925881e-01,
    -3.25565818622400915405e-01,
    1.66666666666666657415e-01,
)
_ASIN_Q = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)
_ATAN_F32 = (
    -0.017206257209181786,
    0.05075957626104355,
    -0.08257951587438583,
    0.10955734550952911,
    -0.14269709587097168,
    0.19999204576015472,
    -0.33333319425582886,
)
_ATAN_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
# Above ``limit``, exp(x) / 2 is exp(x - shift), whose argument is exact, times exp(shift) / 2: it overflows with sinh.
# The shifts are such that exp(shift) / 2 is a number of the type up to a thousandth of a last place.
_LARGE: dict[DType, tuple[float, float]] = {dtypes.f32: (32.0, 45.4375), dtypes.f64: (300.0, 504.359375)}
# From here on sqrt(x^2 + 1) is x.
_SQUARE_ALONE: dict[DType, float] = {dtypes.f32: 2.0**13, dtypes.f64: 2.0**28}


def polynomial(s: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    """The polynomial with these coefficients, the highest first."""
    total: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        total = s.fma(total, x, coefficient)
    return total


def _asin_excess(s: Any, z: Any) -> Any:
    """(asin(x) - x) / x for z = x*x in [0, 1/4]."""
    if z.dtype is dtypes.f32:
        return s.mul(z, polynomial(s, z, _ASIN_F32))
    return s.div(s.mul(z, polynomial(s, z, _ASIN_P)), polynomial(s, z, _ASIN_Q))


def atan_of(s: Any, a: Any) -> Any:
    """The arc tangent of a number that is not negative: of a, (a - 1)/(a + 1) + pi/4 or -1/a + pi/2."""
    high, low = HALF_PI[a.dtype]
    far, middle = s.gt(a, 2.414213562373095), s.gt(a, 0.66)
    over = s.select(far, -1.0, s.select(middle, s.sub(a, 1.0), a))
    under = s.select(far, a, s.select(middle, s.add(a, 1.0), 1.0))
    t = s.div(over, under)
    z = s.mul(t, t)
    if a.dtype is dtypes.f32:
        excess = s.mul(z, polynomial(s, z, _ATAN_F32))
    else:
        excess = s.div(s.mul(z, polynomial(s, z, _ATAN_P)), polynomial(s, z, _ATAN_Q))
    zero = s.const(0.0, a.dtype)
    base = s.select(far, high, s.select(middle, high / 2, zero))
    rest = s.select(far, low, s.select(middle, low / 2, zero))
    return s.add(base, s.add(s.fma(t, excess, rest), t))


@register
class Tan(Transcendental):
    """The tangent of an angle in radians."""

    name = "nd.tan"
    domain = (-1.4, 1.4)
    function = np.tan

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * (results[0] * results[0] + 1.0)]


class Inverse(Transcendental):
    """An inverse sine or cosine: near 1 that of sqrt((1 - x) / 2), whose argument is exact."""

    domain = (-0.95, 0.95)

    @classmethod
    def parts(cls, s: Any, x: Any) -> tuple[Any, Any, Any]:
        """Whether |x| > 1/2, the reduced argument r, and asin(r) - r."""
        a = s.abs(x)
        outer = s.gt(a, 0.5)
        z = s.select(outer, s.mul(s.sub(1.0, a), 0.5), s.mul(a, a))
        r = s.select(outer, s.sqrt(z), a)
        return outer, r, s.mul(r, _asin_excess(s, z))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        special = np.array([-1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, -np.inf, np.nan])
        for dtype in dtypes.FLOATS:
            yield Sample((special.astype(dtype.numpy),), differentiable=())


@register
class Asin(Inverse):
    """The angle in [-pi/2, pi/2] of that sine; NaN outside of [-1, 1]."""

    name = "nd.asin"
    function = np.arcsin

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        outer, r, excess = cls.parts(s, x)
        high, low = HALF_PI[x.dtype]
        near_one = s.sub(s.mul(s.sub(high / 2, r), 2.0), s.sub(s.mul(excess, 2.0), low))
        return s.copysign(s.select(outer, near_one, s.add(r, excess)), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * ((1.0 - x) * (x + 1.0)).rsqrt()]


@register
class Acos(Inverse):
    """The angle in [0, pi] of that cosine; NaN outside of [-1, 1]."""

    name = "nd.acos"
    function = np.arccos

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        outer, r, excess = cls.parts(s, x)
        high, low = HALF_PI[x.dtype]
        negative = s.lt(x, 0.0)
        inner = s.sub(high, s.sub(x, s.sub(low, s.select(negative, s.neg(excess), excess))))
        above = s.mul(s.add(r, excess), 2.0)
        below = s.mul(s.sub(high, s.add(r, s.sub(excess, low))), 2.0)
        return s.select(outer, s.select(negative, below, above), inner)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [-cts[0] * ((1.0 - x) * (x + 1.0)).rsqrt()]


@register
class Atan(Transcendental):
    """The angle in [-pi/2, pi/2] of that tangent."""

    name = "nd.atan"
    domain = (-4.0, 4.0)
    function = np.arctan

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return s.copysign(atan_of(s, s.abs(x)), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / (operands[0] * operands[0] + 1.0)]


class Hyperbolic(Transcendental):
    """A sum or difference of exp(x) and exp(-x)."""

    domain = (-4.0, 4.0)
    derivative: ClassVar[str]

    @classmethod
    def half_exp(cls, s: Any, a: Any) -> tuple[Any, Any]:
        """Whether |x| is so large that one exponential is all, and half of that."""
        limit, shift = _LARGE[a.dtype]
        return s.gt(a, limit), s.mul(s.exp(s.sub(a, shift)), math.exp(shift) / 2)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].one(cls.derivative, operands[0])]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        large = np.array([0.0, -0.0, 20.0, -40.0, 89.0, -89.2, 100.0, -np.inf, np.inf, np.nan])
        yield Sample((large.astype(np.float32),))
        yield Sample((np.array([-300.0, 709.9, 710.3, 711.0, -np.inf]),), differentiable=())


@register
class Sinh(Hyperbolic):
    """The hyperbolic sine."""

    name = "nd.sinh"
    function = np.sinh
    derivative = "cosh"

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        a = s.abs(x)
        large, alone = cls.half_exp(s, a)
        t = s.expm1(a)
        other = s.div(t, s.add(t, 1.0))  # 1 - exp(-a)
        near = s.fma(s.mul(t, other), -0.5, t)  # the same with less rounding below 1
        both = s.select(s.lt(a, 1.0), near, s.mul(s.add(t, other), 0.5))
        return s.copysign(s.select(large, alone, both), x)


@register
class Cosh(Hyperbolic):
    """The hyperbolic cosine."""

    name = "nd.cosh"
    function = np.cosh
    derivative = "sinh"

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        a = s.abs(x)
        large, alone = cls.half_exp(s, a)
        t = s.exp(a)
        return s.select(large, alone, s.fma(t, 0.5, s.div(0.5, t)))


@register
class Asinh(Transcendental):
    """The inverse of the hyperbolic sine."""

    name = "nd.asinh"
    domain = (-4.0, 4.0)
    function = np.arcsinh

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        a = s.abs(x)
        square = s.mul(a, a)
        near = s.log1p(s.add(a, s.div(square, s.add(s.sqrt(s.add(square, 1.0)), 1.0))))
        far = s.add(s.log(a), math.log(2.0))
        return s.copysign(s.select(s.gt(a, _SQUARE_ALONE[x.dtype]), far, near), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * (operands[0] * operands[0] + 1.0).rsqrt()]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        large = np.array([0.0, -0.0, 1e-30, -1e5, 3e30, -np.inf, np.nan])
        yield Sample((large.astype(np.float32),))
        yield Sample((large,), differentiable=())


@register
class Acosh(Transcendental):
    """The inverse of the hyperbolic cosine; NaN below 1."""

    name = "nd.acosh"
    domain = (1.1, 5.0)
    function = np.arccosh

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        t = s.sub(x, 1.0)
        near = s.log1p(s.add(t, s.sqrt(s.fma(t, t, s.add(t, t)))))
        far = s.add(s.log(x), math.log(2.0))
        value = s.select(s.gt(x, _SQUARE_ALONE[x.dtype]), far, near)
        return s.select(s.lt(x, 1.0), float("nan"), value)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * ((x - 1.0) * (x + 1.0)).rsqrt()]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        special = np.array([1.0, 0.5, -1e10, 1e5, 3e30, np.inf, -np.inf, np.nan])
        yield Sample((special.astype(np.float32),))


@register
class Atanh(Transcendental):
    """The inverse of the hyperbolic tangent; NaN outside of [-1, 1]."""

    name = "nd.atanh"
    domain = (-0.9, 0.9)
    function = np.arctanh

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        a = s.abs(x)
        twice = s.add(a, a)
        half = s.mul(s.log1p(s.fma(twice, s.div(a, s.sub(1.0, a)), twice)), 0.5)
        return s.copysign(s.select(s.gt(a, 1.0), float("nan"), half), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] / ((1.0 - x) * (x + 1.0))]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        special = np.array([1.0, -1.0, 0.0, -0.0, 1.5, 0.999, 3e30, np.inf, np.nan])
        yield Sample((special.astype(np.float32),))
