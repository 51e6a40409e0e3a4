"""Random nd programs for differential tests, with the inputs to run them on; the steps are those of `random_steps`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.value import Value
from firebox.dims import DimLike
from tests.lowering.random_steps import DTYPES, NAMED, STEPS, Maker, Node, binary, move, reduce, softmax, unary
from tests.programs import Array, program

SIZES = (1, 2, 5, 3, 0, 8, 19)


@dataclass(frozen=True)
class Drawn:
    """A program with everything that is needed to run it."""

    module: ModuleOp
    specs: tuple[str, ...]
    arrays: list[Array]
    sizes: dict[str, int]
    errors: list[float]

    def __repr__(self) -> str:
        return f"a program of {', '.join(self.specs)}"


def random_program(rng: np.random.Generator, steps: int) -> Callable[..., list[Value]]:
    """A function of f32 arrays that applies random smooth ops and movements, and returns some of the values."""
    seed = int(rng.integers(1 << 30))

    def function(*inputs: Value) -> list[Value]:
        inner = np.random.default_rng(seed)
        make = Maker(lambda low, high: int(inner.integers(low, high + 1)), inputs)
        for _ in range(steps):
            make.step((binary, unary, move, reduce, softmax))
        return [make.nodes[k].value for k in sorted({-1, -2, -len(make.nodes) // 3})]

    return function


def input_array(rng: np.random.Generator, aval: Aval, special: bool) -> Array:
    """Numbers with few bits, so that sums and products of a few of them are exact."""
    shape, dtype = aval.shape, aval.dtype
    if not dtype.is_float:
        low = 0 if dtype.is_bool or not dtype.is_signed else -9
        return rng.integers(low, 2 if dtype.is_bool else 10, shape).astype(dtype.numpy)
    values = rng.integers(-32, 33, shape) / 8.0
    if special:
        values = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, -0.0], shape), values)
    return values.astype(dtype.numpy)


@st.composite
def programs(draw: st.DrawFn, steps: int = 12) -> Drawn:
    """Programs of up to that many steps, over one to three arrays of any type whose shapes broadcast.

    What no other step uses is returned, the last three of that.
    """

    def choose(low: int, high: int) -> int:
        return draw(st.integers(low, high)) if low < high else low

    full: list[DimLike] = [SIZES[choose(0, len(SIZES) - 1)] for _ in range(choose(1, 3))]
    named = choose(0, 3) == 3
    if named:
        full[choose(0, len(full) - 1)] = dims.dim(NAMED[0])
    avals = []
    for number in range(choose(1, 3)):
        kept = full[choose(0, len(full)) if number else 0 :]
        avals.append(
            Aval(DTYPES[choose(0, len(DTYPES) - 1)], tuple(1 if number and choose(0, 3) == 3 else d for d in kept))
        )
    nodes: list[Node] = []

    def function(*inputs: Value) -> list[Value]:
        make = Maker(choose, inputs)
        for _ in range(steps):
            make.step(STEPS)
        nodes.extend([n for n in make.nodes if not any(n.value.ssa.uses)][-3:])
        return [n.value for n in nodes]

    specs = tuple(f"{a.dtype.name}[{', '.join(map(str, a.shape))}]" for a in avals)
    module = program(function, *specs)
    sizes = {NAMED[0]: NAMED[1][choose(0, 2)]} if named else {}
    rng, special = np.random.default_rng(choose(0, 99)), choose(0, 4) == 4
    concrete = [Aval(a.dtype, tuple(dims.evaluate(d, sizes) for d in a.shape)) for a in avals]
    return Drawn(module, specs, [input_array(rng, a, special) for a in concrete], sizes, [n.error for n in nodes])
