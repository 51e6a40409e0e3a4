"""What functions over spatial dims share: layouts, sizes and paddings for one, two and three of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firebox import dims
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.params import Literal
from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend.functions.support import A, require_rank, shape_text, tuple_of

Ints = int | Sequence[int]
Widths = int | Sequence[int | tuple[int, int]]
"""Padding: one number, one for each spatial dim, or (before, after) for each."""

LAYOUTS = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def pairs_of(op: str, value: Widths, count: int, what: str) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial dim.

    Raises:
        ShapeError: another count, or a negative number.
    """
    entries = (value,) * count if isinstance(value, int) else tuple(value)
    pairs = tuple((e, e) if isinstance(e, int) else tuple(e) for e in entries)
    if len(pairs) != count or any(len(p) != 2 or min(p) < 0 for p in pairs):
        expected = f"{count} integers >= 0, or pairs of them, or one integer"
        raise ShapeError(f"bad {what}", op=op, expected=expected, found=value)
    return tuple((p[0], p[1]) for p in pairs)


def by_channel(x: A, rank: int) -> A:
    """A vector over axis 1 of an array of that rank, shaped to broadcast."""
    return x.reshape((-1, *(1,) * (rank - 2)))


@dataclass(frozen=True)
class Windows:
    """Windows over the last dims of an array (N, C, spatial..).

    Attributes:
        shape: sizes of the spatial dims.
        sizes, strides, dilations, low: one entry for each of them; ``low`` is the padding before.
        high: the padding after; with ``ceil_mode`` as much as the last window needs.
        padded: the padding after that was asked for.
        counts: numbers of windows.
    """

    shape: tuple[DimLike, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    padded: tuple[int, ...]
    counts: tuple[DimLike, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def of(self, x: A, fill: Any) -> A:
        """All windows, (N, C, counts.., sizes..); what lies outside is ``fill``."""
        return x.one(
            "window",
            x,
            axes=tuple(range(2, 2 + self.rank)),
            sizes=self.sizes,
            strides=self.strides,
            dilations=self.dilations,
            low=self.low,
            high=self.high,
            value=Literal.of(np.asarray(fill).astype(x.dtype.numpy)),
        )

    def folded(self, windows: A, shape: Sequence[DimLike]) -> A:
        """The transpose of `of`: windows added up where they overlap, as an array of the shape."""
        return windows.one(
            "fold_window",
            windows,
            shape=tuple(shape),
            axes=tuple(range(2, 2 + self.rank)),
            sizes=self.sizes,
            strides=self.strides,
            dilations=self.dilations,
            low=self.low,
            high=self.high,
        )


def windows_over(
    op: str,
    x: ArrayLike,
    rank: int,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool = False,
) -> Windows:
    """Windows over ``rank`` spatial dims of (N, C, spatial..), as pooling takes them.

    Args:
        stride: None is the window's size.
        ceil_mode: a last window may reach over the end, as long as it starts before it.

    Raises:
        ShapeError: another rank, a window larger than the padded array, padding of more than half a window, or
            ``ceil_mode`` with a symbolic size.
    """
    require_rank(op, x, rank + 2, LAYOUTS[rank])
    return windows_of(op, x.shape[2:], kernel, stride, padding, dilation, ceil_mode, shape_text(x))


def windows_of(
    op: str,
    shape: Sequence[DimLike],
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    found: str,
    half: bool = True,
) -> Windows:
    """`windows_over` of spatial dims of the sizes ``shape``; without ``half`` padding may be of any width.

    Args:
        found: what errors say was given.
    """
    rank = len(shape)
    sizes = tuple_of(op, kernel, rank, "kernel_size", 1)
    strides = sizes if stride is None else tuple_of(op, stride, rank, "stride", 1)
    dilations, pads = tuple_of(op, dilation, rank, "dilation", 1), tuple_of(op, padding, rank, "padding", 0)
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilations, sizes, strict=True))
    if half and any(2 * p > span for p, span in zip(pads, spans, strict=True)):
        raise ShapeError("padding is at most half of the window", op=op, expected=f"<= {spans} / 2", found=pads)
    counts: list[DimLike] = []
    high: list[int] = []
    for size, span, s, pad in zip(shape, spans, strides, pads, strict=True):
        _check_fits(op, size + 2 * pad, span, found)
        count, after = (_ceil if ceil_mode else _floor)(op, size, span, s, pad)
        counts.append(count)
        high.append(after)
    return Windows(tuple(shape), sizes, strides, dilations, pads, tuple(high), pads, tuple(counts))


def _check_fits(op: str, size: DimLike, span: int, found: str) -> None:
    if isinstance(size, int) and size < span:
        expected = f"at least {span} elements in a dim"
        raise ShapeError("the window is larger than the padded input", op=op, expected=expected, found=found)


def _floor(op: str, size: DimLike, span: int, stride: int, pad: int) -> tuple[DimLike, int]:
    """The number of windows and the padding after them."""
    return dims.floordiv(size + 2 * pad - span, stride) + 1, pad


def _ceil(op: str, size: DimLike, span: int, stride: int, pad: int) -> tuple[DimLike, int]:
    """`_floor` with a last window that reaches over the end, if it starts before the end."""
    if not isinstance(size, int):
        raise ShapeError("ceil_mode needs sizes known when traced", op=op, expected="an integer", found=str(size))
    count = -(-(size + 2 * pad - span) // stride) + 1
    count -= (count - 1) * stride >= size + pad
    return count, max(pad, (count - 1) * stride + span - size - pad)


def require_spatial(op: str, x: ArrayLike) -> int:
    """The number of spatial dims of (N, C, spatial..).

    Raises:
        ShapeError: it is not 1, 2 or 3.
    """
    if x.rank - 2 not in LAYOUTS:
        expected = ", ".join(LAYOUTS.values())
        raise ShapeError("wrong number of dims", op=op, expected=expected, found=shape_text(x))
    return x.rank - 2
