"""Convolutions, pooling and attention against direct loops in NumPy."""

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions import adaptive_pooling, attention, convolution, pooling
from firebox.frontend.tensor import tensor
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(5)
Pair = tuple[int, int]


def conv2d(x: Array, w: Array, stride: Pair, low: Pair, high: Pair, dilation: Pair, groups: int) -> Array:
    """Straight from the definition."""
    x = np.pad(x, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])))
    n, _, h, width = x.shape
    o, per, kh, kw = w.shape
    rows = (h - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    columns = (width - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, o, rows, columns))
    for oc, y, z in itertools.product(range(o), range(rows), range(columns)):
        first = oc // (o // groups) * per
        for i, j in itertools.product(range(kh), range(kw)):
            window = x[:, first : first + per, y * stride[0] + i * dilation[0], z * stride[1] + j * dilation[1]]
            out[:, oc, y, z] += window @ w[oc, :, i, j]
    return out


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"stride": (2, 1), "padding": (0, 2)},
    {"dilation": (1, 2), "padding": 1},
    {"groups": 2, "stride": (1, 2), "padding": 1},
    {"groups": 4},
    {"padding": "same"},
    {"padding": "same", "stride": 2},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
]


def pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def paddings(x: Array, w: Array, padding: Any, stride: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        return pair(padding), pair(padding)
    totals = [
        max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        for size, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    return (totals[0] // 2, totals[1] // 2), (totals[0] - totals[0] // 2, totals[1] - totals[1] // 2)


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv2d(options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    stride, dilation = pair(options.get("stride", 1)), pair(options.get("dilation", 1))
    x, w, b = RNG.normal(size=(2, 4, 6, 7)), RNG.normal(size=(4, 4 // groups, 3, 2)), RNG.normal(size=4)
    low, high = paddings(x, w, options.get("padding", 0), stride, dilation)
    expected = conv2d(x, w, stride, low, high, dilation, groups) + b[:, None, None]
    found = convolution.conv2d(tensor(x), tensor(w), tensor(b), **options)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11, atol=1e-12)
    check_gradient(lambda u, v, c: convolution.conv2d(u, v, c, **options), x, w, b)


def test_same_padding_keeps_the_size() -> None:
    x, w = tensor(np.ones((1, 1, 6, 7))), tensor(np.ones((1, 1, 3, 4)))
    assert convolution.conv2d(x, w, padding="same").shape == (1, 1, 6, 7)
    assert convolution.conv2d(x, w, padding="same", stride=2).shape == (1, 1, 3, 4)


def test_conv1d_is_conv2d_with_one_row() -> None:
    x, w, b = RNG.normal(size=(2, 4, 9)), RNG.normal(size=(6, 2, 3)), RNG.normal(size=6)
    expected = conv2d(x[:, :, None], w[:, :, None], (1, 2), (0, 1), (0, 1), (1, 2), 2)[:, :, 0] + b[:, None]
    found = convolution.conv1d(tensor(x), tensor(w), tensor(b), 2, 1, 2, 2)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11)
    check_gradient(lambda u, v, c: convolution.conv1d(u, v, c, 2, 1, 2, 2), x, w, b)


def conv_transpose2d(
    x: Array, w: Array, stride: Pair, padding: Pair, extra: Pair, dilation: Pair, groups: int
) -> Array:
    """Every input element adds the kernel, scaled, to the output."""
    n, c, h, width = x.shape
    _, per, kh, kw = w.shape
    rows = (h - 1) * stride[0] + dilation[0] * (kh - 1) + extra[0] + 1
    columns = (width - 1) * stride[1] + dilation[1] * (kw - 1) + extra[1] + 1
    out = np.zeros((n, per * groups, rows, columns))
    for ic, y, z, i, j in itertools.product(range(c), range(h), range(width), range(kh), range(kw)):
        first = ic // (c // groups) * per
        at = (y * stride[0] + i * dilation[0], z * stride[1] + j * dilation[1])
        out[:, first : first + per, at[0], at[1]] += x[:, ic, y, z, None] * w[ic, :, i, j]
    return out[:, :, padding[0] : rows - padding[0], padding[1] : columns - padding[1]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"stride": (2, 3), "padding": 1, "output_padding": (1, 0)},
        {"dilation": 2, "padding": (1, 2)},
        {"groups": 2, "stride": 2, "padding": 1},
    ],
    ids=str,
)
def test_conv_transpose2d(options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    x, w, b = RNG.normal(size=(2, 4, 3, 4)), RNG.normal(size=(4, 3, 3, 2)), RNG.normal(size=3 * groups)
    stride, padding, extra = (
        pair(options.get(k, d)) for k, d in (("stride", 1), ("padding", 0), ("output_padding", 0))
    )
    dilation = pair(options.get("dilation", 1))
    expected = conv_transpose2d(x, w, stride, padding, extra, dilation, groups) + b[:, None, None]
    found = convolution.conv_transpose2d(tensor(x), tensor(w), tensor(b), **options)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11, atol=1e-12)
    check_gradient(lambda u, v, c: convolution.conv_transpose2d(u, v, c, **options), x, w, b)


def test_convolutions_say_what_does_not_fit() -> None:
    x, w = tensor(np.ones((2, 3, 8, 8))), tensor(np.ones((4, 3, 3, 3)))
    with pytest.raises(ShapeError) as caught:
        convolution.conv2d(tensor(np.ones((2, 8, 8, 3))), w)
    assert "3 channels (axis 1)" in str(caught.value) and "x.transpose(0, 3, 1, 2)" in str(caught.value)
    with pytest.raises(ShapeError, match=r"rank 4: \(N, C, H, W\)"):
        convolution.conv2d(tensor(np.ones((3, 8, 8))), w)
    with pytest.raises(ShapeError, match="kernel is larger"):
        convolution.conv2d(tensor(np.ones((2, 3, 2, 8))), w)
    with pytest.raises(ShapeError, match="multiple of groups"):
        convolution.conv2d(tensor(np.ones((2, 9, 8, 8))), w, groups=3)
    with pytest.raises(UserError, match="'same' or 'valid'"):
        convolution.conv2d(x, w, padding="full")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="bad stride"):
        convolution.conv2d(x, w, stride=0)
    with pytest.raises(ShapeError, match="bias does not fit"):
        convolution.conv2d(x, w, tensor(np.ones(3)))
    with pytest.raises(ShapeError, match="channels do not fit"):
        convolution.conv_transpose2d(x, w)


# ---- pooling -----------------------------------------------------------------------------------------------------


def windows(x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, fill: float) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=fill)
    rows = (x.shape[2] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    columns = (x.shape[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    taps = [
        x[:, :, i * dilation[0] :, j * dilation[1] :][:, :, :: stride[0], :: stride[1]][:, :, :rows, :columns]
        for i, j in itertools.product(range(kernel[0]), range(kernel[1]))
    ]
    return np.stack(taps, -1)


POOLS: list[tuple[Any, Any, Any, Any]] = [(2, None, 0, 1), ((3, 2), (2, 1), (1, 0), 1), (2, 1, 1, 2), (3, 3, 1, 1)]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), POOLS)
def test_max_pool2d(kernel: Any, stride: Any, padding: Any, dilation: Any) -> None:
    x = RNG.normal(size=(2, 3, 6, 7))
    geometry = (pair(kernel), pair(kernel if stride is None else stride), pair(padding), pair(dilation))
    expected = windows(x, *geometry, -np.inf).max(-1)
    found = pooling.max_pool2d(tensor(x), kernel, stride, padding, dilation)
    np.testing.assert_array_equal(found.numpy(), expected)
    check_gradient(lambda t: pooling.max_pool2d(t, kernel, stride, padding, dilation), x)


def test_max_pool_gives_the_gradient_to_the_first_maximum() -> None:
    x = tensor(np.array([[[[1.0, 1.0], [1.0, 0.0]]]]), requires_grad=True)
    pooling.max_pool2d(x, 2).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [[[[1.0, 0.0], [0.0, 0.0]]]])


