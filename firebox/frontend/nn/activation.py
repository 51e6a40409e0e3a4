"""Activations as modules, for `Sequential`."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from firebox.frontend.functions import activations as F
from firebox.frontend.functions.normalization import log_softmax, quiet_softmax, softmax, softmin
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class _Activation(Module):
    """A function of one tensor without settings."""

    function: ClassVar[Callable[..., Any]]

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = type(self).function(x)
        return result


class ReLU(_Activation):
    """max(x, 0)."""

    function = staticmethod(F.relu)


class ReLU6(_Activation):
    """min(max(x, 0), 6)."""

    function = staticmethod(F.relu6)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    function = staticmethod(F.sigmoid)


class Tanh(_Activation):
    """Hyperbolic tangent."""

    function = staticmethod(F.tanh)


class SiLU(_Activation):
    """x * sigmoid(x)."""

    function = staticmethod(F.silu)


class LogSigmoid(_Activation):
    """log(sigmoid(x))."""

    function = staticmethod(F.log_sigmoid)


class SELU(_Activation):
    """Scaled ELU with fixed constants."""

    function = staticmethod(F.selu)


class Mish(_Activation):
    """x * tanh(softplus(x))."""

    function = staticmethod(F.mish)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class Hardsigmoid(_Activation):
    """min(max(x / 6 + 1/2, 0), 1)."""

    function = staticmethod(F.hard_sigmoid)


class Hardswish(_Activation):
    """x * hard_sigmoid(x)."""

    function = staticmethod(F.hard_swish)


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    function = staticmethod(F.tanh_shrink)


class LeakyReLU(Module):
    """x for x > 0, else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x for x > 0, else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(Module):
    """x for x > 0, else alpha * (exp(x / alpha) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.celu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Threshold(Module):
    """x for x > threshold, else a value."""

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return F.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class Shrink(Module):
    """x - bias for x > lambd, x + bias for x < -lambd, else 0."""

    def __init__(self, lambd: float = 0.5, bias: float = 0.5) -> None:
        self.lambd = lambd
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        return F.shrink(x, self.lambd, self.bias)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}, bias={self.bias}"


class Hardshrink(Shrink):
    """x for |x| > lambd, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd, 0.0)


class Softshrink(Shrink):
    """x moved towards 0 by ``lambd``, but not past it."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd, lambd)


class GELU(Module):
    """x * Phi(x), exact or by tanh."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta."""

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


class Hardtanh(Module):
    """x held between two bounds."""

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        self.low = low
        self.high = high

    def forward(self, x: Tensor) -> Tensor:
        return F.hard_tanh(x, self.low, self.high)

    def extra_repr(self) -> str:
        return f"low={self.low}, high={self.high}"


class GLU(Module):
    """The first half of an axis times the sigmoid of the second."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return softmax(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class LogSoftmax(Softmax):
    """log(softmax(x)) along an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return log_softmax(x, self.axis)


class Softmin(Softmax):
    """softmax(-x) along an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return softmin(x, self.axis)


class QuietSoftmax(Softmax):
    """exp(x) / (1 + sum(exp(x))) along an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return quiet_softmax(x, self.axis)
