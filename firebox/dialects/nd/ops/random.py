"""Random bits by Philox4x32-10, a function of a key and a position: the same on every device, in any order.

J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC'11), the constants are theirs.
"""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firebox import dims
from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import Array, Kind, NdOp, Rng, Sample, register
from firebox.dialects.nd.formula import Formula, Read, loop_names
from firebox.dialects.nd.ops.common import Arrays, check_dtype, shape_text, static_shape
from firebox.dialects.nd.ops.create import flat_index
from firebox.dialects.nd.params import DIMS, INT
from firebox.dtypes import u32, u64
from firebox.errors import ShapeError

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LANES = 4


@register
class RandomBits(NdOp):
    """u32 of random bits, from ``key``: u64[.., 2] = (seed, base offset).

    Element f (row-major, within ``shape``) is lane ``f % 4`` of the Philox block with the key ``seed`` and the counter
    ``base + offset + f // 4`` (64 bits; the upper half is 0). Leading dims of the key lead the result's shape.
    """

    name = "nd.random_bits"
    kind = Kind.MAP
    arity = 1
    params = {"shape": DIMS, "offset": INT}
    differentiable = False

    @classmethod
    def infer(cls, key: Aval, shape: Shape, offset: int) -> Aval:
        check_dtype(cls, key, frozenset((u64,)))
        if not key.shape or key.shape[-1] != 2:
            raise ShapeError("not a key", op="random_bits", expected="(.., 2)", found=shape_text(key.shape))
        return Aval(u32, (*key.shape[:-1], *shape))

    @classmethod
    def evaluate(cls, key: Array, shape: Shape, offset: int) -> Array:
        sizes = static_shape(shape)
        count = int(np.prod(sizes))
        counter = key[..., 1:] + np.uint64(offset) + np.arange(-(-count // LANES), dtype=np.uint64)
        words = philox((*_halves(counter), np.zeros_like(counter), np.zeros_like(counter)), _halves(key[..., :1]))
        lanes = np.stack(np.broadcast_arrays(*words), axis=-1).reshape((*key.shape[:-1], -1))
        return lanes[..., :count].astype(np.uint32).reshape((*key.shape[:-1], *sizes))

    @classmethod
    def formula(cls, avals: Sequence[Aval], results: Sequence[Aval], shape: Shape, offset: int) -> Formula:
        lead = avals[0].rank - 1
        flat = flat_index(shape, lead)
        block, lane = dims.floordiv(flat, LANES), dims.mod(flat, LANES)

        def scalar(s: Any, seed: Any, base: Any) -> Any:
            counter = s.add(s.add(base, s.const(offset, u64)), s.cast(s.index(block), u64))
            words = _philox_scalar(s, counter, seed)
            result = words[3]
            for k in (2, 1, 0):
                result = s.select(s.eq(s.index(lane), s.index(k)), words[k], result)
            return result

        front = loop_names("i", lead)
        return Formula(results[0].shape, (Read(0, (*front, 0)), Read(0, (*front, 1))), scalar)

    @classmethod
    def batch(cls, operands: Arrays, batched: Sequence[bool], shape: Shape, offset: int) -> ArrayLike:
        return operands[0].apply(cls, operands, {"shape": shape, "offset": offset})[0]

    @classmethod
    def cost(cls, avals: Sequence[Aval], results: Sequence[Aval], **params: Any) -> float:
        return 12.0 * ROUNDS

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        for shape, offset in (((), 0), ((5,), 0), ((3, 7), 11), ((0, 2), 1), ((2, 2, 2), 2**40)):
            yield Sample((rng.integers(0, 2**64, (2,), np.uint64),), {"shape": shape, "offset": offset})
        yield Sample((rng.integers(0, 2**64, (3, 2), np.uint64),), {"shape": (5,), "offset": 3})
        carry = np.array([2**63 + 5, 2**32 - 2], np.uint64)
        yield Sample((carry,), {"shape": (13,), "offset": 0})


def _halves(x: Array) -> tuple[Array, Array]:
    """The low and high 32 bits of u64 values, each in a u64."""
    return x & np.uint64(0xFFFFFFFF), x >> np.uint64(32)


def philox(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, ...]:
    """The four words of a Philox4x32-10 block; all words are u32 values held in u64 arrays, which broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(ROUNDS):
        low0, high0 = _halves(c0 * np.uint64(MULTIPLIERS[0]))
        low1, high1 = _halves(c2 * np.uint64(MULTIPLIERS[1]))
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + np.uint64(WEYL[0])) & mask, (k1 + np.uint64(WEYL[1])) & mask
    return c0, c1, c2, c3


def _philox_scalar(s: Any, counter: Any, seed: Any) -> tuple[Any, ...]:
    """The same in terms of the scalar builder, for a 64-bit counter."""

    def halves(x: Any) -> tuple[Any, Any]:
        return s.cast(x, u32), s.cast(s.shr(x, s.const(32, u64)), u32)

    def product(x: Any, multiplier: int) -> tuple[Any, Any]:
        return halves(s.mul(s.cast(x, u64), s.const(multiplier, u64)))

    (c0, c1), (k0, k1) = halves(counter), halves(seed)
    c2 = c3 = s.const(0, u32)
    for step in range(ROUNDS):
        low0, high0 = product(c0, MULTIPLIERS[0])
        low1, high1 = product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = s.xor(s.xor(high1, c1), k0), low1, s.xor(s.xor(high0, c3), k1), low0
        if step < ROUNDS - 1:
            k0, k1 = s.add(k0, s.const(WEYL[0], u32)), s.add(k1, s.const(WEYL[1], u32))
    return c0, c1, c2, c3
