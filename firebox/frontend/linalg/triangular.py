"""Triangular systems by substitution: one loop over the rows, whatever the sizes."""

from typing import Any

from firebox.errors import ShapeError
from firebox.frontend.control import scan
from firebox.frontend.custom import custom_vjp
from firebox.frontend.functions.moving import broadcast_shapes
from firebox.frontend.functions.shape import tril, triu
from firebox.frontend.functions.support import promote, shape_text
from firebox.frontend.linalg.common import matrices, numbers, outer_of, public, size_of, square, transposed
from firebox.frontend.tensor import Tensor


def right_sides(op: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Matrices and right sides of one type with the same leading dims; whether the right side was one vector.

    Raises:
        ShapeError: sizes that do not fit.
    """
    a, b = promote(op, square(op, a), b)
    vector = b.rank == 1
    b = b.expand_dims(-1) if vector else b
    b = matrices(op, b)
    if b.shape[-2] != a.shape[-1]:
        expected = f"{a.shape[-1]} rows"
        raise ShapeError("the right side does not fit", op=op, expected=expected, found=shape_text(b))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.broadcast_to((*batch, *a.shape[-2:])), b.broadcast_to((*batch, *b.shape[-2:])), vector


def _substituted(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Each step solves one row and takes its part off the rows that are left; used is one triangle only."""
    if not size_of(a, -1):
        return b
    rows = numbers(a, -1)

    def step(x: Tensor, i: Tensor) -> tuple[Tensor, None]:
        column, row = a.take(i, -1), x.take(i, -2)
        row = row if unit else row / column.take(i, -1).expand_dims(-1)
        left = rows < i if upper else rows > i
        x = x - outer_of(left.where(column, 0.0), row)
        return (rows == i).expand_dims(-1).where(row.expand_dims(-2), x), None

    found: Tensor = scan(step, b, rows, reverse=upper)[0]
    return found


def _solver(upper: bool, unit: bool) -> Any:
    @custom_vjp
    def solved(a: Tensor, b: Tensor) -> Tensor:
        return _substituted(a, b, upper, unit)

    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        x = _substituted(a, b, upper, unit)
        return x, (a, x)

    def backward(kept: tuple[Tensor, Tensor], ct: Tensor) -> tuple[Tensor, Tensor]:
        a, x = kept
        of_b = _substituted(transposed(a), ct, not upper, unit)  # as a loop: rules are traced where they are set
        of_a = -(of_b @ transposed(x))
        offset = int(unit)
        return triu(of_a, offset) if upper else tril(of_a, -offset), of_b

    solved.defvjp(forward, backward)
    return solved


SOLVERS = {(upper, unit): _solver(upper, unit) for upper in (False, True) for unit in (False, True)}
"""Solvers of a x = b, by (upper, unit). A second derivative is that of the loop."""


@public
def solve_triangular(a: Tensor, b: Tensor, upper: bool = False, unit: bool = False) -> Tensor:
    """x of ``a @ x = b``, where of ``a`` one triangle is used; leading dims broadcast. O(n^2 k).

    Args:
        a: (.., n, n).
        b: (n) or (.., n, k).
        upper: the upper triangle is used, else the lower.
        unit: the diagonal counts as ones.

    A zero on the diagonal makes infinities and NaN.

    Raises:
        ShapeError: sizes that do not fit.
    """
    a, b, vector = right_sides("solve_triangular", a, b)
    x: Tensor = SOLVERS[bool(upper), bool(unit)](a, b)
    return x.squeeze(-1) if vector else x
