"""Random operands for the samples of ops: small arrays with the values and shapes that go wrong first."""

from collections.abc import Collection, Iterator

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.base import Array, Rng
from firebox.dtypes import DType

Domain = tuple[float, float]

UNARY_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (0, 3), (2, 3, 1))
BINARY_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((5,), ()),
    ((2, 3), (3,)),
    ((1, 3), (4, 2, 1)),
    ((0, 2), (1, 2)),
)
FEW = (dtypes.f64, dtypes.f32, dtypes.bf16, dtypes.i32, dtypes.bool_)
"""Element types for ops that only move values: one of each size and kind."""


def ordered(accepted: Collection[DType]) -> Iterator[DType]:
    """Element types in their usual order, whatever the collection's."""
    return (d for d in dtypes.ALL if d in accepted)


def values(rng: Rng, dtype: DType, shape: tuple[int, ...], domain: Domain = (-3.0, 3.0)) -> Array:
    """Random values in the domain (integers inclusive, as far as the type goes; bool ignores it)."""
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        return np.asarray(rng.uniform(*domain, shape)).astype(dtype.numpy)
    low = max(int(np.ceil(domain[0])), 0) if not dtype.is_signed else int(np.ceil(domain[0]))
    return np.asarray(rng.integers(low, int(domain[1]) + 1, shape)).astype(dtype.numpy)


def distinct(rng: Rng, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values in random order without ties, at least 0.25 apart (1 for integers); bool has ties of course."""
    if dtype.is_bool:
        return values(rng, dtype, shape)
    count = int(np.prod(shape))
    step = 0.25 if dtype.is_float else 1
    low = -(count // 2) if dtype.is_signed else 0
    return ((rng.permutation(count) + low) * step).reshape(shape).astype(dtype.numpy)
