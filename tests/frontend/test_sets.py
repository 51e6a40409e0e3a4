"""Results whose size the values decide: eager, with a given size, and traced."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firebox as fb
from firebox.errors import DTypeError, IndexRangeError, TraceError
from tests.frontend.gradients import check_gradient

X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]])
pytestmark = pytest.mark.usefixtures("frontend")


def same(found: fb.Tensor, expected: Any) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_what_is_nonzero() -> None:
    for found, expected in zip(fb.nonzero(fb.tensor(X)), np.nonzero(X), strict=True):
        same(found, expected)
    same(fb.argwhere(fb.tensor(X)), np.argwhere(X))
    same(fb.flatnonzero(fb.tensor(X)), np.flatnonzero(X))
    same(fb.nonzero(fb.tensor(X), size=4, fill_value=-1)[1], [1, 0, 2, -1])
    same(fb.argwhere(fb.tensor(X), size=2), [[0, 1], [1, 0]])
    same(fb.nonzero(fb.tensor(X), size=9, fill_value=-1)[0], [0, 1, 1, -1, -1, -1, -1, -1, -1])


def test_what_a_mask_selects() -> None:
    same(fb.masked_select(fb.tensor(X), fb.tensor(X > 0)), X[X > 0])
    same(fb.masked_select(fb.tensor(X), fb.tensor([True, False, True])), X[:, [0, 2]].ravel())
    same(fb.masked_select(fb.tensor(X), fb.tensor(X > 0), 3, -5.0), [1.5, 2.0, -5.0])
    same(fb.compress(fb.tensor([False, True]), fb.tensor(X), 0), X[1:])
    same(fb.isin(fb.tensor(X), fb.tensor([2.0, 0.0])), np.isin(X, [2.0, 0.0]))
    mask = fb.tensor(X > 0)
    check_gradient(lambda x: fb.masked_select(x, mask), X)
    check_gradient(lambda x: fb.masked_select(x, mask, 4), X)
    same(fb.tensor(3.0)[fb.tensor(True)], [3.0])
    same(fb.tensor(X)[fb.tensor(False)], np.zeros((0, 2, 3)))


def test_traced_functions_need_a_size() -> None:
    x = fb.tensor(X)
    select = fb.jit(lambda v: fb.masked_select(v, v > 0, size=3, fill_value=9.0))
    same(select(x), [1.5, 2.0, 9.0])
    distinct = fb.jit(lambda v: fb.unique_counts(v, size=5, fill_value=7.0))
    values, counts = distinct(x)
    same(values, [-1.0, 0.0, 1.5, 2.0, 7.0])
    same(counts, [1, 3, 1, 1, 0])
    for function in (fb.nonzero, fb.argwhere, fb.unique_all, lambda v: fb.masked_select(v, v > 0)):
        with pytest.raises(TraceError, match=r"not known while tracing[\s\S]*size="):
            fb.jit(function)(x)
    with pytest.raises(TraceError, match=r"bincount[\s\S]*size="):
        fb.jit(fb.bincount)(fb.tensor([1, 2]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, np.nan]), max_size=8))
def test_distinct_values_are_numpys(values: list[float]) -> None:
    x = np.array(values, np.float64)
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    with fb.device("interpret"):
        for found in (fb.unique_all(fb.tensor(x)), fb.unique_all(fb.tensor(x), size=len(expected[0]))):
            for f, e in zip(found, expected, strict=True):
                same(f, e)


def test_distinct_values_of_other_types() -> None:
    x = np.array([[3, 1], [1, 2]], np.uint8)
    values, inverse = fb.unique_inverse(fb.tensor(x))
    assert values.dtype is fb.uint8
    same(fb.take(values, inverse), x)
    same(fb.unique(fb.tensor([True, False, True])), [False, True])
    same(fb.unique(fb.tensor([2.0, 1.0, 2.0], dtype="bf16")).float(), [1.0, 2.0])
    same(fb.unique_counts(fb.tensor(x)).counts, [2, 1, 1])


def test_counts_of_integers() -> None:
    x = np.array([1, 4, 1, 0])
    weights = np.array([0.5, 1.0, 2.0, 4.0])
    same(fb.bincount(fb.tensor(x)), np.bincount(x))
    same(fb.bincount(fb.tensor(x), minlength=7), np.bincount(x, minlength=7))
    same(fb.bincount(fb.tensor(x), fb.tensor(weights), size=5), np.bincount(x, weights))
    same(fb.bincount(fb.tensor(np.zeros(0, np.int64))), np.bincount([]))
    check_gradient(lambda w: fb.bincount(fb.tensor(x), w), weights)
    with pytest.raises(IndexRangeError):
        fb.bincount(fb.tensor(x), size=4).numpy()
    with pytest.raises(DTypeError, match="bincount: the input must be integers"):
        fb.bincount(fb.tensor(weights), size=4)
