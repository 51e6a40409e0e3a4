"""Random nd programs for differential tests: every choice comes from a seeded generator."""

from collections.abc import Callable

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.value import Value

Rng = np.random.Generator
Step = Callable[[Rng, list[Value]], Value]


def random_program(rng: Rng, steps: int) -> Callable[..., list[Value]]:
    """A function of three f32 arrays ``[6, 5], [5], [6, 1]`` that applies random ops and returns some of the values."""
    seed = int(rng.integers(1 << 30))

    def function(*inputs: Value) -> list[Value]:
        inner = np.random.default_rng(seed)
        values = list(inputs)
        for _ in range(steps):
            step = STEPS[int(inner.integers(len(STEPS)))]
            values.append(step(inner, values))
        made = values[len(inputs) :]
        chosen = sorted({len(made) - 1, *(int(k) for k in inner.integers(len(made), size=2))})
        return [made[k] for k in chosen]

    return function


def _pick(rng: Rng, values: list[Value], rank: int = 0) -> Value:
    fits = [v for v in values if v.rank >= rank]
    return fits[int(rng.integers(len(fits)))]


def _partner(rng: Rng, values: list[Value], x: Value) -> Value:
    fits = [v for v in values if _broadcasts(v, x)]
    return fits[int(rng.integers(len(fits)))]


def _broadcasts(a: Value, b: Value) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False))


def _binary(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values)
    y = _partner(rng, values, x)
    return [x + y, x - y, x * y, x.maximum(y), x.minimum(y), (x > y).where(x, y)][int(rng.integers(6))] * 0.5


def _unary(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values)
    made = [abs(x), -x, x.floor(), x * x * 0.1, x.sign(), x.clip(-1.0, 1.0), x.tanh(), (x * 0.1).sin()]
    return made[int(rng.integers(len(made)))]


def _reduce(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values, 1)
    axis = int(rng.integers(x.rank))
    keep = bool(rng.integers(2))
    name = ["sum", "max", "min", "mean"][int(rng.integers(4))]
    result: Value = getattr(x, name)(axis, keep)
    return result


def _normalise(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values, 1)
    axis = int(rng.integers(x.rank))
    centred = x - x.mean(axis, True)
    return centred / (1.0 + (centred * centred).mean(axis, True))


def _move(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values, 1)
    choice = int(rng.integers(6))
    if choice == 0:
        return x.transpose()
    if choice == 1:
        return x.flip(int(rng.integers(x.rank)))
    if choice == 2:
        return x.flatten()
    if choice == 3:
        return x.pad([1] * x.rank, [0] * x.rank, 0.5)
    if choice == 4:
        sizes = [int(d) for d in x.shape if isinstance(d, int)]
        return x.slice([min(1, d - 1) for d in sizes], sizes, [2 if d > 2 else 1 for d in sizes])
    return x.expand_dims(int(rng.integers(x.rank + 1)))


def _round_trip(rng: Rng, values: list[Value]) -> Value:
    x = _pick(rng, values)
    return x.astype(dtypes.i32).astype(dtypes.f32) + x.astype(dtypes.f64).astype(dtypes.f32)


STEPS: tuple[Step, ...] = (_binary, _binary, _unary, _unary, _reduce, _normalise, _move, _round_trip)
