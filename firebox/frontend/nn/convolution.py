"""Convolution layers in PyTorch's layout: (N, C, spatial..); weights (out, in / groups, kernel..)."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

from firebox.errors import ShapeError, UserError
from firebox.frontend.cells import Param
from firebox.frontend.functions import convolution as F
from firebox.frontend.functions.convolution import Padding
from firebox.frontend.functions.deform_conv import deform_conv2d
from firebox.frontend.functions.padding import pad
from firebox.frontend.functions.spatial import LAYOUTS, Ints, Widths, pairs_of
from firebox.frontend.functions.support import require_rank, tuple_of
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module, value_of
from firebox.frontend.tensor import Tensor

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


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
        padding_mode: PaddingMode = "zeros",
        dtype: object = None,
        device: object = None,
    ) -> None:
        name = type(self).__name__
        if padding_mode not in get_args(PaddingMode):
            expected = ", ".join(map(repr, get_args(PaddingMode)))
            raise UserError("no such padding_mode", op=name, expected=expected, found=repr(padding_mode))
        if in_channels % groups or out_channels % groups:
            found = f"{in_channels} in, {out_channels} out, {groups} groups"
            raise ShapeError("channels must be multiples of groups", op=name, found=found)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = tuple_of(name, kernel_size, self.spatial, "kernel_size", 1)
        self.stride = tuple_of(name, stride, self.spatial, "stride", 1)
        self.padding = padding
        self.padding_mode: PaddingMode = padding_mode
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


class _Forward(_Convolution):
    """A convolution in the direction of its name; ``function`` has the number of dims."""

    function: ClassVar[Callable[..., Any]]

    def forward(self, x: Tensor) -> Tensor:
        padding: Padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = self._padded(x), 0
        options = (self.stride, padding, self.dilation, self.groups)
        result: Tensor = type(self).function(x, self.weight.value, value_of(self.bias), *options)
        return result

    def _padded(self, x: Tensor) -> Tensor:
        """The input with its own elements around it, where the padding is not zeros."""
        name = type(self).__name__
        require_rank(name, x, self.spatial + 2, LAYOUTS[self.spatial])
        spans = tuple(d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True))
        low, high = F.paddings(name, self.padding, x.shape[2:], spans, self.stride)
        mode: Any = self.padding_mode
        return pad(x, tuple(zip(low, high, strict=True)), mode=mode)


class Conv1d(_Forward):
    """Cross-correlation over (N, C, L).

    ``padding`` is a number, a pair (before, after), ``"same"`` or ``"valid"``; ``padding_mode`` is ``"zeros"``,
    ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """

    spatial = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    """Cross-correlation over (N, C, H, W).

    ``padding`` is a number, one or a pair (before, after) for each dim, ``"same"`` or ``"valid"``; ``padding_mode`` is
    ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """

    spatial = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    """Cross-correlation over (N, C, D, H, W); padding as in `Conv2d`."""

    spatial = 3
    function = staticmethod(F.conv3d)


class _Transposed(_Convolution):
    """The transpose of a convolution, from its outputs to its inputs."""

    transposed = True
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Widths = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        dtype: object = None,
        device: object = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, "zeros", dtype, device
        )
        self.widths = pairs_of(type(self).__name__, padding, self.spatial, "padding")
        self.output_padding = tuple_of(type(self).__name__, output_padding, self.spatial, "output_padding", 0)

    def forward(self, x: Tensor) -> Tensor:
        options = (self.stride, self.widths, self.output_padding, self.groups, self.dilation)
        result: Tensor = type(self).function(x, self.weight.value, value_of(self.bias), *options)
        return result


class ConvTranspose1d(_Transposed):
    """The transpose of a `Conv1d` from (N, out, L) to (N, in, L'); ``weight`` is (in, out / groups, kernel)."""

    spatial = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """The transpose of a `Conv2d` from (N, out, ..) to (N, in, ..); ``weight`` is (in, out / groups, kernel..)."""

    spatial = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """The transpose of a `Conv3d` from (N, out, ..) to (N, in, ..); ``weight`` is (in, out / groups, kernel..)."""

    spatial = 3
    function = staticmethod(F.conv_transpose3d)


class DeformConv2d(_Convolution):
    """A `Conv2d` whose taps are moved by offsets and scaled by a mask, which are inputs; see `deform_conv2d`."""

    spatial = 2

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
        offset_groups: int = 1,
        dtype: object = None,
        device: object = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, "zeros", dtype, device
        )
        self.offset_groups = offset_groups

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        options = (self.stride, self.padding, self.dilation, mask, self.groups, self.offset_groups)
        return deform_conv2d(x, offset, self.weight.value, value_of(self.bias), *options)
