"""Element-wise functions of two operands, of which either may be a number: it takes the type of the other."""

from typing import Any

from firebox.errors import DTypeError
from firebox.frontend.functions import mathematics
from firebox.frontend.tensor import Tensor, as_tensor


def first(a: Any, b: Any) -> Tensor:
    """The first operand as a tensor: beside a tensor a number takes its type."""
    return b.lift(a) if isinstance(b, Tensor) and not isinstance(a, Tensor) else as_tensor(a)


def add(a: Any, b: Any) -> Tensor:
    """a + b."""
    return first(a, b).__add__(b)


def subtract(a: Any, b: Any) -> Tensor:
    """a - b."""
    return first(a, b).__sub__(b)


def multiply(a: Any, b: Any) -> Tensor:
    """a * b."""
    return first(a, b).__mul__(b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b; integers become floats."""
    return first(a, b).__truediv__(b)


def floor_divide(a: Any, b: Any) -> Tensor:
    """The quotient rounded down; an integer divided by 0 gives 0."""
    return first(a, b).__floordiv__(b)


def remainder(a: Any, b: Any) -> Tensor:
    """The remainder of the division rounded down, with the sign of b: Python's ``%``."""
    return first(a, b).__mod__(b)


def fmod(a: Any, b: Any) -> Tensor:
    """The remainder of the division rounded toward 0, with the sign of a, as in C."""
    return mathematics.fmod(first(a, b), b)


def divmod(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """``a // b`` and ``a % b``."""
    return mathematics.divmod(first(a, b), b)


def power(a: Any, b: Any) -> Tensor:
    """a to the b."""
    return first(a, b).__pow__(b)


def maximum(a: Any, b: Any) -> Tensor:
    """Element-wise; NaN wins."""
    return first(a, b).maximum(b)


def minimum(a: Any, b: Any) -> Tensor:
    """Element-wise; NaN wins."""
    return first(a, b).minimum(b)


def atan2(a: Any, b: Any) -> Tensor:
    """The angle in [-pi, pi] of the point (x, y) = (b, a); the gradient at (0, 0) is 0."""
    return first(a, b)._binary("atan2", b)


def hypot(a: Any, b: Any) -> Tensor:
    """sqrt(a*a + b*b) without overflow; the gradient at (0, 0) is 0."""
    return first(a, b)._binary("hypot", b)


def copysign(a: Any, b: Any) -> Tensor:
    """The magnitude of a with the sign of b."""
    return first(a, b)._binary("copysign", b)


def nextafter(a: Any, b: Any) -> Tensor:
    """The number of the type that follows a in the direction of b."""
    return mathematics.nextafter(first(a, b), b)


def logaddexp(a: Any, b: Any) -> Tensor:
    """log(exp(a) + exp(b)), without overflow."""
    return mathematics.logaddexp(first(a, b), b)


def logaddexp2(a: Any, b: Any) -> Tensor:
    """log2(2**a + 2**b), without overflow."""
    return mathematics.logaddexp2(first(a, b), b)


def xlogy(a: Any, b: Any) -> Tensor:
    """a * log(b), and 0 where a is 0 and b is not NaN."""
    return mathematics.xlogy(first(a, b), b)


# ---- comparisons -------------------------------------------------------------------------------------------------


def equal(a: Any, b: Any) -> Tensor:
    """Element by element."""
    return first(a, b).__eq__(b)


def not_equal(a: Any, b: Any) -> Tensor:
    """a != b; true with NaN."""
    return first(a, b).__ne__(b)


def less(a: Any, b: Any) -> Tensor:
    """a < b."""
    return first(a, b).__lt__(b)


def less_equal(a: Any, b: Any) -> Tensor:
    """a <= b."""
    return first(a, b).__le__(b)


def greater(a: Any, b: Any) -> Tensor:
    """a > b."""
    return first(a, b).__gt__(b)


def greater_equal(a: Any, b: Any) -> Tensor:
    """a >= b."""
    return first(a, b).__ge__(b)


# ---- logic and bits ----------------------------------------------------------------------------------------------


def logical_and(a: Any, b: Any) -> Tensor:
    """Whether both are nonzero."""
    result: Tensor = first(a, b).bool() & _truth(b)
    return result


def logical_or(a: Any, b: Any) -> Tensor:
    """Whether one is nonzero."""
    result: Tensor = first(a, b).bool() | _truth(b)
    return result


def logical_xor(a: Any, b: Any) -> Tensor:
    """Whether one of the two is nonzero."""
    result: Tensor = first(a, b).bool() ^ _truth(b)
    return result


def _truth(value: Any) -> Any:
    return bool(value) if isinstance(value, bool | int | float) else as_tensor(value).bool()


def bitwise_and(a: Any, b: Any) -> Tensor:
    """Bits set in both; of bools, and."""
    result: Tensor = _bits("bitwise_and", a, b) & b
    return result


def bitwise_or(a: Any, b: Any) -> Tensor:
    """Bits set in either; of bools, or."""
    result: Tensor = _bits("bitwise_or", a, b) | b
    return result


def bitwise_xor(a: Any, b: Any) -> Tensor:
    """Bits set in one of the two."""
    result: Tensor = _bits("bitwise_xor", a, b) ^ b
    return result


def bitwise_left_shift(a: Any, b: Any) -> Tensor:
    """Bits moved up by b places; all leave where b is below 0, or the width and more."""
    result: Tensor = _bits("bitwise_left_shift", a, b) << b
    return result


def bitwise_right_shift(a: Any, b: Any) -> Tensor:
    """Bits moved down by b places; negative numbers stay negative."""
    result: Tensor = _bits("bitwise_right_shift", a, b) >> b
    return result


def _bits(op: str, a: Any, b: Any) -> Tensor:
    x = first(a, b)
    if x.dtype.is_float:
        raise DTypeError("floats have no bits", op=op, expected="an int type or bool", found=x.dtype.name)
    return x


left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
