"""Functions that are methods of tensors under the names of NumPy and PyTorch: ``fb.exp(x)`` is ``x.exp()``."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.array import Axes
from firebox.dims import DimLike
from firebox.frontend.functions import mathematics
from firebox.frontend.tensor import Tensor, as_tensor


def abs(x: Any) -> Tensor:
    """The magnitude."""
    return as_tensor(x).abs()


absolute = abs


def positive(x: Any) -> Tensor:
    """x itself."""
    return as_tensor(x)


def sign(x: Any) -> Tensor:
    """-1, 0 or 1; NaN stays NaN."""
    return as_tensor(x).sign()


def negative(x: Any) -> Tensor:
    """-x."""
    return -as_tensor(x)


def exp(x: Any) -> Tensor:
    """e to the x."""
    return as_tensor(x).exp()


def expm1(x: Any) -> Tensor:
    """exp(x) - 1, accurate near 0."""
    return as_tensor(x).expm1()


def log(x: Any) -> Tensor:
    """The natural logarithm."""
    return as_tensor(x).log()


def log1p(x: Any) -> Tensor:
    """log(1 + x), accurate near 0."""
    return as_tensor(x).log1p()


def sqrt(x: Any) -> Tensor:
    """The square root; NaN below 0."""
    return as_tensor(x).sqrt()


def rsqrt(x: Any) -> Tensor:
    """1 / sqrt(x)."""
    return as_tensor(x).rsqrt()


def square(x: Any) -> Tensor:
    """x * x."""
    value = as_tensor(x)
    return value * value


def sin(x: Any) -> Tensor:
    """The sine of an angle in radians."""
    return as_tensor(x).sin()


def cos(x: Any) -> Tensor:
    """The cosine of an angle in radians."""
    return as_tensor(x).cos()


def erf(x: Any) -> Tensor:
    """The error function."""
    return as_tensor(x).erf()


def floor(x: Any) -> Tensor:
    """The largest integer not above x."""
    return as_tensor(x).floor()


def ceil(x: Any) -> Tensor:
    """The smallest integer not below x."""
    return as_tensor(x).ceil()


def round(x: Any, decimals: int = 0) -> Tensor:
    """To that many decimals, halves to even."""
    return mathematics.round_to(as_tensor(x), decimals)


def trunc(x: Any) -> Tensor:
    """The integer part."""
    return as_tensor(x).trunc()


def isnan(x: Any) -> Tensor:
    """Whether x is not a number."""
    return as_tensor(x).isnan()


def isinf(x: Any) -> Tensor:
    """Whether x is an infinity."""
    return as_tensor(x).isinf()


def isfinite(x: Any) -> Tensor:
    """Whether x is neither NaN nor an infinity."""
    return as_tensor(x).isfinite()


# ---- reductions --------------------------------------------------------------------------------------------------


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; small integers and bools are summed as i64."""
    return as_tensor(x).sum(axis, keepdims)


def prod(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The product over axes; small integers and bools are multiplied as i64."""
    return as_tensor(x).prod(axis, keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes; NaN wins."""
    return as_tensor(x).max(axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; NaN wins."""
    return as_tensor(x).min(axis, keepdims)


amax, amin = max, min


def any(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether one element over axes is not 0."""
    return as_tensor(x).any(axis, keepdims)


def all(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether no element over axes is 0."""
    return as_tensor(x).all(axis, keepdims)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index (i64) of the first largest element along an axis, or of all elements in one dim."""
    return as_tensor(x).argmax(axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index (i64) of the first smallest element along an axis, or of all elements in one dim."""
    return as_tensor(x).argmin(axis, keepdims)


def cumsum(x: Any, axis: int = 0) -> Tensor:
    """Running sums along an axis."""
    return as_tensor(x).cumsum(axis)


def cumprod(x: Any, axis: int = 0) -> Tensor:
    """Running products along an axis."""
    return as_tensor(x).cumprod(axis)


# ---- shape -------------------------------------------------------------------------------------------------------


def reshape(x: Any, shape: Sequence[DimLike]) -> Tensor:
    """The same elements in row-major order under another shape, of which one size may be -1."""
    return as_tensor(x).reshape(shape)


def transpose(x: Any, axes: Sequence[int] = ()) -> Tensor:
    """The dims in another order; without one, reversed."""
    return as_tensor(x).transpose(tuple(axes))


permute = transpose


def squeeze(x: Any, axis: Axes = None) -> Tensor:
    """Without dims of size 1: the named ones, or all."""
    return as_tensor(x).squeeze(axis)


def unsqueeze(x: Any, axis: int) -> Tensor:
    """A new dim of size 1."""
    return as_tensor(x).expand_dims(axis)
