"""Distances of vectors; gradients are 0 where two vectors are equal."""

import math

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.support import A, as_float, differ, equals, one_node, promote, shape_text


@one_node
def pairwise_distance(a: A, b: A, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> A:
    """The p-norm of a - b + eps along the last axis; the operands broadcast."""
    a, b = promote("pairwise_distance", as_float(a), as_float(b))
    return _norm("pairwise_distance", a - b + eps, p, keepdims)


@one_node
def cdist(a: A, b: A, p: float = 2.0) -> A:
    """The p-norm of every row of ``a`` (.., P, M) minus every row of ``b`` (.., R, M): (.., P, R).

    Differences are taken before squares, so close rows lose no digits.

    Raises:
        ShapeError: fewer than two dims, or rows of different sizes. UserError: ``p`` is negative.
    """
    a, b = promote("cdist", as_float(a), as_float(b))
    if a.rank < 2 or b.rank < 2 or differ(a.shape[-1], b.shape[-1]):
        expected, found = "(.., P, M) and (.., R, M)", f"{shape_text(a)} and {shape_text(b)}"
        raise ShapeError("rows of different sizes", op="cdist", expected=expected, found=found)
    return _norm("cdist", a.expand_dims(-2) - b.expand_dims(-3), p, False)


@one_node
def pdist(x: A, p: float = 2.0) -> A:
    """The p-norms of row i minus row j of (N, M) for all i < j, in row-major order: (N * (N - 1) / 2,).

    Raises:
        ShapeError: not two dims, or a symbolic number of rows. UserError: ``p`` is negative.
    """
    rows = x.shape[0] if x.rank == 2 else None
    if not isinstance(rows, int):
        raise ShapeError("needs rows of a known number", op="pdist", expected="(N, M)", found=shape_text(x))
    x = as_float(x)
    parts = [x.slice((k, 0), (k + 1, x.shape[1])) - x.slice((k + 1, 0), x.shape) for k in range(rows - 1)]
    if not parts:
        return x.slice((0, 0), (0, 1)).reshape((0,))
    return _norm("pdist", x.one("concat", *parts, axis=0), p, False)


def _norm(op: str, x: A, p: float, keepdims: bool) -> A:
    """The p-norm along the last axis, with gradient 0 at 0."""
    if p < 0:
        raise UserError("bad p", op=op, expected="a number >= 0", found=p)
    if p == 0:
        return (~equals(x, 0)).astype(x.dtype).sum(-1, keepdims)
    if p == math.inf:
        return x.abs().max(-1, keepdims)
    if p == 1:
        return x.abs().sum(-1, keepdims)
    if p == 2:
        return _root((x * x).sum(-1, keepdims))
    zero = equals(x, 0)
    total = zero.where(0.0, zero.where(1.0, x.abs()) ** p).sum(-1, keepdims)
    empty = equals(total, 0)
    return empty.where(0.0, empty.where(1.0, total) ** (1.0 / p))


def _root(total: A) -> A:
    """The square root, with gradient 0 at 0."""
    empty = equals(total, 0)
    return empty.where(0.0, empty.where(1.0, total).sqrt())
