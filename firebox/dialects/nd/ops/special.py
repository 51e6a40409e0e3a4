"""Special functions, element by element, written with the scalar builder's elementary ones.

The polynomials (special_coefficients) are fitted over intervals that the arguments are brought into. NumPy has none of
these functions: `evaluate` is the same formula in f64, and recorded values of higher precision are its test.
"""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.base import Array, Rng, Sample, register
from firebox.dialects.nd.ops import special_coefficients as c
from firebox.dialects.nd.ops.common import Arrays, Grads
from firebox.dialects.nd.ops.elementwise_unary import Transcendental

INF, NAN = float("inf"), float("nan")


def horner(s: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial; coefficients from the constant term up."""
    total = s.const(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = s.fma(total, x, coefficient)
    return total


def table(x: Any, name: str) -> Sequence[float]:
    """The coefficients of that name for the type of x."""
    found: Sequence[float] = getattr(c, f"{name}_{'64' if x.dtype is dtypes.f64 else '32'}")
    return found


def by_formula(op: Any, x: Array, *parameters: Any) -> Array:
    """What the formula of an op of one value gives in f64, rounded to the type of x."""
    from firebox.dialects.nd.numpy_scalar import NumpyScalars, Val  # loads the kernel dialect, some 40 ms

    with np.errstate(all="ignore"):
        found = op.scalar(NumpyScalars({}), Val(x.astype(np.float64), dtypes.f64), *parameters).array
        return np.asarray(found).astype(x.dtype)


class Special(Transcendental):
    """A function whose numpy meaning is its formula in f64, rounded to the type."""

    edges: ClassVar[tuple[float, ...]] = (0.0, -0.0, 1.0, -1.0, 40.0, -40.0, math.inf, -math.inf, math.nan)

    @classmethod
    def evaluate(cls, x: Array) -> Array:
        return by_formula(cls, x)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array(cls.edges, np.float32),))


# ---- the error function's kin ------------------------------------------------------------------------------------


def erfc_of(s: Any, x: Any) -> Any:
    """exp(-x^2) p(t) / (1 + 2x) beyond 1/2, where t = (x - 4) / (x + 4) (N. Juffa); 1 - erf(x) below."""
    far = s.min(s.max(x, 0.5), 30.0)
    t = s.div(s.sub(far, 4.0), s.add(far, 4.0))
    scaled = s.div(horner(s, t, table(x, "ERFCX")), s.fma(far, 2.0, 1.0))
    head = s.mul(s.floor(s.mul(far, 64.0)), 1.0 / 64.0)  # so short that its square is exact
    rest = s.exp(s.neg(s.mul(s.sub(far, head), s.add(far, head))))
    tail = s.mul(s.mul(s.exp(s.neg(s.mul(head, head))), rest), scaled)
    return s.select(s.gt(x, 0.5), tail, s.sub(1.0, s.erf(x)))


@register
class Erfc(Special):
    """1 - erf(x), accurate where that is small."""

    name = "nd.erfc"

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return erfc_of(s, x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * (-(x * x)).exp() * (-2.0 / math.sqrt(math.pi))]


@register
class Erfinv(Special):
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""

    name = "nd.erfinv"
    domain = (-0.95, 0.95)

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        """A polynomial in w = -log(1 - x^2) or its root, then one step of Halley's method on erf or erfc."""
        a = s.abs(x)
        rest = s.sub(1.0, a)
        w = s.neg(s.log(s.mul(rest, s.add(a, 1.0))))
        near = s.mul(horner(s, s.min(w, 5.0), c.ERFINV_NEAR), a)
        guess = s.select(s.lt(w, 5.0), near, horner(s, s.sqrt(s.max(w, 5.0)), c.ERFINV_FAR))
        error = s.select(s.lt(a, 0.5), s.sub(s.erf(guess), a), s.sub(rest, erfc_of(s, guess)))
        step = s.mul(s.mul(error, s.exp(s.mul(guess, guess))), math.sqrt(math.pi) / 2)
        better = s.sub(guess, s.div(step, s.fma(step, guess, 1.0)))
        inside = s.select(s.eq(a, 1.0), INF, s.select(s.gt(a, 1.0), NAN, better))
        return s.copysign(s.select(s.lt(a, 1e-30), s.mul(a, math.sqrt(math.pi) / 2), inside), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        y = results[0]
        return [cts[0] * (y * y).exp() * (math.sqrt(math.pi) / 2)]


# ---- the gamma function's kin ------------------------------------------------------------------------------------


def lgamma_of(s: Any, x: Any) -> Any:
    """log(Gamma(x)) for x > 0."""
    low = s.lt(x, 0.75)  # log(Gamma(x)) = log(Gamma(1 + x)) - log(x)
    y, product = s.min(x, 8.0), s.const(1.0, x.dtype)
    for _ in range(5):  # Gamma(y) = (y - 1) Gamma(y - 1)
        large = s.ge(y, 3.0)
        y = s.select(large, s.sub(y, 1.0), y)
        product = s.select(large, s.mul(product, y), product)
    one = s.select(low, x, s.sub(y, 1.0))  # how far the argument is from 1: exact
    two = s.select(low, s.sub(x, 1.0), s.sub(y, 2.0))
    first = s.mul(one, horner(s, one, table(x, "LGAMMA_1")))
    second = s.mul(two, horner(s, two, table(x, "LGAMMA_2")))
    core = s.select(s.lt(one, 0.5), first, second)
    near = s.add(core, s.log(s.select(low, s.div(1.0, x), product)))
    inverse = s.div(1.0, s.max(x, 8.0))
    series = s.fma(inverse, horner(s, s.mul(inverse, inverse), table(x, "STIRLING")), math.log(2 * math.pi) / 2 - 0.5)
    far = s.add(s.mul(s.sub(x, 0.5), s.sub(s.log(x), 1.0)), series)
    found = s.select(s.ge(x, 8.0), far, near)
    found = s.select(s.lt(x, 1e-30), s.neg(s.log(x)), found)
    return s.select(s.isinf(x), INF, found)


@register
class Lgamma(Special):
    """log |Gamma(x)|; infinite at 0 and the negative integers.

    Close to the zeros between negative integers the error is that of numbers near 1, not of the result.
    """

    name = "nd.lgamma"
    domain = (0.1, 12.0)
    edges = (0.0, -0.0, 1.0, 2.0, -1.0, -2.0, 0.5, -1.25, -5.5, 40.0, -40.5, 1e30, math.inf, -math.inf, math.nan)

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        """Below 0 by reflection: Gamma(-a) Gamma(a) = -pi / (a sin(pi a))."""
        a = s.abs(x)
        positive = lgamma_of(s, a)
        sine = s.abs(s.sin(s.mul(s.sub(a, s.round(a)), math.pi)))
        mirrored = s.sub(s.sub(math.log(math.pi), s.log(s.mul(a, sine))), positive)
        pole = s.or_(s.eq(s.floor(x), x), s.isinf(x))
        negative = s.select(s.lt(a, 1e-30), s.neg(s.log(a)), s.select(pole, INF, mirrored))
        return s.select(s.lt(x, 0.0), negative, positive)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].one("digamma", operands[0])]


