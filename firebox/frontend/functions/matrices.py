"""Diagonals, traces, products of vectors and norms of matrices."""

from typing import Any

from firebox import dims
from firebox.dialects.nd.array import Axes, normalize_axis
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.linear_algebra import matmul, norm, tensordot, vecdot
from firebox.frontend.functions.moving import broadcast_arrays, moveaxis
from firebox.frontend.functions.shape import concat, narrow
from firebox.frontend.functions.support import A, arange_like, as_float, differ, promote, require_rank, shape_text

# ---- diagonals ---------------------------------------------------------------------------------------------------


def diagonal(x: A, offset: int = 0, axis1: int = -2, axis2: int = -1) -> A:
    """``out[.., i] = x[.., i, i + offset]`` over two dims, which become the last one.

    Raises:
        ShapeError: fewer than two dims, twice the same, or a matrix of symbolic size that is not square.
    """
    if x.rank < 2 or normalize_axis(axis1, x.rank) == normalize_axis(axis2, x.rank):
        raise ShapeError("needs two dims", op="diagonal", found=f"{shape_text(x)}, axes {axis1} and {axis2}")
    moved = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = moved.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        if offset != 0 or differ(rows, columns):
            raise ShapeError("a symbolic matrix must be square", op="diagonal", found=shape_text(x))
        return moved.take_along_axis(arange_like(x, rows).reshape((-1, 1)), -1).squeeze(-1)
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = moved.reshape((*moved.shape[:-2], rows * columns))
    if count == 0:
        return narrow(flat, -1, 0, 0)
    start, step = max(offset, 0) + max(-offset, 0) * columns, columns + 1
    stop = start + (count - 1) * step + 1
    none, whole = (0,) * (x.rank - 2), moved.shape[:-2]
    return flat.slice((*none, start), (*whole, stop), (*(1,) * (x.rank - 2), step))


def diag_embed(x: A, offset: int = 0) -> A:
    """The last dim as the diagonal of matrices of zeros."""
    if x.rank == 0:
        raise ShapeError("needs at least one dim", op="diag_embed", found=shape_text(x))
    count = x.shape[-1]
    size = count + abs(offset)
    low, high = max(offset, 0), max(-offset, 0)
    line = x.pad((*(0,) * (x.rank - 1), low), (*(0,) * (x.rank - 1), high)).expand_dims(-2)
    places = arange_like(x, size)
    on = places.expand_dims(0) == places.expand_dims(1) + offset
    return on.where(line, x.literal(0))


def diag(x: A, offset: int = 0) -> A:
    """A vector as the diagonal of a matrix of zeros, or the diagonal of a matrix."""
    if x.rank not in (1, 2):
        raise ShapeError("takes a vector or a matrix", op="diag", found=shape_text(x))
    return diag_embed(x, offset) if x.rank == 1 else diagonal(x, offset)


def trace(x: A, offset: int = 0) -> A:
    """The sum of the diagonal of the last two dims; small integers are summed as i64."""
    return diagonal(x, offset).sum(-1)


# ---- products ----------------------------------------------------------------------------------------------------


def inner(a: A, b: A) -> A:
    """Sums of products over the last dim of both; with a 0-d operand the product."""
    a, b = promote("inner", a, b)
    return a * b if 0 in (a.rank, b.rank) else tensordot(a, b, ((-1,), (-1,)))


def vdot(a: A, b: A) -> A:
    """The sum of the products of all elements."""
    a, b = promote("vdot", a, b)
    if differ(a.size, b.size):
        raise ShapeError("as many elements are needed", op="vdot", expected=a.size, found=b.size)
    return vecdot(a.reshape((a.size,)), b.reshape((b.size,)))


def matvec(a: A, b: A) -> A:
    """Matrices times vectors over the last dims; the others broadcast."""
    return matmul(a, b.expand_dims(-1)).squeeze(-1)


def cross(a: A, b: A, axis: int = -1) -> A:
    """The vector product along an axis of size 3; the other dims broadcast.

    Raises:
        ShapeError: the axis has another size.
    """
    a, b = promote("cross", a, b)
    a, b = broadcast_arrays(a, b)
    at = normalize_axis(axis, a.rank)
    if differ(a.shape[at], 3):
        raise ShapeError("needs vectors of three elements", op="cross", expected=3, found=a.shape[at])
    (a0, a1, a2), (b0, b1, b2) = ([narrow(v, at, k, k + 1) for k in range(3)] for v in (a, b))
    return concat([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], at)


