"""Counts, running values and sums without NaN against NumPy."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError, UserError
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(10)
X = RNG.normal(size=(3, 4))
HOLES = np.where(X > 0.5, np.nan, X)
pytestmark = pytest.mark.usefixtures("frontend")


def close(found: fb.Tensor, expected: Any) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"])
def test_values_that_are_no_numbers_are_left_out(name: str) -> None:
    public, function = getattr(fb, name), getattr(np, name)
    for axis, keepdims in ((None, False), (1, True), (0, False)):
        close(public(fb.tensor(HOLES), axis, keepdims), function(HOLES, axis, keepdims=keepdims))
    x = fb.tensor(HOLES, requires_grad=True)
    public(x).backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy()[np.isnan(HOLES)], 0)
    check_gradient(public, X)
    assert np.isnan(fb.nanmax(fb.tensor([np.nan, np.nan])).item())


def test_counting() -> None:
    x = np.array([[0, 1, 2], [3, 0, 0]])
    close(fb.count_nonzero(fb.tensor(x), 1), np.count_nonzero(x, 1))
    values = np.array([0.0, 1.0, 0.25, 0.999, -0.1, 1.2, np.nan, 0.5])
    counts, edges = fb.histogram(fb.tensor(values), 4, 0.0, 1.0)
    expected, bounds = np.histogram([*values[:6].tolist(), 0.5], 4, (0.0, 1.0))
    close(counts, expected)
    close(edges, bounds)
    weights = RNG.normal(size=8)
    close(
        fb.histogram(fb.tensor(values), 4, 0.0, 1.0, fb.tensor(weights))[0],
        np.histogram(np.delete(values, 6), 4, (0.0, 1.0), weights=np.delete(weights, 6))[0],
    )
    with pytest.raises(UserError, match="bins >= 1 and low < high"):
        fb.histogram(fb.tensor(values), 4, 1.0, 1.0)


def test_running_values() -> None:
    close(fb.logcumsumexp(fb.tensor(X), 1), np.logaddexp.accumulate(X, 1))
    close(fb.cummax(fb.tensor(X), 1), np.maximum.accumulate(X, 1))
    close(fb.cummin(fb.tensor(X), 0), np.minimum.accumulate(X, 0))
    close(fb.cumulative_sum(fb.tensor(X), 1, include_initial=True), np.cumulative_sum(X, axis=1, include_initial=True))
    close(fb.cumulative_prod(fb.tensor(X), 0, "f64", True), np.cumulative_prod(X, axis=0, include_initial=True))
    small = np.array([200, 100], np.uint8)
    assert fb.cumulative_sum(fb.tensor(small)).dtype is fb.uint64
    large = np.array([-1e3, 1e3, 1e3 - 1, -np.inf])
    close(fb.logcumsumexp(fb.tensor(large)), np.logaddexp.accumulate(large))
    check_gradient(lambda x: fb.logcumsumexp(x, 1), X)
    check_gradient(lambda x: fb.cummax(x, 1), X)
    with pytest.raises(ShapeError, match="cumulative_sum: an axis is needed"):
        fb.cumulative_sum(fb.tensor(X))


def test_linear_recurrences() -> None:
    decay = RNG.uniform(-0.9, 0.9, X.shape)
    expected = X.copy()
    for t in range(1, X.shape[1]):
        expected[:, t] += decay[:, t] * expected[:, t - 1]
    close(fb.linear_scan(fb.tensor(decay), fb.tensor(X)), expected)
    check_gradient(lambda d, x: fb.linear_scan(d, x, 1, reverse=True), decay, X)


def test_differences_and_integrals() -> None:
    for n in (0, 1, 2, 5):
        close(fb.diff(fb.tensor(X), n), np.diff(X, n))
    close(fb.diff(fb.tensor(X), 1, 0, fb.tensor(X[:1]), fb.tensor(X[1:])), np.diff(X, 1, 0, X[:1], X[1:]))
    close(fb.diff(fb.tensor(X > 0)), np.diff(X > 0))
    places = np.array([0.0, 1.0, 1.5, 4.0])
    close(fb.trapezoid(fb.tensor(X), fb.tensor(places)), np.trapezoid(X, places))
    close(fb.trapezoid(fb.tensor(X), dx=0.5, axis=0), np.trapezoid(X, dx=0.5, axis=0))
    check_gradient(lambda x: fb.diff(x, 2), X)
    with pytest.raises(UserError, match="n >= 0"):
        fb.diff(fb.tensor(X), -1)


def test_moments_and_ranges() -> None:
    close(fb.ptp(fb.tensor(X), 1), np.ptp(X, 1))
    close(fb.max_abs(fb.tensor(X), 0), np.abs(X).max(0))
    variance, mean = fb.var_mean(fb.tensor(X), 1, correction=1)
    close(variance, X.var(1, ddof=1))
    close(mean, X.mean(1))
    weights = np.array([1.0, 0.0, 2.0, 3.0])
    close(fb.average(fb.tensor(X), 1, fb.tensor(weights)), np.average(X, 1, weights))
    close(fb.average(fb.tensor(X)), np.average(X))
