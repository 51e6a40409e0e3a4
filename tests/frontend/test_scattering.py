"""Reading and writing at indices against loops in NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firebox as fb
from firebox.errors import DTypeError, IndexRangeError, ShapeError, UserError
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(11)
X = RNG.normal(size=(3, 4))
ROWS = np.array([[0, 2, 1, 2], [0, 0, -1, 1]])
V = RNG.normal(size=(2, 4))
pytestmark = pytest.mark.usefixtures("frontend")


def written(x: Array, indices: Array, values: Array, axis: int, reduce: str) -> Array:
    """`put_along_axis`, one element after the other."""
    result, count = x.copy(), np.ones(x.shape)
    for place in np.ndindex(indices.shape):
        at = (*place[:axis], int(indices[place]), *place[axis + 1 :])
        old, new = result[at], values[place]
        combined = {"set": new, "add": old + new, "mean": old + new, "mul": old * new, "min": min(old, new)}
        result[at] = combined.get(reduce, max(old, new))
        count[at] += 1
    return result / count if reduce == "mean" else result


@pytest.mark.parametrize("reduce", ["set", "add", "mul", "min", "max", "mean"])
def test_values_combine(reduce: str) -> None:
    found = fb.put_along_axis(fb.tensor(X), fb.tensor(ROWS), fb.tensor(V), 0, reduce)
    np.testing.assert_allclose(found.numpy(), written(X, ROWS, V, 0, reduce), rtol=1e-13)
    found = fb.scatter(fb.tensor(X), 1, fb.tensor(ROWS), 2.0, reduce)
    np.testing.assert_allclose(found.numpy(), written(X, ROWS, np.full(V.shape, 2.0), 1, reduce), rtol=1e-13)
    check_gradient(lambda x, v: fb.put_along_axis(x, fb.tensor(ROWS), v, 0, reduce), X, V)


def test_products_with_zeros_have_gradients() -> None:
    x, values = np.array([2.0, 0.0, 3.0]), np.array([0.0, 5.0, 4.0, 0.0])
    at = fb.tensor([0, 0, 1, 2])
    check_gradient(lambda a, b: fb.scatter(a, 0, at, b, "mul"), x, values)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=9), st.sampled_from(["set", "add", "mul", "min", "max"]))
def test_positions_may_repeat(places: list[int], reduce: str) -> None:
    x, at = np.arange(5.0) - 2.0, np.array(places, np.int64)
    values = np.random.default_rng(len(places)).normal(size=len(places))
    with fb.device("interpret"):
        found = fb.scatter(fb.tensor(x), 0, fb.tensor(at), fb.tensor(values), reduce).numpy()
    np.testing.assert_allclose(found, written(x, at, values, 0, reduce), rtol=1e-13)


def test_other_types_are_written() -> None:
    flags = fb.scatter(fb.tensor([False, False, True]), 0, fb.tensor([0, 2]), fb.tensor([True, False]))
    np.testing.assert_array_equal(flags.numpy(), [True, False, False])
    numbers = fb.scatter(fb.tensor([1, 2, 3]), 0, fb.tensor([1, 1]), fb.tensor([7, 9]), "max")
    np.testing.assert_array_equal(numbers.numpy(), [1, 9, 3])
    holes = fb.scatter(fb.tensor([np.nan, np.inf, 1.0]), 0, fb.tensor([2]), fb.tensor([5.0]))
    np.testing.assert_array_equal(holes.numpy(), np.array([np.nan, np.inf, 5.0], np.float32))


def test_elements_are_read() -> None:
    np.testing.assert_array_equal(fb.take(fb.tensor(X), fb.tensor([-1, 0]), 1).numpy(), X[:, [-1, 0]])
    np.testing.assert_array_equal(fb.take(fb.tensor(X), fb.tensor([-1, 5]), None).numpy(), X.take([-1, 5]))
    two = X[:2]
    found = fb.take_along_axis(fb.tensor(two), fb.tensor(ROWS), 1)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(two, ROWS, 1))
    np.testing.assert_array_equal(fb.gather(fb.tensor(X), 0, fb.tensor(ROWS)).numpy(), np.take_along_axis(X, ROWS, 0))
    pairs = np.array([[0, 1], [2, -1]])
    np.testing.assert_array_equal(fb.gather_nd(fb.tensor(X), fb.tensor(pairs)).numpy(), X[pairs[:, 0], pairs[:, 1]])
    np.testing.assert_array_equal(fb.gather_nd(fb.tensor(X), fb.tensor([[2], [0]])).numpy(), X[[2, 0]])
    check_gradient(lambda x: fb.gather_nd(x, fb.tensor(pairs)), X)
    check_gradient(lambda x: fb.take_along_axis(x, fb.tensor(ROWS), 1), two)


def test_rows_are_written() -> None:
    at = np.array([2, 0, 2])
    rows = RNG.normal(size=(3, 4))
    total = X.copy()
    np.add.at(total, at, rows)
    np.testing.assert_allclose(fb.index_add(fb.tensor(X), 0, fb.tensor(at), fb.tensor(rows)).numpy(), total)
    replaced = X.copy()
    replaced[at] = rows
    np.testing.assert_array_equal(fb.index_put(fb.tensor(X), 0, fb.tensor(at), fb.tensor(rows)).numpy(), replaced)
    found = fb.scatter_nd(fb.tensor(X), fb.tensor(at[:, None]), fb.tensor(rows), "add")
    np.testing.assert_allclose(found.numpy(), total)
    spots = fb.scatter_nd(fb.tensor(X), fb.tensor([[0, 1], [2, 3]]), fb.tensor([10.0, 20.0]))
    expected = X.copy()
    expected[[0, 2], [1, 3]] = [10.0, 20.0]
    np.testing.assert_array_equal(spots.numpy(), expected)


def test_masks() -> None:
    mask = X > 0
    np.testing.assert_array_equal(fb.masked_fill(fb.tensor(X), fb.tensor(mask), -1.0).numpy(), np.where(mask, -1.0, X))
    values = RNG.normal(size=12)
    expected = X.copy()
    expected[mask] = values[: mask.sum()]
    found = fb.masked_scatter(fb.tensor(X), fb.tensor(mask), fb.tensor(values))
    np.testing.assert_array_equal(found.numpy(), expected)
    check_gradient(lambda x, v: fb.masked_scatter(x, fb.tensor(mask), v), X, values)
    wide = fb.masked_scatter(fb.tensor(X[0]), fb.tensor(mask), fb.tensor(values))  # x broadcasts too
    np.testing.assert_array_equal(wide.numpy(), np.where(mask, expected, X[0]))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="no such way to combine"):
        fb.scatter(fb.tensor(X), 0, fb.tensor(ROWS), 1.0, "sub")
    with pytest.raises(ShapeError, match="ranks differ"):
        fb.put_along_axis(fb.tensor(X), fb.tensor([0]), 1.0)
    with pytest.raises(DTypeError, match="indices must be integers"):
        fb.gather(fb.tensor(X), 0, fb.tensor(X))
    with pytest.raises(ShapeError, match="a last dim of 1 to 2"):
        fb.gather_nd(fb.tensor(X), fb.tensor([[0, 1, 2]]))
    with pytest.raises(IndexRangeError):
        fb.scatter(fb.tensor(X), 0, fb.tensor([[3, 0, 0, 0]]), 1.0).numpy()
