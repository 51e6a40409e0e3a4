"""Losses against their formulas in NumPy; reductions, weights, smoothing and ignored targets are PyTorch's."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions import losses as F
from firebox.frontend.functions.distribution_losses import kl_div
from firebox.frontend.functions.support import Reduction
from firebox.frontend.tensor import tensor
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(11)
LOGITS = RNG.normal(size=(5, 4)) * 2
TARGET = np.array([0, 3, 1, 2, 3])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25])
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "none")


def log_softmax(x: Array, axis: int = 1) -> Array:
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def reduce(losses: Array, reduction: str) -> Array:
    return np.asarray({"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(reduction: Reduction) -> None:
    expected = reduce(-log_softmax(LOGITS)[np.arange(5), TARGET], reduction)
    found = F.cross_entropy(tensor(LOGITS), tensor(TARGET), reduction=reduction)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    check_gradient(lambda x, t: F.cross_entropy(x, t, reduction=reduction), LOGITS, TARGET)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_with_everything(reduction: Reduction, weighted: bool) -> None:
    """Smoothing 0.1, one ignored target; the mean divides by the weights of the targets that count."""
    target = TARGET.copy()
    target[2] = -100
    weight = WEIGHT if weighted else np.ones(4)
    log_p, counted = log_softmax(LOGITS), target != -100
    safe = np.where(counted, target, 0)
    nll = np.where(counted, -log_p[np.arange(5), safe] * weight[safe], 0.0)
    smooth = np.where(counted, -(log_p * weight).sum(1), 0.0)
    divisor = weight[safe][counted].sum()
    losses = 0.9 * nll + 0.1 / 4 * smooth
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / divisor}[reduction]
    given = tensor(weight) if weighted else None
    found = F.cross_entropy(tensor(LOGITS), tensor(target), given, reduction, label_smoothing=0.1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    check_gradient(lambda x, t: F.cross_entropy(x, t, given, reduction, label_smoothing=0.1), LOGITS, target)


def test_cross_entropy_of_images_and_of_one_sample() -> None:
    logits = RNG.normal(size=(2, 3, 2, 2))
    target = RNG.integers(0, 3, size=(2, 2, 2)).astype(np.uint8)
    picked = np.take_along_axis(log_softmax(logits), target[:, None].astype(int), 1)
    np.testing.assert_allclose(F.cross_entropy(tensor(logits), tensor(target)).numpy(), -picked.mean(), rtol=1e-12)
    last = F.cross_entropy(tensor(logits.transpose(0, 2, 3, 1)), tensor(target), axis=-1)
    np.testing.assert_allclose(last.numpy(), -picked.mean(), rtol=1e-12)
    single = F.cross_entropy(tensor(LOGITS[0]), tensor(np.array(1)))
    np.testing.assert_allclose(single.numpy(), -log_softmax(LOGITS[:1])[0, 1], rtol=1e-12)


def test_ignore_index_does_not_wrap_in_small_types() -> None:
    """-100 as u8 would be 156."""
    logits = np.zeros((1, 200))
    found = F.cross_entropy(tensor(logits), tensor(np.array([156], np.uint8)))
    np.testing.assert_allclose(found.numpy(), np.log(200.0), rtol=1e-12)


def test_cross_entropy_of_extreme_logits_is_exact() -> None:
    logits = np.array([[1000.0, 0.0], [0.0, 1000.0]])
    found = F.cross_entropy(tensor(logits), tensor(np.array([0, 0])), reduction="none")
    np.testing.assert_array_equal(found.numpy(), [0.0, 1000.0])


def test_class_losses_say_what_does_not_fit() -> None:
    with pytest.raises(DTypeError) as caught:
        F.cross_entropy(tensor(LOGITS), tensor(np.ones(5)))
    assert "class indices" in str(caught.value) and "soft_cross_entropy" in str(caught.value)
    with pytest.raises(DTypeError, match="logits must be floating"):
        F.cross_entropy(tensor(TARGET), tensor(TARGET))
    with pytest.raises(ShapeError, match="targets do not fit"):
        F.cross_entropy(tensor(LOGITS), tensor(TARGET[:4]))
    with pytest.raises(UserError, match="no such reduction"):
        F.cross_entropy(tensor(LOGITS), tensor(TARGET), reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="label_smoothing"):
        F.cross_entropy(tensor(LOGITS), tensor(TARGET), label_smoothing=1.5)


def test_nll_and_soft_cross_entropy() -> None:
    log_p = log_softmax(LOGITS)
    expected = -(log_p[np.arange(5), TARGET] * WEIGHT[TARGET]).sum() / WEIGHT[TARGET].sum()
    np.testing.assert_allclose(F.nll_loss(tensor(log_p), tensor(TARGET), tensor(WEIGHT)).numpy(), expected, rtol=1e-12)
    soft = np.exp(log_softmax(RNG.normal(size=(5, 4))))
    expected = -(soft * log_p).sum(1).mean()
    np.testing.assert_allclose(F.soft_cross_entropy(tensor(LOGITS), tensor(soft)).numpy(), expected, rtol=1e-12)
    check_gradient(F.soft_cross_entropy, LOGITS, soft)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_regression_losses(reduction: Reduction) -> None:
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
    d = a - b
    size = np.abs(d)
    expected = {
        F.mse_loss: d * d,
        F.l1_loss: size,
        F.huber_loss: np.where(size <= 1, 0.5 * d * d, size - 0.5),
        F.smooth_l1_loss: np.where(size < 1, 0.5 * d * d, size - 0.5),
    }
    for function, losses in expected.items():
        found = function(tensor(a), tensor(b), reduction)
        np.testing.assert_allclose(found.numpy(), reduce(losses, reduction), rtol=1e-12)
        check_gradient(lambda x, y, f=function: f(x, y, reduction), a, b)


def test_smooth_l1_and_huber_with_other_limits() -> None:
    a, b = RNG.normal(size=20), RNG.normal(size=20)
    size = np.abs(a - b)
    smooth = np.where(size < 0.5, size**2 / 1.0, size - 0.25)
    np.testing.assert_allclose(F.smooth_l1_loss(tensor(a), tensor(b), "none", 0.5).numpy(), smooth, rtol=1e-12)
    huber = np.where(size <= 0.5, size**2 / 2, 0.5 * (size - 0.25))
    np.testing.assert_allclose(F.huber_loss(tensor(a), tensor(b), "none", 0.5).numpy(), huber, rtol=1e-12)
    np.testing.assert_allclose(F.smooth_l1_loss(tensor(a), tensor(b), "none", 0.0).numpy(), size, rtol=1e-12)


def test_losses_never_broadcast() -> None:
    with pytest.raises(ShapeError, match="input and target differ in shape"):
        F.mse_loss(tensor(np.ones((3, 1))), tensor(np.ones(3)))


def test_bce_with_logits() -> None:
    x, y = RNG.normal(size=(4, 3)) * 3, RNG.uniform(size=(4, 3))
    p = 1 / (1 + np.exp(-x))
    losses = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    np.testing.assert_allclose(F.bce_with_logits(tensor(x), tensor(y)).numpy(), losses.mean(), rtol=1e-11)
    np.testing.assert_allclose(F.binary_cross_entropy(tensor(p), tensor(y)).numpy(), losses.mean(), rtol=1e-11)
    pos, weight = np.array([1.0, 2.0, 0.5]), np.array([[1.0], [2.0], [3.0], [4.0]])
    weighted = -(pos * y * np.log(p) + (1 - y) * np.log(1 - p)) * weight
    found = F.bce_with_logits(tensor(x), tensor(y), tensor(weight), "none", tensor(pos))
    np.testing.assert_allclose(found.numpy(), weighted, rtol=1e-11)
    check_gradient(F.bce_with_logits, x, y)
    check_gradient(lambda a, b: F.bce_with_logits(a, b, pos_weight=tensor(pos)), x, y)


def test_bce_with_logits_does_not_overflow_and_takes_bools() -> None:
    x = tensor(np.array([1000.0, -1000.0, 0.0]), requires_grad=True)
    loss = F.bce_with_logits(x, tensor(np.array([False, True, True])), reduction="none")
    np.testing.assert_allclose(loss.numpy(), [1000.0, 1000.0, np.log(2.0)], rtol=1e-15)
    F.bce_with_logits(x, tensor(np.array([False, True, True])), reduction="sum").backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [1.0, -1.0, -0.5], rtol=1e-15)


def test_kl_div() -> None:
    q, p = np.exp(log_softmax(RNG.normal(size=(3, 4)))), np.exp(log_softmax(RNG.normal(size=(3, 4))))
    p[0, 0] = 0.0
    losses = np.where(p > 0, p * (np.log(np.where(p > 0, p, 1)) - np.log(q)), 0.0)
    np.testing.assert_allclose(kl_div(tensor(np.log(q)), tensor(p), "sum").numpy(), losses.sum(), rtol=1e-12)
