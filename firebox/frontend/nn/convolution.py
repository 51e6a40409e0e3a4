"""Convolution layers in PyTorch's layout: (N, C, L) and (N, C, H, W); weights (out, in / groups, kernel..)."""

from collections.abc import Sequence

from firebox.errors import ShapeError
from firebox.frontend.cells import Param
from firebox.frontend.functions import convolution as F
from firebox.frontend.functions.convolution import Padding
from firebox.frontend.functions.support import tuple_of
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module, value_of
from firebox.frontend.tensor import Tensor

Ints = int | Sequence[int]


class _Convolution(Module):
    """What convolutions share; ``spatial`` is the number of spatial dims, ``transposed`` the direction."""

    spatial: int
    transposed: bool = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        name = type(self).__name__
        if in_channels % groups or out_channels % groups:
            found = f"{in_channels} in, {out_channels} out, {groups} groups"
            raise ShapeError("channels must be multiples of groups", op=name, found=found)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = tuple_of(name, kernel_size, self.spatial, "kernel_size", 1)
        self.stride = tuple_of(name, stride, self.spatial, "stride", 1)
        self.padding = padding
        self.dilation = tuple_of(name, dilation, self.spatial, "dilation", 1)
        self.groups = groups
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = init.fans(shape)[0]
        self.weight = Param(init.kaiming_uniform(shape, fan_in, dtype, device))
        self.bias = Param(init.fan_uniform((out_channels,), fan_in, dtype, device)) if bias else None

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"]
        defaults = (("stride", (1,) * self.spatial), ("padding", 0), ("dilation", (1,) * self.spatial), ("groups", 1))
        parts += [f"{name}={getattr(self, name)}" for name, usual in defaults if getattr(self, name) != usual]
        return ", ".join(parts if self.bias is not None else [*parts, "bias=False"])


class Conv1d(_Convolution):
    """Cross-correlation over (N, C, L); ``padding`` is a number, ``"same"`` or ``"valid"``."""

    spatial = 1

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(
            x, self.weight.value, value_of(self.bias), self.stride, self.padding, self.dilation, self.groups
        )


class Conv2d(_Convolution):
    """Cross-correlation over (N, C, H, W); ``padding`` is a number, a pair, ``"same"`` or ``"valid"``."""

    spatial = 2

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(
            x, self.weight.value, value_of(self.bias), self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose2d(_Convolution):
    """The transpose of a `Conv2d` from (N, out, ..) to (N, in, ..); ``weight`` is (in, out / groups, kernel..)."""

    spatial = 2
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        dtype: object = None,
        device: object = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype, device)
        self.output_padding = tuple_of(type(self).__name__, output_padding, 2, "output_padding", 0)

    def forward(self, x: Tensor) -> Tensor:
        padding = tuple_of("ConvTranspose2d", self.padding, 2, "padding", 0)  # type: ignore[arg-type]
        return F.conv_transpose2d(
            x,
            self.weight.value,
            value_of(self.bias),
            self.stride,
            padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )
