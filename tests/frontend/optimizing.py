"""A small model to train."""

from typing import Any

import numpy as np

from firebox.frontend import nn

SHAPES = [(3, 4), (5,), (), (2, 1, 3)]


def make_params(dtype: Any = np.float64, seed: int = 0) -> list[nn.Param]:
    rng = np.random.default_rng(seed)
    return [nn.Param(rng.normal(size=shape).astype(dtype)) for shape in SHAPES]


def loss_of(params: list[nn.Param], t: int) -> Any:
    """A different sum of cubes each step, so that gradients change: the gradient of p is (t + 1) * p^2."""
    total = (params[0] ** 3).sum() * ((t + 1) / 3)
    for p in params[1:]:
        total = total + (p**3).sum() * ((t + 1) / 3)
    return total
