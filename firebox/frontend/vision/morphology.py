"""Erosion and dilation of images (.., H, W), as in OpenCV."""

from typing import Any

import numpy as np

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.shape import narrow
from firebox.frontend.functions.support import static_size
from firebox.frontend.tensor import Tensor, as_tensor
from firebox.frontend.vision.borders import bordered, check_image

Point = tuple[int, int]


def structuring_element(shape: str, size: Point, anchor: Point | None = None) -> Tensor:
    """A kernel (h, w) of bools: ``"rect"``, ``"cross"`` through the anchor, or ``"ellipse"`` inside of the size.

    Raises:
        UserError: another shape, no size, or an anchor outside.
    """
    h, w = size
    if h < 1 or w < 1:
        raise UserError("not a size", op="structuring_element", expected="1 or more", found=size)
    row, column = _anchor("structuring_element", size, anchor)
    found = np.ones((h, w), bool)
    if shape == "cross":
        found = np.zeros((h, w), bool)
        found[row], found[:, column] = True, True
    elif shape == "ellipse":
        r, c = h // 2, w // 2
        for k in range(h):
            reach = round(c * np.sqrt(max(r * r - (k - r) ** 2, 0)) / r) if r else c
            found[k] = np.abs(np.arange(w) - c) <= reach
    elif shape != "rect":
        raise UserError("no such shape", op="structuring_element", expected="rect, cross or ellipse", found=repr(shape))
    return as_tensor(found)


def _anchor(op: str, size: Point, anchor: Point | None) -> Point:
    found = (size[0] // 2, size[1] // 2) if anchor is None else anchor
    if not all(0 <= a < n for a, n in zip(found, size, strict=True)):
        raise UserError("the anchor is outside", op=op, expected=f"inside of {size}", found=found)
    return found


@accepting
def erode(
    x: Tensor,
    kernel: Any,
    anchor: Point | None = None,
    iterations: int = 1,
    border: str = "constant",
    border_value: Any = None,
) -> Tensor:
    """Every element the smallest of those that the kernel covers.

    Args:
        kernel: (h, w), what is not 0 counts; known when traced.
        anchor: the element of the kernel that lies on the element at hand; by default the middle one.
        iterations: how often.
        border: ``"constant"``, ``"replicate"``, ``"reflect"`` or ``"reflect101"``.
        border_value: of constant borders; by default one that never wins.

    Raises:
        ShapeError: no image, or no kernel. UserError: another border, or an anchor outside.
    """
    return _morphed("erode", x, kernel, anchor, iterations, border, border_value)


@accepting
def dilate(
    x: Tensor,
    kernel: Any,
    anchor: Point | None = None,
    iterations: int = 1,
    border: str = "constant",
    border_value: Any = None,
) -> Tensor:
    """Every element the largest of those that the kernel covers; see `erode`."""
    return _morphed("dilate", x, kernel, anchor, iterations, border, border_value)


def _morphed(
    op: str, x: Tensor, kernel: Any, anchor: Point | None, iterations: int, border: str, border_value: Any
) -> Tensor:
    check_image(op, x)
    taps = np.asarray(kernel).astype(bool)
    if taps.ndim != 2 or not taps.any():
        raise ShapeError("not a kernel", op=op, expected="(h, w) with an element that counts", found=taps.shape)
    if iterations < 0:
        raise UserError("a negative number of iterations", op=op, expected="0 or more", found=iterations)
    h, w = taps.shape
    row, column = _anchor(op, (h, w), anchor)
    value = _loser(op, x) if border_value is None else border_value
    height, width = static_size(op, x, -2), static_size(op, x, -1)
    for _ in range(iterations):
        around = bordered(op, x, ((row, h - 1 - row), (column, w - 1 - column)), border, value)
        parts = [narrow(narrow(around, -2, i, i + height), -1, j, j + width) for i, j in np.argwhere(taps).tolist()]
        x = parts[0]
        for part in parts[1:]:
            x = _joined(op, x, part)
    return x


def _joined(op: str, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype.is_bool:
        return a & b if op == "erode" else a | b
    return a.minimum(b) if op == "erode" else a.maximum(b)


def _loser(op: str, x: Tensor) -> Any:
    """A value that no other loses against."""
    if x.dtype.is_bool:
        return op == "erode"
    if x.dtype.is_float:
        return float("inf") if op == "erode" else float("-inf")
    info = np.iinfo(x.dtype.numpy.char)
    return int(info.max if op == "erode" else info.min)
