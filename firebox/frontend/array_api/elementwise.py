"""Element-wise functions of the standard."""

from typing import Any

from firebox.errors import DTypeError
from firebox.frontend import pairs
from firebox.frontend.elementwise import (
    abs,
    ceil,
    cos,
    exp,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    negative,
    positive,
    sign,
    sin,
    sqrt,
    square,
    trunc,
)
from firebox.frontend.functions.activations import tanh
from firebox.frontend.functions.mathematics import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cosh,
    log2,
    log10,
    logical_not,
    reciprocal,
    signbit,
    sinh,
    tan,
)
from firebox.frontend.functions.mathematics import bitwise_not as bitwise_invert
from firebox.frontend.pairs import (
    add,
    atan2,
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    copysign,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    less,
    less_equal,
    logaddexp,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    nextafter,
    not_equal,
    remainder,
    subtract,
)
from firebox.frontend.tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

pow = pairs.power


def round(x: Tensor, /) -> Tensor:
    """To the nearest integer, halves to even."""
    return x.round()


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Values held between the bounds, in x's type; None is no bound."""
    return x.clip(min, max).astype(x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """x: every type is real."""
    return x


def real(x: Tensor, /) -> Tensor:
    """x: every type is real."""
    return x


def imag(x: Tensor, /) -> Tensor:
    """Refused, as the standard has it for real types.

    Raises:
        DTypeError: always.
    """
    raise DTypeError("real numbers have no imaginary part", op="imag", expected="a complex type", found=x.dtype.name)
