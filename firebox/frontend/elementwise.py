"""Functions that are methods of tensors under the names of NumPy and PyTorch: ``fb.exp(x)`` is ``x.exp()``."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.array import Axes, normalize_axis
from firebox.dims import DimLike
from firebox.frontend.tensor import Tensor, as_tensor


def abs(x: Any) -> Tensor:
    return as_tensor(x).abs()


absolute = abs


def sign(x: Any) -> Tensor:
    return as_tensor(x).sign()


def negative(x: Any) -> Tensor:
    return -as_tensor(x)


def exp(x: Any) -> Tensor:
    return as_tensor(x).exp()


def expm1(x: Any) -> Tensor:
    return as_tensor(x).expm1()


def log(x: Any) -> Tensor:
    return as_tensor(x).log()


def log1p(x: Any) -> Tensor:
    return as_tensor(x).log1p()


def sqrt(x: Any) -> Tensor:
    return as_tensor(x).sqrt()


def rsqrt(x: Any) -> Tensor:
    return as_tensor(x).rsqrt()


def square(x: Any) -> Tensor:
    value = as_tensor(x)
    return value * value


def sin(x: Any) -> Tensor:
    return as_tensor(x).sin()


def cos(x: Any) -> Tensor:
    return as_tensor(x).cos()


def erf(x: Any) -> Tensor:
    return as_tensor(x).erf()


def floor(x: Any) -> Tensor:
    return as_tensor(x).floor()


def ceil(x: Any) -> Tensor:
    return as_tensor(x).ceil()


def round(x: Any) -> Tensor:
    """To the nearest integer, halves to even."""
    return as_tensor(x).round()


def trunc(x: Any) -> Tensor:
    return as_tensor(x).trunc()


def isnan(x: Any) -> Tensor:
    return as_tensor(x).isnan()


def isinf(x: Any) -> Tensor:
    return as_tensor(x).isinf()


def isfinite(x: Any) -> Tensor:
    return as_tensor(x).isfinite()


# ---- two operands ------------------------------------------------------------------------------------------------


def _first(a: Any, b: Any) -> Tensor:
    """The first operand as a tensor: beside a tensor a number takes its type."""
    return b.lift(a) if isinstance(b, Tensor) and not isinstance(a, Tensor) else as_tensor(a)


def add(a: Any, b: Any) -> Tensor:
    return _first(a, b).__add__(b)


def subtract(a: Any, b: Any) -> Tensor:
    return _first(a, b).__sub__(b)


def multiply(a: Any, b: Any) -> Tensor:
    return _first(a, b).__mul__(b)


def divide(a: Any, b: Any) -> Tensor:
    return _first(a, b).__truediv__(b)


def power(a: Any, b: Any) -> Tensor:
    return _first(a, b).__pow__(b)


def maximum(a: Any, b: Any) -> Tensor:
    """Element-wise; NaN wins."""
    return _first(a, b).maximum(b)


def minimum(a: Any, b: Any) -> Tensor:
    """Element-wise; NaN wins."""
    return _first(a, b).minimum(b)


def equal(a: Any, b: Any) -> Tensor:
    """Element by element."""
    return _first(a, b).__eq__(b)


# ---- reductions --------------------------------------------------------------------------------------------------


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).sum(axis, keepdims)


def prod(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).prod(axis, keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).max(axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).min(axis, keepdims)


amax, amin = max, min


def any(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).any(axis, keepdims)


def all(x: Any, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).all(axis, keepdims)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).argmax(axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return as_tensor(x).argmin(axis, keepdims)


def cumsum(x: Any, axis: int = 0) -> Tensor:
    return as_tensor(x).cumsum(axis)


def cumprod(x: Any, axis: int = 0) -> Tensor:
    return as_tensor(x).cumprod(axis)


# ---- shape -------------------------------------------------------------------------------------------------------


def reshape(x: Any, shape: Sequence[DimLike]) -> Tensor:
    return as_tensor(x).reshape(shape)


def transpose(x: Any, axes: Sequence[int] = ()) -> Tensor:
    return as_tensor(x).transpose(tuple(axes))


permute = transpose


def squeeze(x: Any, axis: Axes = None) -> Tensor:
    return as_tensor(x).squeeze(axis)


def unsqueeze(x: Any, axis: int) -> Tensor:
    return as_tensor(x).expand_dims(axis)


def take(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Rows picked by integers along an axis; negative ones count from the end."""
    value = as_tensor(x)
    key: tuple[Any, ...] = (slice(None),) * normalize_axis(axis, value.rank) + (as_tensor(indices),)
    return value[key]
