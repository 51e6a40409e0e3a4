"""What the decompositions share: checks of matrices, masks, and functions on matrices with derivatives of their own."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from firebox import dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.errors import DTypeError, ShapeError
from firebox.frontend.creation import arange, eye
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.moving import matrix_transpose
from firebox.frontend.functions.support import as_float, shape_text, static_size
from firebox.frontend.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
EPS = {dtypes.f32: 2.0**-23, dtypes.f64: 2.0**-52}


def public(function: F) -> F:
    """Decorator: arguments of type Tensor may be anything that makes a tensor."""
    return cast(F, accepting(function))


def matrices(op: str, x: Tensor) -> Tensor:
    """x as f32 or f64; its last two dims are matrices of sizes known when traced.

    Raises:
        ShapeError: fewer than two dims, or symbolic sizes. DTypeError: f16 or bf16.
    """
    if x.rank < 2:
        raise ShapeError("needs matrices", op=op, expected="at least two dims", found=shape_text(x))
    for axis in (-2, -1):
        static_size(op, x, axis)
    x = as_float(x)
    if x.dtype not in EPS:
        raise DTypeError("too few digits", op=op, expected="f32 or f64", found=x.dtype.name, hint="cast with astype")
    return x


def square(op: str, x: Tensor) -> Tensor:
    """As `matrices`, for square ones.

    Raises:
        ShapeError: also where they are not square.
    """
    x = matrices(op, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError("the matrices are not square", op=op, expected="as many rows as columns", found=shape_text(x))
    return x


def size_of(x: Tensor, axis: int) -> int:
    """The size of an axis that is known to be static."""
    return int(cast(int, x.shape[normalize_axis(axis, x.rank)]))


def transposed(x: Tensor) -> Tensor:
    """Rows and columns exchanged."""
    return matrix_transpose(x)


def numbers(x: Tensor, axis: int) -> Tensor:
    """0, 1, .. along an axis, 1-D, where x is."""
    return arange(size_of(x, axis), device=x.device)


def identity(x: Tensor, rows: int, columns: int) -> Tensor:
    """The identity of a size for each matrix of x."""
    one = eye(rows, columns, dtype=x.dtype, device=x.device)
    return one.broadcast_to((*x.shape[:-2], rows, columns))


def outer_of(a: Tensor, b: Tensor) -> Tensor:
    """Products of all elements of two vectors (the last dims), for each of their leading dims."""
    return a.expand_dims(-1) * b.expand_dims(-2)


def empty_like(x: Tensor, shape: Sequence[Any], value: float) -> Tensor:
    """One number in a shape, of the type and on the device of x."""
    return x.literal(value).broadcast_to(tuple(shape))