_ROOT = {
    dtypes.f32: (1.4616321325302124, 1.2438149938918909e-08),
    dtypes.f64: (1.4616321449683622, 9.549995429965697e-17),
}
"""The positive zero of digamma as a number of the type and the rest of it."""


def digamma_of(s: Any, x: Any) -> Any:
    """digamma(x) for x > 0: near its zero by a polynomial, beyond 8 by its asymptotic series."""
    low = s.lt(x, 1.0)
    y = s.min(x, 8.0)
    top, bottom = s.const(0.0, x.dtype), s.const(1.0, x.dtype)
    for _ in range(6):  # digamma(y) = digamma(y - 1) + 1 / (y - 1); the sum of quotients is one quotient
        large = s.gt(y, 2.0)
        y = s.select(large, s.sub(y, 1.0), y)
        top = s.select(large, s.fma(top, y, bottom), top)
        bottom = s.select(large, s.mul(bottom, y), bottom)
    high, rest = _ROOT[x.dtype]
    distance = s.sub(s.select(low, s.sub(x, high - 1.0), s.sub(y, high)), rest)
    core = s.mul(distance, horner(s, distance, table(x, "DIGAMMA")))
    near = s.add(core, s.select(low, s.div(-1.0, x), s.div(top, bottom)))
    inverse = s.div(1.0, s.max(x, 8.0))
    square = s.mul(inverse, inverse)
    series = s.fma(square, horner(s, square, table(x, "DIGAMMA_FAR")), s.mul(inverse, 0.5))
    return s.select(s.ge(x, 8.0), s.sub(s.log(x), series), near)