def test_max_pool_of_integers_nan_and_minus_infinity() -> None:
    ints = np.array([[[[-5, -3], [-9, -7]]]], np.int8)
    found = pooling.max_pool2d(tensor(ints), 2, 2, 1)
    assert found.numpy().dtype == np.int8
    np.testing.assert_array_equal(found.numpy(), [[[[-5, -3], [-9, -7]]]])
    special = np.array([[[[1.0, np.nan], [-np.inf, -np.inf]]]])
    np.testing.assert_array_equal(pooling.max_pool2d(tensor(special), (1, 2)).numpy(), [[[[np.nan], [-np.inf]]]])


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), ((3, 2), (2, 1), (1, 0)), (3, 2, 1)])
def test_avg_pool2d(kernel: Any, stride: Any, padding: Any, include: bool) -> None:
    x = RNG.normal(size=(2, 3, 6, 7))
    geometry = (pair(kernel), pair(kernel if stride is None else stride), pair(padding), (1, 1))
    total = windows(x, *geometry, 0.0).sum(-1)
    count = windows(np.ones_like(x), *geometry, 1.0 if include else 0.0).sum(-1)
    found = pooling.avg_pool2d(tensor(x), kernel, stride, padding, include)
    np.testing.assert_allclose(found.numpy(), total / count, rtol=1e-12, atol=1e-14)
    check_gradient(lambda t: pooling.avg_pool2d(t, kernel, stride, padding, include), x)


