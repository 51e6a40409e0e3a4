"""Sorting."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import ANY, Arrays, Grads, check_axes, widened
from firebox.dialects.nd.params import BOOL, INT
from firebox.dtypes import as_dtype


@register
class Sort(NdOp):
    """Elements in order along ``axis``, and where they came from (i64). Stable; NaN comes last in either direction."""

    name = "nd.sort"
    kind = Kind.OPAQUE
    arity = 1
    params = {"axis": INT, "descending": BOOL}

    @classmethod
    def infer(cls, x: Aval, axis: int, descending: bool) -> tuple[Aval, Aval]:
        check_axes(cls, (axis,), len(x.shape))
        return x, Aval(dtypes.i64, x.shape)

    @classmethod
    def evaluate(cls, x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
        order = np.lexsort(_keys(x, descending), axis=axis).astype(np.int64)
        return np.take_along_axis(x, order, axis), order

    @classmethod
    def vjp(cls, cts: Grads, operands: Arrays, results: Arrays, axis: int, descending: bool) -> Grads:
        """The cotangent of the values, moved back by the inverse permutation."""
        if cts[0] is None:
            return [None]
        order = results[1]
        inverse = order.apply(cls, (order,), {"axis": axis, "descending": False})[1]
        return [cts[0].take_along_axis(inverse, axis)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], axis: int, descending: bool) -> Sequence[ArrayLike]:
        return operands[0].apply(cls, operands, {"axis": axis + 1, "descending": descending})

    @classmethod
    def cost(cls, avals: Sequence[Aval], results: Sequence[Aval], axis: int = 0, **params: Any) -> float:
        size = avals[0].shape[axis]
        return 4.0 * math.log2(size + 2) if isinstance(size, int) else 40.0

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(ANY):
            for shape, axis in (((7,), 0), ((2, 5, 3), 1), ((1, 3), 0), ((0, 2), 0), ((2, 0), 0)):
                for descending in (False, True):
                    params = {"axis": axis, "descending": descending}
                    yield Sample((cases.distinct(rng, dtype, shape),), params)
            yield Sample(
                (cases.values(rng, dtype, (9,), (-2.0, 2.0)).repeat(2),), params | {"axis": 0}, differentiable=()
            )
        special = np.array([np.nan, 1.0, -np.inf, np.nan, np.inf, -0.0, 0.0])
        for descending in (False, True):
            yield Sample((special,), {"axis": 0, "descending": descending}, differentiable=())


def _keys(x: Array, descending: bool) -> tuple[Array, ...]:
    """Sort keys, the most important last: NaN or not, then the value (reversed without overflow)."""
    if not as_dtype(x.dtype).is_float:
        return (np.invert(x),) if descending else (x,)
    values = widened(x)
    return -values if descending else values, np.isnan(values)
