"""`special.hypot`: an element-wise op defined outside of Firebox, all of it in this file."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Dialect

import firebox as fb
from firebox.dialects.nd import ArrayLike, Aval, Formula, Kind, NdOp, Sample, register
from firebox.dialects.nd.base import Array, Rng
from firebox.dialects.nd.formula import elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import FLOAT, aligned, broadcast_shapes, check_dtype, check_same_dtype, computed

Arrays = Sequence[ArrayLike]


@register
class Hypot(NdOp):
    """sqrt(a*a + b*b) without the overflow and underflow of the squares; the gradient at (0, 0) is 0."""

    name = "special.hypot"
    kind = Kind.MAP
    arity = 2
    transcendental = True  # costly: not computed again for every reader, may round more than once

    @classmethod
    def infer(cls, a: Aval, b: Aval) -> Aval:
        check_same_dtype(cls, a, b)
        check_dtype(cls, a, FLOAT)
        return Aval(a.dtype, broadcast_shapes(cls, a.shape, b.shape))

    @classmethod
    def evaluate(cls, a: Array, b: Array) -> Array:
        result: Array = computed(np.hypot, a, b)
        return result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval]) -> Formula:
        return elementwise(avals, results[0].shape, cls.scalar)

    @staticmethod
    def scalar(s: Any, a: Any, b: Any) -> Any:
        """One element: the larger number times sqrt(1 + ratio^2), so that nothing is squared but the ratio."""
        a, b = s.abs(a), s.abs(b)
        large, small = s.max(a, b), s.min(a, b)
        ratio = s.div(small, s.select(s.eq(large, 0.0), 1.0, large))
        length = s.mul(large, s.sqrt(s.fma(ratio, ratio, 1.0)))
        return s.select(s.or_(s.isinf(a), s.isinf(b)), float("inf"), length)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Arrays:
        a, b = operands
        length = (results[0] == 0.0).where(1.0, results[0])
        return [cts[0] * (a / length), cts[0] * (b / length)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool]) -> ArrayLike:
        return operands[0].apply(cls, aligned(operands, batched), {})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(FLOAT):
            for left, right in (((), ()), ((5,), ()), ((1, 3), (4, 2, 1)), ((0, 2), (1, 2))):
                yield Sample((cases.values(rng, dtype, left), cases.values(rng, dtype, right)))
        for large in (3e200, 3e-200, 0.0, float("inf"), float("nan")):
            yield Sample((np.array([large, 1.0, -large]), np.array([large, -large, 1.0])), differentiable=())


SPECIAL = Dialect("special", [Hypot])


def hypot(a: Any, b: Any) -> fb.Tensor:
    """The length of (a, b), element by element; the operands broadcast.

    Raises:
        DTypeError: not floats of one type. ShapeError: shapes that do not broadcast.
    """
    length: fb.Tensor = fb.apply(Hypot, a, b)
    return length
