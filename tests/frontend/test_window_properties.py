"""Properties of windows over random shapes: counts, transposes, and sums that stay."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.frontend.functions.convolution import conv3d, conv_transpose3d
from firebox.frontend.functions.interpolate import interpolate
from firebox.frontend.functions.pooling import avg_pool1d, max_pool1d_with_indices
from firebox.frontend.functions.spatial import windows_of
from firebox.frontend.functions.unfold import fold, unfold
from firebox.frontend.tensor import Tensor, tensor

RNG = np.random.default_rng(43)
SIZES = st.integers(1, 9)
FEW = settings(max_examples=40)


def placed(*shape: int) -> Tensor:
    """Random numbers on the device of the reference interpreter, which compiles nothing."""
    return tensor(RNG.normal(size=shape), device="interpret")


@FEW
@given(
    size=SIZES, kernel=st.integers(1, 4), stride=st.integers(1, 4), pad=st.integers(0, 2), dilation=st.integers(1, 2)
)
def test_counts_of_windows(size: int, kernel: int, stride: int, pad: int, dilation: int) -> None:
    span = dilation * (kernel - 1) + 1
    if 2 * pad > span or size + 2 * pad < span:
        return
    starts = range(-pad, size + pad, stride)
    whole = sum(start + span <= size + pad for start in starts)
    for ceil_mode in (False, True):
        windows = windows_of("test", (size,), kernel, stride, pad, dilation, ceil_mode, "")
        first_partial = -pad + whole * stride
        expected = whole + (ceil_mode and first_partial < size and first_partial + span > size + pad)
        # with ceil_mode at most one window more, and only where something is left over
        left = (size + 2 * pad - span) % stride
        assert windows.counts == (expected if left else whole,)


@FEW
@given(height=st.integers(2, 6), width=st.integers(2, 6), stride=st.integers(1, 3), pad=st.integers(0, 2))
def test_fold_is_the_transpose_of_unfold(height: int, width: int, stride: int, pad: int) -> None:
    x = placed(1, 2, height, width)
    columns = unfold(x, 2, 1, pad, stride)
    other = placed(*map(int, columns.shape))
    back = fold(other, (height, width), 2, 1, pad, stride)
    inner = (columns * other).sum(), (x * back).sum()
    np.testing.assert_allclose(inner[0].item(), inner[1].item(), rtol=1e-9, atol=1e-9)


@FEW
@given(
    sizes=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 4)),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    groups=st.sampled_from([1, 2]),
)
def test_a_transposed_convolution_is_the_transpose(sizes: Any, stride: int, pad: int, groups: int) -> None:
    x, w = placed(1, 4, *sizes), placed(2, 4 // groups, 2, 2, 2)
    y = conv3d(x, w, None, stride, pad, 1, groups)
    other = placed(*map(int, y.shape))
    left = [(size + 2 * pad - 2) % stride for size in sizes]
    back = conv_transpose3d(other, w, None, stride, pad, left, groups)
    assert back.shape == x.shape
    np.testing.assert_allclose((y * other).sum().item(), (x * back).sum().item(), rtol=1e-9, atol=1e-9)


@FEW
@given(size=SIZES, out=st.integers(1, 20), mode=st.sampled_from(["linear", "cubic", "lanczos", "nearest-exact"]))
def test_constants_stay_when_resampled(size: int, out: int, mode: Any) -> None:
    x = tensor(np.full((1, 1, size), 1.5), device="interpret")
    np.testing.assert_allclose(interpolate(x, out, mode=mode).numpy(), np.full((1, 1, out), 1.5), rtol=1e-9)


@FEW
@given(size=st.integers(3, 12), kernel=st.integers(1, 4), stride=st.integers(1, 4), include=st.booleans())
def test_pools_of_counting_numbers(size: int, kernel: int, stride: int, include: bool) -> None:
    if kernel > size + 2 * (kernel // 2):
        return
    x = tensor(np.arange(1.0, size + 1).reshape(1, 1, size), device="interpret")
    pad = kernel // 2
    values, places = max_pool1d_with_indices(x, kernel, stride, pad, 1, True)
    np.testing.assert_array_equal(values.numpy() - 1, places.numpy())
    means = avg_pool1d(x, kernel, stride, pad, include, True).numpy()[0, 0]
    for k, mean in enumerate(means):
        first, last = k * stride - pad, min(k * stride - pad + kernel, size + pad)
        real = np.arange(max(first, 0), min(last, size)) + 1.0
        np.testing.assert_allclose(mean, real.sum() / ((last - first) if include else len(real)), rtol=1e-9)
