"""Searching, sorting, indexing and set functions of the standard."""

from typing import Any

from firebox.dialects.nd.array import Axes
from firebox.frontend.functions import ordering, scattering, sets, shape, statistics
from firebox.frontend.functions.sets import UniqueAll, UniqueCounts, UniqueInverse
from firebox.frontend.tensor import Tensor, as_tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return x.argmin(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return statistics.count_nonzero(x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    return sets.nonzero(x)


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    return ordering.searchsorted(x1, x2, side, sorter)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    return as_tensor(condition).where(x1, x2)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorted along an axis; always stable."""
    return shape.sort(x, axis, descending)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort along an axis; always stable."""
    return shape.argsort(x, axis, descending)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    return scattering.take(x, indices, axis)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    return scattering.take_along_axis(x, indices, axis)


def unique_all(x: Tensor, /) -> UniqueAll:
    return sets.unique_all(x)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    return sets.unique_counts(x)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    return sets.unique_inverse(x)


def unique_values(x: Tensor, /) -> Tensor:
    return sets.unique_values(x)
