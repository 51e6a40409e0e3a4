"""Activations against their formulas in NumPy, gradients against differences, and behaviour at the edges."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions import activations as F
from firebox.frontend.functions.dropout import gumbel_softmax, rrelu
from firebox.frontend.functions.normalization import quiet_softmax, softmin
from firebox.frontend.random import Generator
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
X = np.array([-30.0, -4.0, -1.5, -0.3, 0.2, 0.9, 2.5, 4.0, 30.0])


def erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "relu": (F.relu, lambda x: np.maximum(x, 0)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "sigmoid": (F.sigmoid, sigmoid),
    "tanh": (F.tanh, np.tanh),
    "silu": (F.silu, lambda x: x * sigmoid(x)),
    "gelu": (F.gelu, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    "gelu_tanh": (
        lambda x: F.gelu(x, "tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "softplus": (F.softplus, softplus),
    "softplus_beta": (lambda x: F.softplus(x, 2.0), lambda x: softplus(2 * x) / 2),
    "log_sigmoid": (F.log_sigmoid, lambda x: -softplus(-x)),
    "elu": (lambda x: F.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "celu": (lambda x: F.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    "selu": (F.selu, lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x))),
    "mish": (F.mish, lambda x: x * np.tanh(softplus(x))),
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x))),
    "hard_tanh": (lambda x: F.hard_tanh(x, -2.0, 1.0), lambda x: np.clip(x, -2, 1)),
    "hard_sigmoid": (F.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hard_swish": (F.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_values(name: str) -> None:
    function, expected = CASES[name]
    np.testing.assert_allclose(function(tensor(X)).numpy(), expected(X), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", list(CASES))
def test_gradients(name: str) -> None:
    check_gradient(CASES[name][0], X[1:-1])


@pytest.mark.parametrize("name", list(CASES))
def test_nan_stays_nan_and_large_numbers_have_finite_gradients(name: str) -> None:
    function = CASES[name][0]
    assert np.isnan(function(tensor(np.array([np.nan]))).numpy()).all()
    x = tensor(np.array([-800.0, 800.0]), requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


def gradient_at_zero(function: Callable[[Tensor], Tensor]) -> float:
    x = tensor(np.zeros(1), requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    return float(x.grad.item())


def test_gradients_at_zero_are_pytorchs() -> None:
    assert gradient_at_zero(F.relu) == 0.0
    assert gradient_at_zero(lambda x: F.leaky_relu(x, 0.25)) == 0.25
    assert gradient_at_zero(F.softplus) == 0.5
    assert gradient_at_zero(F.log_sigmoid) == 0.5
    assert gradient_at_zero(lambda x: F.elu(x, 0.5)) == 0.5
    assert gradient_at_zero(F.gelu) == 0.5


def test_integers_become_floats() -> None:
    found = F.silu(tensor(np.array([1, 2], np.int32)))
    np.testing.assert_allclose(found.numpy(), np.array([1.0, 2.0]) * sigmoid(np.array([1.0, 2.0])), rtol=1e-6)
    assert found.numpy().dtype == np.float32


def test_gelu_names_its_approximations() -> None:
    with pytest.raises(UserError, match="'none' or 'tanh'"):
        F.gelu(tensor(X), "exact")  # type: ignore[arg-type]


def test_glu_splits_an_axis() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    np.testing.assert_allclose(F.glu(tensor(x), 1).numpy(), x[:, :2] * sigmoid(x[:, 2:]), rtol=1e-12)
    check_gradient(lambda t: F.glu(t, 1), x)
    with pytest.raises(ShapeError, match="even size"):
        F.glu(tensor(x), 0)


def test_prelu_has_one_weight_or_one_a_channel() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    w = np.array([0.1, 0.2, 0.3])
    expected = np.where(x > 0, x, x * w[:, None])
    np.testing.assert_allclose(F.prelu(tensor(x), tensor(w)).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(F.prelu(tensor(x), tensor(w[:1])).numpy(), np.where(x > 0, x, x * 0.1), rtol=1e-12)
    check_gradient(F.prelu, x, w)
    with pytest.raises(ShapeError, match="one a channel"):
        F.prelu(tensor(x), tensor(np.ones(4)))


# ---- against PyTorch ---------------------------------------------------------------------------------------------

RECORDED: dict[str, Callable[..., Tensor]] = {
    "threshold": lambda x: F.threshold(x, 0.3, -2.0),
    "tanh_shrink": F.tanh_shrink,
    "hard_shrink": lambda x: F.hard_shrink(x, 0.4),
    "soft_shrink": lambda x: F.soft_shrink(x, 0.4),
    "hard_sigmoid": F.hard_sigmoid,
    "hard_swish": F.hard_swish,
    "rrelu_eval": rrelu,
    "softmin": lambda x: softmin(x, 1),
    "prelu": F.prelu,
    "glu": lambda x: F.glu(x, 0),
    "swiglu": lambda x: F.swiglu(x, 0),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "mish": F.mish,
    "celu": lambda x: F.celu(x, 0.7),
    "log_sigmoid": F.log_sigmoid,
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(RECORDED) == sorted(recorded.cases("activations"))


@pytest.mark.parametrize("name", list(RECORDED))
def test_recorded_values_and_gradients(name: str) -> None:
    recorded.check("activations", name, RECORDED[name], 1e-7)  # PyTorch's constants have 24 bits


def test_shrink_and_quiet_softmax() -> None:
    expected = np.where(X > 0.4, X - 0.2, np.where(X < -0.4, X + 0.2, 0.0))
    np.testing.assert_allclose(F.shrink(tensor(X), 0.4, 0.2).numpy(), expected, rtol=1e-12)
    x = np.array([[1.0, -2.0, 0.5], [-40.0, -41.0, -39.0], [700.0, 710.0, 0.0]])
    top = np.maximum(x.max(1, keepdims=True), 0)
    powers = np.exp(x - top)
    expected = powers / (powers.sum(1, keepdims=True) + np.exp(-top))
    np.testing.assert_allclose(quiet_softmax(tensor(x)).numpy(), expected, rtol=1e-12)
    check_gradient(quiet_softmax, x[:2])


def test_rrelu_draws_a_slope_for_each_element() -> None:
    x = np.full(1000, -1.0)
    slopes = -rrelu(tensor(x), 0.2, 0.4, True, Generator(3)).numpy()
    assert 0.2 <= slopes.min() < 0.21 and 0.39 < slopes.max() <= 0.4
    with pytest.raises(UserError, match="bad bounds"):
        rrelu(tensor(x), 0.5, 0.4)


def test_gumbel_softmax_chooses_by_probability() -> None:
    logits = np.log(np.array([[0.1], [0.6], [0.3]])) * np.ones((1, 4000))
    x = tensor(logits, requires_grad=True)
    chosen = gumbel_softmax(x, 0.5, True, 0, Generator(5))
    np.testing.assert_allclose(chosen.numpy().sum(0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(chosen.numpy().mean(1), [0.1, 0.6, 0.3], atol=0.03)
    weight = np.linspace(0, 1, 12000).reshape(3, 4000)
    (chosen * tensor(weight)).sum().backward()
    soft = gumbel_softmax(tensor(logits), 0.5, False, 0, Generator(5)).numpy()
    assert x.grad is not None
    expected = 2.0 * soft * (weight - (soft * weight).sum(0))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(UserError, match="bad tau"):
        gumbel_softmax(tensor(logits), 0.0)
