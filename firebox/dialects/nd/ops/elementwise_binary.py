"""Element-wise ops of two arrays, which broadcast as in NumPy."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    ANY,
    BITS,
    FLOAT,
    INT,
    NUMBER,
    Arrays,
    Grads,
    aligned,
    broadcast_shapes,
    check_dtype,
    check_same_dtype,
    computed,
    short_name,
)
from firebox.dtypes import DType, as_dtype


class Binary(NdOp):
    """A function of two elements of one type; the scalar builder has it under the op's name."""

    kind = Kind.MAP
    arity = 2
    accepts: ClassVar[frozenset[DType]] = NUMBER
    domain: ClassVar[tuple[cases.Domain, cases.Domain]] = ((-3.0, 3.0), (-3.0, 3.0))
    function: ClassVar[Callable[..., Any]]
    method: ClassVar[str] = ""  # name in the scalar builder, where it differs from the op's

    @classmethod
    def infer(cls, a: Aval, b: Aval) -> Aval:
        check_same_dtype(cls, a, b)
        check_dtype(cls, a, cls.accepts)
        return a if a.shape == b.shape else Aval(a.dtype, broadcast_shapes(cls, a.shape, b.shape))

    @classmethod
    def evaluate(cls, a: Array, b: Array) -> Array:
        result: Array = computed(cls.function, a, b)
        return result

    @classmethod
    def scalar(cls, s: Any, a: Any, b: Any) -> Any:
        """The function in terms of the scalar builder."""
        return getattr(s, cls.method or short_name(cls))(a, b)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval]) -> Formula:
        return elementwise(avals, results[0].shape, cls.scalar)

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool]) -> ArrayLike:
        return operands[0].apply(cls, aligned(operands, batched), {})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for left, right in cases.BINARY_SHAPES:
                a = cases.values(rng, dtype, left, cls.domain[0])
                yield Sample((a, cases.values(rng, dtype, right, cls.domain[1])))


@register
class Add(Binary):
    """a + b; integers wrap, bools combine by or."""

    name = "nd.add"
    accepts = ANY
    function = np.add

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0], cts[0]]


@register
class Sub(Binary):
    """a - b; integers wrap."""

    name = "nd.sub"
    function = np.subtract

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0], -cts[0]]


@register
class Mul(Binary):
    """a * b; integers wrap, bools combine by and."""

    name = "nd.mul"
    accepts = ANY
    function = np.multiply

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        return [cts[0] * b, cts[0] * a]


@register
class Div(Binary):
    """a / b of floats."""

    name = "nd.div"
    accepts = FLOAT
    domain = ((-3.0, 3.0), (0.5, 3.0))
    function = np.divide

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        scaled = cts[0] / operands[1]
        return [scaled, -scaled * results[0]]


@register
class FloorDiv(Binary):
    """The quotient rounded down; an integer divided by 0 gives 0. The gradient is 0."""

    name = "nd.floordiv"
    domain = ((-7.0, 7.0), (-3.0, 3.0))
    function = np.floor_divide

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [None, None]


@register
class Mod(Binary):
    """The remainder of the division rounded down, with the sign of b; an integer modulo 0 is 0."""

    name = "nd.mod"
    domain = ((-7.0, 7.0), (-3.0, 3.0))
    function = np.mod

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        return [cts[0], -cts[0] * (a // b)]


@register
class Pow(Binary):
    """a to the b. An integer to a negative power is truncated: 0, except for the bases 1 and -1.

    The gradient by the base is 0 where b is 0; by the exponent it is 0 at base 0 (b >= 0) and NaN at negative bases,
    where the power is not defined between integer exponents.
    """

    name = "nd.pow"
    domain = ((0.0, 3.0), (-2.0, 4.0))
    transcendental = True

    @staticmethod
    def function(a: Array, b: Array) -> Any:
        return np.power(a, b) if as_dtype(a.dtype).is_float else _integer_power(a, b)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        ct = cts[0]
        lower = (b == 0.0).where(0.0, b - 1.0)
        at_zero = (a == 0.0) & (b >= 0.0)
        logarithm = at_zero.where(1.0, a).log()
        return [ct * (b * (a**lower)), ct * (results[0] * logarithm)]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        negative = np.array([-2.0, -1.5, -0.5, 0.0, 0.0])
        yield Sample((negative, np.array([2.0, 3.0, -1.0, 2.0, 1.0])), differentiable=(0,))
        for dtype in (np.int8, np.int64):
            bases, exponents = np.meshgrid(np.arange(-3, 4), np.arange(-3, 9))
            yield Sample((bases.astype(dtype), exponents.astype(dtype)))


def _integer_power(a: Array, b: Array) -> Any:
    result = np.power(a, np.maximum(b, 0))
    one, minus_one = np.ones_like(a), np.zeros_like(a) - np.ones_like(a)
    unit = np.where(a == 1, one, np.where(a == minus_one, np.where(b % 2 == 1, minus_one, one), np.zeros_like(a)))
    return np.where(b < 0, unit, result).astype(a.dtype)


class Extremum(Binary):
    """The larger or smaller of two elements; NaN wins. On ties each operand gets half of the gradient."""

    accepts = ANY


@register
class Max(Extremum):
    """The larger element; on bools, or."""

    name = "nd.max"
    function = np.maximum

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        return _winners(cts[0], a > b, b > a, a == b)


@register
class Min(Extremum):
    """The smaller element; on bools, and."""

    name = "nd.min"
    function = np.minimum

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        return _winners(cts[0], a < b, b < a, a == b)


def _winners(ct: ArrayLike, first: ArrayLike, second: ArrayLike, tie: ArrayLike) -> Grads:
    half = tie.where(ct * 0.5, 0.0)
    return [first.where(ct, half), second.where(ct, half)]


class Bitwise(Binary):
    """A function of the bits of integers, or of bools."""

    accepts = BITS
    differentiable = False
    domain = ((-100.0, 100.0), (-100.0, 100.0))


@register
class BitwiseAnd(Bitwise):
    """Bits set in both; logical and of bools."""

    name = "nd.bitwise_and"
    method = "and_"
    function = np.bitwise_and


@register
class BitwiseOr(Bitwise):
    """Bits set in either; logical or of bools."""

    name = "nd.bitwise_or"
    method = "or_"
    function = np.bitwise_or


@register
class BitwiseXor(Bitwise):
    """Bits set in one of the two."""

    name = "nd.bitwise_xor"
    method = "xor"
    function = np.bitwise_xor


class Shift(Bitwise):
    """A shift of bits; by less than 0 or by the width and more, all bits leave."""

    accepts = INT
    domain = ((-100.0, 100.0), (-1.0, 9.0))


@register
class ShiftLeft(Shift):
    """a << b."""

    name = "nd.shift_left"
    method = "shl"
    function = np.left_shift


@register
class ShiftRight(Shift):
    """a >> b; negative numbers stay negative."""

    name = "nd.shift_right"
    method = "shr"
    function = np.right_shift
