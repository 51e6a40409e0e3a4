"""f16 and bf16, whose bits are the low half of an integer, from and to f32 by integer operations."""

from firebox.lowering.math.lanewise import Lanewise


def bf16_to_float(v: Lanewise, bits: str) -> str:
    """The upper half of a float."""
    return v.real(v.shl(bits, 16))


def float_to_bf16(v: Lanewise, x: str) -> str:
    """Round half to even by adding 0x7fff and the lowest kept bit; a NaN stays one (its quiet bit is set)."""
    bits = v.bits(x)
    lowest = v.and_(v.lshr(bits, 16), v.i(1))
    rounded = v.lshr(v.iadd(bits, v.iadd(lowest, v.i(0x7FFF))), 16)
    quiet = v.or_(v.lshr(bits, 16), v.i(0x40))
    return v.iselect(v.cmp("uno", x, x), quiet, rounded)


def f16_to_float(v: Lanewise, bits: str) -> str:
    """Exact: move the fields, scale by 2^112, which also makes denormals normal; fix inf."""
    magnitude = v.shl(v.and_(bits, v.i(0x7FFF)), 13)
    scaled = v.bits(v.mul(v.real(magnitude), v.f(2.0**112)))
    special = v.icmp("uge", magnitude, v.i(0x7C00 << 13))
    scaled = v.iselect(special, v.or_(magnitude, v.i(0x7F800000)), scaled)
    return v.real(v.or_(scaled, v.shl(v.and_(bits, v.i(0x8000)), 16)))


def float_to_f16(v: Lanewise, x: str) -> str:
    """Round half to even: normals by adding below the last kept bit, denormals by adding 0.5, whose last place is
    2^-24 (F. Giesen, float_to_half_fast3_rtne)."""
    bits = v.bits(x)
    magnitude = v.and_(bits, v.i(0x7FFFFFFF))
    small = v.isub(v.bits(v.add(v.real(magnitude), v.f(0.5))), v.i(0x3F000000))
    lowest = v.and_(v.lshr(magnitude, 13), v.i(1))
    normal = v.lshr(v.iadd(v.iadd(magnitude, v.i(0xFFF - (112 << 23))), lowest), 13)
    half = v.iselect(v.icmp("ult", magnitude, v.i(113 << 23)), small, normal)
    half = v.iselect(v.icmp("uge", magnitude, v.i(0x47800000)), v.i(0x7C00), half)
    nan = v.or_(v.i(0x7E00), v.and_(v.lshr(magnitude, 13), v.i(0x1FF)))
    half = v.iselect(v.icmp("ugt", magnitude, v.i(0x7F800000)), nan, half)
    return v.or_(half, v.and_(v.lshr(bits, 16), v.i(0x8000)))


def double_to_float_odd(v: Lanewise, x: str) -> str:
    """f64 to f32, inexact results with an odd last bit: rounding once more gives the correctly rounded f16."""
    wide = v.double()
    near = v.narrow(x)
    back = v.widen(near)
    bits = v.bits(near)
    too_far = wide.cmp("ogt", wide.abs(back), wide.abs(x))
    toward_zero = v.iselect(too_far, v.isub(bits, v.i(1)), bits)
    inexact = wide.cmp("one", back, x)
    return v.real(v.iselect(inexact, v.or_(toward_zero, v.i(1)), bits))
