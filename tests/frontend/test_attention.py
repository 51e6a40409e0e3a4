"""Attention against recorded values and gradients of PyTorch; what PyTorch has not, against formulas in NumPy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.attention import scaled_dot_product_attention
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(27)


def attention(**options: Any) -> Callable[..., Tensor]:
    return lambda *operands: scaled_dot_product_attention(*operands, **options)


CASES = {
    "plain": attention(scale=0.3),
    "flat": attention(),
    "causal": attention(is_causal=True),
    "nothing_seen": attention(),
    "heads_mask": attention(),
    "float_mask": attention(),
    "grouped": attention(enable_gqa=True),
    "grouped_causal": attention(enable_gqa=True, is_causal=True),
    "grouped_mask": attention(enable_gqa=True),
    "grouped_one_mask": attention(enable_gqa=True),
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("attention"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("attention", name, CASES[name])


def test_softcap() -> None:
    q, k, v = RNG.normal(size=(2, 3)) * 4, RNG.normal(size=(4, 3)) * 4, RNG.normal(size=(4, 5))
    scores = 2.0 * np.tanh(q @ k.T / math.sqrt(3) / 2.0)
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(attention(softcap=2.0)(*map(tensor, (q, k, v))).numpy(), weights @ v, rtol=1e-11)
    check_gradient(attention(softcap=2.0), q, k, v)


def test_quiet_attention() -> None:
    q, k, v = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=(4, 5))
    powers = np.exp(q @ k.T / math.sqrt(3))
    expected = powers / (1 + powers.sum(1, keepdims=True)) @ v
    np.testing.assert_allclose(attention(quiet=True)(*map(tensor, (q, k, v))).numpy(), expected, rtol=1e-11)
    check_gradient(attention(quiet=True), q, k, v)


def test_dropout_scales_what_is_left(frontend: None) -> None:
    q = k = tensor(np.zeros((1, 1000, 2), np.float32))
    v = tensor(np.ones((1, 1000, 1), np.float32))
    found = scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=fb.Generator(1)).numpy()
    assert 0.9 < found.mean() < 1.1 and found.std() > 0.01
    again = scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=fb.Generator(1)).numpy()
    np.testing.assert_array_equal(found, again)


def test_what_does_not_fit() -> None:
    q, k = tensor(np.ones((1, 4, 2, 3))), tensor(np.ones((1, 3, 2, 3)))
    with pytest.raises(ShapeError, match="the heads do not divide"):
        scaled_dot_product_attention(q, k, k, enable_gqa=True)
    with pytest.raises(UserError, match="bad softcap"):
        scaled_dot_product_attention(q, q, q, softcap=0.0)
    with pytest.raises(UserError, match="not a probability"):
        scaled_dot_product_attention(q, q, q, dropout_p=1.5)
