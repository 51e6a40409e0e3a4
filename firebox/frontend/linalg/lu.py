"""LU factors with partial pivoting, and what they solve: determinants, systems, inverses, powers."""

from firebox import dtypes
from firebox.errors import UserError
from firebox.frontend.control import cond, scan
from firebox.frontend.custom import custom_vjp
from firebox.frontend.functions import matrices as general
from firebox.frontend.functions.moving import moveaxis
from firebox.frontend.functions.shape import concat, narrow, tril, triu
from firebox.frontend.linalg.common import (
    EPS,
    empty_like,
    identity,
    matrices,
    numbers,
    outer_of,
    public,
    size_of,
    square,
    transposed,
)
from firebox.frontend.linalg.spectral import svd
from firebox.frontend.linalg.triangular import SOLVERS, right_sides
from firebox.frontend.tensor import Tensor


def factors(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L below the diagonal and U in one matrix, the order of the rows, and which row each step exchanged.

    The outer-product form (Golub and Van Loan, Matrix Computations, 3.4.1): a step moves the largest element of the
    column into the diagonal and takes its part off the rest. A column of zeros is passed over.
    """
    rows, columns = numbers(a, -2), numbers(a, -1)
    steps = min(size_of(a, -2), size_of(a, -1))
    order = rows.broadcast_to(a.shape[:-1])
    if not steps:
        return a, order, narrow(order, -1, 0, 0)

    def step(state: tuple[Tensor, Tensor], i: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        x, order = state
        pivot = (rows >= i).where(x.take(i, -1).abs(), -1.0).argmax(-1)
        at = pivot.expand_dims(-1)
        exchanged = (rows == i).where(at, (rows == at).where(i, rows))
        x = x.take_along_axis(exchanged.expand_dims(-1), -2)
        column, row = x.take(i, -1), x.take(i, -2)
        corner = row.take(i, -1).expand_dims(-1)
        factor = (rows > i).where(column / (corner == 0.0).where(1.0, corner), 0.0)
        x = x - outer_of(factor, (columns > i).where(row, 0.0))
        below = (rows > i).expand_dims(-1) & (columns == i)
        return (below.where(factor.expand_dims(-1), x), order.take_along_axis(exchanged, -1)), pivot

    (x, order), pivots = scan(step, (a, order), narrow(numbers(a, -1), 0, 0, steps))
    return x, order, moveaxis(pivots, 0, -1)


@public
def lu_factor(a: Tensor) -> tuple[Tensor, Tensor]:
    """L and U in one matrix, and the row (i64) that each step exchanged with its own: LAPACK's ``getrf``, from 0.

    Args:
        a: (.., m, n); the pivots are (.., min(m, n)).
    """
    x, _, pivots = factors(matrices("lu_factor", a))
    return x, pivots


@public
def lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Matrices with ``a = p @ l @ u``: a permutation, a lower one with ones on the diagonal, and an upper one.

    Args:
        a: (.., m, n); l is (.., m, k), u (.., k, n) with k = min(m, n).

    The derivative is that of the permutation at hand; it needs the first k columns and rows of ``p.T @ a`` to be
    invertible.
    """
    a = matrices("lu", a)
    m, k = size_of(a, -2), min(size_of(a, -2), size_of(a, -1))
    order = factors(a.one("stop_gradient", a))[1]
    ordered = a.take_along_axis(order.expand_dims(-1), -2)
    lower, upper = _unpivoted(ordered, m, k)
    places = numbers(a, -2).expand_dims(-1)
    return (places == order.expand_dims(-2)).astype(a.dtype), lower, upper


def _unpivoted(a: Tensor, m: int, k: int) -> tuple[Tensor, Tensor]:
    """L and U of matrices whose rows are in order; what is beyond the leading square follows from its factors."""
    lower, upper = _square_lu(narrow(narrow(a, -2, 0, k), -1, 0, k))
    n = size_of(a, -1)
    if m > k:
        rest = narrow(narrow(a, -2, k, m), -1, 0, k)
        lower = concat([lower, transposed(SOLVERS[False, False](transposed(upper), transposed(rest)))], -2)
    if n > k:
        rest = narrow(a, -1, k, n)
        upper = concat([upper, SOLVERS[False, True](lower, rest)], -1)
    return lower, upper


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    return tril(x, -1) + identity(x, size_of(x, -2), size_of(x, -1)), triu(x)


def _ordered_factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of matrices whose rows are in order already, so that the pivot is always the next row."""
    return _split(factors(a)[0])


_square_lu = custom_vjp(_ordered_factors)


def _square_lu_forward(a: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    found = _ordered_factors(a)
    return found, found


def _square_lu_backward(kept: tuple[Tensor, Tensor], cts: tuple[Tensor, Tensor]) -> Tensor:
    """``L^-T (strictly lower of L^T l + upper of u U^T) U^-T``."""
    lower, upper = kept
    middle = tril(transposed(lower) @ cts[0], -1) + triu(cts[1] @ transposed(upper))
    left = SOLVERS[True, True](transposed(lower), middle)
    return transposed(SOLVERS[True, False](upper, transposed(left)))


_square_lu.defvjp(_square_lu_forward, _square_lu_backward)


# ---- systems -----------------------------------------------------------------------------------------------------


def _solved(a: Tensor, b: Tensor) -> Tensor:
    x, order, _ = factors(a)
    y = SOLVERS[False, True](x, b.take_along_axis(order.expand_dims(-1), -2))
    found: Tensor = SOLVERS[True, False](x, y)
    return found


_solve = custom_vjp(_solved)


def _solve_forward(a: Tensor, b: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    x = _solved(a, b)
    return x, (a, x)


def _solve_backward(kept: tuple[Tensor, Tensor], ct: Tensor) -> tuple[Tensor, Tensor]:
    a, x = kept
    of_b = _solved(transposed(a), ct)
    return -(of_b @ transposed(x)), of_b


_solve.defvjp(_solve_forward, _solve_backward)


@public
def solve(a: Tensor, b: Tensor) -> Tensor:
    """x of ``a @ x = b`` by LU factors with partial pivoting; leading dims broadcast.

    Args:
        a: (.., n, n).
        b: (n) or (.., n, k).

    A singular matrix makes infinities or NaN.

    Raises:
        ShapeError: sizes that do not fit.
    """
    a, b, vector = right_sides("solve", a, b)
    x: Tensor = _solve(a, b)
    return x.squeeze(-1) if vector else x


@public
def inv(a: Tensor) -> Tensor:
    """The inverse of square matrices (.., n, n); of a singular one infinities or NaN.

    Raises:
        ShapeError: the matrices are not square.
    """
    a = square("inv", a)
    found: Tensor = _solve(a, identity(a, size_of(a, -1), size_of(a, -1)))
    return found


def _inverse_transposed(a: Tensor, factor: Tensor) -> Tensor:
    """The transposed inverse times a number for each matrix."""
    found = _solved(transposed(a), identity(a, size_of(a, -1), size_of(a, -1)))
    return found * factor.expand_dims(-1).expand_dims(-1)


@public
def matrix_power(a: Tensor, exponent: int) -> Tensor:
    """The product of ``exponent`` copies of square matrices; 0 gives the identity, less the power of the inverse.

    Raises:
        ShapeError: the matrices are not square. UserError: the exponent is no integer.
    """
    if not isinstance(exponent, int):
        raise UserError("not an exponent", op="matrix_power", expected="an integer", found=exponent)
    return general.matrix_power(a, exponent) if exponent >= 0 else general.matrix_power(inv(a), -exponent)


# ---- determinants ------------------------------------------------------------------------------------------------


def _sign_and_diagonal(a: Tensor) -> tuple[Tensor, Tensor]:
    x, _, pivots = factors(a)
    swaps = (pivots != numbers(a, -1)).astype(dtypes.i64).sum(-1)
    return (swaps % 2 == 0).where(1.0, -1.0).astype(a.dtype), general.diagonal(x)


def _determinant(a: Tensor) -> Tensor:
    sign, diagonal = _sign_and_diagonal(a)
    return sign * diagonal.prod(-1)


_det = custom_vjp(_determinant)


def _det_forward(a: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    found = _determinant(a)
    return found, (a, found)


def _det_backward(kept: tuple[Tensor, Tensor], ct: Tensor) -> Tensor:
    """The cofactors: from the inverse, or from singular values where there is none to working precision."""
    a, found = kept
    pivots = _sign_and_diagonal(a)[1].abs()
    singular = pivots.min(-1) <= pivots.max(-1) * (EPS[a.dtype] * size_of(a, -1))
    factor = ct.expand_dims(-1).expand_dims(-1)

    def regular(a: Tensor, found: Tensor) -> Tensor:
        return _inverse_transposed(a, found)

    cofactors: Tensor = cond(singular.any(), lambda a, _: _cofactors(a), regular, a, found)
    return cofactors * factor


def _cofactors(a: Tensor) -> Tensor:
    """``det(U) det(V) U diag(p) V^T``, p[i] the product of all singular values but s[i]."""
    u, s, vh = svd(a, False)
    own = identity(a, size_of(a, -1), size_of(a, -1)) == 1.0
    others = own.where(1.0, s.expand_dims(-2)).prod(-1)
    sign = (_determinant(u) * _determinant(vh)).round().expand_dims(-1)
    return (u * (others * sign).expand_dims(-2)) @ vh


_det.defvjp(_det_forward, _det_backward)


@public
def det(a: Tensor) -> Tensor:
    """The determinants of square matrices (.., n, n), from LU factors; the gradient is right for singular ones, too.

    Raises:
        ShapeError: the matrices are not square.
    """
    a = square("det", a)
    found: Tensor = _det(a) if size_of(a, -1) else empty_like(a, a.shape[:-2], 1.0)
    return found


def _logarithm(a: Tensor) -> tuple[Tensor, Tensor]:
    sign, diagonal = _sign_and_diagonal(a)
    return sign * diagonal.sign().prod(-1), diagonal.abs().log().sum(-1)


_slogdet = custom_vjp(_logarithm)


def _slogdet_forward(a: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    return _logarithm(a), a


def _slogdet_backward(a: Tensor, cts: tuple[Tensor, Tensor]) -> Tensor:
    return _inverse_transposed(a, cts[1])


_slogdet.defvjp(_slogdet_forward, _slogdet_backward)


@public
def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the magnitude of determinants, (0, -inf) of singular matrices, where the gradient is NaN.

    Raises:
        ShapeError: the matrices are not square.
    """
    a = square("slogdet", a)
    if not size_of(a, -1):
        return empty_like(a, a.shape[:-2], 1.0), empty_like(a, a.shape[:-2], 0.0)
    sign, logarithm = _slogdet(a)
    return sign, logarithm
