"""Steps of random nd programs, made of choices that Hypothesis or a seeded generator takes.

What is made knows how far two right evaluations of it may be apart: not at all, until something rounds that may round
differently (a sum, a transcendental function, a narrow float). What is exact may be compared, rounded and sorted; the
rest may not, since a last bit could decide. Magnitudes are kept at `LIMIT` and below, so that errors stay small.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firebox import dims, dtypes
from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.value import Value
from firebox.dims import DimLike
from firebox.dtypes import DType, result_type
from firebox.frontend.functions.linear_algebra import matmul

Choose = Callable[[int, int], int]
"""An integer between two bounds, both included."""
LIMIT = 8.0
EPS = {dtypes.f16: 2.0**-10, dtypes.bf16: 2.0**-7, dtypes.f32: 2.0**-23, dtypes.f64: 2.0**-23}
"""Units in the last place at 1; of f64 that of f32, since some of its values were one."""
DTYPES = (
    dtypes.f32, dtypes.f64, dtypes.i32, dtypes.bool_, dtypes.bf16, dtypes.f16, dtypes.i64, dtypes.u8, dtypes.i8,
)  # fmt: skip
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
Map = Callable[[Value], Value]


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


KEPT: tuple[Map, ...] = (lambda x: abs(x), lambda x: -x, lambda x: x.clip(-1.0, 1.0))
SMOOTH: tuple[Map, ...] = (
    lambda x: x.tanh(),
    lambda x: x.sin(),
    lambda x: x.minimum(2.0).exp(),
    lambda x: (abs(x) + 1.0).sqrt(),
    lambda x: 1.0 / (1.0 + x * x),
    lambda x: x * x * 0.125,
    lambda x: x.one("sigmoid", x),
    lambda x: x.one("erf", x),
)
OF_INTEGERS: tuple[Map, ...] = (
    lambda x: abs(x),
    lambda x: -x,
    lambda x: ~x,
    lambda x: x.sign(),
    lambda x: x & 7,
    lambda x: x << 2,
    lambda x: x >> 1,
    lambda x: x // 3,
    lambda x: x % 5,
)
JUMPS: tuple[Map, ...] = (
    lambda x: x > 0,
    lambda x: x != 1,
    lambda x: x <= 2,
    lambda x: x.floor(),
    lambda x: x.ceil(),
    lambda x: x.one("round", x),
    lambda x: x.trunc(),
    lambda x: x.sign(),
)


def unary(make: Maker) -> Node | None:
    node = make.pick(numeric)
    if node is None:
        return None
    if not node.is_float:
        return Node(OF_INTEGERS[make.choose(0, len(OF_INTEGERS) - 1)](node.value))
    which = make.choose(0, len(KEPT) + len(SMOOTH) - 1)
    if which < len(KEPT):
        return Node(KEPT[which](node.value), node.error)
    return rounded(SMOOTH[which - len(KEPT)](node.value), 8 * node.error)


def jump(make: Maker) -> Node | None:
    """A function that is not continuous, of an exact value."""
    node = make.pick(lambda n: exact(n) and numeric(n))
    return None if node is None else Node(JUMPS[make.choose(0, len(JUMPS) - 1)](node.value))


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
    wide = which.value.astype(dtypes.i64)
    index = wide % wide.size_of(x.shape[axis])
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


def nothing(make: Maker) -> None:
    """What any step may become where a program that fails is made smaller."""


STEPS: tuple[Step, ...] = (
    nothing,
    binary, unary, move, reduce, cast, select, compare, jump, find, scan, gather, softmax, product, sort, binary, move,
)  # fmt: skip
