"""Filters of images (.., H, W): sums, means and medians of windows; borders are those of `borders`."""

import numpy as np

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.convolution import conv2d
from firebox.frontend.functions.shape import narrow, sort, stack
from firebox.frontend.functions.support import as_float, shape_text, static_size
from firebox.frontend.tensor import Tensor, as_tensor
from firebox.frontend.vision.borders import bordered, check_image


def _around(size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Widths before and after, so that windows of the size stand around every element."""
    (h, w) = size
    return (h // 2, (h - 1) // 2), (w // 2, (w - 1) // 2)


def _size(op: str, size: int | tuple[int, int]) -> tuple[int, int]:
    h, w = (size, size) if isinstance(size, int) else size
    if h < 1 or w < 1:
        raise UserError("not a size", op=op, expected="1 or more", found=size)
    return h, w


@accepting
def filter2d(x: Tensor, kernel: Tensor, border: str = "reflect101") -> Tensor:
    """Every element the sum of the window around it times the kernel (h, w), which is not mirrored.

    Raises:
        ShapeError: a kernel that is no matrix. UserError: another border.
    """
    check_image("filter2d", x)
    if kernel.rank != 2:
        raise ShapeError("the kernel is no matrix", op="filter2d", expected="(h, w)", found=shape_text(kernel))
    x = as_float(x)
    h, w = static_size("filter2d", kernel, 0), static_size("filter2d", kernel, 1)
    padded = bordered("filter2d", x, _around((h, w)), border, 0.0)
    images = padded.reshape((-1, 1, *padded.shape[-2:]))
    return conv2d(images, kernel.astype(x.dtype).reshape((1, 1, h, w))).reshape(x.shape)


@accepting
def box_blur(x: Tensor, size: int | tuple[int, int] = 3, border: str = "reflect101") -> Tensor:
    """Every element the mean of the window around it."""
    h, w = _size("box_blur", size)
    x = as_float(x)
    kernel = as_tensor(np.full((h, w), 1.0 / (h * w), x.dtype.numpy), x.device)
    found: Tensor = filter2d(x, kernel, border)
    return found


@accepting
def median_blur(x: Tensor, size: int = 3, border: str = "replicate") -> Tensor:
    """Every element the median of the square window around it.

    Raises:
        UserError: an even size. ShapeError: no image.
    """
    check_image("median_blur", x)
    if size < 1 or size % 2 == 0:
        raise UserError("not a size", op="median_blur", expected="an odd number", found=size)
    padded = bordered("median_blur", x, _around((size, size)), border, 0)
    height, width = static_size("median_blur", x, -2), static_size("median_blur", x, -1)
    rows = [narrow(padded, -2, k, k + height) for k in range(size)]
    taps = stack([narrow(row, -1, k, k + width) for row in rows for k in range(size)], -1)
    middle = size * size // 2
    return narrow(sort(taps, -1), -1, middle, middle + 1).squeeze(-1)


@accepting
def gram_matrix(x: Tensor) -> Tensor:
    """Products of all pairs of channels (N, C, C) of features (N, C, H, W), divided by C H W."""
    if x.rank != 4:
        raise ShapeError("not features", op="gram_matrix", expected="(N, C, H, W)", found=shape_text(x))
    flat = x.reshape((*x.shape[:2], -1))
    return flat @ flat.swapaxes(1, 2) / x.size_of(x.size) * x.size_of(x.shape[0])
