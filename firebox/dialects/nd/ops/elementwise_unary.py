"""Element-wise ops of one array."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    Arrays,
    Grads,
    check_dtype,
    computed,
    short_name,
    widened,
)
from firebox.dtypes import DType


class Unary(NdOp):
    """A function of one element; the scalar builder has it under the op's name."""

    kind = Kind.MAP
    arity = 1
    accepts: ClassVar[frozenset[DType]] = FLOAT
    domain: ClassVar[cases.Domain] = (-3.0, 3.0)
    function: ClassVar[Callable[..., Any]]

    @classmethod
    def infer(cls, x: Aval) -> Aval:
        check_dtype(cls, x, cls.accepts)
        return x

    @classmethod
    def evaluate(cls, x: Array) -> Array:
        result: Array = computed(cls.function, x)
        return result

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        """The function in terms of the scalar builder."""
        return getattr(s, short_name(cls))(x)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval]) -> Formula:
        return elementwise(avals, results[0].shape, cls.scalar)

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool]) -> ArrayLike:
        return operands[0].apply(cls, operands, {})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(cls.accepts):
            for shape in cases.UNARY_SHAPES:
                yield Sample((cases.values(rng, dtype, shape, cls.domain),))


@register
class Neg(Unary):
    """-x; integers wrap."""

    name = "nd.neg"
    accepts = NUMBER
    function = np.negative

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [-cts[0]]


@register
class Abs(Unary):
    """|x|; the gradient at 0 is 0."""

    name = "nd.abs"
    accepts = NUMBER
    function = np.abs

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].sign()]


@register
class Sign(Unary):
    """-1, 0 or 1; NaN stays NaN."""

    name = "nd.sign"
    accepts = NUMBER
    function = np.sign

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [None]


class Transcendental(Unary):
    """A function that costs more than arithmetic."""

    transcendental = True


@register
class Exp(Transcendental):
    """e to the x."""

    name = "nd.exp"
    function = np.exp

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * results[0]]


@register
class Expm1(Transcendental):
    """exp(x) - 1, accurate near 0."""

    name = "nd.expm1"
    function = np.expm1

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * (results[0] + 1.0)]


@register
class Log(Transcendental):
    """The natural logarithm."""

    name = "nd.log"
    domain = (0.1, 5.0)
    function = np.log

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / operands[0]]


@register
class Log1p(Transcendental):
    """log(1 + x), accurate near 0."""

    name = "nd.log1p"
    domain = (-0.8, 5.0)
    function = np.log1p

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] / (operands[0] + 1.0)]


@register
class Sqrt(Unary):
    """The square root; NaN below 0."""

    name = "nd.sqrt"
    domain = (0.1, 5.0)
    function = np.sqrt

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * 0.5 / results[0]]


@register
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name = "nd.rsqrt"
    domain = (0.1, 5.0)

    @staticmethod
    def function(x: Array) -> Any:
        return x.dtype.type(1) / np.sqrt(x)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        y = results[0]
        return [cts[0] * -0.5 * (y * y * y)]


@register
class Sin(Transcendental):
    """The sine of an angle in radians."""

    name = "nd.sin"
    function = np.sin

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * operands[0].cos()]


@register
class Cos(Transcendental):
    """The cosine of an angle in radians."""

    name = "nd.cos"
    function = np.cos

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [-cts[0] * operands[0].sin()]


@register
class Tanh(Transcendental):
    """The hyperbolic tangent."""

    name = "nd.tanh"
    function = np.tanh

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        y = results[0]
        return [cts[0] * (1.0 - y * y)]


_erf = np.frompyfunc(math.erf, 1, 1)


@register
class Erf(Transcendental):
    """The error function."""

    name = "nd.erf"

    @staticmethod
    def function(x: Array) -> Any:
        return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        x = operands[0]
        return [cts[0] * (-(x * x)).exp() * (2.0 / math.sqrt(math.pi))]


@register
class Sigmoid(Transcendental):
    """1 / (1 + exp(-x)), without overflow."""

    name = "nd.sigmoid"

    @staticmethod
    def function(x: Array) -> Any:
        small = np.exp(-np.abs(x))
        return (np.where(x >= 0, x.dtype.type(1), small) / (1 + small)).astype(x.dtype)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        y = results[0]
        return [cts[0] * (y * (1.0 - y))]


class Rounding(Unary):
    """To an integral value, with gradient 0; integers stay as they are."""

    accepts = NUMBER
    domain = (-5.0, 5.0)

    @classmethod
    def evaluate(cls, x: Array) -> Array:
        return super().evaluate(x) if dtypes.as_dtype(x.dtype).is_float else x

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [None]


@register
class Floor(Rounding):
    """The largest integer not above x."""

    name = "nd.floor"
    function = np.floor


@register
class Ceil(Rounding):
    """The smallest integer not below x."""

    name = "nd.ceil"
    function = np.ceil


@register
class Round(Rounding):
    """The nearest integer, halves to even."""

    name = "nd.round"
    function = np.rint


@register
class Trunc(Rounding):
    """The integer part."""

    name = "nd.trunc"
    function = np.trunc


class Predicate(Unary):
    """A question about one element, answered by a bool; integers and bools are finite numbers."""

    accepts = ANY
    differentiable = False

    @classmethod
    def infer(cls, x: Aval) -> Aval:
        check_dtype(cls, x, cls.accepts)
        return Aval(dtypes.bool_, x.shape)

    @classmethod
    def evaluate(cls, x: Array) -> Array:
        result: Array = cls.function(widened(x))
        return result

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        for dtype in dtypes.FLOATS:
            yield Sample((np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5]).astype(dtype.numpy),))


@register
class IsNan(Predicate):
    """Whether x is not a number."""

    name = "nd.isnan"
    function = np.isnan


@register
class IsInf(Predicate):
    """Whether x is an infinity."""

    name = "nd.isinf"
    function = np.isinf


@register
class IsFinite(Predicate):
    """Whether x is neither an infinity nor NaN."""

    name = "nd.isfinite"
    function = np.isfinite


class Inversion(Unary):
    """Not, of a bool or of every bit."""

    differentiable = False
    function = np.invert

    @classmethod
    def scalar(cls, s: Any, x: Any) -> Any:
        return s.not_(x)


@register
class LogicalNot(Inversion):
    """Logical not of a bool."""

    name = "nd.logical_not"
    accepts = BOOL


@register
class BitwiseNot(Inversion):
    """Every bit of an integer inverted."""

    name = "nd.bitwise_not"
    accepts = INT
