"""Element-wise functions of one or two arrays; floats only unless said otherwise."""

import math
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dtypes import DType, result_type
from firebox.errors import DTypeError, UserError
from firebox.frontend.functions.support import A, equals, require_float, require_int

_SIGNED_BITS = {2: dtypes.i16, 4: dtypes.i32, 8: dtypes.i64}


def both(op: str, a: A, b: Any) -> tuple[A, A]:
    """Two operands of their common type; a number takes the array's.

    Raises:
        DTypeError: the second is neither an array nor a number.
    """
    other = a.lift(b)
    if not isinstance(other, type(a)) and not isinstance(a, type(other)):
        raise DTypeError("not an operand", op=op, expected="an array or a number", found=type(b).__name__)
    dtype = result_type(a.dtype, other.dtype)
    return a.astype(dtype), other.astype(dtype)  # type: ignore[return-value]  # checked above


# ---- trigonometry ------------------------------------------------------------------------------------------------


def tan(x: A) -> A:
    """The tangent of an angle in radians."""
    return x.one("tan", x)


def asin(x: A) -> A:
    """The angle in [-pi/2, pi/2] of that sine; NaN outside of [-1, 1]."""
    return x.one("asin", x)


def acos(x: A) -> A:
    """The angle in [0, pi] of that cosine; NaN outside of [-1, 1]."""
    return x.one("acos", x)


def atan(x: A) -> A:
    """The angle in [-pi/2, pi/2] of that tangent."""
    return x.one("atan", x)


def sinh(x: A) -> A:
    """The hyperbolic sine."""
    return x.one("sinh", x)


def cosh(x: A) -> A:
    """The hyperbolic cosine."""
    return x.one("cosh", x)


def asinh(x: A) -> A:
    """The inverse of the hyperbolic sine."""
    return x.one("asinh", x)


def acosh(x: A) -> A:
    """The inverse of the hyperbolic cosine; NaN below 1."""
    return x.one("acosh", x)


def atanh(x: A) -> A:
    """The inverse of the hyperbolic tangent; NaN outside of [-1, 1]."""
    return x.one("atanh", x)


def deg2rad(x: A) -> A:
    """Degrees as radians."""
    return x * (math.pi / 180.0)


def rad2deg(x: A) -> A:
    """Radians as degrees."""
    return x * (180.0 / math.pi)


def sinc(x: A) -> A:
    """sin(pi x) / (pi x), and 1 at 0, where the gradient is 0."""
    require_float("sinc", x)
    zero = equals(x, 0.0)
    angle = zero.where(1.0, x) * math.pi
    return zero.where(1.0, angle.sin() / angle)


# ---- exponentials ------------------------------------------------------------------------------------------------


def exp2(x: A) -> A:
    """2 to the x."""
    return x.one("exp2", x)


def log2(x: A) -> A:
    """The logarithm to base 2."""
    return x.one("log2", x)


def log10(x: A) -> A:
    """The logarithm to base 10."""
    return x.one("log10", x)


def cbrt(x: A) -> A:
    """The cube root, of negative numbers too."""
    return x.one("cbrt", x)


def reciprocal(x: A) -> A:
    """1 / x."""
    require_float("reciprocal", x)
    return 1.0 / x


def logaddexp(a: A, b: Any) -> A:
    """log(exp(a) + exp(b)), without overflow."""
    a, b = both("logaddexp", a, b)
    require_float("logaddexp", a)
    top = a.maximum(b)
    distance = (a - b).abs()
    same = equals(a, b)  # of two infinities the distance is NaN
    return top + same.where(math.log(2.0), (-same.where(0.0, distance)).exp().log1p())


def logaddexp2(a: A, b: Any) -> A:
    """log2(2**a + 2**b), without overflow."""
    a, b = both("logaddexp2", a, b)
    return logaddexp(a * math.log(2.0), b * math.log(2.0)) * (1.0 / math.log(2.0))


def xlogy(x: A, y: Any) -> A:
    """x * log(y), and 0 where x is 0 and y is not NaN."""
    x, y = both("xlogy", x, y)
    require_float("xlogy", x)
    unused = equals(x, 0.0) & ~y.isnan()
    result: A = x * unused.where(1.0, y).log()
    return result


# ---- signs, neighbours, remainders -------------------------------------------------------------------------------


