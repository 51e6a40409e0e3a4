"""Sliding windows over dims (unfold) and the sum of overlapping windows (fold), each the transpose of the other."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Guard, Read, loop_names
from firebox.dialects.nd.ops import cases
from firebox.dialects.nd.ops.common import (
    NUMBER,
    Arrays,
    Grads,
    check_axes,
    check_count,
    check_dtype,
    computed,
    shape_text,
    short_name,
    static_shape,
)
from firebox.dialects.nd.ops.cutting import check_fill
from firebox.dialects.nd.ops.monoids import monoid
from firebox.dialects.nd.ops.movement import same
from firebox.dialects.nd.params import DIMS, INTS, LITERAL, Literal
from firebox.dims import DimLike
from firebox.errors import ShapeError

Ints = tuple[int, ...]

GEOMETRY = {"axes": INTS, "sizes": INTS, "strides": INTS, "dilations": INTS, "low": INTS, "high": INTS}
"""One entry per windowed dim: the dim, the window's size, its stride and dilation, and the padding on both sides."""


def window_shape(cls: type[NdOp], shape: Shape, geometry: dict[str, Ints]) -> Shape:
    """The shape of all windows: each windowed dim becomes the number of windows, each window adds a trailing dim.

    Raises:
        ShapeError, IndexRangeError: names the op and the entry that does not fit.
    """
    axes = geometry["axes"]
    check_axes(cls, axes, len(shape))
    for what, entries in geometry.items():
        check_count(cls, what, entries, len(axes))
        least = 0 if what in ("axes", "low", "high") else 1
        if any(entry < least for entry in entries):
            raise ShapeError(f"bad entry in '{what}'", op=short_name(cls), expected=f">= {least}", found=entries)
    counts: list[DimLike] = list(shape)
    for axis, size, stride, dilation, low, high in zip(*geometry.values(), strict=True):
        spare = shape[axis] + low + high - dilation * (size - 1) - 1
        if isinstance(spare, int) and spare < 0:
            found = f"{shape[axis]} elements padded by {low} and {high}"
            expected = f"at least {dilation * (size - 1) + 1} elements at axis {axis}"
            raise ShapeError("the window is larger than the array", op=short_name(cls), expected=expected, found=found)
        counts[axis] = dims.floordiv(spare, stride) + 1
    return (*counts, *geometry["sizes"])


def _positions(shape: Sequence[int], geometry: dict[str, Ints]) -> tuple[Array, ...]:
    """For every element of all windows, its position in each dim of the padded array (as broadcast index arrays)."""
    rank, axes = len(shape), geometry["axes"]
    full = rank + len(axes)
    counts = static_shape(window_shape(Window, tuple(shape), geometry))
    positions = []
    for k in range(rank):
        at = np.arange(counts[k]).reshape([-1 if d == k else 1 for d in range(full)])
        if k in axes:
            j = axes.index(k)
            tap = np.arange(geometry["sizes"][j]).reshape([-1 if d == rank + j else 1 for d in range(full)])
            at = at * geometry["strides"][j] + tap * geometry["dilations"][j]
        positions.append(at)
    return tuple(positions)


def _margins(rank: int, geometry: dict[str, Ints]) -> list[tuple[int, int]]:
    margins = [(0, 0)] * rank
    for axis, low, high in zip(geometry["axes"], geometry["low"], geometry["high"], strict=True):
        margins[axis] = (low, high)
    return margins


def _shifted(geometry: dict[str, Ints]) -> dict[str, Ints]:
    """The geometry behind a new leading dim."""
    return {**geometry, "axes": tuple(a + 1 for a in geometry["axes"])}


def _geometries() -> Iterable[tuple[tuple[int, ...], dict[str, Ints]]]:
    names = tuple(GEOMETRY)
    for shape, rows in (
        ((7,), ((0, 3, 2, 1, 1, 0),)),
        ((2, 5, 6), ((1, 2, 1, 2, 0, 1), (2, 3, 2, 1, 1, 1))),
        ((4, 2), ((0, 2, 3, 1, 0, 0),)),
        ((0, 4), ((1, 1, 1, 1, 0, 0),)),
        ((3,), ()),
    ):
        yield shape, {name: tuple(row[k] for row in rows) for k, name in enumerate(names)}


