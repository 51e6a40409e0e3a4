"""NumPy's functions of numbers, of samples of functions, and of matrices put together, against NumPy."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError, UserError
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(23)
X: Any = RNG.normal(size=(3, 5))
V: Any = RNG.normal(size=6)
W: Any = RNG.normal(size=4)
NAN: Any = np.where(X > 0.8, np.nan, X)
pytestmark = pytest.mark.usefixtures("frontend")


def close(found: Any, expected: Any) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)


def test_element_by_element() -> None:
    close(fb.fmax(NAN, X), np.fmax(NAN, X))
    close(fb.fmin(X, np.nan), X)
    x: Any = np.array([-2.0, -0.0, 0.0, 3.0, np.nan])
    close(fb.heaviside(x, 0.5), np.heaviside(x, 0.5))
    numbers: Any = np.array([3.7, -3.7, 0.0, -0.0, np.inf, -np.inf, 5e-324, 1e300])
    for found, expected in zip(fb.modf(numbers), np.modf(numbers), strict=True):
        close(found, expected)
        assert (np.signbit(found.numpy()) == np.signbit(expected)).all()
    mantissa, exponent = fb.frexp(numbers)
    close(mantissa, np.frexp(numbers)[0])
    np.testing.assert_array_equal(exponent.numpy()[np.isfinite(numbers)], np.frexp(numbers)[1][np.isfinite(numbers)])
    close(fb.ldexp(mantissa[:4], exponent[:4]), numbers[:4])
    slope = fb.grad(lambda v: fb.frexp(v)[0].sum())(fb.tensor([3.0, -0.3, 0.0, 16.0]))
    np.testing.assert_array_equal(slope.numpy(), [0.25, 2.0, 1.0, 2.0**-5])
    assert fb.ldexp(fb.tensor(2.0**-1000, dtype=fb.float64), 1500).item() == 2.0**500
    close(fb.addcmul(X, X, 2.0, 0.5), X + X)
    close(fb.addcdiv(X, X, 2.0, 3.0), 2.5 * X)


def test_without_nan() -> None:
    close(fb.nancumsum(NAN, 1), np.nancumsum(NAN, 1))
    close(fb.nancumprod(NAN, 1), np.nancumprod(NAN, 1))
    np.testing.assert_array_equal(fb.nanargmax(NAN, 1).numpy(), np.nanargmax(NAN, 1))
    np.testing.assert_array_equal(fb.nanargmin(NAN, 1).numpy(), np.nanargmin(NAN, 1))
    close(fb.percentile(X, [10.0, 50.0], 1), np.percentile(X, [10.0, 50.0], 1))
    low, high = fb.aminmax(X, 1)
    close(low, X.min(1))
    close(high, X.max(1))


def test_samples_of_functions() -> None:
    places: Any = np.sort(V)
    x: Any = np.concatenate([places, RNG.uniform(-4, 4, 20), [np.nan]])
    samples: Any = RNG.normal(size=6)
    close(fb.interp(x, places, samples), np.interp(x, places, samples))
    close(fb.interp(x, places, samples, 7.0, 8.0), np.interp(x, places, samples, 7.0, 8.0))
    close(fb.interp(x[:3], V[:1], V[:1]), np.full(3, V[0]))
    check_gradient(lambda v: fb.interp(x[:-1], places, v), samples)
    close(fb.polyval(W, X), np.polyval(W, X))
    check_gradient(fb.polyval, W, X)
    close(fb.gradient(X, 0.5), np.gradient(X, 0.5, axis=1))
    close(fb.cumulative_trapezoid(X, initial=0.0)[:, -1], np.trapezoid(X, axis=1))
    close(fb.cumulative_trapezoid(X, np.arange(5.0) ** 2), running(X))
    close(fb.vander(W, 3), np.vander(W, 3))
    close(fb.vander(W, increasing=True), np.vander(W, increasing=True))


def running(y: Any) -> Any:
    """Running integrals over the squares of whole numbers."""
    widths = np.diff(np.arange(5.0) ** 2)
    return np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * widths, 1)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_vectors(mode: Any) -> None:
    for a, v in ((V, W), (W, V), (V, W[:1]), (V, W[:3])):
        close(fb.convolve(a, v, mode), np.convolve(a, v, mode))
    close(fb.correlate(V, W, mode), np.correlate(V, W, mode))
    check_gradient(lambda a, v: fb.convolve(a, v, mode), V, W)


def test_matrices_put_together() -> None:
    close(fb.diagflat(X[:2, :2], 1), np.diagflat(X[:2, :2], 1))
    one: Any = np.ones((1, 1))
    found = fb.block_diag(X[:2], W, one)
    expected = np.zeros((4, 10))
    expected[:2, :5], expected[2, 5:9], expected[3, 9] = X[:2], W, 1.0
    close(found, expected)


def test_one_part_replaced() -> None:
    expected = X.copy()
    expected[:, 1:5:2] = V.reshape(3, 2)
    close(fb.slice_scatter(X, V.reshape(3, 2), 1, 1, 5, 2), expected)
    expected = X.copy()
    expected[:, -3:] = 9.0
    close(fb.slice_fill(X, 9.0, 1, -3), expected)
    expected = X.copy()
    expected[-1] = V[:5]
    close(fb.select_scatter(X, V[:5], 0, -1), expected)
    for offset in (-2, 0, 1, 9):
        expected = X.copy()
        rows = [k for k in range(3) if 0 <= k + offset < 5]
        expected[rows, [k + offset for k in rows]] = W[: len(rows)]
        close(fb.diagonal_scatter(X, W[: len(rows)], offset), expected)
    check_gradient(lambda x, s: fb.slice_scatter(x, s, 1, 1, 5, 2), X, V.reshape(3, 2))
    check_gradient(lambda x, s: fb.diagonal_scatter(x, s, 1), X, W[:3])


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_masks(offset: int) -> None:
    ones = np.ones((2, 3, 4), bool)
    np.testing.assert_array_equal(fb.tril_mask((2, 3, 4), offset).numpy(), ~np.tril(ones, offset))
    np.testing.assert_array_equal(fb.triu_mask((2, 3, 4), offset).numpy(), ~np.triu(ones, offset))
    np.testing.assert_array_equal(fb.diag_mask((3, 4), offset).numpy(), ~np.eye(3, 4, offset, dtype=bool))
    np.testing.assert_array_equal(fb.cartesian_grid((2, 3)).numpy(), np.moveaxis(np.indices((2, 3)), 0, -1))
    np.testing.assert_array_equal(fb.meshgrid_stack(V, W).numpy(), np.stack(np.meshgrid(V, W, indexing="ij"), -1))


def test_bad_input() -> None:
    with pytest.raises(UserError, match="convolve: no such mode"):
        fb.convolve(V, W, "half")
    with pytest.raises(ShapeError, match="convolve: nothing to convolve"):
        fb.convolve(V, W[:0])
    with pytest.raises(ShapeError, match="interp: the samples do not fit"):
        fb.interp(V, V, W)
    with pytest.raises(ShapeError, match="gradient: too few"):
        fb.gradient(V[:1])
    with pytest.raises(ShapeError, match="select_scatter: no such slice"):
        fb.select_scatter(X, V[:5], 0, 3)
    with pytest.raises(UserError, match="block_diag: needs at least one"):
        fb.block_diag()
    with pytest.raises(ShapeError, match="tril_mask: needs matrices"):
        fb.tril_mask((3,))


def test_repetitions_by_one_number() -> None:
    np.testing.assert_array_equal(fb.tile(X, 2).numpy(), np.tile(X, 2))
    np.testing.assert_array_equal(fb.repeat(X, 3).numpy(), np.repeat(X, 3))
    np.testing.assert_array_equal(fb.repeat(X, 3, 1).numpy(), np.repeat(X, 3, 1))


def test_lists_are_arrays() -> None:
    first: Any = [0, 2]
    second: Any = [3]
    assert fb.zeros_like(first).tolist() == [0, 0]
    assert fb.nonzero(first)[0].tolist() == [1]
    np.testing.assert_array_equal(fb.meshgrid_stack(first, second, axis=0).numpy(), [[[0], [2]], [[3], [3]]])
