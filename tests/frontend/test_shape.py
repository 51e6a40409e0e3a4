"""Joining, splitting, moving, masking, ordering and looking up against NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, IndexRangeError, ShapeError
from firebox.frontend.functions import shape as F
from firebox.frontend.functions.matrices import diagonal as diagonal_of
from firebox.frontend.functions.padding import pad
from firebox.frontend.tensor import tensor
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(2)
X = RNG.normal(size=(3, 4, 5))


def same(found: Any, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def test_concat_and_stack() -> None:
    parts = [RNG.normal(size=(2, n)) for n in (3, 0, 1)]
    same(F.concat([tensor(p) for p in parts], 1), np.concatenate(parts, 1))
    same(F.stack([tensor(X), tensor(X + 1)], -1), np.stack([X, X + 1], -1))
    mixed = F.concat([tensor(np.ones(2, np.int32)), tensor(np.ones(1, np.float32))])
    assert mixed.numpy().dtype == np.float32
    check_gradient(lambda a, b: F.stack([a, b], 1), X, X)
    with pytest.raises(ShapeError, match=r"array 1 does not fit[\s\S]*\(2, \*\)"):
        F.concat([tensor(np.ones((2, 3))), tensor(np.ones((3, 3)))], 1)
    with pytest.raises(ShapeError, match="at least one array"):
        F.stack([])


def test_split_chunk_unbind() -> None:
    for found, expected in zip(F.split(tensor(X), 2, 1), np.split(X, [2], 1), strict=True):
        same(found, expected)
    for found, expected in zip(F.split(tensor(X), [1, 3, 1], 2), np.split(X, [1, 4], 2), strict=True):
        same(found, expected)
    assert [c.shape for c in F.chunk(tensor(X), 3, 2)] == [(3, 4, 2), (3, 4, 2), (3, 4, 1)]
    same(F.unbind(tensor(X), 1)[3], X[:, 3])
    with pytest.raises(ShapeError, match="do not add up"):
        F.split(tensor(X), [1, 3], 2)


@pytest.mark.parametrize("repetitions", [(2,), (2, 3), (2, 1, 1, 3), (1, 0, 2)])
def test_tile(repetitions: tuple[int, ...]) -> None:
    same(F.tile(tensor(X), repetitions), np.tile(X, repetitions))


def test_repeat_roll_flip_pad_clip() -> None:
    same(F.repeat(tensor(X), 3, 1), np.repeat(X, 3, 1))
    for shift in (0, 1, -2, 9):
        same(F.roll(tensor(X), shift, 2), np.roll(X, shift, 2))
    same(F.flip(tensor(X), (0, 2)), X[::-1, :, ::-1])
    same(pad(tensor(X), [(1, 2), 3], 7.0), np.pad(X, [(0, 0), (1, 2), (3, 3)], constant_values=7.0))
    same(F.clip(tensor(X), -0.5, None), np.clip(X, -0.5, None))
    check_gradient(lambda t: F.roll(F.repeat(t, 2, 0), 1, 2), X)
    with pytest.raises(ShapeError, match="bad widths"):
        pad(tensor(X), [(1, -1)])


@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triu_tril_diagonal(diagonal: int) -> None:
    same(F.triu(tensor(X), diagonal), np.triu(X, diagonal))
    same(F.tril(tensor(X), diagonal), np.tril(X, diagonal))
    square = X[:, :, :4]
    same(diagonal_of(tensor(square)), np.diagonal(square, axis1=1, axis2=2))
    with pytest.raises(ShapeError, match="at least two dims"):
        F.triu(tensor(np.ones(3)))


def test_where_broadcasts_and_takes_numbers() -> None:
    same(F.where(tensor(X > 0), tensor(X), 0.0), np.where(X > 0, X, 0.0))
    found = F.where(tensor(X > 0), 1.0, 2.0)
    np.testing.assert_array_equal(found.numpy(), np.where(X > 0, 1.0, 2.0).astype(np.float32))


def test_embedding_and_one_hot() -> None:
    weight = RNG.normal(size=(6, 3))
    indices = np.array([[0, 5], [2, 2]])
    same(F.embedding(tensor(indices), tensor(weight)), weight[indices])
    check_gradient(lambda i, w: F.embedding(i, w), indices, weight)
    same(F.one_hot(tensor(indices), 6), np.eye(6, dtype=np.int64)[indices])
    same(F.one_hot(tensor(np.array([1, 3])), 3), np.array([[0, 1, 0], [0, 0, 0]]))
    with pytest.raises(DTypeError, match="indices must be integers"):
        F.embedding(tensor(weight), tensor(weight))
    with pytest.raises(ShapeError, match="must be a matrix"):
        F.embedding(tensor(indices), tensor(np.ones(3)))


def test_sort_argsort_topk() -> None:
    same(F.sort(tensor(X), 1), np.sort(X, 1))
    same(F.sort(tensor(X), 1, descending=True), np.sort(X, 1)[:, ::-1])
    ties = np.array([2, 1, 2, 1])
    same(F.argsort(tensor(ties)), np.array([1, 3, 0, 2]))
    same(F.argsort(tensor(ties), descending=True), np.array([0, 2, 1, 3]))
    values, indices = F.topk(tensor(X), 2)
    same(values, np.sort(X, -1)[..., ::-1][..., :2])
    same(indices, np.argsort(-X, -1)[..., :2])
    smallest, _ = F.topk(tensor(X), 3, 0, largest=False)
    same(smallest, np.sort(X, 0))
    check_gradient(lambda t: F.topk(t, 2)[0], X)
    with pytest.raises(IndexRangeError, match="0 to 5"):
        F.topk(tensor(X), 6)


def test_isclose_and_allclose_are_numpys() -> None:
    a = np.array([1.0, 1.0, np.nan, np.inf, np.inf, -np.inf, 0.0])
    b = np.array([1.0 + 9e-6, 1.1, np.nan, np.inf, 1.0, np.inf, 1e-9])
    for equal_nan in (False, True):
        found = F.isclose(tensor(a), tensor(b), equal_nan=equal_nan)
        np.testing.assert_array_equal(found.numpy(), np.isclose(a, b, equal_nan=equal_nan))
    assert bool(F.allclose(tensor(X), tensor(X + 1e-10)))
    assert not bool(F.allclose(tensor(X), 0.0))
