"""log, log2 and log1p as polynomials.

x = m 2^e with m in [sqrt(1/2), sqrt(2)), and z = m - 1 exactly. In f32 log(1 + z) = z - z^2/2 + z^3 p(z); in f64,
where that would take 20 terms, log(1 + z) = z - (z^2/2 - s (z^2/2 + s^2 p(s^2))) with s = z / (2 + z), as in fdlibm.
"""

from firebox.lowering.math import coefficients as c
from firebox.lowering.math.lanewise import Lanewise

LN2 = {
    "float": (0.6931471824645996, -1.9046542121259336e-09),
    "double": (0.6931471805599453, 2.3190468138462996e-17),
}
LOG2_E = {
    "float": (1.4426950216293335, 1.925963033500011e-08),
    "double": (1.4426950408889634, 2.0355273740931033e-17),
}
_INF = float("inf")
_NAN = float("nan")


def exponent_of(v: Lanewise, x: str) -> str:
    """The integer e of x = m 2^e, m in [sqrt(1/2), sqrt(2)), of a positive normal x."""
    return v.ashr(v.isub(v.bits(x), v.bits_of(0.7071067811865476)), v.mantissa_bits)


def scaled_down(v: Lanewise, x: str, e: str) -> str:
    """x / 2^e by its exponent field."""
    return v.real(v.isub(v.bits(x), v.shl(e, v.mantissa_bits)))


def as_real(v: Lanewise, e: str) -> str:
    """A small integer as a float; for f64 without the conversion, which only AVX-512 has for vectors."""
    if v.element == "float":
        return v.number(e)
    magic = 1.5 * 2.0**v.mantissa_bits
    return v.sub(v.real(v.iadd(e, v.bits_of(magic))), v.f(magic))


def split(v: Lanewise, x: str) -> tuple[str, str]:
    """z = m - 1 and e as a float, for positive finite x including denormals."""
    shift = v.mantissa_bits
    smallest = 2.0**-126 if v.element == "float" else 2.0**-1022
    tiny = v.cmp("olt", x, v.f(smallest))
    x = v.select(tiny, v.mul(x, v.f(2.0**shift)), x)
    e = exponent_of(v, x)
    z = v.sub(scaled_down(v, x, e), v.f(1.0))
    number = as_real(v, e)
    return z, v.select(tiny, v.sub(number, v.f(float(shift))), number)


def specials(v: Lanewise, x: str, pole: float, result: str) -> str:
    """Infinite at +inf, -inf at the pole, NaN below it or for NaN."""
    result = v.select(v.cmp("olt", x, v.f(_INF)), result, x)
    result = v.select(v.cmp("ult", x, v.f(pole)), v.f(_NAN), result)
    return v.select(v.cmp("oeq", x, v.f(pole)), v.f(-_INF), result)


def _log_parts(v: Lanewise, z: str) -> tuple[str, str]:
    """z^2/2 and s (z^2/2 + s^2 p(s^2)): log(1 + z) = z - (first - second)."""
    s = v.div(z, v.add(z, v.f(2.0)))
    square = v.mul(s, s)
    half = v.mul(v.mul(z, z), v.f(0.5))
    tail = v.fma(square, v.estrin(square, c.LOG_64), half)
    return half, v.mul(s, tail)


def log_from(v: Lanewise, z: str, e: str) -> str:
    """log(1 + z) + e log(2)."""
    high, low = (v.f(part) for part in LN2[v.element])
    if v.element == "double":
        half, rest = _log_parts(v, z)
        return v.fma(e, high, v.sub(z, v.sub(half, v.fma(e, low, rest))))
    square = v.mul(z, z)
    y = v.mul(v.mul(v.estrin(z, c.LOG_32), z), square)
    y = v.fma(square, v.f(-0.5), v.fma(e, low, y))
    return v.fma(e, high, v.add(z, y))


def log(v: Lanewise, x: str) -> str:
    """Natural logarithm."""
    return specials(v, x, 0.0, log_from(v, *split(v, x)))


def log2(v: Lanewise, x: str) -> str:
    """Logarithm to base 2; the factor 1 / log(2) has two parts."""
    z, e = split(v, x)
    high, low = (v.f(part) for part in LOG2_E[v.element])
    if v.element == "float":
        rest = v.fma(v.mul(z, z), v.estrin(z, c.LOG2_32), v.mul(z, low))
        return specials(v, x, 0.0, v.add(e, v.fma(z, high, rest)))
    half, tail = _log_parts(v, z)
    head = v.sub(z, half)
    tail = v.add(v.sub(v.sub(z, head), half), tail)
    product = v.mul(head, high)
    error = v.fma(head, high, v.neg(product))
    error = v.add(error, v.fma(head, low, v.mul(tail, high)))
    total = v.add(e, product)
    error = v.add(error, v.add(v.sub(e, total), product))
    return specials(v, x, 0.0, v.add(total, error))


def log1p(v: Lanewise, x: str) -> str:
    """log(1 + x): the exponent comes from 1 + x, but z = x / 2^e + (1 / 2^e - 1) from x itself."""
    bias = (1 << (v.bit_count - v.mantissa_bits - 2)) - 1
    e = exponent_of(v, v.add(x, v.f(1.0)))
    field = v.imax(v.isub(v.i(bias), e), v.i(0))
    z = v.add(scaled_down(v, x, e), v.sub(v.real(v.shl(field, v.mantissa_bits)), v.f(1.0)))
    result = v.copysign(log_from(v, z, as_real(v, e)), x)  # keeps the sign of a zero
    return specials(v, x, -1.0, result)
