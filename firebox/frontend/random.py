"""Random numbers by Philox4x32-10 counters: a function of the seed and of how many were drawn before.

So the numbers do not depend on how operations are grouped into programs, on the device, or on the number of threads.
The seed and the base position are an input of a program; positions within it are static.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import lookup
from firebox.dims import DimLike
from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend import execute
from firebox.frontend.creation import arange, as_shape
from firebox.frontend.devices import as_device, default_float, place
from firebox.frontend.entries import intern
from firebox.frontend.functions.shape import argsort
from firebox.frontend.graph import Var
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import STATE, record
from firebox.runtime.device import Device

_LANES = 4  # random words in one block of the counter
_SYMBOLIC_BLOCKS = 1 << 32  # positions set aside by a draw whose size is not known while tracing
_MASK = (1 << 64) - 1
_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24}
_KEY = intern(Aval(dtypes.u64, (2,)))


class Generator:
    """A stream of random numbers.

    Args:
        seed: any integer; only its lowest 64 bits count.
    """

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream of a seed from its beginning."""
        if not hasattr(seed, "__index__"):
            raise DTypeError("not a seed", op="manual_seed", expected="an int", found=repr(seed))
        self.seed = operator.index(seed) & _MASK
        self._base = 0
        self._used = 0
        self._epoch = -1
        self._keys: dict[Device, Var] = {}
        return self

    @property
    def position(self) -> int:
        """Blocks of four words that have been drawn."""
        return self._base + self._used

    def get_state(self) -> tuple[int, int]:
        """(seed, position): what `set_state` takes."""
        return self.seed, self.position

    def set_state(self, state: tuple[int, int]) -> None:
        """Go on from where `get_state` was called."""
        self.manual_seed(state[0])
        self._base = int(state[1]) & _MASK

    def advance(self, blocks: int) -> bytes:
        """Set blocks aside for a compiled function; returns its key, (seed, position) as two u64."""
        key = np.array([self.seed, self.position & _MASK], np.uint64).tobytes()
        self._restart(self.position + blocks)
        return key

    def draw(self, blocks: int, device: Device) -> tuple[Var, int]:
        """Key and static offset of the next blocks."""
        current = STATE.trace
        drawn = None if current is None else current.draw(self, blocks, device)
        if drawn is not None:
            return drawn
        if self._epoch != execute.epoch():
            self._restart(self.position)
        key = self._keys.get(device)
        if key is None:
            numbers = np.array((self.seed, self._base), _KEY.dtype.numpy)
            key = self._keys[device] = Var(_KEY, device, buffer=place(numbers, device))
        offset = self._used
        self._used += blocks
        return key, offset

    def _restart(self, position: int) -> None:
        """Count anew from here: the offsets of the next program start at 0, so that it equals the last one."""
        self._base = position & _MASK
        self._used = 0
        self._epoch = execute.epoch()
        self._keys.clear()


default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Start the default stream anew with a seed."""
    return default_generator.manual_seed(seed)


def bits(shape: Sequence[DimLike], device: object = None, generator: Generator | None = None) -> Tensor:
    """32 random bits for each element, as u32."""
    sizes = as_shape((shape,))
    size = dims.product(sizes)
    blocks = -(-size // _LANES) if isinstance(size, int) else _SYMBOLIC_BLOCKS
    where = as_device(device)
    key, offset = (generator or default_generator).draw(blocks, where)
    return wrap(record(lookup("nd.random_bits"), (key,), {"shape": sizes, "offset": offset}, where)[0])


def _float(op: str, dtype: object, device: object) -> DType:
    kind = default_float(device) if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError("draws floats", op=op, expected="a float type", found=kind.name)
    return kind


def _unit(shape: Sequence[DimLike], kind: DType, device: object, generator: Generator | None) -> Tensor:
    """Multiples of 2^-m in [0, 1), with as many bits m as the type's mantissa has (24 for f32): exact in the type."""
    if kind is dtypes.f64:
        high, low = (
            bits((2, *shape), device, generator).slice((k,) + (0,) * len(shape), (k + 1, *shape)) for k in (0, 1)
        )
        words = (high >> 5).astype(dtypes.f64) * 67108864.0 + (low >> 6).astype(dtypes.f64)
        return (words * 2.0**-53).reshape(tuple(shape))
    mantissa = _MANTISSA[kind.name]
    return ((bits(shape, device, generator) >> (32 - mantissa)).astype(dtypes.f32) * 2.0**-mantissa).astype(kind)


