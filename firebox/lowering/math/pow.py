"""pow: exp2(y log2 |x|) with more bits than the result has, and the special cases of C99 (F.9.4.4).

f32 computes in f64. f64 takes the logarithm as an unevaluated sum of two doubles: log((1+s)/(1-s)) = 2s + s (2/3 s^2 +
s^4 p(s^2)), where s, s^2 and the coefficient 2/3 have two parts.
"""

from firebox.lowering.math import coefficients as c
from firebox.lowering.math.lanewise import Lanewise
from firebox.lowering.math.log import LOG2_E, as_real, exponent_of, scaled_down, split

_INF = float("inf")
_NAN = float("nan")
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)

Pair = tuple[str, str]


def pow_(v: Lanewise, x: str, y: str) -> str:
    """x to the y."""
    magnitude = v.abs(x)
    power = _power_float(v, magnitude, y) if v.element == "float" else _power_double(v, magnitude, y)
    return _specials(v, x, y, magnitude, power)


def _specials(v: Lanewise, x: str, y: str, magnitude: str, power: str) -> str:
    one, zero = v.f(1.0), v.f(0.0)
    power = v.select(v.cmp("oeq", magnitude, one), one, power)  # also to an infinite power
    whole = v.cmp("oeq", v.round("trunc", y), y)
    half = v.mul(y, v.f(0.5))
    odd = v.both(whole, v.cmp("une", v.round("trunc", half), half))
    sign = v.and_(v.bits(x), v.i(1 << (v.bit_count - 1)))
    power = v.select(odd, v.real(v.xor(v.bits(power), sign)), power)
    imaginary = v.both(v.both(v.cmp("olt", x, zero), v.cmp("ogt", x, v.f(-_INF))), v.not_(whole))
    power = v.select(imaginary, v.f(_NAN), power)
    power = v.select(v.cmp("uno", x, y), v.add(x, y), power)
    return v.select(v.either(v.cmp("oeq", y, zero), v.cmp("oeq", x, one)), one, power)


def _ends(v: Lanewise, magnitude: str, logarithm: str) -> str:
    """The logarithm with its values at 0 and infinity."""
    logarithm = v.select(v.cmp("oeq", magnitude, v.f(0.0)), v.f(-_INF), logarithm)
    return v.select(v.cmp("oeq", magnitude, v.f(_INF)), v.f(_INF), logarithm)


def _power_float(v: Lanewise, magnitude: str, y: str) -> str:
    w = v.double()
    wide, exponent = (v.widen(value) for value in (magnitude, y))
    e = exponent_of(w, wide)
    z = w.sub(scaled_down(w, wide, e), w.f(1.0))
    tail = w.mul(w.mul(z, z), w.estrin(z, c.LOG2_POW))
    logarithm = w.fma(z, w.f(LOG2_E["double"][0]), w.add(as_real(w, e), tail))
    product = w.clamp(w.mul(exponent, _ends(w, wide, logarithm)), -160.0, 130.0)
    number, n = w.nearest(product, 1.0)
    r = w.sub(product, number)
    result = w.mul(w.fma(r, w.estrin(r, c.EXP2_POW), w.f(1.0)), w.power(n))
    return v.narrow(result)


def _product(v: Lanewise, a: str, b: str) -> Pair:
    """a * b and its rounding error."""
    product = v.mul(a, b)
    return product, v.fma(a, b, v.neg(product))


def _sum(v: Lanewise, a: str, b: str) -> Pair:
    """a + b and its rounding error, for |a| >= |b| or a = 0 (Dekker)."""
    total = v.add(a, b)
    return total, v.add(v.sub(a, total), b)


def _log2_pair(v: Lanewise, magnitude: str) -> Pair:
    """log2 with about 65 bits."""
    z, e = split(v, magnitude)
    u, u_low = _sum(v, v.f(2.0), z)
    s = v.div(z, u)
    rest = v.fma(v.neg(s), u_low, v.fma(v.neg(s), u, z))
    s_low = v.mul(rest, v.fma(s, v.f(-0.5), v.f(0.5)))  # 1 / u = (1 - s) / 2
    q, q_low = _product(v, s, s)
    q_low = v.fma(v.add(s, s), s_low, q_low)
    high, low = (v.f(part) for part in _TWO_THIRDS)
    first, first_low = _product(v, high, q)
    first_low = v.add(first_low, v.fma(high, q_low, v.mul(low, q)))
    g, g_low = _sum(v, first, v.mul(v.mul(q, q), v.estrin(q, c.LOG_POW_64)))
    h, h_low = _sum(v, v.f(2.0), g)
    h_low = v.add(h_low, v.add(g_low, first_low))
    natural, natural_low = _product(v, s, h)
    natural_low = v.add(natural_low, v.fma(s, h_low, v.mul(s_low, h)))
    factor, factor_low = (v.f(part) for part in LOG2_E["double"])
    k, k_low = _product(v, natural, factor)
    k_low = v.add(k_low, v.fma(natural, factor_low, v.mul(natural_low, factor)))
    total, total_low = _sum(v, e, k)
    return total, v.add(total_low, k_low)


def _power_double(v: Lanewise, magnitude: str, y: str) -> str:
    logarithm, logarithm_low = _log2_pair(v, magnitude)
    product = v.mul(y, _ends(v, magnitude, logarithm))
    low = v.fma(y, logarithm_low, v.fma(y, logarithm, v.neg(product)))
    # Beyond the range of results the correction may be inf - inf, and does not matter.
    low = v.select(v.cmp("olt", v.abs(product), v.f(1100.0)), low, v.f(0.0))
    product = v.clamp(product, -1080.0, 1030.0)
    number, n = v.nearest(product, 1.0)
    r = v.add(v.sub(product, number), low)
    return v.scale(v.fma(r, v.estrin(r, c.EXP2_64), v.f(1.0)), n)
