"""The end of a derivative's path."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import Arrays


@register
class StopGradient(NdOp):
    """The operand itself, through which no derivative flows; a plain copy once derivatives are expanded."""

    name = "nd.stop_gradient"
    kind = Kind.MAP
    arity = 1
    differentiable = False

    @classmethod
    def infer(cls, x: Aval) -> Aval:
        return x

    @classmethod
    def evaluate(cls, x: Array) -> Array:
        return x

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval]) -> Formula:
        return elementwise(avals, results[0].shape, lambda s, x: x)

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool]) -> ArrayLike:
        return operands[0].apply(cls, operands, {})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape in cases.UNARY_SHAPES:
                yield Sample((cases.values(rng, dtype, shape),))
