"""Empty arrays, arrays of one element and 0-d arrays through every family of ops, natively, as NumPy has them."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError

Array = np.ndarray[Any, Any]
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]

SHAPES = [(0,), (1,), (), (0, 3), (3, 0), (1, 1), (2, 0, 3), (1, 5, 1), (1, 0, 1), (4, 3)]

SAME: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "add a number": lambda x: x + 1,
    "negative": lambda x: -x,
    "abs": lambda x: abs(x),
    "product": lambda x: x * x[None],
    "divide": lambda x: x / 2,
    "remainder": lambda x: x % 3,
    "compare": lambda x: x > 0,
    "select by itself": lambda x: x[x > 0] if x.ndim else x,
    "new dims": lambda x: x[None, ..., None],
    "ellipsis": lambda x: x[...],
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(),
    "mean": lambda x: x.mean(),
    "any": lambda x: x.any(),
    "all": lambda x: x.all(),
    "squeeze": lambda x: x.squeeze(),
    "transpose": lambda x: x.transpose(),
}
"""What is written alike for NumPy and for tensors."""

WITH_DIMS: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: x[:1],
    "rest": lambda x: x[1:],
    "every other": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "reversed steps": lambda x: x[::-2],
    "beyond": lambda x: x[5:9],
    "broadcast": lambda x: x + x[..., :1] if x.shape[-1] else x,
    "sum of the first": lambda x: x.sum(0),
    "sum of the last": lambda x: x.sum(-1, keepdims=True),
    "mean of the last": lambda x: x.mean(-1),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(-1),
    "swapaxes": lambda x: x.swapaxes(0, -1),
}
"""The same for arrays of a dim or more."""

OTHERWISE: dict[str, Pair] = {
    "sign": (np.sign, fb.sign),
    "floor": (np.floor, lambda x: x.floor().astype(x.dtype)),
    "exp": (lambda x: np.exp(x * 1.0), lambda x: (x * 1.0).exp()),
    "tanh": (lambda x: np.tanh(x * 1.0), lambda x: (x * 1.0).tanh()),
    "isnan": (lambda x: np.isnan(x * 1.0), lambda x: (x * 1.0).isnan()),
    "relu": (lambda x: np.maximum(x, 0), fb.relu),
    "where": (lambda x: np.where(x > 0, x, 0), lambda x: fb.where(x > 0, x, 0)),
    "clip": (lambda x: np.clip(x, -1, 1), lambda x: fb.clip(x, -1, 1)),
    "cast": (lambda x: x.astype(np.int32), lambda x: x.astype("i32")),
    "flat": (lambda x: x.reshape(-1), lambda x: x.reshape(x.size)),
    "flip": (np.flip, fb.flip),
    "var": (lambda x: np.var(x), fb.var),
    "norm": (lambda x: np.sqrt((x * x).sum()), fb.norm),
    "stack": (lambda x: np.stack([x, x], 0), lambda x: fb.stack([x, x], 0)),
    "tile": (lambda x: np.tile(x, (2,)), lambda x: fb.tile(x, (2,))),
    "outer": (lambda x: np.outer(x, x), lambda x: fb.outer(x.reshape(x.size), x.reshape(x.size))),
}

OTHERWISE_WITH_DIMS: dict[str, Pair] = {
    "concat": (lambda x: np.concatenate([x, x[:0], x], 0), lambda x: fb.concat([x, x[:0], x], 0)),
    "pad": (lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(2, 1)]), lambda x: fb.pad(x, [(2, 1)])),
    "roll": (lambda x: np.roll(x, 1, -1), lambda x: fb.roll(x, 1, -1)),
    "repeat": (lambda x: np.repeat(x, 2, 0), lambda x: fb.repeat(x, 2, 0)),
    "sort": (lambda x: np.sort(x, -1), fb.sort),
    "argsort": (lambda x: np.argsort(x, -1, kind="stable"), fb.argsort),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), fb.softmax),
    "no rows": (lambda x: np.take(x, np.zeros(0, np.int64), 0), lambda x: x.take(fb.zeros(0, dtype="i64"))),
    "add at no place": (lambda x: x, lambda x: x.at[fb.zeros(0, dtype="i64")].add(x[:0])),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, *x.shape)), lambda x: x.broadcast_to((2, *x.shape))),
}

MATRICES: dict[str, Pair] = {
    "x @ x.T": (lambda x: x @ np.swapaxes(x, -1, -2), lambda x: x @ x.T),
    "x.T @ x": (lambda x: np.swapaxes(x, -1, -2) @ x, lambda x: x.T @ x),
    "einsum": (lambda x: np.einsum("...ij,...kj->...ik", x, x), lambda x: fb.einsum("...ij,...kj->...ik", x, x)),
    "tril": (np.tril, fb.tril),
}


def cases(rank: int) -> dict[str, Pair]:
    """What an array of this rank is put through."""
    found = {name: (f, f) for name, f in SAME.items()} | OTHERWISE
    if rank:
        found |= {name: (f, f) for name, f in WITH_DIMS.items()} | OTHERWISE_WITH_DIMS
    return found | MATRICES if rank > 1 else found


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_like_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    """All as one program."""
    rng = np.random.default_rng(0)
    x = np.asarray(rng.integers(-5, 6, shape) + (0.25 if dtype is np.float32 else 0), dtype)
    tensor = fb.tensor(x)
    found = {name: ours(tensor) for name, (_, ours) in cases(x.ndim).items()}
    fb.flush()
    for name, (reference, _) in cases(x.ndim).items():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = np.asarray(reference(x))
        value = found[name].numpy()
        assert value.shape == expected.shape, name
        assert value.dtype.kind == expected.dtype.kind, name
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_nothing_has_no_extreme_value(shape: tuple[int, ...]) -> None:
    x = fb.zeros(*shape)
    for function in (fb.max, fb.min, fb.argmax, fb.argmin):
        with pytest.raises(ShapeError, match="nothing has no extreme value"):
            function(x)


def test_networks_on_no_image() -> None:
    images = fb.zeros(0, 2, 8, 8)
    assert fb.conv2d(images, fb.ones(3, 2, 3, 3), padding=1).numpy().shape == (0, 3, 8, 8)
    assert fb.max_pool2d(images, 2).numpy().shape == (0, 2, 4, 4)
    assert fb.nn.Linear(8, 5)(images).numpy().shape == (0, 2, 8, 5)
    assert fb.layer_norm(images, 8).numpy().shape == images.shape
    assert fb.embedding(fb.zeros(0, 4, dtype="i64"), fb.ones(3, 2)).numpy().shape == (0, 4, 2)
    assert np.isnan(fb.cross_entropy(fb.zeros(0, 3), fb.zeros(0, dtype="i64")).item())
    assert fb.cross_entropy(fb.zeros(0, 3), fb.zeros(0, dtype="i64"), reduction="sum").item() == 0


def test_one_pixel_and_one_channel() -> None:
    one = fb.full((1, 1, 1, 1), 2.0)
    assert fb.conv2d(one, fb.full((1, 1, 1, 1), 3.0)).item() == 6
    assert fb.max_pool2d(one, 1).item() == 2
    assert fb.nn.Linear(1, 1)(fb.zeros(1)).numpy().shape == (1,)
    assert fb.softmax(fb.tensor([5.0])).item() == 1


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (3, 0)], ids=str)
def test_derivatives(shape: tuple[int, ...]) -> None:
    x = fb.full(shape, 3.0)
    np.testing.assert_array_equal(fb.grad(lambda v: (v * v).sum())(x).numpy(), np.full(shape, 6.0))
    np.testing.assert_array_equal(fb.grad(lambda v: (v * v).cumsum().sum() if shape else v)(x).numpy().shape, shape)
    leaf = fb.tensor(np.full(shape, 2.0, np.float32), requires_grad=True)
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), np.full(shape, 3.0))


def test_vmap_over_nothing() -> None:
    assert fb.vmap(lambda row: row.sum())(fb.zeros(0, 3)).numpy().shape == (0,)
    assert fb.vmap(lambda row: row * 2)(fb.zeros(3, 0)).numpy().shape == (3, 0)


def test_reading_0d_and_empty_tensors() -> None:
    number = fb.tensor(2.5)
    assert (float(number), int(number), bool(number), number.item(), number.tolist()) == (2.5, 2, True, 2.5, 2.5)
    assert fb.zeros(0).tolist() == []
    assert fb.zeros(2, 0).tolist() == [[], []]
    assert repr(fb.zeros(0, 3)) == "tensor([], f32, shape=(0, 3))"
    assert len(fb.zeros(0, 3)) == 0
    assert list(fb.zeros(0)) == []
    with pytest.raises(ShapeError, match="the truth of several elements is ambiguous"):
        bool(fb.zeros(0))


def test_random_tensors_without_elements() -> None:
    assert fb.randn(0).numpy().shape == (0,)
    assert fb.rand(2, 0).numpy().shape == (2, 0)
    assert fb.rand().numpy().shape == ()
    assert fb.random.permutation(0).numpy().shape == (0,)
