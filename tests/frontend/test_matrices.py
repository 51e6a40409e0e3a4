"""Diagonals, products of vectors, norms and einsum against NumPy."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.einsum import best_order
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(8)
X = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 3))
V = RNG.normal(size=3)
pytestmark = pytest.mark.usefixtures("frontend")


def close(found: fb.Tensor, expected: Any, rtol: float = 1e-12) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("offset", [-4, -2, 0, 1, 4])
def test_diagonals(offset: int) -> None:
    close(fb.diagonal(fb.tensor(X), offset), np.diagonal(X, offset, -2, -1))
    close(fb.diagonal(fb.tensor(X), offset, 0, 1), np.diagonal(X, offset, 0, 1))
    close(fb.diag(fb.tensor(V), offset), np.diag(V, offset))
    close(fb.trace(fb.tensor(X), offset), np.trace(X, offset, -2, -1))
    close(fb.diag_embed(fb.tensor(X[0]), offset), np.stack([np.diag(row, offset) for row in X[0]]))
    check_gradient(lambda x: fb.diagonal(x, offset), X)
    check_gradient(lambda x: fb.diag_embed(x, offset), V)


def test_symbolic_matrices_have_a_diagonal() -> None:
    function = fb.jit(fb.trace)
    for n in (2, 3, 5):
        x = RNG.normal(size=(n, n))
        close(function(fb.tensor(x)), np.trace(x))


def test_products() -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3))
    close(fb.inner(fb.tensor(a), fb.tensor(b)), np.inner(a, b))
    close(fb.vdot(fb.tensor(a), fb.tensor(a.T)), np.vdot(a, a.T))
    close(fb.kron(fb.tensor(a), fb.tensor(V)), np.kron(a, V))
    close(fb.cross(fb.tensor(a), fb.tensor(V)), np.cross(a, V))
    close(fb.matvec(fb.tensor(X), fb.tensor(RNG.normal(size=4)) * 0 + 1), X.sum(-1))
    close(fb.matrix_power(fb.tensor(M), 5), np.linalg.matrix_power(M, 5))
    close(fb.matrix_power(fb.tensor(M), 0), np.eye(3))
    close(fb.cov(fb.tensor(a)), np.cov(a))
    close(fb.corrcoef(fb.tensor(a)), np.corrcoef(a))
    for one in (a[0], a[:1]):  # one variable
        close(fb.cov(fb.tensor(one)), np.cov(one))
        close(fb.corrcoef(fb.tensor(one)), np.corrcoef(one))
    with pytest.raises(ShapeError, match="cov: wrong number of dims"):
        fb.cov(fb.tensor(X))
    check_gradient(lambda x, y: fb.kron(fb.cross(x, y), y), a, V)
    with pytest.raises(ShapeError, match="cross: needs vectors of three"):
        fb.cross(fb.tensor(X), fb.tensor(X))
    with pytest.raises(ShapeError, match="vecdot: the vectors differ"):
        fb.vecdot(fb.tensor(X), fb.tensor(V))
    assert fb.vecdot(fb.tensor(np.ones(3, np.int8)), fb.tensor(np.ones(3, np.int8))).dtype is fb.int8


@pytest.mark.parametrize("order", ["fro", 1, -1, np.inf, -np.inf])
def test_norms_of_matrices(order: Any) -> None:
    close(fb.matrix_norm(fb.tensor(X), ord=order), np.linalg.norm(X, order, (-2, -1)))
    close(fb.matrix_norm(fb.tensor(X), True, order), np.linalg.norm(X, order, (-2, -1), True))


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, np.inf, -np.inf])
def test_norms_of_vectors(order: float) -> None:
    close(fb.vector_norm(fb.tensor(X), -1, ord=order), np.linalg.norm(X, order, -1))
    if order > 0:
        check_gradient(lambda x: fb.vector_norm(x, -1, ord=order), X)


def test_norms_that_need_singular_values_are_refused() -> None:
    with pytest.raises(UserError, match=r"fb\.linalg.matrix_norm has 2, -2 and nuc"):
        fb.tensor(M).matrix_norm(ord=2)
    close(fb.cosine_similarity(fb.tensor(M), fb.tensor(V)), M @ V / np.linalg.norm(M, axis=1) / np.linalg.norm(V))


# ---- einsum ------------------------------------------------------------------------------------------------------

EQUATIONS = [
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ij->ji", [(2, 3)]),
    ("i->", [(3,)]),
    ("...i->...", [(2, 3, 4)]),
    ("ii,i->i", [(3, 3), (3,)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,ij->ij", [(2, 1), (2, 3)]),
    ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("ab...,b...->a...", [(2, 3, 4), (3, 4)]),
    ("ij,jk,kl,lm->im", [(2, 9), (9, 3), (3, 8), (8, 2)]),
    ("ea,fb,abcd,gc,hd->efgh", [(2, 3), (2, 3), (3, 3, 3, 3), (2, 3), (2, 3)]),
    ("i,j,k->kji", [(2,), (3,), (4,)]),
    ("ij,k->i", [(2, 3), (4,)]),
    (",ij->ji", [(), (2, 3)]),
    ("ij->ij", [(1, 1)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [RNG.normal(size=s) for s in shapes]
    close(fb.einsum(equation, *map(fb.tensor, arrays)), np.einsum(equation, *arrays))
    check_gradient(lambda *xs: fb.einsum(equation, *xs), *arrays)


def test_einsum_keeps_the_type_and_takes_symbolic_dims() -> None:
    ones = fb.tensor(np.ones((2, 3), np.int32))
    assert fb.einsum("ij->i", ones).dtype is fb.int32
    assert fb.einsum("ij,kj->ik", ones, fb.tensor(np.ones((2, 3), np.float32))).dtype is fb.float32
    function = fb.jit(lambda a, b, c: fb.einsum("ij,jk,k->i", a, b, c))
    for n in (2, 4):
        a, b, c = RNG.normal(size=(n, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=5)
        close(function(fb.tensor(a), fb.tensor(b), fb.tensor(c)), a @ b @ c)


def test_einsum_joins_by_cost() -> None:
    sizes = {"i": 2, "j": 100, "k": 100, "l": 1}
    chain = best_order((("i", "j"), ("j", "k"), ("k", "l")), ("i", "l"), sizes)
    assert chain.cost == 100 * 100 + 2 * 100  # the two on the right first
    many = tuple((chr(97 + n), chr(98 + n)) for n in range(8))
    greedy = best_order(many, ("a", "i"), {chr(97 + n): 2 for n in range(9)})
    assert greedy.members == frozenset(range(8))


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->ik", "one term for each operand"),
        ("i1->i", "letters only"),
        ("ij->ix", "output letters"),
        ("ii->i", "two sizes"),
    ],
)
def test_einsum_names_what_is_wrong(equation: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fb.einsum(equation, fb.tensor(X[0]))
