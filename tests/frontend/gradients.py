"""Gradients against central differences in float64, along one random direction and for a random cotangent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from firebox.frontend.tensor import Tensor, tensor

Array = npt.NDArray[Any]
STEP = 1e-6


def check_gradient(function: Callable[..., Tensor], *arrays: Array, seed: int = 0, rtol: float = 1e-6) -> None:
    """Assert that the gradient by every float64 array is that of the differences; other arrays are constants."""
    rng = np.random.default_rng(seed)
    inputs = [tensor(a, requires_grad=a.dtype == np.float64) for a in arrays]
    result = function(*inputs)
    weight = rng.normal(size=result.shape)
    (result * tensor(weight)).sum().backward()
    along = 0.0
    directions = []
    for value, array in zip(inputs, arrays, strict=True):
        direction = rng.normal(size=array.shape) if array.dtype == np.float64 else np.zeros(array.shape, array.dtype)
        directions.append(direction)
        if value.requires_grad:
            assert value.grad is not None and value.grad.shape == array.shape
            along += float((value.grad.numpy() * direction).sum())

    def at(t: float) -> float:
        moved = [tensor(a + t * d if a.dtype == np.float64 else a) for a, d in zip(arrays, directions, strict=True)]
        return float((function(*moved).numpy() * weight).sum())

    expected = (at(STEP) - at(-STEP)) / (2 * STEP)
    np.testing.assert_allclose(along, expected, rtol=rtol, atol=1e-7)
