"""Moving, joining and splitting of dims against NumPy."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import IndexRangeError, ShapeError
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 3, 4))
T = fb.from_numpy(X, "interpret")
pytestmark = pytest.mark.usefixtures("frontend")


def same(found: Any, expected: Any) -> None:
    if isinstance(found, list | tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    else:
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)


def test_dims_move() -> None:
    same(fb.moveaxis(T, 0, -1), np.moveaxis(X, 0, -1))
    same(fb.movedim(T, (0, 2), (1, 0)), np.moveaxis(X, (0, 2), (1, 0)))
    same(fb.swapaxes(T, 0, 2), np.swapaxes(X, 0, 2))
    same(fb.matrix_transpose(T), np.swapaxes(X, -1, -2))
    same(fb.expand_dims(T, (0, -1)), np.expand_dims(X, (0, -1)))
    same(fb.ravel(T), X.ravel())
    same(fb.flatten(T, 1), X.reshape(2, 12))
    same(fb.unflatten(T, -1, (2, -1)), X.reshape(2, 3, 2, 2))
    same(fb.atleast_2d(fb.tensor(X[0, 0])), np.atleast_2d(X[0, 0]))
    with pytest.raises(ShapeError, match="moveaxis: bad axes"):
        fb.moveaxis(T, (0, 1), (0,))
    with pytest.raises(ShapeError, match="unflatten: the sizes do not fit"):
        fb.unflatten(T, 1, (2, 2))


def test_shapes_broadcast() -> None:
    a, b = fb.broadcast_arrays(fb.tensor(X[0]), fb.tensor(X))
    same([a, b], list(np.broadcast_arrays(X[0], X)))
    assert fb.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    with pytest.raises(ShapeError, match="do not broadcast"):
        fb.broadcast_shapes((3,), (4,))


def test_arrays_join_and_split() -> None:
    rows = [X[0], X[1]]
    for name in ("vstack", "hstack", "dstack"):
        same(getattr(fb, name)([fb.tensor(r) for r in rows]), getattr(np, name)(rows))
        vectors = [r[0] for r in rows]
        same(getattr(fb, name)([fb.tensor(r) for r in vectors]), getattr(np, name)(vectors))
    same(fb.column_stack([fb.tensor(X[0, 0]), fb.tensor(X[0].T)]), np.column_stack([X[0, 0], X[0].T]))
    for sections in (2, 3, [1, 3], [2, 1, 9]):
        same(fb.tensor_split(T, sections, 2), np.array_split(X, sections, 2))
    same(fb.hsplit(T, 3), np.hsplit(X, 3))
    same(fb.vsplit(T, 2), np.vsplit(X, 2))


def test_elements_turn_and_repeat() -> None:
    for k in range(-1, 4):
        same(fb.rot90(T, k, (1, 2)), np.rot90(X, k, (1, 2)))
    same(fb.fliplr(T), np.fliplr(X))
    same(fb.flipud(T), np.flipud(X))
    same(fb.roll(T, 5), np.roll(X, 5))
    same(fb.roll(T, (1, -2), (0, 2)), np.roll(X, (1, -2), (0, 2)))
    same(fb.repeat_interleave(T, 2), np.repeat(X, 2))
    same(fb.repeat_interleave(T, [2, 0, 1], 1), np.repeat(X, [2, 0, 1], 1))
    check_gradient(lambda x: fb.rot90(fb.repeat_interleave(x, [1, 2, 0], 1)), X)
    with pytest.raises(ShapeError, match="one shift for each axis"):
        fb.roll(T, (1, 2), (0,))
    with pytest.raises(ShapeError, match="expected: 3 numbers"):
        fb.repeat_interleave(T, [1, 2], 1)


def test_grids_of_indices() -> None:
    same(fb.tril_indices(3, -1, 4), list(np.tril_indices(3, -1, 4)))
    same(fb.triu_indices(3, 1), list(np.triu_indices(3, 1)))
    found = fb.cartesian_prod(fb.tensor([1, 2]), fb.tensor([5, 6, 7]))
    same(found, np.array([[a, b] for a in (1, 2) for b in (5, 6, 7)]))
    same(fb.cartesian_prod(fb.tensor([1, 2])), np.array([1, 2]))
    np.testing.assert_allclose(fb.logspace(0, 2, 5, dtype="f64").numpy(), np.logspace(0, 2, 5))


def test_windows_slide() -> None:
    view = np.lib.stride_tricks.sliding_window_view(X, 2, 2)[:, :, ::2]
    same(fb.windows(T, 2, 2, 2), view)
    check_gradient(lambda x: fb.windows(x, 2, 3), X)
    same(fb.select(T, 1, -1), X[:, -1])
    with pytest.raises(IndexRangeError, match="-3 to 2"):
        fb.select(T, 1, 3)
    with pytest.raises(ShapeError, match="windows: bad window"):
        fb.windows(T, 2, 5)
