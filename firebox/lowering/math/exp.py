"""exp, exp2, expm1, sigmoid and tanh as polynomials.

exp: x = n log(2) + r with |r| <= log(2)/2, log(2) in two parts and fused multiply-adds, so that the first step is exact
(Cody and Waite 1980); exp(r) = 1 + (r + r^2 q(r)), where only the last addition rounds at the size of the result.
"""

from dataclasses import dataclass

from firebox.lowering.math import coefficients as c
from firebox.lowering.math.lanewise import Lanewise

LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class _Range:
    """Constants of one width: log(2) in two parts, and where functions saturate."""

    ln2: tuple[float, float]
    exp: tuple[float, float]
    exp2: tuple[float, float]
    expm1: tuple[float, float]
    tanh: float
    exp_tail: tuple[float, ...]
    expm1_tail: tuple[float, ...]
    exp2_slope: tuple[float, ...]
    tanh_tail: tuple[float, ...]


_RANGES = {
    "float": _Range(
        ln2=(0.6931471824645996, -1.9046542121259336e-09),
        exp=(-104.0, 89.0),
        exp2=(-151.0, 129.0),
        expm1=(-18.0, 89.0),
        tanh=10.0,
        exp_tail=c.EXP_32,
        expm1_tail=c.EXPM1_32,
        exp2_slope=c.EXP2_32,
        tanh_tail=c.TANH_32,
    ),
    "double": _Range(
        ln2=(0.6931471805599453, 2.3190468138462996e-17),
        exp=(-746.0, 710.0),
        exp2=(-1076.0, 1025.0),
        expm1=(-38.0, 710.0),
        tanh=20.0,
        exp_tail=c.EXP_64,
        expm1_tail=c.EXPM1_64,
        exp2_slope=c.EXP2_64,
        tanh_tail=c.TANH_64,
    ),
}
_TANH_SPLIT = 0.625
"""Below, x + x^3 p(x^2); above, 1 - 2 / (exp(2x) + 1), which loses nothing there."""


def reduce(v: Lanewise, x: str) -> tuple[str, str]:
    """r and the integer n of x = n log(2) + r."""
    high, low = _RANGES[v.element].ln2
    number, n = v.nearest(x, LOG2_E)
    r = v.fma(number, v.f(-high), x)
    return v.fma(number, v.f(-low), r), n


def exp_core(v: Lanewise, x: str) -> tuple[str, str]:
    """p in [0.7, 1.42] and the integer n of exp(x) = p 2^n, for clamped x."""
    r, n = reduce(v, x)
    tail = v.estrin(r, _RANGES[v.element].exp_tail)
    return v.add(v.fma(v.mul(r, r), tail, r), v.f(1.0)), n


def exp(v: Lanewise, x: str) -> str:
    """e to the x."""
    return v.scale(*exp_core(v, v.clamp(x, *_RANGES[v.element].exp)))


def exp_moderate(v: Lanewise, x: str) -> str:
    """exp(x) where neither x nor the result is near the ends of the range."""
    p, n = exp_core(v, x)
    return v.mul(p, v.power(n))


def exp2(v: Lanewise, x: str) -> str:
    """2 to the x."""
    k = _RANGES[v.element]
    x = v.clamp(x, *k.exp2)
    number, n = v.nearest(x, 1.0)
    r = v.sub(x, number)
    return v.scale(v.fma(r, v.estrin(r, k.exp2_slope), v.f(1.0)), n)


def expm1(v: Lanewise, x: str) -> str:
    """exp(x) - 1 = 2 (t s + (s - 1/2)) with s = 2^(n-1) and t = exp(r) - 1, which also reaches the largest results."""
    k = _RANGES[v.element]
    r, n = reduce(v, v.clamp(x, *k.expm1))
    t = v.fma(v.mul(r, r), v.estrin(r, k.expm1_tail), r)
    s = v.power(v.isub(n, v.i(1)))
    half = v.fma(t, s, v.sub(s, v.f(0.5)))
    # With n = 0 the result is t itself; denormals would lose a bit on the way through t / 2.
    result = v.select(v.icmp("eq", n, v.i(0)), t, v.add(half, half))
    return v.copysign(result, x)


def sigmoid(v: Lanewise, x: str) -> str:
    """1 / (1 + e) or e / (1 + e) with e = exp(-|x|), and one correction for the rounding of 1 + e.

    q - q l / d, where d + l = 1 + e exactly; 1 / d is q or 1 - q.
    """
    magnitude = v.abs(x)
    e = exp(v, v.neg(magnitude))
    negative = v.cmp("olt", x, v.f(0.0))
    d = v.add(e, v.f(1.0))
    lost = v.sub(e, v.sub(d, v.f(1.0)))
    q = v.div(v.select(negative, e, v.f(1.0)), d)
    inverse = v.select(negative, v.sub(v.f(1.0), q), q)
    return v.fma(v.neg(v.mul(q, lost)), inverse, q)


def tanh(v: Lanewise, x: str) -> str:
    """Hyperbolic tangent."""
    k = _RANGES[v.element]
    magnitude = v.abs(x)
    square = v.mul(x, x)
    small = v.fma(v.mul(square, x), v.estrin(square, k.tanh_tail), x)
    far = v.select(v.cmp("olt", v.f(k.tanh), magnitude), v.f(k.tanh), magnitude)
    e = exp_moderate(v, v.add(far, far))
    large = v.sub(v.f(1.0), v.div(v.f(2.0), v.add(e, v.f(1.0))))
    return v.copysign(v.select(v.cmp("olt", magnitude, v.f(_TANH_SPLIT)), small, large), x)
