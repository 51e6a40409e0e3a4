"""Small helpers for tests of `jit`."""

import numpy as np

import firebox as fb


def grad_of(leaf: fb.Tensor) -> fb.Tensor:
    """The leaf's gradient, which must be there."""
    assert leaf.grad is not None
    return leaf.grad


def traces() -> int:
    return fb.stats()["jit_traces"]


def rows(n: int, m: int = 2) -> fb.Tensor:
    return fb.tensor(np.arange(n * m, dtype=np.float32).reshape(n, m))
