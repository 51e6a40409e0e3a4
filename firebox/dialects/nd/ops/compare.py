"""Comparisons, and the choice between two arrays."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence

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
    Arrays,
    Grads,
    aligned,
    broadcast_shapes,
    check_dtype,
    check_same_dtype,
    widened,
)
from firebox.dialects.nd.ops.elementwise_binary import Binary


class Comparison(Binary):
    """A question about two elements, answered by a bool; with NaN all but ``ne`` are false."""

    accepts = ANY
    differentiable = False
    domain = ((-2.0, 2.0), (-2.0, 2.0))

    @classmethod
    def infer(cls, a: Aval, b: Aval) -> Aval:
        check_same_dtype(cls, a, b)
        return Aval(dtypes.bool_, a.shape if a.shape == b.shape else broadcast_shapes(cls, a.shape, b.shape))

    @classmethod
    def evaluate(cls, a: Array, b: Array) -> Array:
        result: Array = cls.function(widened(a), widened(b))
        return result

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0])
        for dtype in dtypes.FLOATS:
            yield Sample((special.astype(dtype.numpy), special[:, None].astype(dtype.numpy)))


@register
class Eq(Comparison):
    """a == b."""

    name = "nd.eq"
    function = np.equal


@register
class Ne(Comparison):
    """a != b."""

    name = "nd.ne"
    function = np.not_equal


@register
class Lt(Comparison):
    """a < b."""

    name = "nd.lt"
    function = np.less


@register
class Le(Comparison):
    """a <= b."""

    name = "nd.le"
    function = np.less_equal


@register
class Gt(Comparison):
    """a > b."""

    name = "nd.gt"
    function = np.greater


@register
class Ge(Comparison):
    """a >= b."""

    name = "nd.ge"
    function = np.greater_equal


@register
class Select(NdOp):
    """``a`` where the bool condition is true, else ``b``; the three broadcast. The branch not taken gets gradient 0."""

    name = "nd.select"
    kind = Kind.MAP
    arity = 3

    @classmethod
    def infer(cls, condition: Aval, a: Aval, b: Aval) -> Aval:
        check_dtype(cls, condition, BOOL)
        check_same_dtype(cls, a, b)
        return Aval(a.dtype, broadcast_shapes(cls, condition.shape, a.shape, b.shape))

    @classmethod
    def evaluate(cls, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval]) -> Formula:
        return elementwise(avals, results[0].shape, lambda s, condition, a, b: s.select(condition, a, b))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        condition, ct = operands[0], cts[0]
        return [None, condition.where(ct, 0.0), condition.where(0.0, ct)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool]) -> ArrayLike:
        return operands[0].apply(cls, aligned(operands, batched), {})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(ANY):
            for left, right in cases.BINARY_SHAPES:
                for chosen in (left, right):
                    a, b = cases.values(rng, dtype, left), cases.values(rng, dtype, right)
                    yield Sample((cases.values(rng, dtypes.bool_, chosen), a, b))
