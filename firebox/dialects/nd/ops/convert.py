"""Conversions between element types."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, elementwise
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import NUMBER, Arrays, Grads, check_dtype, short_name, widened
from firebox.dialects.nd.ops.monoids import dtype_limits
from firebox.dialects.nd.params import DTYPE
from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError


class Conversion(NdOp):
    """An op of one array whose result has the element type ``dtype``."""

    kind = Kind.MAP
    arity = 1
    params = {"dtype": DTYPE}

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], dtype: DType) -> Formula:
        method = short_name(cls)
        return elementwise(avals, results[0].shape, lambda s, x: getattr(s, method)(x, dtype))

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], dtype: DType) -> ArrayLike:
        return operands[0].apply(cls, operands, {"dtype": dtype})[0]


@register
class Cast(Conversion):
    """The value in another element type.

    Floats become integers by truncation, held within the type's range, NaN as 0. Integers wrap. To bool is ``x != 0``.
    """

    name = "nd.cast"

    @classmethod
    def infer(cls, x: Aval, dtype: DType) -> Aval:
        return Aval(dtype, x.shape)

    @classmethod
    def evaluate(cls, x: Array, dtype: DType) -> Array:
        return cast_array(x, dtype)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, dtype: DType) -> Grads:
        source = operands[0].dtype
        return [cts[0].astype(source) if source.is_float and dtype.is_float else None]

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        special = np.array([0.0, -0.0, 0.75, -0.75, 1e3, -1e3, 3e4, -3e4, np.inf, -np.inf, np.nan])
        yield Sample((np.array([1e19, -1e19, 5e9, -5e9, 1e300]),), {"dtype": dtypes.i32}, differentiable=())
        for source in dtypes.ALL:
            for target in dtypes.ALL:
                yield Sample((cases.values(rng, source, (2, 3), (-100.0, 100.0)),), {"dtype": target})
                if source.is_float:
                    yield Sample((special.astype(source.numpy),), {"dtype": target}, differentiable=())
        for shape in ((), (0,)):
            yield Sample((cases.values(rng, dtypes.f64, shape),), {"dtype": dtypes.f64})


def cast_array(x: Array, dtype: DType) -> Array:
    """The meaning of `Cast` for a NumPy array."""
    source = as_dtype(x.dtype)
    if dtype.is_bool:
        return np.asarray(widened(x) != 0)
    if source.is_float and dtype.is_int:
        return _saturated(widened(x), dtype)
    if dtype.compute is not dtype and not source.is_float:
        x = x.astype(dtype.compute.numpy)
    return x.astype(dtype.numpy)


def _saturated(x: Array, dtype: DType) -> Array:
    least, most = dtype_limits(dtype)
    above, below = x >= float(most) + 1.0, x <= float(least)
    inside = np.where(above | below | np.isnan(x), 0, x).astype(dtype.numpy)
    limits = np.where(above, np.asarray(most, dtype.numpy), np.asarray(least, dtype.numpy))
    return np.where(above | below, limits, inside)


@register
class Bitcast(Conversion):
    """The same bits read as another element type of the same size; not for bool."""

    name = "nd.bitcast"
    differentiable = False

    @classmethod
    def infer(cls, x: Aval, dtype: DType) -> Aval:
        check_dtype(cls, x, NUMBER)
        if dtype.itemsize != x.dtype.itemsize or dtype not in NUMBER:
            expected = f"an element type of {x.dtype.itemsize} bytes, not bool"
            raise DTypeError("the sizes must be equal", op="bitcast", expected=expected, found=dtype.name)
        return Aval(dtype, x.shape)

    @classmethod
    def evaluate(cls, x: Array, dtype: DType) -> Array:
        return np.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], dtype: DType) -> Formula:
        source = avals[0].dtype
        if dtypes.f16 in (source, dtype) or dtypes.bf16 in (source, dtype):
            return elementwise(avals, results[0].shape, lambda s, x: _from_bits(s, _to_bits(s, x, source), dtype))
        return elementwise(avals, results[0].shape, lambda s, x: s.bitcast(x, dtype))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for source in cases.ordered(NUMBER):
            for target in cases.ordered(NUMBER):
                if source.itemsize == target.itemsize:
                    yield Sample((cases.values(rng, source, (5,)),), {"dtype": target})
        for shape in ((), (2, 0)):
            yield Sample((cases.values(rng, dtypes.f32, shape),), {"dtype": dtypes.u32})
        special = np.array([0.0, -0.0, 6e-8, -3e-5, 65504.0, np.inf, -np.inf])
        for narrow in (dtypes.f16, dtypes.bf16):
            yield Sample((special.astype(narrow.numpy),), {"dtype": dtypes.u16})
            yield Sample((special.astype(narrow.numpy).view(np.int16),), {"dtype": narrow})


# f16 and bf16 reach the scalar builder as the f32 that holds them, so their bits are moved by hand. Scaling an f16's
# magnitude by 2**-112 gives it f16's exponent bias (subnormals included); what is above 0x7c00 is infinity and NaN.


def _to_bits(s: Any, x: Any, source: DType) -> Any:
    """The 16 bits of a value, in a u32."""
    if source.is_int:
        return s.cast(s.bitcast(x, dtypes.u16), dtypes.u32)
    wide = s.bitcast(x, dtypes.u32)
    if source is dtypes.bf16:
        return s.shr(wide, 16)
    sign = s.and_(s.shr(wide, 16), 0x8000)
    finite = s.shr(s.bitcast(s.mul(s.abs(x), 2.0**-112), dtypes.u32), 13)
    special = s.or_(s.and_(s.shr(wide, 13), 0x3FF), 0x7C00)
    return s.or_(sign, s.select(s.isfinite(x), finite, special))


def _from_bits(s: Any, bits: Any, target: DType) -> Any:
    """The value of a 16-bit type from its bits in a u32."""
    if target.is_int:
        return s.bitcast(s.cast(bits, dtypes.u16), target)
    if target is dtypes.bf16:
        return s.bitcast(s.shl(bits, 16), dtypes.f32)
    sign = s.shl(s.and_(bits, 0x8000), 16)
    magnitude = s.and_(bits, 0x7FFF)
    shifted = s.shl(magnitude, 13)
    finite = s.bitcast(s.mul(s.bitcast(shifted, dtypes.f32), 2.0**112), dtypes.u32)
    special = s.or_(shifted, 0x7F800000)
    return s.bitcast(s.or_(sign, s.select(s.lt(magnitude, 0x7C00), finite, special)), dtypes.f32)
