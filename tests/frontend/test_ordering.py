"""Order statistics and searching against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firebox as fb
from firebox.errors import IndexRangeError, ShapeError, UserError
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(9)
X = RNG.normal(size=(3, 5))
pytestmark = pytest.mark.usefixtures("frontend")


def close(found: fb.Tensor, expected: Any) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(method: Any) -> None:
    for q in (0.0, 0.3, 0.5, 1.0):
        close(fb.quantile(fb.tensor(X), q, 1, method=method), np.quantile(X, q, axis=1, method=method))
    close(fb.quantile(fb.tensor(X), [0.1, 0.9]), np.quantile(X, [0.1, 0.9]))
    close(fb.quantile(fb.tensor(X), [0.1, 0.9], 0, True), np.quantile(X, [0.1, 0.9], axis=0, keepdims=True))
    check_gradient(lambda x: fb.quantile(x, [0.2, 0.6], 1, method=method), X)


def test_medians() -> None:
    close(fb.median(fb.tensor(X)), np.median(X))
    close(fb.median(fb.tensor(X[:2]), 0, True), np.median(X[:2], 0, keepdims=True))
    broken = np.where(X > 1, np.nan, X)
    close(fb.median(fb.tensor(broken), 1), np.median(broken, 1))
    close(fb.median(fb.tensor(np.array([np.inf, np.inf]))), np.inf)
    check_gradient(lambda x: fb.median(x, 1), X)
    with pytest.raises(ShapeError, match="nothing has no quantile"):
        fb.median(fb.ones(0))
    with pytest.raises(UserError, match="not a share"):
        fb.quantile(fb.tensor(X), 1.5)


def test_kth_and_top() -> None:
    ordered = np.sort(X, 1)
    values, indices = fb.kthvalue(fb.tensor(X), 2)
    close(values, ordered[:, 1])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(X, 1)[:, 1])
    np.testing.assert_array_equal(fb.argtopk(fb.tensor(X), 2).numpy(), np.argsort(-X, 1)[:, :2])
    values, indices = fb.sort_with_indices(fb.tensor(X), 0, descending=True)
    close(values, np.sort(X, 0)[::-1])
    check_gradient(lambda x: fb.kthvalue(x, 3, 0)[0], X)
    with pytest.raises(IndexRangeError, match=r"kthvalue: bad k[\s\S]*1 to 5"):
        fb.kthvalue(fb.tensor(X), 6)


def test_extremes_come_with_their_indices() -> None:
    values, indices = fb.max_with_indices(fb.tensor(X), 0)
    close(values, X.max(0))
    np.testing.assert_array_equal(indices.numpy(), X.argmax(0))
    values, indices = fb.tensor(X).min_with_indices(1, True)
    close(values, X.min(1, keepdims=True))
    check_gradient(lambda x: fb.max_with_indices(x)[0], X)


def test_the_most_frequent() -> None:
    x = np.array([[1, 2, 2, 3, 3], [5, 4, 5, 5, 4]])
    values, counts = fb.mode(fb.tensor(x))
    np.testing.assert_array_equal(values.numpy(), [2, 5])
    np.testing.assert_array_equal(counts.numpy(), [2, 3])
    check_gradient(lambda v: fb.mode(v, 0)[0], X)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(-4, 4), max_size=9).map(sorted),
    st.lists(st.sampled_from([-9.0, -2.0, 0.0, 0.5, 3.0, 4.0, np.inf, np.nan]), max_size=6),
    st.sampled_from(["left", "right"]),
)
def test_searching_is_numpys(edges: list[int], values: list[float], side: Any) -> None:
    a, v = np.array(edges, np.float64), np.array(values, np.float64)
    with fb.device("interpret"):
        found = fb.searchsorted(fb.tensor(a), fb.tensor(v), side).numpy()
    np.testing.assert_array_equal(found, np.searchsorted(a, v, side))


def test_buckets() -> None:
    edges = np.array([0.0, 1.0, 2.5])
    x = np.array([[-1.0, 0.0], [1.7, 9.0]])
    np.testing.assert_array_equal(
        fb.bucketize(fb.tensor(x), fb.tensor(edges)).numpy(), np.digitize(x, edges, right=True)
    )
    np.testing.assert_array_equal(fb.bucketize(fb.tensor(x), fb.tensor(edges), True).numpy(), np.digitize(x, edges))
    order = np.array([2, 0, 1])
    found = fb.searchsorted(fb.tensor(edges[[1, 2, 0]]), fb.tensor(x), sorter=fb.tensor(order))
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(edges, x))
    with pytest.raises(UserError, match="left or right"):
        fb.searchsorted(fb.tensor(edges), fb.tensor(1.0), "both")
