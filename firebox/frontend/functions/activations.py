"""Activation functions, element by element; formulas are PyTorch's where no source is named."""

import math
from typing import Literal

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.shape import narrow
from firebox.frontend.functions.support import A, as_float, one_node

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@one_node
def relu(x: A) -> A:
    """max(x, 0), with gradient 0 at 0; NaN stays NaN."""
    return (x <= 0).where(0, x)


@one_node
def relu6(x: A) -> A:
    """min(max(x, 0), 6)."""
    return x.clip(0, 6)


@one_node
def leaky_relu(x: A, negative_slope: float = 0.01) -> A:
    """x for x > 0, else negative_slope * x."""
    x = as_float(x)
    return (x > 0).where(x, x * negative_slope)


@one_node
def prelu(x: A, weight: A) -> A:
    """x for x > 0, else weight * x; a ``weight`` of more than one element belongs to axis 1.

    Raises:
        ShapeError: the number of weights is neither 1 nor ``x.shape[1]``.
    """
    if weight.size != 1:
        if x.rank < 2 or weight.shape != (x.shape[1],):
            raise ShapeError("one weight, or one a channel", op="prelu", expected=x.shape[1:2], found=weight.shape)
        weight = weight.reshape((-1, *(1,) * (x.rank - 2)))
    return (x > 0).where(x, x * weight)


def sigmoid(x: A) -> A:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


def tanh(x: A) -> A:
    """Hyperbolic tangent."""
    return x.tanh()


@one_node
def silu(x: A) -> A:
    """x * sigmoid(x), also called swish."""
    x = as_float(x)
    return x * x.sigmoid()


@one_node
def gelu(x: A, approximate: Literal["none", "tanh"] = "none") -> A:
    """x * Phi(x), Phi the normal distribution function; ``"tanh"`` is the approximation of Hendrycks and Gimpel.

    Raises:
        UserError: ``approximate`` is neither ``"none"`` nor ``"tanh"``.
    """
    x = as_float(x)
    if approximate == "none":
        return x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1.0)
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (inner.tanh() + 1.0)
    raise UserError("no such approximation", op="gelu", expected="'none' or 'tanh'", found=repr(approximate))


@one_node
def softplus(x: A, beta: float = 1.0) -> A:
    """log(1 + exp(beta * x)) / beta, without overflow and with the exact gradient everywhere."""
    z = as_float(x) * beta if beta != 1.0 else as_float(x)
    positive = z > 0
    tail = positive.where(-z, z)  # -|z|, but with slope 1 at 0, so that the gradient there is 1/2
    result = positive.where(z, 0) + tail.exp().log1p()
    return result / beta if beta != 1.0 else result


@one_node
def log_sigmoid(x: A) -> A:
    """log(sigmoid(x)) = -softplus(-x)."""
    return -softplus(-as_float(x))


@one_node
def elu(x: A, alpha: float = 1.0) -> A:
    """x for x > 0, else alpha * (exp(x) - 1)."""
    x = as_float(x)
    positive = x > 0
    low = positive.where(0, x)  # keeps exp from overflowing where its value is not used
    return positive.where(x, low.expm1() * alpha)


@one_node
def celu(x: A, alpha: float = 1.0) -> A:
    """x for x > 0, else alpha * (exp(x / alpha) - 1)."""
    x = as_float(x)
    positive = x > 0
    low = positive.where(0, x)
    return positive.where(x, (low / alpha).expm1() * alpha)


@one_node
def selu(x: A) -> A:
    """scale * elu(x, alpha) with the constants of Klambauer et al. 2017."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


@one_node
def mish(x: A) -> A:
    """x * tanh(softplus(x))."""
    return as_float(x) * softplus(x).tanh()


@one_node
def softsign(x: A) -> A:
    """x / (1 + |x|)."""
    x = as_float(x)
    return x / (x.abs() + 1.0)


@one_node
def hard_tanh(x: A, low: float = -1.0, high: float = 1.0) -> A:
    """x held between ``low`` and ``high``."""
    return as_float(x).clip(low, high)


@one_node
def hard_sigmoid(x: A, slope: float = 1 / 6, shift: float = 0.5) -> A:
    """min(max(slope * x + shift, 0), 1)."""
    return (as_float(x) * slope + shift).clip(0.0, 1.0)


@one_node
def hard_swish(x: A) -> A:
    """x * hard_sigmoid(x)."""
    return as_float(x) * hard_sigmoid(x)


@one_node
def threshold(x: A, threshold: float, value: float) -> A:
    """x for x > threshold, else ``value``; NaN stays NaN."""
    return (x <= threshold).where(value, x)


@one_node
def tanh_shrink(x: A) -> A:
    """x - tanh(x)."""
    x = as_float(x)
    return x - x.tanh()


@one_node
def shrink(x: A, lambd: float = 0.5, bias: float = 0.0) -> A:
    """x - bias for x > lambd, x + bias for x < -lambd, else 0; NaN stays NaN (ONNX's Shrink)."""
    x = as_float(x)
    moved = x if bias == 0 else (x > 0).where(x - bias, x + bias)
    return (x.abs() <= lambd).where(0.0, moved)


def hard_shrink(x: A, lambd: float = 0.5) -> A:
    """x for |x| > lambd, else 0."""
    return shrink(x, lambd)


def soft_shrink(x: A, lambd: float = 0.5) -> A:
    """x moved towards 0 by ``lambd``, but not past it."""
    return shrink(x, lambd, lambd)


@one_node
def glu(x: A, axis: int = -1) -> A:
    """a * sigmoid(b), where a and b are the first and the second half of an axis.

    Raises:
        ShapeError: the axis has an odd or symbolic size.
    """
    first, second = _halves("glu", x, axis)
    return first * second.sigmoid()


@one_node
def swiglu(x: A, axis: int = -1) -> A:
    """silu(a) * b, where a and b are the first and the second half of an axis (Shazeer 2020).

    Raises:
        ShapeError: the axis has an odd or symbolic size.
    """
    first, second = _halves("swiglu", x, axis)
    return silu(first) * second


def _halves(op: str, x: A, axis: int) -> tuple[A, A]:
    (at,) = x.axes(axis)
    size = x.shape[at]
    if not isinstance(size, int) or size % 2:
        raise ShapeError("the axis must have an even size", op=op, found=f"size {size} at axis {at}")
    return narrow(x, at, 0, size // 2), narrow(x, at, size // 2, size)