@register
class Window(NdOp):
    """All windows of an array, padded with ``value``; see `GEOMETRY` and `window_shape`."""

    name = "nd.window"
    kind = Kind.MAP
    movement = True
    arity = 1
    params = {**GEOMETRY, "value": LITERAL}

    @classmethod
    def infer(cls, x: Aval, value: Literal, **geometry: Ints) -> Aval:
        check_fill(cls, x, value)
        return Aval(x.dtype, window_shape(cls, x.shape, _ordered(geometry)))

    @classmethod
    def evaluate(cls, x: Array, value: Literal, **geometry: Ints) -> Array:
        ordered = _ordered(geometry)
        sizes = [a + d + b for (a, b), d in zip(_margins(x.ndim, ordered), x.shape, strict=True)]
        padded = np.full(sizes, value.array(), x.dtype)
        padded[_interior(x.shape, ordered)] = x
        return padded[_positions(x.shape, ordered)]

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], value: Literal, **geometry: Ints) -> Formula:
        x, ordered = avals[0], _ordered(geometry)
        loops = loop_names("i", results[0].rank)
        index = list(loops[: x.rank])
        guards = []
        for j, (axis, _, stride, dilation, low, high) in enumerate(zip(*ordered.values(), strict=True)):
            index[axis] = loops[axis] * stride + loops[x.rank + j] * dilation - low
            if low or high:
                guards.append(Guard(index[axis], x.shape[axis]))
        return Formula(results[0].shape, (Read(0, tuple(index), tuple(guards), value.array().item()),), same)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, value: Literal, **geometry: Ints) -> Grads:
        return [cts[0].one("fold_window", cts[0], shape=operands[0].shape, **geometry)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], value: Literal, **geometry: Ints) -> ArrayLike:
        return operands[0].one("window", operands[0], value=value, **_shifted(geometry))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in cases.FEW:
            for shape, geometry in _geometries():
                fill = Literal.of(np.asarray(1).astype(dtype.numpy))
                yield Sample((cases.values(rng, dtype, shape),), {**geometry, "value": fill})


def _ordered(geometry: dict[str, Ints]) -> dict[str, Ints]:
    return {name: geometry[name] for name in GEOMETRY}


def _interior(shape: Sequence[int], geometry: dict[str, Ints]) -> tuple[slice, ...]:
    margins = _margins(len(shape), geometry)
    return tuple(slice(low, low + d) for (low, _), d in zip(margins, shape, strict=True))


@register
class FoldWindow(NdOp):
    """Windows added up where they came from: the transpose of `Window`, for an array of ``shape`` without padding."""

    name = "nd.fold_window"
    kind = Kind.REDUCE
    arity = 1
    params = {"shape": DIMS, **GEOMETRY}

    @classmethod
    def infer(cls, windows: Aval, shape: Shape, **geometry: Ints) -> Aval:
        check_dtype(cls, windows, NUMBER)
        expected = window_shape(cls, shape, _ordered(geometry))
        if windows.shape != expected:
            raise ShapeError(
                "unfit windows", op="fold_window", expected=shape_text(expected), found=shape_text(windows.shape)
            )
        return Aval(windows.dtype, shape)

    @classmethod
    def evaluate(cls, windows: Array, shape: Shape, **geometry: Ints) -> Array:
        sizes, ordered = static_shape(shape), _ordered(geometry)
        margins = _margins(len(sizes), ordered)

        def fold(values: Array) -> Array:
            total = np.zeros([a + d + b for (a, b), d in zip(margins, sizes, strict=True)], values.dtype)
            np.add.at(total, _positions(sizes, ordered), values)
            return total[_interior(sizes, ordered)]

        result: Array = computed(fold, windows)
        return result

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], shape: Shape, **geometry: Ints) -> Formula:
        windows, ordered = avals[0], _ordered(geometry)
        taps = loop_names("r", len(ordered["axes"]))
        index = list(loop_names("i", len(shape)))
        guards = []
        for tap, (axis, _, stride, dilation, low, _) in zip(taps, zip(*ordered.values(), strict=True), strict=True):
            first = index[axis] + low - tap * dilation
            index[axis] = dims.floordiv(first, stride)
            guards.append(Guard(index[axis], windows.shape[axis], first if stride > 1 else 0, stride))
        read = Read(0, (*index, *taps), tuple(guards))
        return Formula(shape, (read,), same, ordered["sizes"], monoid("sum", windows.dtype))

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays, shape: Shape, **geometry: Ints) -> Grads:
        zero = Literal.of(np.zeros((), cts[0].dtype.numpy))
        return [cts[0].one("window", cts[0], value=zero, **geometry)]

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], shape: Shape, **geometry: Ints) -> ArrayLike:
        x = operands[0]
        return x.one("fold_window", x, shape=(x.shape[0], *shape), **_shifted(geometry))

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for dtype in (dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i32):
            for shape, geometry in _geometries():
                windows = static_shape(window_shape(cls, shape, geometry))
                params: dict[str, Any] = {"shape": shape, **geometry}
                yield Sample((cases.values(rng, dtype, windows),), params)