def signbit(x: A) -> A:
    """Whether the sign bit is set: of negative numbers, -0.0 and negative NaNs. Integers too."""
    if not x.dtype.is_float:
        return x < 0 if x.dtype.is_signed else equals(x, x).__invert__()
    return x.bitcast(_SIGNED_BITS[x.dtype.itemsize]) < 0


def nextafter(a: A, b: Any) -> A:
    """The number of the type that follows ``a`` in the direction of ``b``; ``a`` has no gradient."""
    a, b = both("nextafter", a, b)
    require_float("nextafter", a)
    signed = _SIGNED_BITS[a.dtype.itemsize]
    bits = a.bitcast(signed)
    outward = equals(a > 0, b > a)  # away from zero: the next number has the next larger bits
    moved = (bits + outward.where(1, -1).astype(signed)).bitcast(a.dtype)
    least = bits.literal(1).bitcast(a.dtype)
    from_zero = (b > 0).where(least, -least)
    step = equals(a, 0).where(from_zero, moved)
    result: A = (a.isnan() | b.isnan()).where(float("nan"), equals(a, b).where(b, step))
    return result


def fmod(a: A, b: Any) -> A:
    """The remainder of the division rounded toward 0, with the sign of a, as in C. Integers too."""
    a, b = both("fmod", a, b)
    if not a.dtype.is_signed:
        result: A = a % b
        return result
    rest = a.abs() % b.abs()
    return a.one("copysign", rest, a) if a.dtype.is_float else (a < 0).where(-rest, rest)


def remainder(a: A, b: Any) -> A:
    """The remainder of the division rounded down, with the sign of b: Python's ``%``."""
    result: A = a % b
    return result


def divmod(a: A, b: Any) -> tuple[A, A]:
    """``a // b`` and ``a % b``."""
    return a // b, a % b


def round_to(x: A, decimals: int = 0) -> A:
    """To that many decimals, halves to even; negative numbers round before the point.

    Raises:
        UserError: integers with another number of decimals than 0.
    """
    if decimals == 0 or (decimals > 0 and not x.dtype.is_float):
        return x.round()
    if not x.dtype.is_float:
        raise UserError("integers have no decimals", op="round", expected="decimals >= 0", found=decimals)
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale


def lerp(start: A, end: Any, weight: Any) -> A:
    """start + weight * (end - start)."""
    result: A = start + (start.lift(end) - start) * weight
    return result


# ---- questions ---------------------------------------------------------------------------------------------------


def isposinf(x: A) -> A:
    """Whether x is +infinity."""
    return equals(x, float("inf")) if x.dtype.is_float else x.isinf()


def isneginf(x: A) -> A:
    """Whether x is -infinity."""
    return equals(x, float("-inf")) if x.dtype.is_float else x.isinf()


def nan_to_num(x: A, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> A:
    """NaN and infinities replaced; infinities by the largest and the smallest number unless given."""
    if not x.dtype.is_float:
        return x
    largest = limit(x.dtype)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    finite = isposinf(x).where(high, isneginf(x).where(low, x))
    return x.isnan().where(nan, finite)


def limit(dtype: DType) -> float:
    """The largest number of a float type."""
    if dtype is dtypes.bf16:
        return 3.3895313892515355e38
    info: Any = np.finfo(dtype.numpy.char)
    return float(info.max)


def contains_nan(x: A) -> A:
    """Whether an element is NaN, as a 0-d bool."""
    return x.isnan().any()


def array_equal(a: A, b: Any, equal_nan: bool = False) -> A:
    """Whether two arrays have the same shape and elements, as a 0-d bool."""
    other = a.lift(b)
    if not isinstance(other, ArrayLike) or a.shape != other.shape:
        return a.literal(False, dtypes.bool_)
    same = equals(a, other)
    return (same | (a.isnan() & other.isnan()) if equal_nan else same).all()


# ---- bits --------------------------------------------------------------------------------------------------------


def bitwise_not(x: A) -> A:
    """Every bit of integers inverted; not, of bools."""
    if not x.dtype.is_bool:
        require_int("bitwise_not", x, "input")
    return ~x


def logical_not(x: A) -> A:
    """Whether x is 0."""
    return ~x.astype(dtypes.bool_)
