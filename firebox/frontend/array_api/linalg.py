"""The extension ``linalg``: all of it but eigenvalues of matrices that are not symmetric, which are complex."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from firebox.dialects.nd.array import Axes
from firebox.errors import DTypeError
from firebox.frontend import linalg
from firebox.frontend.array_api import statistics
from firebox.frontend.functions import linear_algebra, matrices, moving
from firebox.frontend.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
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
    return linalg.matrix_norm(x, keepdims, ord)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    return linalg.matrix_power(x, n)


def vector_norm(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    return linear_algebra.norm(x, ord, axis, keepdims)


# ---- decompositions ----------------------------------------------------------------------------------------------


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    return linalg.cholesky(x, upper)


def det(x: Tensor, /) -> Tensor:
    return linalg.det(x)


def eigh(x: Tensor, /) -> EighResult:
    return EighResult(*linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    return linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    return linalg.inv(x)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    return linalg.matrix_rank(x, rtol)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    return linalg.pinv(x, rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    return QRResult(*linalg.qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    return SlogdetResult(*linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    return linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    return SVDResult(*linalg.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    return linalg.svdvals(x)
