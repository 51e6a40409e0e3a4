"""Jacobi's rotations in parallel: in a round every row has a partner, in n - 1 rounds each pair meets once.

The loops end when nothing is left to rotate, after at most 30 sweeps; convergence is quadratic, some 6 to 10 sweeps are
the rule. Small eigenvalues and singular values come out as accurate as the matrix determines them.
"""

import functools

import numpy as np

from firebox import dtypes
from firebox.frontend.control import while_loop
from firebox.frontend.functions import matrices as general
from firebox.frontend.functions.shape import argsort
from firebox.frontend.linalg.common import EPS, identity, numbers, size_of
from firebox.frontend.tensor import Tensor, as_tensor

SWEEPS = 30


@functools.cache
def partners(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(rounds, n): who meets whom, by the circle method of tournaments; of an odd number one meets itself."""
    even = n + n % 2
    rounds = max(even - 1, 1)
    table = np.zeros((rounds, even), np.int64)
    for k in range(rounds):
        circle = [0, *(1 + (j + k) % (even - 1) for j in range(even - 1))] if even > 2 else [0, 1]
        for j in range(even // 2):
            a, b = circle[j], circle[even - 1 - j]
            table[k, a], table[k, b] = b, a
    found = np.where(table >= n, np.arange(even), table)[:, :n]
    return np.ascontiguousarray(found)


def _rotation(own: Tensor, other: Tensor, shared: Tensor, mate: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine that make the shared element 0, from the view of each partner."""
    idle = (shared == 0.0) | (mate == place)
    theta = (other - own) / (idle.where(1.0, shared) * 2.0)
    side = (theta == 0.0).where((mate > place).where(1.0, -1.0), theta.sign())
    size = theta.abs()
    huge = size > 1e15  # whose square may be infinite
    t = side / (size + ((huge.where(0.0, size)) ** 2 + 1.0).sqrt())
    t = idle.where(0.0, huge.where(side * 0.5 / size, t))
    cosine = (t * t + 1.0).rsqrt()
    return cosine, t * cosine


def _turned(x: Tensor, cosine: Tensor, sine: Tensor, mate: Tensor, axis: int) -> Tensor:
    """Rows (-2) or columns (-1) combined with their partners'."""
    c, s = (v.expand_dims(-1 if axis == -2 else -2) for v in (cosine, sine))
    return c * x - s * x.take(mate, axis)


def eigen(a: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order and eigenvectors as columns, of symmetric matrices (Golub and Van Loan, 8.5)."""
    n = size_of(a, -1)
    if n < 2:
        return general.diagonal(a), identity(a, n, n)
    table = as_tensor(partners(n), a.device)
    rounds, place = table.shape[0], numbers(a, -1)
    diagonal = place.expand_dims(-1) == place
    scale = (a * a).sum((-2, -1))
    goal = scale * (EPS[a.dtype] * 0.1) ** 2

    def left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        k, x, _ = state
        rest = diagonal.where(0.0, x)
        return (k < SWEEPS * rounds) & ((rest * rest).sum((-2, -1)) > goal).any()

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        k, x, v = state
        mate = table.take(k % rounds, 0)
        own = general.diagonal(x)
        index = mate.expand_dims(-1).broadcast_to((*x.shape[:-1], 1))
        shared = x.take_along_axis(index, -1).squeeze(-1)
        cosine, sine = _rotation(own, own.take(mate, -1), shared, mate, place)
        x = _turned(_turned(x, cosine, sine, mate, -2), cosine, sine, mate, -1)
        met = (place == mate.expand_dims(-1)) & ~diagonal
        return k + 1, met.where(0.0, x), _turned(v, cosine, sine, mate, -1)

    start = place.literal(0, dtypes.i64)
    _, x, vectors = while_loop(left, step, (start, a, identity(a, n, n)))
    values = general.diagonal(x)
    order = argsort(values, -1)
    return values.take_along_axis(order, -1), vectors.take_along_axis(_spread(order, vectors), -1)


def _spread(order: Tensor, like: Tensor) -> Tensor:
    """An order of columns for every row."""
    return order.expand_dims(-2).broadcast_to(like.shape)


def orthogonal(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``a @ v`` with orthogonal columns, their lengths in descending order, and the rotation v: (.., m, n), m >= n.

    One-sided rotations (Hestenes; Golub and Van Loan, 8.6.3). The largest cosine between two columns that was met in a
    sweep decides whether another one follows.
    """
    n = size_of(a, -1)
    v = identity(a, n, n)
    if n >= 2:
        a, v = _orthogonalized(a, v)
    lengths = _lengths(a)
    order = argsort(-lengths, -1)
    sorted_a, sorted_v = (x.take_along_axis(_spread(order, x), -1) for x in (a, v))
    return sorted_a, lengths.take_along_axis(order, -1), sorted_v


def _lengths(a: Tensor) -> Tensor:
    """Lengths of columns, without overflow."""
    size = a.abs().max(-2, keepdims=True)
    scaled = a / (size == 0.0).where(1.0, size)
    return (scaled * scaled).sum(-2).sqrt() * size.squeeze(-2)


def _orthogonalized(a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    n = size_of(a, -1)
    table = as_tensor(partners(n), a.device)
    rounds, place = table.shape[0], numbers(a, -1)
    goal = EPS[a.dtype] * float(np.sqrt(size_of(a, -2)))
    largest = a.abs().max((-2, -1), keepdims=True)
    largest = (largest == 0.0).where(1.0, largest)
    none = (largest * 0.0).squeeze((-2, -1))

    def left(state: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        k, _, _, worst = state
        return (k < SWEEPS * rounds) & ((k % rounds != 0) | (k == 0) | (worst > goal).any())

    def step(state: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        k, x, v, worst = state
        mate = table.take(k % rounds, 0)
        own, shared = (x * x).sum(-2), (x * x.take(mate, -1)).sum(-2)
        other = own.take(mate, -1)
        both = own.sqrt() * other.sqrt()
        idle = (mate == place) | (both == 0.0)
        cosines = idle.where(0.0, shared.abs() / idle.where(1.0, both)).max(-1)
        worst = (k % rounds == 0).where(cosines, worst.maximum(cosines))
        cosine, sine = _rotation(own, other, shared, mate, place)
        return k + 1, _turned(x, cosine, sine, mate, -1), _turned(v, cosine, sine, mate, -1), worst

    start = place.literal(0, dtypes.i64)
    _, x, v, _ = while_loop(left, step, (start, a / largest, v, none))
    return x * largest, v
