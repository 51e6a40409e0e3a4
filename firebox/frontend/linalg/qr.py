"""Cholesky factors, and QR factors by Householder's reflections: one loop over the columns, whatever the sizes."""

from firebox.errors import UserError
from firebox.frontend.control import scan
from firebox.frontend.custom import custom_vjp
from firebox.frontend.functions.moving import moveaxis
from firebox.frontend.functions.shape import concat, narrow, tril, triu
from firebox.frontend.linalg.common import (
    identity,
    matrices,
    numbers,
    outer_of,
    public,
    size_of,
    square,
    transposed,
)
from firebox.frontend.linalg.triangular import SOLVERS
from firebox.frontend.tensor import Tensor

# ---- Cholesky ----------------------------------------------------------------------------------------------------


def _lower(a: Tensor) -> Tensor:
    """The outer-product form (Golub and Van Loan, 4.2.5); reads the lower triangle."""
    if not size_of(a, -1):
        return a
    rows = numbers(a, -1)

    def step(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        column = x.take(i, -1)
        column = (rows >= i).where(column / column.take(i, -1).expand_dims(-1).sqrt(), 0.0)
        return x - outer_of(column, column), column

    columns: Tensor = scan(step, a, rows)[1]
    return moveaxis(columns, 0, -1)


_cholesky = custom_vjp(_lower)


def _cholesky_forward(a: Tensor) -> tuple[Tensor, Tensor]:
    found = _lower(a)
    return found, found


def _halved(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal."""
    return tril(x) - identity(x, size_of(x, -2), size_of(x, -1)) * x * 0.5


def _cholesky_backward(lower: Tensor, ct: Tensor) -> Tensor:
    """The symmetric part of ``L^-T h(L^T l) L^-1`` (Murray, arXiv:1602.07527)."""
    solve = SOLVERS[True, False]
    left = solve(transposed(lower), _halved(transposed(lower) @ tril(ct)))
    whole = transposed(solve(transposed(lower), transposed(left)))
    return (whole + transposed(whole)) * 0.5


_cholesky.defvjp(_cholesky_forward, _cholesky_backward)


@public
def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """L of ``a = L @ L.T`` of symmetric positive definite matrices, or ``L.T``; NaN where they are not.

    Args:
        a: (.., n, n); its symmetric part counts.

    Raises:
        ShapeError: the matrices are not square.
    """
    a = square("cholesky", a)
    found: Tensor = _cholesky((a + transposed(a)) * 0.5)
    return transposed(found) if upper else found


# ---- QR ----------------------------------------------------------------------------------------------------------


def _reflected(a: Tensor) -> tuple[Tensor, Tensor]:
    """R, and for each column the w of the reflection ``I - w w^T`` that clears it below the diagonal, (k, .., m).

    As in LAPACK the diagonal gets the opposite sign of the element before, and what is zero already stays.
    """
    rows = numbers(a, -2)
    steps = min(size_of(a, -2), size_of(a, -1))

    def step(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        column = (rows >= i).where(x.take(i, -1), 0.0)
        size = column.abs().max(-1, keepdims=True)
        column = column / (size == 0.0).where(1.0, size)  # no overflow of squares
        below = (rows > i).where(column, 0.0)
        rest = (below * below).sum(-1, keepdims=True)
        first = column.take(i, -1).expand_dims(-1)
        none = rest == 0.0
        length = (first * first + none.where(1.0, rest)).sqrt()
        corner = first + length.copysign(first)
        scale = (length * (length + first.abs())).rsqrt()
        w = none.where(0.0, (rows == i).where(corner, below) * scale)
        return x - outer_of(w, (w.expand_dims(-2) @ x).squeeze(-2)), w

    return scan(step, a, narrow(numbers(a, -1), 0, 0, steps))


def _basis(x: Tensor, vectors: Tensor, columns: int) -> Tensor:
    """The first columns of the product of the reflections."""

    def step(q: Tensor, w: Tensor) -> tuple[Tensor, None]:
        return q - outer_of(w, (w.expand_dims(-2) @ q).squeeze(-2)), None

    found: Tensor = scan(step, identity(x, size_of(x, -2), columns), vectors, reverse=True)[0]
    return found


def factored(a: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """That many columns of Q and rows of R; differentiable as the loop that it is."""
    if not min(size_of(a, -2), size_of(a, -1)):
        return identity(a, size_of(a, -2), columns), narrow(a, -2, 0, columns)
    r, vectors = _reflected(a)
    return _basis(a, vectors, columns), triu(narrow(r, -2, 0, columns))


def _tall(a: Tensor) -> tuple[Tensor, Tensor]:
    return factored(a, size_of(a, -1))


_qr = custom_vjp(_tall)


def _qr_forward(a: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    found = _tall(a)
    return found, found


def _qr_backward(kept: tuple[Tensor, Tensor], cts: tuple[Tensor, Tensor]) -> Tensor:
    """``(q + Q c(R r^T - q^T Q)) R^-T``, c: the lower triangle mirrored up (Roberts and Roberts, arXiv:2009.10071)."""
    q, r = kept
    middle = r @ transposed(triu(cts[1])) - transposed(cts[0]) @ q
    below = tril(middle, -1)
    mirrored = tril(middle) + transposed(below)
    right = cts[0] + q @ mirrored
    return transposed(SOLVERS[True, False](r, transposed(right)))


_qr.defvjp(_qr_forward, _qr_backward)


@public
def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """q with orthonormal columns and an upper triangular r with ``a = q @ r``; signs are LAPACK's.

    Args:
        a: (.., m, n), with k = min(m, n).
        mode: ``"reduced"``: q is (.., m, k) and r (.., k, n); ``"complete"``: (.., m, m) and (.., m, n).

    The derivative needs the first k columns to be independent.

    Raises:
        UserError: another mode.
    """
    if mode not in ("reduced", "complete"):
        raise UserError("no such mode", op="qr", expected="reduced or complete", found=repr(mode))
    a = matrices("qr", a)
    m, n = size_of(a, -2), size_of(a, -1)
    if mode == "complete" and m > n:
        return factored(a, m)
    q, r = _qr(narrow(a, -1, 0, min(m, n)))
    return (q, r) if n <= m else (q, concat([r, transposed(q) @ narrow(a, -1, m, n)], -1))
