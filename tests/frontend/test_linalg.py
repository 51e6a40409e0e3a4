"""`fb.linalg` against NumPy and against what defines each decomposition; derivatives against differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.linalg.jacobi import partners
from firebox.runtime.device import Device
from tests.frontend.gradients import check_gradient

linalg: Any = fb.linalg  # takes what makes a tensor
RNG = np.random.default_rng(17)
A: Any = RNG.normal(size=(2, 4, 4))
B: Any = RNG.normal(size=(2, 4, 3))
SYMMETRIC: Any = A + A.transpose(0, 2, 1)
POSITIVE: Any = A @ A.transpose(0, 2, 1) + np.eye(4)
SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (1, 1), (3, 1)]
shapes = pytest.mark.parametrize("shape", SHAPES)


def close(found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    values = found.numpy() if isinstance(found, fb.Tensor) else found
    assert values.shape == np.shape(expected)
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=atol)


def orthonormal(columns: Any) -> None:
    size = columns.shape[-1]
    expected = np.broadcast_to(np.eye(size), (*columns.shape[:-2], size, size))
    close(fb.matrix_transpose(columns) @ columns, expected)


# ---- systems -----------------------------------------------------------------------------------------------------


def test_systems() -> None:
    close(linalg.solve(A, B), np.linalg.solve(A, B))
    close(linalg.solve(A, B[0, :, 0]), np.linalg.solve(A, B[0, :, :1])[..., 0])
    close(linalg.solve(A[0], B), np.linalg.solve(A[0], B))
    close(linalg.inv(A), np.linalg.inv(A))
    close(linalg.matrix_power(A, -2), np.linalg.inv(A) @ np.linalg.inv(A))
    check_gradient(linalg.solve, A, B)
    check_gradient(linalg.inv, A)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(upper: bool, unit: bool) -> None:
    used = np.triu(A) if upper else np.tril(A)
    if unit:
        used = used - used * np.eye(4) + np.eye(4)
    close(linalg.solve_triangular(A, B, upper, unit), np.linalg.solve(used, B))
    check_gradient(lambda a, b: linalg.solve_triangular(a, b, upper, unit), A, B)


def test_determinants() -> None:
    close(linalg.det(A), np.linalg.det(A))
    sign, logarithm = linalg.slogdet(A)
    close(sign, np.linalg.slogdet(A)[0])
    close(logarithm, np.linalg.slogdet(A)[1])
    check_gradient(linalg.det, A)
    check_gradient(lambda a: linalg.slogdet(a)[1], A)
    for x in (np.outer(B[0, :, 0], B[0, :, 1]), np.diag([2.0, 0.0, 3.0, 1.0]), A[0] @ np.diag([1.0, 1.0, 0.0, 1.0])):
        check_gradient(linalg.det, x)
    singular = np.ones((3, 3))
    assert linalg.det(singular).item() == 0.0
    assert [v.item() for v in linalg.slogdet(singular)] == [0.0, -np.inf]
    assert linalg.det(np.zeros((2, 0, 0))).tolist() == [1.0, 1.0]
    swap = np.array([[0.0, 2.0], [3.0, 0.0]])
    assert linalg.det(swap).item() == -6.0


@shapes
def test_lu(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    p, lower, upper = linalg.lu(x)
    close(p @ lower @ upper, x)
    np.testing.assert_array_equal(lower.numpy(), np.tril(lower.numpy()))
    np.testing.assert_array_equal(upper.numpy(), np.triu(upper.numpy()))
    assert (np.abs(lower.numpy()) <= 1).all()  # pivots are the largest of their columns
    check_gradient(lambda a: linalg.lu(a)[1], x)
    check_gradient(lambda a: linalg.lu(a)[2], x)
    packed, pivots = linalg.lu_factor(x)
    square = min(shape[-2:])
    close(fb.triu(packed[..., :square, :]), upper.numpy())
    if len(shape) == 2:
        rows = np.arange(shape[0])
        for k, other in enumerate(pivots.tolist()):
            rows[[k, other]] = rows[[other, k]]
        close((lower @ upper), x[rows])


# ---- decompositions ----------------------------------------------------------------------------------------------


def test_cholesky() -> None:
    close(linalg.cholesky(POSITIVE), np.linalg.cholesky(POSITIVE))
    close(linalg.cholesky(POSITIVE, upper=True), np.linalg.cholesky(POSITIVE).transpose(0, 2, 1))
    check_gradient(linalg.cholesky, POSITIVE)
    assert np.isnan(linalg.cholesky(-np.eye(2)).numpy()[0, 0])


@shapes
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape: tuple[int, ...], mode: Any) -> None:
    x = RNG.normal(size=shape)
    q, r = linalg.qr(x, mode)
    expected = np.linalg.qr(x, mode)
    close(q, expected[0])
    close(r, expected[1])
    check_gradient(lambda a: linalg.qr(a, mode)[0], x)
    check_gradient(lambda a: linalg.qr(a, mode)[1], x)


def test_qr_of_columns_of_zeros_and_of_large_numbers() -> None:
    q, r = linalg.qr(np.zeros((3, 2)))
    np.testing.assert_array_equal(q.numpy(), np.eye(3, 2))
    np.testing.assert_array_equal(r.numpy(), np.zeros((2, 2)))
    assert linalg.qr(np.full((3, 1), 1e300))[1].item() == pytest.approx(-np.sqrt(3) * 1e300)


@pytest.mark.parametrize("n", range(1, 10))
def test_every_pair_meets_once_in_a_sweep(n: int) -> None:
    table = partners(n)
    for row in table:
        np.testing.assert_array_equal(row[row], np.arange(n))
    met = [frozenset((k, int(other))) for row in table for k, other in enumerate(row) if k < other]
    assert len(met) == len(set(met)) == n * (n - 1) // 2


@pytest.mark.parametrize("n", [1, 2, 3, 25])
def test_eigenvalues(n: int) -> None:
    x = RNG.normal(size=(2, n, n))
    x = x + x.transpose(0, 2, 1)
    values, vectors = linalg.eigh(x)
    close(values, np.linalg.eigvalsh(x))
    orthonormal(vectors)
    close((vectors * values.expand_dims(-2)) @ fb.matrix_transpose(vectors), x)


def test_derivatives_of_eigenvalues() -> None:
    check_gradient(linalg.eigvalsh, SYMMETRIC)
    check_gradient(lambda a: linalg.eigh(a)[1] ** 2, SYMMETRIC)  # the sign of a vector is nobody's choice
    equal = fb.grad(lambda a: linalg.eigvalsh(a).sum())(fb.tensor(np.eye(3)))
    close(equal, np.eye(3))


@shapes
@pytest.mark.parametrize("full", [False, True])
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    x = RNG.normal(size=shape)
    u, s, vh = linalg.svd(x, full)
    expected = np.linalg.svd(x, full)
    assert (u.shape, vh.shape) == (expected[0].shape, expected[2].shape)
    close(s, expected[1])
    orthonormal(u)
    orthonormal(fb.matrix_transpose(vh))
    k = min(shape[-2:])
    close((u[..., :k] * s.expand_dims(-2)) @ vh[..., :k, :], x)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_derivatives_of_singular_values(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    for full in (False, True):
        check_gradient(lambda a, full=full: sum_of_squares(*linalg.svd(a, full)), x)


def sum_of_squares(u: fb.Tensor, s: fb.Tensor, vh: fb.Tensor) -> fb.Tensor:
    """A function of all of them that the signs of vectors do not change."""
    weights = [fb.tensor(np.random.default_rng(k).normal(size=v.shape)) for k, v in enumerate((u, s, vh))]
    return (u**2 * weights[0]).sum() + (s * weights[1]).sum() + (vh**2 * weights[2]).sum()


def test_singular_values_of_matrices_that_lack_rank() -> None:
    x = np.outer(np.arange(4.0), np.arange(3.0))
    u, s, vh = linalg.svd(x)
    orthonormal(u)
    orthonormal(vh)
    close((u[:, :3] * s) @ vh, x)
    assert linalg.matrix_rank(x).item() == 1
    assert linalg.matrix_rank(np.zeros((3, 2))).item() == 0
    assert linalg.matrix_rank(A).tolist() == [4, 4]
    close(linalg.pinv(x), np.linalg.pinv(x))


def test_what_singular_values_make() -> None:
    tall, wide = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(3, 4))
    close(linalg.pinv(tall), np.linalg.pinv(tall))
    close(linalg.pinv(wide), np.linalg.pinv(wide))
    check_gradient(linalg.pinv, tall)
    check_gradient(linalg.pinv, wide)
    close(linalg.lstsq(tall[0], B[0]), np.linalg.lstsq(tall[0], B[0])[0])
    close(linalg.cond(tall), np.linalg.cond(tall))
    orders: list[Any] = ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]
    for order in orders:
        close(linalg.matrix_norm(wide, ord=order), np.linalg.norm(wide, order))
        close(linalg.matrix_norm(wide, True, order), np.linalg.norm(wide, order, (-2, -1), True))
    check_gradient(lambda x: fb.matrix_norm(x, ord="nuc"), wide)


# ---- transforms, devices, bad input ------------------------------------------------------------------------------


def test_functions_of_one_matrix_over_many() -> None:
    given = fb.tensor(POSITIVE)
    for function in (linalg.det, linalg.inv, linalg.cholesky, linalg.eigvalsh, linalg.svdvals):
        close(fb.vmap(function)(given), function(given).numpy())


def test_second_and_forward_derivatives() -> None:
    x = fb.tensor(A[0])
    step = 1e-5
    direction = fb.tensor(RNG.normal(size=(4, 4)))
    functions: list[Callable[[fb.Tensor], fb.Tensor]] = [linalg.det, lambda a: linalg.slogdet(a)[1]]
    for function in functions:
        slope = fb.grad(function)
        found = fb.jvp(slope, (x,), (direction,))[1]
        expected = (slope(x + direction * step).numpy() - slope(x - direction * step).numpy()) / (2 * step)
        close(found, expected, rtol=1e-5, atol=1e-6)


def test_decompositions_on_every_device(each_device: Device) -> None:
    with fb.device(each_device):
        x = fb.tensor(POSITIVE[0].astype(np.float32))
        found = linalg.solve(x, x[:, :2]), linalg.eigvalsh(x), linalg.svdvals(x), linalg.qr(x)[1]
    given = POSITIVE[0].astype(np.float32)
    expected = np.eye(4, 2), np.linalg.eigvalsh(given), np.linalg.svd(given)[1], np.linalg.qr(given)[1]
    for value, wanted in zip(found, expected, strict=True):
        close(value, wanted, rtol=1e-4, atol=1e-5)


def test_integers_become_f32_and_empty_matrices_stay() -> None:
    assert linalg.det([[2, 0], [0, 3]]).item() == 6.0
    assert linalg.inv(np.zeros((0, 0))).shape == (0, 0)
    assert linalg.qr(np.zeros((3, 0)))[0].shape == (3, 0)
    assert linalg.svd(np.zeros((0, 3)))[2].shape == (3, 3)
    assert linalg.eigh(np.zeros((2, 0, 0)))[0].shape == (2, 0)


def test_bad_input() -> None:
    for function in (linalg.det, linalg.inv, linalg.cholesky, linalg.eigh, linalg.slogdet):
        with pytest.raises(ShapeError, match="the matrices are not square"):
            function(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="needs matrices"):
        linalg.qr(np.ones(3))
    with pytest.raises(ShapeError, match="the right side does not fit"):
        linalg.solve(A, B[:, :3])
    with pytest.raises(DTypeError, match="too few digits"):
        linalg.svd(np.ones((2, 2), np.float16))
    with pytest.raises(UserError, match="no such mode"):
        linalg.qr(A, "raw")
    with pytest.raises(UserError, match="no such norm"):
        linalg.matrix_norm(A, ord=3)