def uniform(
    shape: Sequence[DimLike] = (),
    low: Any = 0.0,
    high: Any = 1.0,
    dtype: object = None,
    device: object = None,
    generator: Generator | None = None,
) -> Tensor:
    """Evenly distributed over [low, high), in steps of 2^-24 of the range for f32; rounding may give ``high``."""
    unit = _unit(as_shape((shape,)), _float("uniform", dtype, device), device, generator)
    if isinstance(low, int | float) and isinstance(high, int | float):
        return unit if (low, high) == (0, 1) else unit * float(high - low) + float(low)
    return unit.__mul__(high - low).__add__(low)


def normal(
    shape: Sequence[DimLike] = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    dtype: object = None,
    device: object = None,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed, by Box and Muller: sqrt(-2 ln u) cos(2 pi v) with u in (0, 1] of 24 bits (53 for f64)."""
    kind = _float("normal", dtype, device)
    sizes = as_shape((shape,))
    compute = kind.compute
    pair = _unit((2, *sizes), compute, device, generator)
    u, v = (pair.slice((k,) + (0,) * len(sizes), (k + 1, *sizes)).reshape(sizes) for k in (0, 1))
    standard = ((1.0 - u).log() * -2.0).sqrt() * (v * (2.0 * math.pi)).cos()
    if isinstance(std, int | float) and isinstance(mean, int | float):
        scaled = standard if std == 1 else standard * float(std)
        return (scaled if mean == 0 else scaled + float(mean)).astype(kind)
    return standard.__mul__(std).__add__(mean).astype(kind)


def randint(
    low: int,
    high: int | None = None,
    shape: Sequence[DimLike] = (),
    dtype: object = None,
    device: object = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers from ``low`` to below ``high`` (from 0 to below ``low`` when ``high`` is None); i64 by default.

    The upper half of word * range, so a value's probability is off by at most 2^-32.

    Raises:
        UserError: an empty range, or one of more than 2^32.
    """
    first, last = (0, low) if high is None else (low, high)
    span = last - first
    if not 0 < span <= 1 << 32:
        raise UserError("bad range", op="randint", expected="1 to 2^32 different values", found=f"[{first}, {last})")
    words = bits(shape, device, generator).astype(dtypes.u64)
    return ((words * span) >> 32).astype(dtypes.i64).astype(dtype or dtypes.i64) + first


def bernoulli(
    shape: Sequence[DimLike] = (), p: Any = 0.5, device: object = None, generator: Generator | None = None
) -> Tensor:
    """True with probability ``p`` (a number or a tensor), else False."""
    return uniform(shape, device=device, generator=generator).__lt__(p)


def permutation(x: Any, device: object = None, generator: Generator | None = None) -> Tensor:
    """0..x-1 in random order, or the rows of the tensor ``x`` in random order."""
    rows = as_tensor(x) if not isinstance(x, int) else None
    size = x if rows is None else rows.shape[0]
    where = device if rows is None else rows.device
    words = bits((2, size), where, generator).astype(dtypes.u64)
    keys = (words.slice((0, 0), (1, size)) << 32) | words.slice((1, 0), (2, size))
    order: Tensor = argsort(keys.reshape((size,)))
    return order if rows is None else rows.take(order, 0)


def choice(
    a: Any,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: Any = None,
    device: object = None,
    generator: Generator | None = None,
) -> Tensor:
    """Random rows of ``a`` (or of 0..a-1), each with probability ``p`` (default: the same for all).

    Raises:
        ShapeError: more rows than there are, without replacement.
    """
    rows = arange(a, device=device) if isinstance(a, int) else as_tensor(a)
    size, count = dims.evaluate(rows.shape[0], {}), math.prod(shape)
    if not replace:
        if count > size:
            raise ShapeError("more values than there are", op="choice", expected=f"at most {size}", found=count)
        if p is not None:
            raise UserError("probabilities need replace=True", op="choice")
        order = permutation(size, rows.device, generator)
        return rows.take(order.slice((0,), (count,)).reshape(tuple(shape)), 0)
    if p is None:
        return rows.take(randint(size, None, shape, device=rows.device, generator=generator), 0)
    ends = as_tensor(p, rows.device).cumsum(0)
    point = uniform((*shape, 1), device=rows.device, generator=generator) * ends.slice((size - 1,), (size,))
    index = (ends <= point).sum(-1).minimum(size - 1)
    return rows.take(index, 0)


def rand(*shape: Any, dtype: object = None, device: object = None, generator: Generator | None = None) -> Tensor:
    """Evenly distributed over [0, 1): ``rand(2, 3)``."""
    return uniform(as_shape(shape), dtype=dtype, device=device, generator=generator)


def randn(*shape: Any, dtype: object = None, device: object = None, generator: Generator | None = None) -> Tensor:
    """Normally distributed with mean 0 and standard deviation 1: ``randn(2, 3)``."""
    return normal(as_shape(shape), dtype=dtype, device=device, generator=generator)
