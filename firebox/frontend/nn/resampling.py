"""Layers that move or resample positions: windows, pixels, padding, interpolation."""

from collections.abc import Sequence
from typing import Any

from firebox.frontend.functions import unfold as F
from firebox.frontend.functions.interpolate import Mode, interpolate
from firebox.frontend.functions.padding import PadMode, pad
from firebox.frontend.functions.spatial import Ints
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class Unfold(Module):
    """Every window of (N, C, H, W) as a column: (N, C * elements of the window, windows)."""

    def __init__(self, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> None:
        self.options = (kernel_size, dilation, padding, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.unfold(x, *self.options)

    def extra_repr(self) -> str:
        return "kernel_size={}, dilation={}, padding={}, stride={}".format(*self.options)


class Fold(Module):
    """Columns added up into an image: the transpose of `Unfold`."""

    def __init__(
        self, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
    ) -> None:
        self.options = (output_size, kernel_size, dilation, padding, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.fold(x, *self.options)

    def extra_repr(self) -> str:
        return "output_size={}, kernel_size={}, dilation={}, padding={}, stride={}".format(*self.options)


class PixelShuffle(Module):
    """Channels to positions: (.., C * factor^2, H, W) to (.., C, H * factor, W * factor)."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, self.factor)

    def extra_repr(self) -> str:
        return f"factor={self.factor}"


class PixelUnshuffle(PixelShuffle):
    """Positions to channels: the inverse of `PixelShuffle`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(x, self.factor)


class ChannelShuffle(Module):
    """Channels of several groups interleaved."""

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return F.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Pad(Module):
    """The last dims padded with a value or with their own elements; arguments as in `pad`."""

    def __init__(self, widths: Sequence[int | tuple[int, int]], value: float = 0.0, mode: PadMode = "constant") -> None:
        self.widths = tuple(widths)
        self.value = value
        self.mode: PadMode = mode

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, self.widths, self.value, self.mode)

    def extra_repr(self) -> str:
        return f"{self.widths}, value={self.value}, mode={self.mode!r}"


class Upsample(Module):
    """The spatial dims resampled to a size or by a factor; arguments as in `interpolate`."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: Mode = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        self.size: Any = size if size is None or isinstance(size, int) else tuple(size)
        self.scale_factor: Any = tuple(scale_factor) if isinstance(scale_factor, Sequence) else scale_factor
        self.mode: Mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners, self.antialias)

    def extra_repr(self) -> str:
        return f"size={self.size}, scale_factor={self.scale_factor}, mode={self.mode!r}"
