"""Convolutions of one to three dims, padding, and what moves windows, against recorded values of PyTorch."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from firebox.frontend.functions.deform_conv import deform_conv2d
from firebox.frontend.functions.padding import pad
from firebox.frontend.functions.unfold import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(21)

CASES: dict[str, Callable[..., Tensor]] = {
    "conv1d": lambda x, w, b: conv1d(x, w, b, 2, 1, 2, 2),
    "conv2d_depthwise": lambda x, w: conv2d(x, w, padding=1, groups=3),
    "conv3d": conv3d,
    "conv3d_all": lambda x, w, b: conv3d(x, w, b, (2, 1, 2), (1, 0, 1), (1, 2, 1), 2),
    "conv3d_same": lambda x, w: conv3d(x, w, padding="same"),
    "conv2d_asymmetric": lambda x, w: conv2d(x, w, padding=((0, 3), (1, 2)), stride=(2, 1)),
    "conv2d_reflect": lambda x, w: conv2d(pad(x, (2, 1), mode="reflect"), w),
    "conv_transpose1d": lambda x, w, b: conv_transpose1d(x, w, b, 3, 1, 2, 2, 2),
    "conv_transpose2d_groups": lambda x, w: conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
    "conv_transpose3d": lambda x, w, b: conv_transpose3d(x, w, b, (2, 1, 2), 1, (1, 0, 0)),
    "pad_reflect": lambda x: pad(x, ((1, 2), (2, 1)), mode="reflect"),
    "pad_replicate": lambda x: pad(x, ((1, 3), (2, 0)), mode="replicate"),
    "pad_circular": lambda x: pad(x, ((0, 3), (4, 1)), mode="circular"),
    "pad_replicate3d": lambda x: pad(x, ((0, 1), (2, 1), (1, 2)), mode="replicate"),
    "unfold": lambda x: unfold(x, (3, 2), (1, 2), (2, 1), (2, 1)),
    "fold": lambda x: fold(x, (5, 6), (3, 2), (1, 2), (2, 1), (2, 1)),
    "pixel_shuffle": lambda x: pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: channel_shuffle(x, 3),
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("convolution"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("convolution", name, CASES[name])


# ---- deformable --------------------------------------------------------------------------------------------------


def bilinear(image: Array, y: float, x: float) -> Array:
    """The image (C, H, W) between its pixels, 0 outside."""
    total = np.zeros(image.shape[0])
    for i, j in itertools.product((int(np.floor(y)), int(np.floor(y)) + 1), (int(np.floor(x)), int(np.floor(x)) + 1)):
        if 0 <= i < image.shape[1] and 0 <= j < image.shape[2]:
            total += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def deformed(x: Array, offset: Array, w: Array, mask: Array, stride: int, padding: int, groups: int) -> Array:
    """Straight from the definition, with two groups of offsets."""
    n, _, rows, columns = offset.shape
    out, per, kh, kw = w.shape
    half = x.shape[1] // 2
    result = np.zeros((n, out, rows, columns))
    for b, y, z, i, j in itertools.product(range(n), range(rows), range(columns), range(kh), range(kw)):
        tap = i * kw + j
        seen = np.zeros(x.shape[1])
        for g in range(2):
            at = g * kh * kw + tap
            dy, dx = offset[b, 2 * at, y, z], offset[b, 2 * at + 1, y, z]
            place = (y * stride + i - padding + dy, z * stride + j - padding + dx)
            seen[g * half : (g + 1) * half] = bilinear(x[b, g * half : (g + 1) * half], *place) * mask[b, at, y, z]
        for o in range(out):
            first = o // (out // groups) * per
            result[b, o, y, z] += seen[first : first + per] @ w[o, :, i, j]
    return result


def test_deform_conv2d() -> None:
    x, w, b = RNG.normal(size=(2, 4, 5, 4)), RNG.normal(size=(4, 2, 3, 2)), RNG.normal(size=4)
    offset, mask = RNG.normal(size=(2, 24, 3, 3)), RNG.uniform(size=(2, 12, 3, 3))
    expected = deformed(x, offset, w, mask, 2, 1, 2) + b[:, None, None]

    def function(*operands: Tensor) -> Tensor:
        x, offset, w, b, mask = operands
        return deform_conv2d(x, offset, w, b, 2, 1, 1, mask, 2, 2)

    found = function(*map(tensor, (x, offset, w, b, mask)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11, atol=1e-12)
    check_gradient(function, x, offset, w, b, mask)


def test_without_offsets_it_is_a_convolution() -> None:
    x, w = tensor(RNG.normal(size=(1, 2, 5, 6))), tensor(RNG.normal(size=(3, 2, 3, 2)))
    found = deform_conv2d(x, tensor(np.zeros((1, 12, 3, 7))), w, None, (2, 1), 1, (1, 1))
    np.testing.assert_allclose(found.numpy(), conv2d(x, w, None, (2, 1), 1).numpy(), rtol=1e-11, atol=1e-12)
    with pytest.raises(ShapeError, match=r"the offset does not fit[\s\S]*\(1, 12, 4, 5\)"):
        deform_conv2d(x, tensor(np.zeros((1, 12, 3, 4))), w, padding=((1, 0), (0, 0)))
    with pytest.raises(ShapeError, match="the mask does not fit"):
        deform_conv2d(x, tensor(np.zeros((1, 12, 3, 5))), w, mask=tensor(np.zeros((1, 5, 3, 5))))
    with pytest.raises(ShapeError, match="bad offset_groups"):
        deform_conv2d(x, tensor(np.zeros((1, 12, 3, 5))), w, offset_groups=3)
    with pytest.raises(DTypeError, match="offset must be floating"):
        deform_conv2d(x, tensor(np.zeros((1, 12, 3, 5), np.int32)), w)


# ---- errors ------------------------------------------------------------------------------------------------------


def test_what_does_not_fit() -> None:
    x, w = tensor(np.ones((1, 2, 4, 4))), tensor(np.ones((3, 2, 2, 2)))
    with pytest.raises(ShapeError, match="bad padding"):
        conv2d(x, w, padding=((1, 2, 3), 1))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"rank 5: \(N, C, D, H, W\)"):
        conv3d(x, w)
    with pytest.raises(ShapeError, match="channels do not fit"):
        conv_transpose1d(tensor(np.ones((1, 3, 4))), tensor(np.ones((2, 2, 2))))
    with pytest.raises(ShapeError, match="too few elements to reflect"):
        pad(x, [4], mode="reflect")
    with pytest.raises(ShapeError, match="too few elements to circular"):
        pad(x, [5], mode="circular")
    with pytest.raises(UserError, match="no such mode"):
        pad(x, [1], mode="mirror")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="not the windows of such an image"):
        fold(tensor(np.ones((1, 8, 5))), 3, 2)
    with pytest.raises(ShapeError, match="window is larger"):
        unfold(x, 5)
    with pytest.raises(ShapeError, match="a multiple of 9 channels"):
        pixel_shuffle(x, 3)
    with pytest.raises(ShapeError, match="multiples of 3"):
        pixel_unshuffle(x, 3)
    with pytest.raises(ShapeError, match="a multiple of 3 channels"):
        channel_shuffle(x, 3)
