"""sin, cos and tan: reduction to |r| <= pi/4 and one polynomial each.

Moderate angles reduce by pi/2 in three parts with fused multiply-adds (Cody and Waite 1980). If any lane is larger, a
helper function replaces r by the exact reduction of Payne and Hanek (1983), so results are right for all angles.
"""

from firebox.lowering.math import coefficients as c
from firebox.lowering.math.lanewise import Angle, Lanewise

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_MODERATE = {"float": 2.0**16, "double": 2.0**30}
"""Up to here n pi/2 has at most as many bits as the reduction needs."""


def reduce(v: Lanewise, x: str, two_parts: bool) -> Angle:
    """r in two parts, and the integer n of x = n pi/2 + r, of which two bits count.

    Args:
        two_parts: whether f32 has a second part too, for moderate angles; else it is zero there.
    """
    r, low, n = _reduce_moderate(v, x, two_parts)
    magnitude = v.abs(x)
    far = v.cmp("ogt", magnitude, v.f(_MODERATE[v.element]))
    far = v.both(far, v.cmp("olt", magnitude, v.f(float("inf"))))
    r, exact_low, n = v.replace_large(x, far, (r, low, n))
    if v.element == "float" and two_parts:
        exact_low = v.select(far, v.f(0.0), low)  # the exact reduction gives one f32
    return r, exact_low, n


def _reduce_moderate(v: Lanewise, x: str, two_parts: bool) -> Angle:
    first, second, third = _HALF_PI[v.element]
    number, n = v.nearest(x, _TWO_OVER_PI)
    r = v.fma(number, v.f(-first), x)
    if v.element == "float" and not two_parts:
        r = v.fma(number, v.f(-third), v.fma(number, v.f(-second), r))
        return r, v.f(0.0), n
    # r - number * second as an exact sum (Knuth's two-sum), whatever is the larger.
    product = v.mul(number, v.f(second))
    lost = v.fma(number, v.f(second), v.neg(product))
    total = v.sub(r, product)
    back = v.add(total, product)
    part = v.sub(total, back)
    error = v.sub(v.sub(r, back), v.add(part, product))
    error = v.fma(number, v.f(-third), v.sub(error, lost))
    high = v.add(total, error)
    return high, v.add(v.sub(total, high), error), n


def _sine(v: Lanewise, r: str, low: str, square: str) -> str:
    if v.element == "float":
        return v.fma(v.mul(square, r), v.estrin(square, c.SIN_32), r)
    tail = v.mul(v.mul(square, r), v.estrin(square, c.SIN_64))
    return v.add(r, v.fma(low, v.fma(square, v.f(-0.5), v.f(1.0)), tail))


def _cosine(v: Lanewise, r: str, low: str, square: str) -> str:
    fourth = v.mul(square, square)
    if v.element == "float":
        return v.fma(fourth, v.estrin(square, c.COS_32), v.fma(square, v.f(-0.5), v.f(1.0)))
    half = v.mul(square, v.f(0.5))
    head = v.sub(v.f(1.0), half)
    tail = v.fma(fourth, v.estrin(square, c.COS_64), v.neg(v.mul(r, low)))
    return v.add(head, v.add(v.sub(v.sub(v.f(1.0), head), half), tail))


def _quadrant(v: Lanewise, x: str, first: int) -> tuple[str, str]:
    """The reduced sine or cosine by quadrant, and the quadrant; `first` is 1 for the cosine."""
    r, low, n = reduce(v, x, two_parts=v.element == "double")
    quadrant = n if first == 0 else v.iadd(n, v.i(first))
    square = v.mul(r, r)
    odd = v.icmp("ne", v.and_(quadrant, v.i(1)), v.i(0))
    value = v.select(odd, _cosine(v, r, low, square), _sine(v, r, low, square))
    sign = v.shl(v.and_(quadrant, v.i(2)), v.bit_count - 2)
    return v.real(v.xor(v.bits(value), sign)), quadrant


def sin(v: Lanewise, x: str) -> str:
    """Sine; a zero keeps its sign."""
    value, _ = _quadrant(v, x, 0)
    return v.select(v.cmp("oeq", x, v.f(0.0)), x, value)


def cos(v: Lanewise, x: str) -> str:
    """Cosine."""
    return _quadrant(v, x, 1)[0]


def tan(v: Lanewise, x: str) -> str:
    """Tangent: that of the reduced angle, in every other quadrant -1 over it; a zero keeps its sign."""
    r, low, n = reduce(v, x, two_parts=True)
    square = v.mul(r, r)
    tail = v.mul(v.mul(square, r), v.estrin(square, c.TAN_32 if v.element == "float" else c.TAN_64))
    near = v.add(r, tail)
    value = v.add(r, v.fma(low, v.fma(near, near, v.f(1.0)), tail))  # tan(r + low) = tan(r) + low (1 + tan(r)^2)
    odd = v.icmp("ne", v.and_(n, v.i(1)), v.i(0))
    value = v.select(odd, v.div(v.f(-1.0), value), value)
    return v.select(v.cmp("oeq", x, v.f(0.0)), x, value)
