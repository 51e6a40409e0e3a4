"""Ops without operands: constants, counting, sizes."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    ANY,
    NUMBER,
    Arrays,
    cannot_batch,
    check_axes,
    check_count,
    check_dtype,
    static_shape,
)
from firebox.dialects.nd.params import DIMS, DTYPE, INT, LITERAL, Literal
from firebox.dims import DimLike
from firebox.dtypes import DType, as_dtype
from firebox.errors import CompilerError

MAX_INLINE = 64
"""The most elements of a constant that its formula spells out; larger ones are data, not code."""


class Nullary(NdOp):
    """An op without operands, hence without gradients."""

    kind = Kind.MAP
    arity = 0
    differentiable = False

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], **params: Any) -> Any:
        raise cannot_batch(cls)


@register
class Constant(Nullary):
    """A constant array."""

    name = "nd.constant"
    params = {"value": LITERAL}

    @classmethod
    def infer(cls, value: Literal) -> Aval:
        return Aval(as_dtype(value.dtype), value.shape)

    @classmethod
    def evaluate(cls, value: Literal) -> Array:
        return value.array()

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], value: Literal) -> Formula:
        """A number if all elements are equal, else a choice by position.

        Raises:
            CompilerError: more than `MAX_INLINE` different elements; such constants are placed in memory.
        """
        array, dtype = value.array(), results[0].dtype
        flat = array.reshape(-1)
        if flat.size and value.data == value.data[: dtype.itemsize] * flat.size:
            return Formula(results[0].shape, (), lambda s: s.const(flat[0].item(), dtype))
        if flat.size > MAX_INLINE:
            raise CompilerError("too large for a formula", op="constant", expected=MAX_INLINE, found=flat.size)
        position = flat_index(value.shape)

        def scalar(s: Any) -> Any:
            result = s.const(flat[-1].item() if flat.size else 0, dtype)
            for k in reversed(range(flat.size - 1)):
                result = s.select(s.eq(s.index(position), s.index(k)), s.const(flat[k].item(), dtype), result)
            return result

        return Formula(results[0].shape, (), scalar)

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(ANY):
            for shape in cases.UNARY_SHAPES:
                yield Sample((), {"value": Literal.of(cases.values(rng, dtype, shape))})
            yield Sample((), {"value": Literal.of(np.ones((3, 50), dtype.numpy))})
        for special in (np.nan, np.inf, -0.0):
            yield Sample((), {"value": Literal.of(np.asarray(special, np.float32))})


def flat_index(shape: Shape, first: int = 0) -> DimLike:
    """The row-major position of the element ``(i<first>, i<first+1>, ...)`` in an array of this shape."""
    position: DimLike = 0
    for size, name in zip(shape, loop_names("i", first + len(shape))[first:], strict=True):
        position = dims.multiply(position, size) + name
    return position


@register
class Iota(Nullary):
    """The index along ``axis`` of every element: ``out[.., i, ..] = i``."""

    name = "nd.iota"
    params = {"shape": DIMS, "axis": INT, "dtype": DTYPE}

    @classmethod
    def infer(cls, shape: Shape, axis: int, dtype: DType) -> Aval:
        check_axes(cls, (axis,), len(shape))
        result = Aval(dtype, shape)
        check_dtype(cls, result, NUMBER)
        return result

    @classmethod
    def evaluate(cls, shape: Shape, axis: int, dtype: DType) -> Array:
        sizes = static_shape(shape)
        along = np.arange(sizes[axis]).astype(dtype.compute.numpy).astype(dtype.numpy)
        return np.broadcast_to(along.reshape(-1, *(1,) * (len(sizes) - axis - 1)), sizes)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], shape: Shape, axis: int, dtype: DType) -> Formula:
        return Formula(shape, (), lambda s: s.cast(s.index(dims.dim(f"i{axis}")), dtype))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.ordered(NUMBER):
            for shape, axis in (((5,), 0), ((2, 3, 4), 1), ((3, 0), 0), ((3, 0), 1)):
                yield Sample((), {"shape": shape, "axis": axis, "dtype": dtype})


@register
class DimSize(Nullary):
    """The value of a dim expression, as a 0-d array."""

    name = "nd.dim_size"
    params = {"size": DIMS, "dtype": DTYPE}

    @classmethod
    def infer(cls, size: Shape, dtype: DType) -> Aval:
        check_count(cls, "size", size, 1)
        result = Aval(dtype, ())
        check_dtype(cls, result, NUMBER)
        return result

    @classmethod
    def evaluate(cls, size: Shape, dtype: DType) -> Array:
        return np.asarray(static_shape(size)[0]).astype(dtype.compute.numpy).astype(dtype.numpy)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], size: Shape, dtype: DType) -> Formula:
        return Formula((), (), lambda s: s.cast(s.index(size[0]), dtype))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in (dtypes.i64, dtypes.f32, dtypes.bf16, dtypes.u8):
            yield Sample((), {"size": (37,), "dtype": dtype})
