"""Pooling layers over (N, C, spatial..); the stride defaults to the window."""

from collections.abc import Callable
from typing import Any, ClassVar

from firebox.frontend.functions import adaptive_pooling as A
from firebox.frontend.functions import pooling as F
from firebox.frontend.functions.adaptive_pooling import Sizes
from firebox.frontend.functions.spatial import Ints
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class _MaxPool(Module):
    """The maximum of each window; ``ceil_mode`` lets a last window reach over the end."""

    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        options = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        result: Tensor = type(self).function(x, *options)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_MaxPool):
    """The maximum of each window of (N, C, L)."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The maximum of each window of (N, C, H, W)."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The maximum of each window of (N, C, D, H, W)."""

    function = staticmethod(F.max_pool3d)


class _MaxUnpool(Module):
    """Elements back to where a pool with indices took them from, zeros elsewhere."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding

    def forward(self, x: Tensor, indices: Tensor, output_size: Ints | None = None) -> Tensor:
        options = (self.kernel_size, self.stride, self.padding, output_size)
        result: Tensor = type(self).function(x, indices, *options)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The inverse of `max_pool1d_with_indices`."""

    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """The inverse of `max_pool2d_with_indices`."""

    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The inverse of `max_pool3d_with_indices`."""

    function = staticmethod(F.max_unpool3d)


class _AvgPool(Module):
    """The mean of each window."""

    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        count_include_pad: bool = True,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.count_include_pad = count_include_pad
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        options = (self.kernel_size, self.stride, self.padding, self.count_include_pad, self.ceil_mode)
        result: Tensor = type(self).function(x, *options)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of (N, C, L)."""

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    function = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    """sum(|x|^p)^(1/p) of each window."""

    function: ClassVar[Callable[..., Any]]

    def __init__(
        self, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = type(self).function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
        return result

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}"


class LPPool1d(_LPPool):
    """The p-norm of each window of (N, C, L)."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """The p-norm of each window of (N, C, H, W)."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """The p-norm of each window of (N, C, D, H, W)."""

    function = staticmethod(F.lp_pool3d)


class _Adaptive(Module):
    """A pool over windows chosen so that the output has the given size."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = type(self).function(x, self.output_size)
        return result

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means over (N, C, L), to a given size."""

    function = staticmethod(A.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """Means over (N, C, H, W), to a given size."""

    function = staticmethod(A.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """Means over (N, C, D, H, W), to a given size."""

    function = staticmethod(A.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Adaptive):
    """Maxima over (N, C, L), to a given size."""

    function = staticmethod(A.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    """Maxima over (N, C, H, W), to a given size."""

    function = staticmethod(A.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Adaptive):
    """Maxima over (N, C, D, H, W), to a given size."""

    function = staticmethod(A.adaptive_max_pool3d)