@register
class Digamma(Special):
    """The derivative of log(Gamma(x)); infinite at 0, NaN at the negative integers.

    Close to the zeros between negative integers the error is that of numbers near 1, not of the result.
    """

    name = "nd.digamma"
    domain = (0.2, 12.0)
    edges = (0.0, -0.0, 1.0, 2.0, -1.0, -2.0, 0.5, -1.25, -5.5, 40.0, -40.5, 1e30, math.inf, -math.inf, math.nan)

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        """Below 0 by reflection: digamma(-a) = digamma(a) + 1/a + pi / tan(pi a)."""
        a = s.abs(x)
        positive = s.select(s.eq(x, 0.0), s.copysign(INF, s.neg(x)), digamma_of(s, a))
        angle = s.mul(s.sub(a, s.round(a)), math.pi)
        mirrored = s.add(s.add(digamma_of(s, a), s.div(1.0, a)), s.div(math.pi, s.tan(angle)))
        pole = s.or_(s.eq(s.floor(x), x), s.isinf(x))
        return s.select(s.lt(x, 0.0), s.select(pole, NAN, mirrored), positive)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].one("polygamma", operands[0], order=1)]


# ---- Bessel functions --------------------------------------------------------------------------------------------


def _bessel(s: Any, x: Any, order: int, scaled: bool) -> Any:
    """I of order 0 or 1 at |x|, times exp(-|x|) if scaled: a polynomial in x^2 up to 8, beyond in 16 / x - 1."""
    a = s.abs(x)
    small = s.min(a, 8.0)
    near = horner(s, s.mul(small, small), table(x, f"I{order}"))
    near = s.mul(near, small) if order else near
    large = s.max(a, 8.0)
    far = s.div(horner(s, s.sub(s.div(16.0, large), 1.0), table(x, f"I{order}_FAR")), s.sqrt(large))
    if scaled:
        return s.select(s.gt(a, 8.0), far, s.mul(near, s.exp(s.neg(small))))
    most = s.min(large, 80.0)  # exp(large) may be infinite where the product is not
    far = s.mul(s.mul(far, s.exp(most)), s.exp(s.sub(large, most)))
    return s.select(s.gt(a, 8.0), s.select(s.isinf(a), INF, far), near)


@register
class I0(Special):
    """The modified Bessel function of the first kind of order 0."""

    name = "nd.i0"

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return _bessel(s, x, 0, False)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].one("i1", operands[0])]


@register
class I0e(Special):
    """exp(-|x|) times the modified Bessel function of order 0."""

    name = "nd.i0e"
    domain = (0.3, 12.0)

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return _bessel(s, x, 0, True)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * (x.one("i1e", x) - x.sign() * results[0])]


def _ratio(x: Any, value: Any) -> Any:
    """value / x, and 1/2 at 0."""
    zero = x == 0.0
    return zero.where(0.5, value / zero.where(1.0, x))


@register
class I1(Special):
    """The modified Bessel function of the first kind of order 1."""

    name = "nd.i1"

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return s.copysign(_bessel(s, x, 1, False), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * (x.one("i0", x) - _ratio(x, results[0]))]


@register
class I1e(Special):
    """exp(-|x|) times the modified Bessel function of order 1."""

    name = "nd.i1e"
    domain = (0.3, 12.0)

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return s.copysign(_bessel(s, x, 1, True), x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * (x.one("i0e", x) - x.sign() * results[0] - _ratio(x, results[0]))]
