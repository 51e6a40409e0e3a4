"""Products and norms against NumPy."""

import numpy as np
import pytest

from firebox import dtypes
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions import linear_algebra as L
from firebox.frontend.functions.einsum import einsum
from firebox.frontend.tensor import tensor
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((1, 3, 4), (2, 4, 5)),
        ((1, 3, 4), (1, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((6, 1, 3, 4), (1, 7, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((2, 0), (0, 3)),
        ((0, 3, 4), (4, 2)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    expected = x @ y
    found = L.matmul(tensor(x), tensor(y))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_matmul_gradient_sums_over_broadcast_batches() -> None:
    check_gradient(L.matmul, RNG.normal(size=(2, 1, 3, 4)), RNG.normal(size=(5, 4, 2)))
    check_gradient(L.matmul, RNG.normal(size=(4,)), RNG.normal(size=(2, 4, 3)))


def test_matmul_promotes() -> None:
    x = tensor(np.ones((2, 3), np.int32))
    y = tensor(np.full((3, 2), 0.5, np.float32))
    found = L.matmul(x, y)
    assert found.dtype is dtypes.f32
    np.testing.assert_array_equal(found.numpy(), np.full((2, 2), 1.5, np.float32))


def test_matmul_names_the_inner_dims_and_the_transpose() -> None:
    with pytest.raises(ShapeError) as caught:
        L.matmul(tensor(np.ones((2, 3))), tensor(np.ones((4, 3))))
    text = str(caught.value)
    assert text.startswith("matmul: the inner dims differ")
    assert "(2, 3) @ (4, 3): 3 and 4" in text
    assert "a @ b.T" in text


def test_matmul_refuses_0d_batches_and_other_objects() -> None:
    with pytest.raises(ShapeError, match="at least 1-D"):
        L.matmul(tensor(2.0), tensor(np.ones((1, 1))))
    with pytest.raises(ShapeError, match="batch dims do not broadcast"):
        L.matmul(tensor(np.ones((2, 3, 4))), tensor(np.ones((3, 4, 5))))
    with pytest.raises(DTypeError, match="not an array"):
        L.matmul(tensor(np.ones((2, 3))), "x")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
        ("ij->ji", ((2, 3),)),
        ("ij->", ((2, 3),)),
        ("ijk->kj", ((2, 3, 4),)),
        ("i,j->ij", ((2,), (3,))),
        ("ij,ij->", ((2, 3), (2, 3))),
        ("ij,kj->i", ((2, 3), (4, 3))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("...ij,jk->...ik", ((2, 5, 3, 4), (4, 6))),
        ("...i,...i->...", ((2, 3, 4), (2, 3, 4))),
        ("ba,cb", ((2, 3), (4, 2))),
    ],
)
def test_einsum_is_numpys(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [RNG.normal(size=s) for s in shapes]
    expected = np.einsum(equation, *arrays)
    found = einsum(equation, *[tensor(a) for a in arrays])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_einsum_names_what_is_wrong() -> None:
    with pytest.raises(ShapeError, match="dim 'j' has two sizes"):
        einsum("ij,jk->ik", tensor(np.ones((2, 3))), tensor(np.ones((4, 2))))
    with pytest.raises(UserError, match="one term for each operand"):
        einsum("ij,jk->ik", tensor(np.ones((2, 3))))
    with pytest.raises(UserError, match="output letters"):
        einsum("ij->ix", tensor(np.ones((2, 3))))
    with pytest.raises(ShapeError, match="term 'ijk' does not fit"):
        einsum("ijk->i", tensor(np.ones((2, 3))))


def test_tensordot_outer_vecdot_dot() -> None:
    x, y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 3, 5))
    found = L.tensordot(tensor(x), tensor(y), ([1, 2], [1, 0]))
    np.testing.assert_allclose(found.numpy(), np.tensordot(x, y, ([1, 2], [1, 0])), rtol=1e-12)
    np.testing.assert_allclose(L.tensordot(tensor(x), tensor(y), 1).numpy(), np.tensordot(x, y, 1), rtol=1e-12)
    u, v = RNG.normal(size=3), RNG.normal(size=4)
    np.testing.assert_allclose(L.outer(tensor(u), tensor(v)).numpy(), np.outer(u, v), rtol=1e-15)
    np.testing.assert_allclose(L.vecdot(tensor(x), tensor(x)).numpy(), (x * x).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(L.dot(tensor(u), tensor(u)).numpy(), u @ u, rtol=1e-12)
    with pytest.raises(ShapeError, match="two vectors or two matrices"):
        L.dot(tensor(x), tensor(y))


def test_linear_is_x_times_transposed_weight_plus_bias() -> None:
    x, w, b = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=4)
    np.testing.assert_allclose(L.linear(tensor(x), tensor(w), tensor(b)).numpy(), x @ w.T + b, rtol=1e-12)
    check_gradient(L.linear, x, w, b)
    with pytest.raises(ShapeError, match=r"expected: \(.., 3\)"):
        L.linear(tensor(np.ones((2, 4))), tensor(w))


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.0, np.inf, -np.inf])
def test_norm_is_numpys(order: float) -> None:
    x = RNG.normal(size=(3, 4))
    x[0, 1] = 0.0
    found = L.norm(tensor(x), order, axis=1)
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(x, order, axis=1), rtol=1e-12)


def test_norm_of_zeros_has_gradient_zero() -> None:
    x = tensor(np.zeros(3), requires_grad=True)
    L.norm(x).backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
    check_gradient(L.norm, RNG.normal(size=(2, 3)))
