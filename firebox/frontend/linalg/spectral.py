"""Eigenvalues of symmetric matrices, singular values, and what is made of them."""

from typing import Any

from firebox import dtypes
from firebox.errors import ShapeError, UserError
from firebox.frontend.custom import custom_vjp
from firebox.frontend.functions import matrices as general
from firebox.frontend.functions.shape import concat, narrow
from firebox.frontend.functions.support import shape_text
from firebox.frontend.linalg.common import EPS, identity, matrices, public, size_of, square, transposed
from firebox.frontend.linalg.jacobi import eigen, orthogonal
from firebox.frontend.linalg.qr import factored
from firebox.frontend.tensor import Tensor

# ---- eigenvalues -------------------------------------------------------------------------------------------------


def _gaps(values: Tensor) -> Tensor:
    """1 / (v[j] - v[i]), and 0 where they are equal: which basis such vectors have is nobody's derivative."""
    distance = values.expand_dims(-2) - values.expand_dims(-1)
    same = distance == 0.0
    return same.where(0.0, 1.0 / same.where(1.0, distance))


_eigh = custom_vjp(eigen)


def _eigh_forward(a: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    found = eigen(a)
    return found, found


def _eigh_backward(kept: tuple[Tensor, Tensor], cts: tuple[Tensor, Tensor]) -> Tensor:
    """``V (diag(w) + F * (V^T v)) V^T`` (Giles, An extended collection of matrix derivative results, 3.1)."""
    values, v = kept
    middle = general.diag_embed(cts[0]) + _gaps(values) * (transposed(v) @ cts[1])
    whole = v @ middle @ transposed(v)
    return (whole + transposed(whole)) * 0.5


_eigh.defvjp(_eigh_forward, _eigh_backward)


@public
def eigh(a: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order, (.., n), and orthonormal eigenvectors as columns, of symmetric matrices.

    Args:
        a: (.., n, n); its symmetric part counts.

    By Jacobi's rotations, O(n^3) for each of some 6 to 10 sweeps. The derivative of vectors of equal values is taken
    as 0.

    Raises:
        ShapeError: the matrices are not square.
    """
    a = square("eigh", a)
    values, vectors = _eigh((a + transposed(a)) * 0.5)
    return values, vectors


@public
def eigvalsh(a: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order; see `eigh`."""
    return eigh(square("eigvalsh", a))[0]


# ---- singular values ---------------------------------------------------------------------------------------------


def _tall_svd(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of matrices with as many rows as columns or more: QR factors, then rotations of R.

    The left vectors are Q of the rotated columns, which makes a basis also of what has no length.
    """
    m, n = size_of(a, -2), size_of(a, -1)
    q, r = factored(a, n) if m > n else (None, a)
    columns, values, v = orthogonal(r)
    u, corner = factored(columns, n)
    sign = (general.diagonal(corner) < 0.0).where(-1.0, 1.0).expand_dims(-2)
    u = u * sign
    return (u if q is None else q @ u), values, transposed(v)


_svd = custom_vjp(_tall_svd)
Factors = tuple[Tensor, Tensor, Tensor]


def _svd_forward(a: Tensor) -> tuple[Factors, Factors]:
    found = _tall_svd(a)
    return found, found


def _svd_backward(kept: Factors, cts: Factors) -> Tensor:
    """Townsend, Differentiating the Singular Value Decomposition, (2016); equal values as in `_gaps`."""
    u, s, vh = kept
    of_u, of_s, of_vh = cts
    v = transposed(vh)
    row = s.expand_dims(-2)
    gaps = _gaps(s * s)
    left, right = gaps * (transposed(u) @ of_u), gaps * (vh @ transposed(of_vh))
    middle = (left + transposed(left)) * row + s.expand_dims(-1) * (right + transposed(right))
    whole = u @ (middle + general.diag_embed(of_s)) @ transposed(v)
    if size_of(u, -2) == size_of(u, -1):
        return whole
    inverse = (row == 0.0).where(0.0, 1.0 / (row == 0.0).where(1.0, row))
    outside = of_u - u @ (transposed(u) @ of_u)
    return whole + (outside * inverse) @ vh


_svd.defvjp(_svd_forward, _svd_backward)


@public
def svd(a: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """u, s and vh with ``a = (u * s) @ vh``: orthonormal columns and rows, and s >= 0 in descending order.

    Args:
        a: (.., m, n), with k = min(m, n).
        full_matrices: u is (.., m, m) and vh (.., n, n), else (.., m, k) and (.., k, n).

    By one-sided Jacobi rotations of the R of QR factors. The derivative of vectors of equal values is taken as 0.
    """
    a = matrices("svd", a)
    m, n = size_of(a, -2), size_of(a, -1)
    if m < n:
        v, s, uh = svd(transposed(a), full_matrices)
        return transposed(uh), s, transposed(v)
    if n == 0:
        return identity(a, m, m if full_matrices else 0), a.sum(-2), transposed(a)[..., :0]
    u, s, vh = _svd(a)
    if full_matrices and m > n:
        rest = factored(u, m)[0]
        u = concat([u, narrow(rest, -1, n, m)], -1)
    return u, s, vh


@public
def svdvals(a: Tensor) -> Tensor:
    """Singular values in descending order, (.., min(m, n)); see `svd`."""
    return svd(matrices("svdvals", a), False)[1]


def _relative(a: Tensor, rtol: Any) -> Any:
    if rtol is None:
        return EPS[a.dtype] * max(size_of(a, -2), size_of(a, -1))
    return rtol.expand_dims(-1) if isinstance(rtol, Tensor) else rtol


@public
def matrix_rank(a: Tensor, rtol: Any = None) -> Tensor:
    """How many singular values (i64) are larger than ``rtol`` times the largest; by default max(m, n) * eps."""
    a = matrices("matrix_rank", a)
    if 0 in a.shape[-2:]:
        return a.literal(0, dtypes.i64).broadcast_to(a.shape[:-2])
    values = svdvals(a)
    large: Tensor = values > values.max(-1, keepdims=True) * _relative(a, rtol)
    return large.astype(dtypes.i64).sum(-1)


def _pseudoinverse(rtol: Any) -> Any:
    def value(a: Tensor) -> Tensor:
        u, s, vh = svd(a, False)
        small: Tensor = s <= s.max(-1, keepdims=True) * rtol
        inverse = small.where(0.0, 1.0 / small.where(1.0, s))
        result: Tensor = (transposed(vh) * inverse.expand_dims(-2)) @ transposed(u)
        return result

    def forward(a: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        found = value(a)
        return found, (a, found)

    def backward(kept: tuple[Tensor, Tensor], ct: Tensor) -> Tensor:
        """Golub and Pereyra (1973): right for matrices whose rank does not change."""
        a, p = kept
        ph, cth = transposed(p), transposed(ct)
        outside = identity(a, size_of(a, -2), size_of(a, -2)) - a @ p
        beyond = identity(a, size_of(a, -1), size_of(a, -1)) - p @ a
        return outside @ cth @ (p @ ph) + (ph @ p) @ cth @ beyond - ph @ ct @ ph

    inverse = custom_vjp(value)
    inverse.defvjp(forward, backward)
    return inverse


@public
def pinv(a: Tensor, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse, (.., n, m): singular values up to ``rtol`` times the largest count as 0.

    Args:
        rtol: by default max(m, n) * eps. The derivative is right where the rank does not change.
    """
    a = matrices("pinv", a)
    if 0 in a.shape[-2:]:
        return transposed(a)
    found: Tensor = _pseudoinverse(_relative(a, rtol))(a)
    return found


@public
def lstsq(a: Tensor, b: Tensor, rtol: Any = None) -> Tensor:
    """The shortest x of those for which ``a @ x`` is closest to b: ``pinv(a) @ b``; b is (m) or (.., m, k)."""
    a = matrices("lstsq", a)
    rows = b.shape[0] if b.rank == 1 else b.shape[-2] if b.rank else 0
    if rows != a.shape[-2]:
        expected = f"{a.shape[-2]} rows"
        raise ShapeError("the right side does not fit", op="lstsq", expected=expected, found=shape_text(b))
    return pinv(a, rtol) @ b


@public
def cond(a: Tensor) -> Tensor:
    """The largest singular value divided by the smallest."""
    values = svdvals(matrices("cond", a))
    return values[..., 0] / values[..., -1]


@public
def matrix_norm(x: Tensor, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices in the last two dims.

    Args:
        ord: ``"fro"`` (Frobenius); 1 or -1: the largest or smallest sum of magnitudes of a column, inf or -inf of a
            row; 2 or -2: the largest or smallest singular value, ``"nuc"`` their sum.

    Raises:
        UserError: another norm. ShapeError: fewer than two dims.
    """
    if ord in ("fro", None, 1, -1, float("inf"), float("-inf")):
        return general.matrix_norm(x, keepdims, ord)
    if ord not in (2, -2, "nuc"):
        raise UserError("no such norm", op="matrix_norm", expected="fro, nuc, 1, -1, 2, -2, inf or -inf", found=ord)
    values = svdvals(x)
    found = values.sum(-1) if ord == "nuc" else values.max(-1) if ord == 2 else values.min(-1)
    return found.expand_dims(-1).expand_dims(-1) if keepdims else found
