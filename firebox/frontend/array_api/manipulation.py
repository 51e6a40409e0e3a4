"""Manipulation functions of the standard."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.array import Axes
from firebox.dims import DimLike
from firebox.frontend.functions import moving, shape
from firebox.frontend.tensor import Tensor


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    return moving.broadcast_arrays(*arrays)


def broadcast_to(x: Tensor, /, shape: Sequence[DimLike]) -> Tensor:
    return x.broadcast_to(shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    if axis is None:
        return shape.concat([moving.ravel(a) for a in arrays], 0)
    return shape.concat(arrays, axis)


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    return x.expand_dims(axis)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    return x.flip(axis)


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    return moving.moveaxis(x, source, destination)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    return x.transpose(tuple(axes)) if axes else x


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    counts = repeats.tolist() if isinstance(repeats, Tensor) else repeats
    return moving.repeat_interleave(x, counts, axis)


def reshape(x: Tensor, /, shape: Sequence[DimLike], *, copy: bool | None = None) -> Tensor:
    """The same elements under another shape; there are no views, so ``copy`` says nothing."""
    return x.reshape(tuple(shape))


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: Axes = None) -> Tensor:
    return shape.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    return x.squeeze(axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    return shape.stack(arrays, axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    return shape.tile(x, repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return tuple(shape.unbind(x, axis))
