"""Parts of one flat buffer as arrays, and arrays laid out in one flat buffer; optimizers keep parameters this way."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Read
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    Arrays,
    Grads,
    batch_size,
    check_count,
    check_same_dtype,
    shape_text,
    spread,
    static_shape,
)
from firebox.dialects.nd.ops.create import flat_index
from firebox.dialects.nd.ops.movement import Movement, same
from firebox.dialects.nd.params import DIMS, INT, INTS
from firebox.dims import DimLike
from firebox.errors import ShapeError


@register
class View(Movement):
    """The elements of a 1-D array from ``offset`` on, as an array of ``shape``."""

    name = "nd.view"
    kind = Kind.RESHAPE
    params = {"offset": DIMS, "shape": DIMS}

    @classmethod
    def infer(cls, x: Aval, offset: Shape, shape: Shape) -> Aval:
        check_count(cls, "offset", offset, 1)
        if len(x.shape) != 1:
            raise ShapeError("takes a flat array", op="view", expected="1 dim", found=shape_text(x.shape))
        start, end = offset[0], offset[0] + dims.product(shape)
        spare = x.shape[0] - end
        if (isinstance(start, int) and start < 0) or (isinstance(spare, int) and spare < 0):
            found = f"elements {start} to {end}"
            raise ShapeError("outside of the array", op="view", expected=f"within {x.shape[0]} elements", found=found)
        return Aval(x.dtype, shape)

    @classmethod
    def needs(cls, avals: Sequence[Aval], offset: Shape, shape: Shape) -> Sequence[DimLike]:
        return (offset[0], avals[0].shape[0] - offset[0] - dims.product(shape))

    @classmethod
    def evaluate(cls, x: Array, offset: Shape, shape: Shape) -> Array:
        (start,), sizes = static_shape(offset), static_shape(shape)
        return x[start : start + int(np.prod(sizes))].reshape(sizes)

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], offset: Shape, shape: Shape) -> Formula:
        return Formula(shape, (Read(0, (offset[0] + flat_index(shape),)),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, offset: Shape, shape: Shape) -> Grads:
        size = dims.product(shape)
        rest = operands[0].shape[0] - offset[0] - size
        return [cts[0].reshape((size,)).pad(offset, (rest,))]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], offset: Shape, shape: Shape) -> ArrayLike:
        x = operands[0]
        part = x.slice((0, *offset), (x.shape[0], offset[0] + dims.product(shape)))
        return part.reshape((x.shape[0], *shape))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for size, offset, shape in ((12, 3, (2, 4)), (5, 0, (5,)), (4, 3, ()), (4, 4, (0, 2)), (0, 0, (0,))):
                yield Sample((cases.values(rng, dtype, (size,)),), {"offset": (offset,), "shape": shape})


@register
class Pack(NdOp):
    """Arrays laid out in one 1-D array of ``size`` elements, each at its offset in ``offsets``; gaps hold 0."""

    name = "nd.pack"
    kind = Kind.OPAQUE
    params = {"offsets": INTS, "size": INT}

    @classmethod
    def infer(cls, *avals: Aval, offsets: tuple[int, ...], size: int) -> Aval:
        check_count(cls, "offsets", offsets, len(avals))
        if not avals:
            raise ShapeError("nothing to pack", op="pack", expected="at least one array", found="none")
        end = 0
        for aval, offset in sorted(zip(avals, offsets, strict=True), key=lambda pair: pair[1]):
            check_same_dtype(cls, avals[0], aval)
            count = aval.size
            if not isinstance(count, int) or offset < end or offset + count > size:
                expected = f"static arrays that do not overlap, within {size} elements"
                raise ShapeError("an array does not fit", op="pack", expected=expected, found=f"{aval} at {offset}")
            end = offset + count
        return Aval(avals[0].dtype, (size,))

    @classmethod
    def evaluate(cls, *arrays: Array, offsets: tuple[int, ...], size: int) -> Array:
        flat = np.zeros((size,), arrays[0].dtype)
        for array, offset in zip(arrays, offsets, strict=True):
            flat[offset : offset + array.size] = array.reshape(-1)
        return flat

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, offsets: tuple[int, ...], size: int) -> Grads:
        ct = cts[0]
        return [
            ct.one("view", ct, offset=(offset,), shape=operand.shape)
            for operand, offset in zip(operands, offsets, strict=True)
        ]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], offsets: tuple[int, ...], size: int) -> ArrayLike:
        count = batch_size(operands, batched)
        rows: list[ArrayLike] = []
        end = 0
        for operand, is_batched, offset in sorted(zip(operands, batched, offsets, strict=True), key=lambda t: t[2]):
            row = spread(operand, is_batched, count)
            flat = row.reshape((count, dims.product(row.shape[1:])))
            rows.append(flat.pad((0, offset - end), (0, 0)))
            end = offset + int(static_shape(flat.shape[1:])[0])
        joined = operands[0].one("concat", *rows, axis=1)
        return joined.pad((0, 0), (0, size - end))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shapes, offsets, size in (
                (((3,),), (0,), 3),
                (((2, 2), (), (3,)), (8, 1, 3), 14),
                (((0,), (2,)), (0, 4), 6),
            ):
                arrays = tuple(cases.values(rng, dtype, shape) for shape in shapes)
                params: dict[str, Any] = {"offsets": offsets, "size": size}
                yield Sample(arrays, params)
        yield Sample((cases.values(rng, dtypes.f64, (2, 3)),), {"offsets": (2,), "size": 10})