@pytest.mark.parametrize("size", [1, 2, (3, 7), (4, 5)])
def test_adaptive_avg_pool2d(size: Any) -> None:
    x = RNG.normal(size=(2, 3, 6, 7))
    out = pair(size)
    expected = np.zeros((2, 3, *out))
    for i, j in itertools.product(range(out[0]), range(out[1])):
        rows = slice(i * 6 // out[0], -(-(i + 1) * 6 // out[0]))
        columns = slice(j * 7 // out[1], -(-(j + 1) * 7 // out[1]))
        expected[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    np.testing.assert_allclose(adaptive_pooling.adaptive_avg_pool2d(tensor(x), size).numpy(), expected, rtol=1e-12)
    check_gradient(lambda t: adaptive_pooling.adaptive_avg_pool2d(t, size), x)


def test_pools_say_what_does_not_fit() -> None:
    x = tensor(np.ones((1, 1, 4, 4)))
    with pytest.raises(ShapeError, match="at most half"):
        pooling.max_pool2d(x, 2, padding=2)
    with pytest.raises(ShapeError, match="window is larger"):
        pooling.max_pool2d(x, 5)
    with pytest.raises(ShapeError, match="rank 4"):
        pooling.avg_pool2d(tensor(np.ones((4, 4))), 2)
    with pytest.raises(DTypeError, match="must be floating"):
        pooling.avg_pool2d(tensor(np.ones((1, 1, 4, 4), np.int32)), 2)


# ---- attention ---------------------------------------------------------------------------------------------------


def attend(q: Array, k: Array, v: Array, mask: Array, scale: float) -> Array:
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True) @ v)


def test_attention() -> None:
    q, k, v = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(2, 3, 6, 5)), RNG.normal(size=(2, 3, 6, 7))
    expected = attend(q, k, v, np.zeros(()), 1 / math.sqrt(5))
    found = attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11)
    check_gradient(attention.scaled_dot_product_attention, q, k, v)


def test_attention_masks() -> None:
    q, k, v = RNG.normal(size=(2, 4, 5)), RNG.normal(size=(2, 4, 5)), RNG.normal(size=(2, 4, 5))
    causal = np.where(np.tril(np.ones((4, 4), bool)), 0.0, -np.inf)
    found = attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), is_causal=True, scale=0.5)
    np.testing.assert_allclose(found.numpy(), attend(q, k, v, causal, 0.5), rtol=1e-11)
    check_gradient(lambda a, b, c: attention.scaled_dot_product_attention(a, b, c, is_causal=True), q, k, v)
    allowed = np.array([[True, False, True, True]] * 4)
    found = attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(allowed))
    expected = attend(q, k, v, np.where(allowed, 0.0, -np.inf), 1 / math.sqrt(5))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11)
    bias = RNG.normal(size=(4, 4))
    found = attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(bias), is_causal=True)
    np.testing.assert_allclose(found.numpy(), attend(q, k, v, bias + causal, 1 / math.sqrt(5)), rtol=1e-11)
    with pytest.raises(DTypeError, match="mask must be bool or floating"):
        attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(np.ones((4, 4), np.int32)))
    with pytest.raises(ShapeError, match="sizes do not fit"):
        attention.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v[:, :3]))
