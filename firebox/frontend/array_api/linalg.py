"""The extension ``linalg`` as far as it needs no matrix decomposition."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.array import Axes
from firebox.errors import DTypeError
from firebox.frontend.array_api import statistics
from firebox.frontend.functions import linear_algebra, matrices, moving
from firebox.frontend.tensor import Tensor

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    _numeric("matmul", x1, x2)
    return linear_algebra.matmul(x1, x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    return moving.matrix_transpose(x)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    _numeric("tensordot", x1, x2)
    return linear_algebra.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    _numeric("vecdot", x1, x2)
    return linear_algebra.vecdot(x1, x2, axis)


def _numeric(op: str, *arrays: Tensor) -> None:
    for array in arrays:
        if array.dtype.is_bool:
            raise DTypeError("takes numbers", op=op, expected="an int or float type", found=array.dtype.name)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    return linear_algebra.outer(x1, x2)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    return matrices.cross(x1, x2, axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    return matrices.diagonal(x, offset)


def trace(x: Tensor, /, *, offset: int = 0, dtype: object = None) -> Tensor:
    return statistics.sum(matrices.diagonal(x, offset), axis=-1, dtype=dtype)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return matrices.matrix_norm(x, keepdims, ord)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    return matrices.matrix_power(x, n)


def vector_norm(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    return linear_algebra.norm(x, ord, axis, keepdims)
