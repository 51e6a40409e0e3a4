"""Layers that draw random numbers in training: `Dropout`, of elements and of channels, `GaussianNoise`, `RReLU`."""

from collections.abc import Callable
from typing import Any, ClassVar

from firebox.errors import UserError
from firebox.frontend.functions import dropout as F
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class _Dropout(Module):
    """What depends on a probability only."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, p: float = 0.5) -> None:
        F.check_probability(type(self).__name__, p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = type(self).function(x, self.p, self.training)
        return result

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout(_Dropout):
    """In training each element is 0 with probability ``p``, the others are scaled by 1 / (1 - p); else the input."""

    function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """In training each channel of (N, C, L) is 0 as a whole with probability ``p``."""

    function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """In training each channel of (N, C, H, W) is 0 as a whole with probability ``p``."""

    function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """In training each channel of (N, C, D, H, W) is 0 as a whole with probability ``p``."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what comes out of `SELU`."""

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels (axis 1)."""

    function = staticmethod(F.feature_alpha_dropout)


class GaussianNoise(Module):
    """In training the input plus normally distributed numbers; else the input."""

    def __init__(self, std: float) -> None:
        if std < 0:
            raise UserError("bad std", op="GaussianNoise", expected="a number >= 0", found=std)
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        return F.gaussian_noise(x, self.std, self.training)

    def extra_repr(self) -> str:
        return f"std={self.std}"


class RReLU(Module):
    """x for x > 0, else x times a slope: random for each element in training, else the mean of the bounds."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        self.lower = lower
        self.upper = upper

    def forward(self, x: Tensor) -> Tensor:
        return F.rrelu(x, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"
