"""Ops that are defined by simpler ones, and kept whole because their gradients are simpler than those of the parts."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import FLOAT, Arrays, Grads, check_axes, check_dtype, computed
from firebox.dialects.nd.params import INT


class AlongAxis(NdOp):
    """A function of all elements along ``axis``; f16 and bf16 are computed in f32 throughout."""

    kind = Kind.COMPOSITE
    arity = 1
    params = {"axis": INT}
    transcendental = True

    @classmethod
    def infer(cls, x: Aval, axis: int) -> Aval:
        check_dtype(cls, x, FLOAT)
        check_axes(cls, (axis,), len(x.shape))
        return x

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int) -> ArrayLike:
        return operands[0].apply(cls, operands, {"axis": axis + 1})[0]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(FLOAT):
            for shape, axis in (((5,), 0), ((2, 3, 4), 1), ((3, 1), 1), ((0, 3), 1), ((2, 0), 1)):
                yield Sample((cases.values(rng, dtype, shape, (-4.0, 4.0)),), {"axis": axis})
            yield Sample((cases.values(rng, dtype, (2, 3), (-1e4, 1e4)),), {"axis": 1}, differentiable=())


def _shifted(a: Array, axis: int) -> Any:
    """Elements minus the largest along the axis, so that exp does not overflow."""
    return a - np.max(a, axis=axis, keepdims=True, initial=-np.inf)


@register
class Softmax(AlongAxis):
    """exp(x) divided by its sum along the axis."""

    name = "nd.softmax"

    @classmethod
    def evaluate(cls, x: Array, axis: int) -> Array:
        def softmax(a: Array) -> Any:
            e = np.exp(_shifted(a, axis))
            return e / np.sum(e, axis=axis, keepdims=True)

        result: Array = computed(softmax, x)
        return result

    @classmethod
    def decompose(cls, operands: Arrays, axis: int) -> ArrayLike:
        x = operands[0]
        if x.shape[axis] == 0:
            return x
        wide = x.astype(x.dtype.compute)
        e = (wide - wide.max(axis, keepdims=True)).exp()
        return (e / e.sum(axis, keepdims=True)).astype(x.dtype)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        scaled = cts[0] * results[0]
        return [scaled - results[0] * scaled.sum(axis, keepdims=True)]


@register
class LogSoftmax(AlongAxis):
    """x minus the logarithm of the sum of exp(x) along the axis."""

    name = "nd.log_softmax"

    @classmethod
    def evaluate(cls, x: Array, axis: int) -> Array:
        def log_softmax(a: Array) -> Any:
            centred = _shifted(a, axis)
            return centred - np.log(np.sum(np.exp(centred), axis=axis, keepdims=True))

        result: Array = computed(log_softmax, x)
        return result

    @classmethod
    def decompose(cls, operands: Arrays, axis: int) -> ArrayLike:
        x = operands[0]
        if x.shape[axis] == 0:
            return x
        wide = x.astype(x.dtype.compute)
        centred = wide - wide.max(axis, keepdims=True)
        return (centred - centred.exp().sum(axis, keepdims=True).log()).astype(x.dtype)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, axis: int) -> Grads:
        return [cts[0] - results[0].exp() * cts[0].sum(axis, keepdims=True)]