def kron(a: A, b: A) -> A:
    """Every element of a times all of b: NumPy's ``kron``."""
    a, b = promote("kron", a, b)
    rank = max(a.rank, b.rank)
    sizes_a, sizes_b = ((1,) * (rank - v.rank) + v.shape for v in (a, b))
    left = a.reshape(tuple(d for size in sizes_a for d in (size, 1)))
    right = b.reshape(tuple(d for size in sizes_b for d in (1, size)))
    return (left * right).reshape(tuple(dims.multiply(p, q) for p, q in zip(sizes_a, sizes_b, strict=True)))


def matrix_power(x: A, exponent: int) -> A:
    """The product of ``exponent`` copies of a square matrix; 0 gives the identity.

    Raises:
        ShapeError: not square. UserError: a negative exponent; `fb.linalg.matrix_power` inverts.
    """
    if x.rank < 2 or differ(x.shape[-1], x.shape[-2]):
        raise ShapeError("the matrix must be square", op="matrix_power", found=shape_text(x))
    if exponent < 0:
        hint = "fb.linalg.matrix_power inverts"
        raise UserError("there is no inverse", op="matrix_power", expected="0 or more", found=exponent, hint=hint)
    if exponent == 0:
        places = arange_like(x, x.shape[-1])
        one = (places.expand_dims(0) == places.expand_dims(1)).astype(x.dtype)
        return one.broadcast_to(x.shape)
    result: A | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else matmul(result, x)
        exponent >>= 1
        x = matmul(x, x) if exponent else x
    assert result is not None
    return result


# ---- norms -------------------------------------------------------------------------------------------------------


def vector_norm(x: A, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> A:
    """The norm of the elements along axes; see `norm`."""
    return norm(x, ord, axis, keepdims)


def matrix_norm(x: A, keepdims: bool = False, ord: Any = "fro") -> A:
    """The Frobenius norm of matrices in the last two dims, or the largest (smallest) sum of magnitudes.

    Args:
        ord: ``"fro"``; 1 or -1: of columns; inf or -inf: of rows.

    Raises:
        UserError: another norm; `fb.linalg.matrix_norm` has those that need singular values.
    """
    if x.rank < 2:
        raise ShapeError("needs at least two dims", op="matrix_norm", found=shape_text(x))
    if ord in ("fro", None):
        return norm(x, 2, (-2, -1), keepdims)
    sums = {1: -2, -1: -2, float("inf"): -1, float("-inf"): -1}
    if ord not in sums:
        hint = "fb.linalg.matrix_norm has 2, -2 and nuc, which need singular values"
        raise UserError("no such norm", op="matrix_norm", expected="fro, 1, -1, inf or -inf", found=ord, hint=hint)
    total = as_float(x).abs().sum(sums[ord], keepdims=True)
    axes = (-2, -1)
    result = total.max(axes, keepdims=True) if ord > 0 else total.min(axes, keepdims=True)
    return result if keepdims else result.squeeze(axes)


def cosine_similarity(a: A, b: A, axis: int = -1, eps: float = 1e-8) -> A:
    """The cosine of the angle between vectors along an axis; lengths below ``eps`` count as ``eps``."""
    a, b = promote("cosine_similarity", as_float(a), as_float(b))
    lengths = norm(a, 2, axis).maximum(eps) * norm(b, 2, axis).maximum(eps)
    return vecdot(a, b, axis) / lengths


def cov(x: A, correction: float = 1) -> A:
    """Covariances of the rows of a matrix (variables) over its columns (observations); 0-d of one variable.

    A vector holds the observations of one variable.
    """
    c = _covariances("cov", x, correction)
    return c.reshape(()) if c.shape == (1, 1) else c


def _covariances(op: str, x: A, correction: float) -> A:
    if x.rank == 1:
        x = x.expand_dims(0)
    require_rank(op, x, 2, "(variables, observations)")
    x = as_float(x)
    centred = x - x.mean(1, keepdims=True)
    return matmul(centred, centred.T) / (x.size_of(x.shape[1]) - correction)


def corrcoef(x: A) -> A:
    """Correlations of the rows of a matrix (variables) over its columns (observations); 0-d of one variable.

    A vector holds the observations of one variable.
    """
    c = _covariances("corrcoef", x, 1)
    scale = diagonal(c).rsqrt()
    r = c * scale.expand_dims(0) * scale.expand_dims(1)
    return r.reshape(()) if r.shape == (1, 1) else r
