"""Softmax and its kin, moments and normalisation against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, ShapeError
from firebox.frontend.functions import normalization as F
from firebox.frontend.tensor import tensor
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 5)) * 3


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_and_log_softmax(axis: int) -> None:
    np.testing.assert_allclose(F.softmax(tensor(X), axis).numpy(), softmax(X, axis), rtol=1e-12)
    np.testing.assert_allclose(F.log_softmax(tensor(X), axis).numpy(), np.log(softmax(X, axis)), rtol=1e-11)
    check_gradient(lambda x: F.softmax(x, axis), X)
    check_gradient(lambda x: F.log_softmax(x, axis), X)


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, 2), False)])
def test_logsumexp(axis: Any, keepdims: bool) -> None:
    expected = np.log(np.exp(X).sum(axis, keepdims=keepdims))
    found = F.logsumexp(tensor(X), axis, keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    check_gradient(lambda x: F.logsumexp(x, axis, keepdims), X)


def test_logsumexp_of_large_and_infinite_numbers() -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0], [-np.inf, 1.0]])
    expected = [1000.0 + np.log(2.0), -np.inf, np.inf, 1.0]
    np.testing.assert_allclose(F.logsumexp(tensor(x), 1).numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("correction", [0.0, 1.0])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_var_and_std(axis: Any, correction: float) -> None:
    x = tensor(X + 100.0)
    expected = (X + 100.0).var(axis, ddof=int(correction))
    np.testing.assert_allclose(F.var(x, axis, correction=correction).numpy(), expected, rtol=1e-11)
    np.testing.assert_allclose(F.std(x, axis, correction=correction).numpy(), np.sqrt(expected), rtol=1e-11)
    check_gradient(lambda t: F.std(t, axis, correction=correction), X)


def test_var_of_one_element_with_correction_is_nan() -> None:
    assert np.isnan(F.var(tensor(np.ones((1, 3))), 0, correction=1.0).numpy()).all()


def standardized(x: Array, axes: Any, eps: float) -> Array:
    return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps))


@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    weight, bias = RNG.normal(size=shape), RNG.normal(size=shape)
    axes = tuple(range(3 - len(shape), 3))
    expected = standardized(X, axes, 1e-5) * weight + bias
    found = F.layer_norm(tensor(X), shape, tensor(weight), tensor(bias))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    check_gradient(lambda x, w, b: F.layer_norm(x, shape, w, b), X, weight, bias)


def test_rms_norm() -> None:
    weight = RNG.normal(size=5)
    expected = X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(F.rms_norm(tensor(X), 5, tensor(weight), 1e-6).numpy(), expected, rtol=1e-12)
    check_gradient(lambda x, w: F.rms_norm(x, 5, w), X, weight)


def test_norms_say_which_shape_they_expected() -> None:
    with pytest.raises(ShapeError) as caught:
        F.layer_norm(tensor(X), (4,))
    assert "layer_norm" in str(caught.value) and "(.., 4)" in str(caught.value) and "(2, 3, 5)" in str(caught.value)
    with pytest.raises(DTypeError, match="must be floating"):
        F.rms_norm(tensor(np.ones((2, 3), np.int32)), 3)


def channelwise(vector: Array, rank: int) -> Array:
    return vector.reshape(-1, *[1] * (rank - 2))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 4)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    axes = tuple(k for k in range(len(shape)) if k != 1)
    weight, bias = RNG.normal(size=3), RNG.normal(size=3)
    mean, variance = F.batch_statistics(tensor(x))
    np.testing.assert_allclose(mean.numpy(), x.mean(axes), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(variance.numpy(), x.var(axes), rtol=1e-12)
    found = F.batch_norm(tensor(x), mean, variance, tensor(weight), tensor(bias))
    expected = standardized(x, axes, 1e-5) * channelwise(weight, len(shape)) + channelwise(bias, len(shape))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)

    def through_statistics(t: Any, w: Any, b: Any) -> Any:
        return F.batch_norm(t, *F.batch_statistics(t), w, b)

    check_gradient(through_statistics, x, weight, bias)


def test_batch_norm_refuses_other_channels() -> None:
    x, three, four = tensor(np.ones((2, 3))), tensor(np.ones(3)), tensor(np.ones(4))
    with pytest.raises(ShapeError, match="weight does not fit the channels"):
        F.batch_norm(x, three, three, four)


def test_group_norm_and_instance_norm() -> None:
    x = RNG.normal(size=(2, 6, 3, 2))
    weight, bias = RNG.normal(size=6), RNG.normal(size=6)
    split = standardized(x.reshape(2, 2, 3, 3, 2), (2, 3, 4), 1e-5).reshape(x.shape)
    expected = split * channelwise(weight, 4) + channelwise(bias, 4)
    found = F.group_norm(tensor(x), 2, tensor(weight), tensor(bias))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)
    check_gradient(lambda t, w, b: F.group_norm(t, 2, w, b), x, weight, bias)
    np.testing.assert_allclose(F.instance_norm(tensor(x)).numpy(), standardized(x, (2, 3), 1e-5), rtol=1e-9, atol=1e-12)
    with pytest.raises(ShapeError, match="do not divide into groups"):
        F.group_norm(tensor(x), 4)


@pytest.mark.parametrize("order", [2.0, 1.0, 4.0, 0.0, np.inf])
def test_normalize(order: float) -> None:
    expected = X / np.linalg.norm(X, order, axis=1, keepdims=True)
    np.testing.assert_allclose(F.normalize(tensor(X), order, 1).numpy(), expected, rtol=1e-12)
    check_gradient(lambda x: F.normalize(x, order, 1), X)
    np.testing.assert_array_equal(F.normalize(tensor(np.zeros((2, 3)))).numpy(), np.zeros((2, 3)))


HALF: dict[str, Callable[[Any], Any]] = {
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "layer_norm": lambda x: F.layer_norm(x, 64),
    "rms_norm": lambda x: F.rms_norm(x, 64),
}


@pytest.mark.parametrize("name", list(HALF))
def test_half_precision_keeps_its_type(name: str) -> None:
    x = RNG.normal(size=(4, 64))
    found = HALF[name](tensor(x).half())
    assert found.numpy().dtype == np.float16
    np.testing.assert_allclose(found.numpy(), HALF[name](tensor(x)).numpy(), rtol=2e-2, atol=5e-3)
