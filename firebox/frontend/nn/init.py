"""Initial values of parameters; the formulas are those of PyTorch's defaults and of its ``torch.nn.init``.

They draw from the generator that `manual_seed` sets: the same seed gives the same model.
"""

import math
from collections.abc import Sequence

from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend import creation, random
from firebox.frontend.tensor import Tensor


def zeros(shape: Sequence[DimLike], dtype: object = None, device: object = None) -> Tensor:
    return creation.zeros(tuple(shape), dtype=dtype, device=device)


def ones(shape: Sequence[DimLike], dtype: object = None, device: object = None) -> Tensor:
    return creation.ones(tuple(shape), dtype=dtype, device=device)


def constant(shape: Sequence[DimLike], value: float, dtype: object = None, device: object = None) -> Tensor:
    return creation.full(tuple(shape), value, dtype=dtype, device=device)


def uniform(
    shape: Sequence[DimLike], low: float = 0.0, high: float = 1.0, dtype: object = None, device: object = None
) -> Tensor:
    """Evenly distributed in [low, high)."""
    return random.uniform(tuple(shape), low, high, dtype=dtype, device=device)


def normal(
    shape: Sequence[DimLike], mean: float = 0.0, std: float = 1.0, dtype: object = None, device: object = None
) -> Tensor:
    return random.normal(tuple(shape), mean, std, dtype=dtype, device=device)


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Inputs and outputs of one element of a weight (out, in, kernel..): ``(fan_in, fan_out)``.

    Raises:
        ShapeError: fewer than two dims.
    """
    if len(shape) < 2:
        raise ShapeError("a fan needs a weight of two dims or more", op="init", found=tuple(shape))
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def fan_uniform(shape: Sequence[int], fan_in: int, dtype: object = None, device: object = None) -> Tensor:
    """Uniform in +-1/sqrt(fan_in); PyTorch's default for biases."""
    creation.as_shape((tuple(shape),))
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    return uniform(shape, -bound, bound, dtype, device)


def kaiming_uniform(
    shape: Sequence[int],
    fan_in: int | None = None,
    dtype: object = None,
    device: object = None,
    gain: float = 1.0 / math.sqrt(3.0),
) -> Tensor:
    """Uniform in +-gain * sqrt(3 / fan_in) (He et al. 2015); the default gain is that of PyTorch's Linear and Conv."""
    creation.as_shape((tuple(shape),))
    fan = fan_in if fan_in is not None else fans(shape)[0]
    bound = gain * math.sqrt(3.0 / fan) if fan else 0.0
    return uniform(shape, -bound, bound, dtype, device)


def kaiming_normal(
    shape: Sequence[int],
    fan_in: int | None = None,
    dtype: object = None,
    device: object = None,
    gain: float = math.sqrt(2.0),
) -> Tensor:
    """N(0, gain^2 / fan_in) (He et al. 2015); the default gain is that for relu."""
    creation.as_shape((tuple(shape),))
    fan = fan_in if fan_in is not None else fans(shape)[0]
    return normal(shape, 0.0, gain / math.sqrt(fan) if fan else 0.0, dtype, device)


def xavier_uniform(shape: Sequence[int], dtype: object = None, device: object = None, gain: float = 1.0) -> Tensor:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot, Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return uniform(shape, -bound, bound, dtype, device)


def xavier_normal(shape: Sequence[int], dtype: object = None, device: object = None, gain: float = 1.0) -> Tensor:
    """N(0, gain^2 * 2 / (fan_in + fan_out)) (Glorot, Bengio 2010)."""
    return normal(shape, 0.0, gain * math.sqrt(2.0 / sum(fans(shape))), dtype, device)
