"""Random nd programs for differential tests, made of choices that Hypothesis or a seeded generator takes.

What is made knows how far two right evaluations of it may be apart: not at all, until something rounds that may round
differently (a sum, a transcendental function, a narrow float). What is exact may be compared, rounded and sorted; the
rest may not, since a last bit could decide. Magnitudes are kept at `LIMIT` and below, so that errors stay small.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.value import Value
from firebox.dims import DimLike
from firebox.dtypes import DType, result_type
from firebox.frontend.functions.linear_algebra import matmul
from tests.programs import Array, program

Choose = Callable[[int, int], int]
"""An integer between two bounds, both included."""
LIMIT = 8.0
EPS = {dtypes.f16: 2.0**-10, dtypes.bf16: 2.0**-7, dtypes.f32: 2.0**-23, dtypes.f64: 2.0**-23}
"""Units in the last place at 1; of f64 that of f32, since some of its values were one."""
DTYPES = tuple(dtypes.as_dtype(name) for name in "f32 f64 i32 bool bf16 f16 i64 u8 i8".split())
SIZES = (1, 2, 5, 3, 0, 8, 19)
NAMED = ("n", (1, 2, 17))
"""A symbolic dim and the values that it takes."""


@dataclass(frozen=True)
class Node:
    """A value, and how far two right evaluations of it may be apart."""

    value: Value
    error: float = 0.0

    @property
    def is_float(self) -> bool:
        return self.value.dtype.is_float


@dataclass(frozen=True)
class Drawn:
    """A program with everything that is needed to run it."""

    module: ModuleOp
    specs: tuple[str, ...]
    arrays: list[Array]
    sizes: dict[str, int]
    errors: list[float]


class Maker:
    """Makes steps: picks operands among all values so far, applies an op, adds the result."""

    def __init__(self, choose: Choose, values: Sequence[Value]) -> None:
        self.choose = choose
        self.nodes = [Node(v) for v in values]

    def flag(self) -> bool:
        return bool(self.choose(0, 1))

    def of(self, options: Sequence[object]) -> object:
        return options[self.choose(0, len(options) - 1)]

    def pick(self, fits: Callable[[Node], bool] = lambda node: True) -> Node | None:
        """One of the values that fit, the latest first; None if there is none."""
        found = [n for n in reversed(self.nodes) if fits(n)]
        return found[self.choose(0, len(found) - 1)] if found else None

    def axis(self, x: Value) -> int:
        return self.choose(0, x.rank - 1)

    def step(self, steps: Sequence["Step"]) -> None:
        made = steps[self.choose(0, len(steps) - 1)](self)
        if made is not None:
            self.nodes.append(made)


Step = Callable[[Maker], Node | None]


def count(sizes: Sequence[DimLike]) -> int:
    """How many elements at most."""
    return math.prod(s if isinstance(s, int) else max(NAMED[1]) for s in sizes)


def own(dtype: DType, terms: int = 1) -> float:
    """What one op adds to the error, and a sum of some terms."""
    return 4 * EPS[dtype] * LIMIT * max(terms, 1)


def bounded(x: Value, error: float) -> Node:
    return Node(x.clip(-LIMIT, LIMIT) if x.dtype.is_float else x, error)


def rounded(x: Value, error: float, terms: int = 1) -> Node:
    """A float that may have been rounded in more than one way."""
    return bounded(x, error + own(x.dtype, terms)) if x.dtype.is_float else Node(x)


def bring(node: Node, dtype: DType) -> Node:
    """In another type; integers become floats that are small, rough floats no integers."""
    x, error = node.value, node.error
    if x.dtype is dtype:
        return node
    if dtype.is_float and not node.is_float:
        x = x if x.dtype.is_bool else x.minimum(8) if not x.dtype.is_signed else x.clip(-8, 8)
    if dtype.is_float and node.is_float and EPS[dtype] > EPS[x.dtype]:
        error += own(dtype)
    return Node(x.astype(dtype), error)


def exact(node: Node) -> bool:
    return node.error == 0.0


def numeric(node: Node) -> bool:
    return not node.value.dtype.is_bool


def with_dims(node: Node) -> bool:
    return node.value.rank > 0


def broadcasts(a: Value, b: Value) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False))


# ---- element by element ------------------------------------------------------------------------------------------


def binary(make: Maker) -> Node | None:
    x = make.pick()
    y = make.pick(lambda n: x is not None and broadcasts(n.value, x.value))
    if x is None or y is None:
        return None
    dtype = result_type(x.value.dtype, y.value.dtype)
    a, b = bring(x, dtype), bring(y, dtype)
    name = str(make.of(("add", "mul", "max", "min") if dtype.is_bool else ("add", "mul", "sub", "max", "min")))
    error = a.error + b.error
    made = a.value.one(name, a.value, b.value)
    if dtype in (dtypes.f16, dtypes.bf16):
        return rounded(made, error * LIMIT)
    return bounded(made, error * LIMIT)


def unary(make: Maker) -> Node | None:
    node = make.pick(numeric)
    if node is None:
        return None
    x = node.value
    if not node.is_float:
        return Node([abs(x), -x, ~x, x.sign(), x & 7, x << 2, x >> 1, x // 3, x % 5][make.choose(0, 8)])
    same = [abs(x), -x, x.clip(-1.0, 1.0)]
    smooth = [x.tanh(), x.sin(), x.minimum(2.0).exp(), (abs(x) + 1.0).sqrt(), 1.0 / (1.0 + x * x), x * x * 0.125]
    which = make.choose(0, len(same) + len(smooth) - 1)
    return Node(same[which], node.error) if which < len(same) else rounded(smooth[which - len(same)], 8 * node.error)


def jump(make: Maker) -> Node | None:
    """A function that is not continuous, of an exact value."""
    node = make.pick(lambda n: exact(n) and numeric(n))
    if node is None:
        return None
    x = node.value
    return Node([x > 0, x != 1, x.floor(), x.ceil(), x.one("round", x), x.trunc(), x.sign(), x <= 2][make.choose(0, 7)])


def compare(make: Maker) -> Node | None:
    x = make.pick(exact)
    y = make.pick(lambda n: exact(n) and x is not None and broadcasts(n.value, x.value))
    if x is None or y is None:
        return None
    dtype = result_type(x.value.dtype, y.value.dtype)
    a, b = bring(x, dtype), bring(y, dtype)
    if a.error or b.error:
        return None
    return Node(a.value.one(str(make.of(("lt", "eq", "ge"))), a.value, b.value))


def select(make: Maker) -> Node | None:
    x = make.pick()
    condition = make.pick(lambda n: n.value.dtype.is_bool and x is not None and broadcasts(n.value, x.value))
    if x is None or condition is None:
        return None
    return Node(condition.value.where(x.value, x.value.literal(1)), x.error)


def cast(make: Maker) -> Node | None:
    node = make.pick()
    dtype = DTYPES[make.choose(0, len(DTYPES) - 1)]
    if node is None or (node.error and not dtype.is_float):
        return None
    return bring(node, dtype)


# ---- reductions and scans ----------------------------------------------------------------------------------------


def reduce(make: Maker) -> Node | None:
    node = make.pick(lambda n: with_dims(n) and numeric(n))
    if node is None:
        return None
    x = node.value
    axes = [a for a in range(x.rank) if make.flag()] or [make.axis(x)]
    keep, many = make.flag(), count([x.shape[a] for a in axes])
    names = ["sum"] if many == 0 else ["sum", "max", "min", "prod", *(["mean"] if node.is_float else [])]
    name = str(make.of(names))
    if name in ("max", "min"):
        return Node(getattr(x, name)(axes, keep), node.error)
    terms = x.clip(-1.0, 1.0) if name == "prod" and node.is_float else x
    return rounded(getattr(terms, name)(axes, keep), many * node.error, many)


def find(make: Maker) -> Node | None:
    """Questions about exact values along one axis."""
    node = make.pick(lambda n: exact(n) and with_dims(n))
    if node is None:
        return None
    x, axis, keep = node.value, make.axis(node.value), make.flag()
    names = ("any", "all", "argmax", "argmin") if x.shape[axis] != 0 else ("any", "all")
    return Node(getattr(x, str(make.of(names)))(axis, keep))


def scan(make: Maker) -> Node | None:
    node = make.pick(lambda n: with_dims(n) and numeric(n))
    if node is None:
        return None
    x, axis = node.value, make.axis(node.value)
    name = str(make.of(("cumsum", "cummax", "cummin", "cumprod")))
    terms = x.clip(-1.0, 1.0) if name == "cumprod" and node.is_float else x
    made = terms.one(name, terms, axis=axis, reverse=make.flag())
    many = count([x.shape[axis]])
    return Node(made, node.error) if name in ("cummax", "cummin") else rounded(made, many * node.error, many)


def softmax(make: Maker) -> Node | None:
    node = make.pick(lambda n: with_dims(n) and n.is_float and count(n.value.shape) > 0)
    if node is None:
        return None
    x, axis = node.value, make.axis(node.value)
    e = (x - x.max(axis, True)).exp()
    return rounded(e / e.sum(axis, True), 8 * node.error)


def product(make: Maker) -> Node | None:
    x = make.pick(lambda n: n.value.rank == 2 and numeric(n) and n.value.dtype.itemsize >= 2)
    y = make.pick(lambda n: x is not None and n.value.rank == 2 and n.value.shape[0] == x.value.shape[1])
    if x is None:
        return None
    other = bring(y, x.value.dtype) if y is not None and not (y.error and not x.is_float) else Node(x.value.T, x.error)
    many = count(x.value.shape[1:])
    return rounded(matmul(x.value, other.value), many * LIMIT * (x.error + other.error), many * 8)


# ---- movement ----------------------------------------------------------------------------------------------------


def move(make: Maker) -> Node | None:
    node = make.pick(with_dims)
    if node is None:
        return None
    movement = MOVEMENTS[make.choose(0, len(MOVEMENTS) - 1)]
    return Node(movement(make, node.value), node.error)


def flipped(make: Maker, x: Value) -> Value:
    return x.flip([a for a in range(x.rank) if make.flag()] or make.axis(x))


def transposed(make: Maker, x: Value) -> Value:
    order = list(range(x.rank))
    for k in range(x.rank - 1):
        other = make.choose(k, x.rank - 1)
        order[k], order[other] = order[other], order[k]
    return x.transpose(tuple(order))


def sliced(make: Maker, x: Value) -> Value:
    """``x[start:stop:step]``; flipped too, for steps below 0."""
    bounds = []
    for size in x.shape:
        start = make.choose(0, size) if isinstance(size, int) else 0
        stop = make.choose(start, size) if isinstance(size, int) else size
        bounds.append((start, stop, make.choose(1, 3) if isinstance(size, int) else 1))
    made = x.slice(*zip(*bounds, strict=True))
    return made.flip(make.axis(x)) if make.flag() else made


def padded(make: Maker, x: Value) -> Value:
    widths = [(make.choose(0, 2), make.choose(0, 2)) for _ in x.shape]
    return x.pad([a for a, _ in widths], [b for _, b in widths], make.choose(0, 1))


def reshaped(make: Maker, x: Value) -> Value:
    """Two dims merged, one split, or a new one of size 1."""
    axis, size = make.axis(x), None
    if make.flag() and axis + 1 < x.rank:
        return x.flatten(axis, axis + 1)
    size = x.shape[axis]
    factors = [f for f in (2, 3, 4) if isinstance(size, int) and size and size % f == 0] or [1]
    factor = factors[make.choose(0, len(factors) - 1)]
    return x.reshape((*x.shape[:axis], factor, dims.floordiv(size, factor), *x.shape[axis + 1 :]))


def spread(make: Maker, x: Value) -> Value:
    """Repeated along a new dim, and along those of size 1."""
    if x.rank > 3:
        return x.reshape((x.size,))
    sizes = tuple(make.choose(0, 3) if d == 1 else d for d in x.shape)
    return x.broadcast_to((make.choose(1, 2), *sizes))


def doubled(make: Maker, x: Value) -> Value:
    axis = make.axis(x)
    return x.apply(lookup("nd.concat"), (x, x.flip(axis), x), {"axis": axis})[0]


MOVEMENTS = (sliced, transposed, flipped, padded, reshaped, spread, doubled)


# ---- indices -----------------------------------------------------------------------------------------------------


def gather(make: Maker) -> Node | None:
    node = make.pick(lambda n: with_dims(n) and n.value.rank < 4 and count(n.value.shape) > 0)
    which = make.pick(lambda n: exact(n) and n.value.rank < 2 and numeric(n) and not n.is_float)
    if node is None or which is None:
        return None
    x, axis = node.value, make.axis(node.value)
    size = x.size_of(x.shape[axis]).astype(dtypes.i64)
    index = which.value.astype(dtypes.i64) % size
    taken = x.take(index, axis)
    if not numeric(node) or make.flag():
        return Node(taken, node.error)
    many = count(index.shape)
    base = x.literal(0).broadcast_to(x.shape)
    return rounded(base.scatter_add(index, taken, axis), many * node.error, many)


def sort(make: Maker) -> Node | None:
    node = make.pick(lambda n: with_dims(n) and numeric(n))
    if node is None:
        return None
    x, axis = node.value, make.axis(node.value)
    values, order = x.apply(lookup("nd.sort"), (x,), {"axis": axis, "descending": make.flag()})
    if node.error or make.flag():
        return Node(values, node.error)
    return Node(order if make.flag() else x.flip(axis).take_along_axis(order, axis))


STEPS: tuple[Step, ...] = (
    binary, unary, move, reduce, cast, select, compare, jump, find, scan, gather, softmax, product, sort, binary, move,
)  # fmt: skip


# ---- programs ----------------------------------------------------------------------------------------------------


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
    """Programs of up to that many steps, over one to three arrays of any type whose shapes broadcast."""

    def choose(low: int, high: int) -> int:
        return draw(st.integers(low, high)) if low < high else low

    full: list[DimLike] = [SIZES[choose(0, len(SIZES) - 1)] for _ in range(choose(1, 3))]
    named = choose(0, 3) == 3
    if named:
        full[choose(0, len(full) - 1)] = dims.dim(NAMED[0])
    avals = []
    for number in range(choose(1, 3)):
        kept = full[choose(0, len(full)) if number else 0 :]
        avals.append(Aval(DTYPES[choose(0, len(DTYPES) - 1)], tuple(1 if number and choose(0, 3) == 3 else d for d in kept)))
    nodes: list[Node] = []

    def function(*inputs: Value) -> list[Value]:
        make = Maker(choose, inputs)
        for _ in range(choose(1, steps)):
            make.step(STEPS)
        last = len(make.nodes) - 1
        nodes.extend(make.nodes[k] for k in sorted({last, choose(0, last)}))
        return [n.value for n in nodes]

    specs = tuple(f"{a.dtype.name}[{', '.join(map(str, a.shape))}]" for a in avals)
    module = program(function, *specs)
    sizes = {NAMED[0]: NAMED[1][choose(0, 2)]} if named else {}
    rng, special = np.random.default_rng(choose(0, 99)), choose(0, 4) == 4
    concrete = [Aval(a.dtype, tuple(dims.evaluate(d, sizes) for d in a.shape)) for a in avals]
    return Drawn(module, specs, [input_array(rng, a, special) for a in concrete], sizes, [n.error for n in nodes])
