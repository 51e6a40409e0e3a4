"""Pooling over (N, C, H, W): windows (`nd.window`), then a reduction of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from firebox.dialects.nd.ops.monoids import lowest
from firebox.dialects.nd.params import Literal
from firebox.dims import DimLike
from firebox.dtypes import i32, i64
from firebox.errors import ShapeError
from firebox.frontend.functions.support import (
    A,
    arange_like,
    contract,
    equals,
    require_float,
    require_rank,
    shape_text,
    tuple_of,
)

Ints = int | Sequence[int]
_LAYOUT = "(N, C, H, W)"


def max_pool2d(x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1) -> A:
    """The largest element of each window; NaN wins. Padding never does.

    The gradient goes to the first largest element of a window in row-major order, as in PyTorch.

    Raises:
        ShapeError: not four dims, a window larger than the padded image, or padding of more than half a window.
    """
    rows = _windows("max_pool2d", x, kernel_size, stride, padding, dilation, lowest(x.dtype))
    if not getattr(x, "requires_grad", True):  # no gradient, so it does not matter which of equal elements wins
        return rows.max(-1)
    best = rows.argmax(-1, keepdims=True).astype(i32)  # backward keeps these
    chosen = equals(arange_like(rows, rows.shape[-1], best.dtype), best)
    return chosen.where(rows, 0).sum(-1).astype(x.dtype)


def avg_pool2d(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, count_include_pad: bool = True
) -> A:
    """The mean of each window; padding counts as zeros, or not at all.

    Raises:
        ShapeError: as `max_pool2d`. DTypeError: not floating.
    """
    require_float("avg_pool2d", x)
    rows = _windows("avg_pool2d", x, kernel_size, stride, padding, 1, 0)
    if count_include_pad or not any(tuple_of("avg_pool2d", padding, 2, "padding", 0)):
        return rows.mean(-1)
    ones = x.literal(1).broadcast_to((1, 1, *x.shape[2:]))
    return rows.sum(-1) / _windows("avg_pool2d", ones, kernel_size, stride, padding, 1, 0).sum(-1)


def adaptive_avg_pool2d(x: A, output_size: Ints) -> A:
    """Means over output_size windows; window i of a dim of size n reaches from floor(i*n/out) to ceil((i+1)*n/out).

    Raises:
        ShapeError: not four dims, or an output size below 1. DTypeError: not floating.
    """
    require_float("adaptive_avg_pool2d", x)
    require_rank("adaptive_avg_pool2d", x, 4, _LAYOUT)
    height, width = tuple_of("adaptive_avg_pool2d", output_size, 2, "output_size", 1)
    if height == width == 1:
        return x.mean((2, 3), keepdims=True)
    rows = contract(x, _averaging(x, 2, height), "n c h w, i h -> n c i w")
    return contract(rows, _averaging(x, 3, width), "n c i w, j w -> n c i j")


def _averaging(x: A, axis: int, out: int) -> A:
    """The matrix (out, size) that takes the mean over each window of a dim."""
    size = x.shape[axis]
    window = x.one("iota", shape=(out, 1), axis=0, dtype=i64)
    at = x.one("iota", shape=(1, size), axis=1, dtype=i64)
    count = x.one("dim_size", size=(size,), dtype=i64)
    first = window * count // out
    last = ((window + 1) * count + (out - 1)) // out
    inside = ((at >= first) & (at < last)).astype(x.dtype)
    return inside / (last - first).astype(x.dtype)


def _windows(op: str, x: A, kernel: Ints, stride: Ints | None, padding: Ints, dilation: Ints, fill: Any) -> A:
    """All windows, (N, C, rows, columns, elements)."""
    require_rank(op, x, 4, _LAYOUT)
    sizes = tuple_of(op, kernel, 2, "kernel_size", 1)
    pads = tuple_of(op, padding, 2, "padding", 0)
    if any(2 * p > k for p, k in zip(pads, sizes, strict=True)):
        raise ShapeError("padding is at most half of the window", op=op, expected=f"<= {sizes} / 2", found=pads)
    dilations = tuple_of(op, dilation, 2, "dilation", 1)
    for size, pad, k, d in zip(x.shape[2:], pads, sizes, dilations, strict=True):
        _check_fits(op, x, size + 2 * pad, d * (k - 1) + 1)
    windows = x.one(
        "window",
        x,
        axes=(2, 3),
        sizes=sizes,
        strides=sizes if stride is None else tuple_of(op, stride, 2, "stride", 1),
        dilations=dilations,
        low=pads,
        high=pads,
        value=Literal.of(np.asarray(fill).astype(x.dtype.numpy)),
    )
    return windows.flatten(4, 5)


def _check_fits(op: str, x: A, size: DimLike, span: int) -> None:
    if isinstance(size, int) and size < span:
        expected = f"at least {span} rows and columns"
        raise ShapeError("the window is larger than the padded image", op=op, expected=expected, found=shape_text(x))
