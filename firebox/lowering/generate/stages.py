"""What generators of reductions share: states of monoids, and how they are lifted, combined and finished.

A state is one value per part of a monoid's state, scalar or vector; several reductions run side by side, so that most
functions take one state for each.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.formula import Monoid
from firebox.dialects.nd.group import GroupOp
from firebox.lowering.access import formula_of, reduction_of
from firebox.lowering.generate.body import Body, Scalars

State = list[Val]


def monoid_of(op: NdOp) -> Monoid:
    """How a reduce op combines its elements."""
    monoid = formula_of(op).monoid
    assert monoid is not None
    return monoid


def identity(k: KernelBuilder, op: NdOp, width: int) -> State:
    """The state of no elements, in vectors of `width` lanes."""
    monoid = monoid_of(op)
    return [k.broadcast(k.const(v, t), width) for v, t in zip(monoid.init, monoid.dtypes, strict=True)]


def lifted(body: Body, op: NdOp, width: int) -> State:
    """The state of the element at the present point."""
    env = reduction_of(formula_of(op)).env
    values = body.compute(op, env)
    return [body.k.broadcast(v, width) for v in monoid_of(op).lift(Scalars(body, env), *values)]


def combine(k: KernelBuilder, op: NdOp, a: Sequence[Val], b: Sequence[Val]) -> State:
    """The state of the elements of both."""
    return list(monoid_of(op).combine(k, tuple(a), tuple(b)))


def combine_all(k: KernelBuilder, ops: Sequence[NdOp], copies: Sequence[list[State]]) -> list[State]:
    """One state per op from several, pairwise, so that the tree is balanced."""
    left = list(copies)
    while len(left) > 1:
        half = len(left) // 2
        pairs = zip(left[:half], left[half : 2 * half], strict=True)
        left = [[combine(k, op, a, b) for op, a, b in zip(ops, x, y, strict=True)] for x, y in pairs] + left[2 * half :]
    return left[0]


def fold_lanes(k: KernelBuilder, op: NdOp, state: State) -> State:
    """The lanes of a state combined into a scalar state."""
    return k.fold_lanes(state, lambda a, b: combine(k, op, a, b))


def finish(body: Body, op: NdOp, state: State) -> None:
    """Let the results of a reduction be known."""
    for result, value in zip(op.results, monoid_of(op).finish(body.k, tuple(state)), strict=True):
        body.known[result] = value


def needs_wide_indices(group: GroupOp, limit: int = 1 << 31) -> bool:
    """Whether element offsets may reach a limit, or positions in a value that exists inside only."""
    inner = [v for member in group.members for v in (*member.operands, *member.results)]
    sizes = {aval_of(v.type).size for v in (*group.operands, *group.results, *inner)}
    return any(not isinstance(s, int) or s >= limit for s in sizes)


def same_storage(value: SSAValue) -> bool:
    """What is stored is what was computed, bit by bit."""
    dtype = aval_of(value.type).dtype
    return dtype is dtype.compute


def flatten(states: Sequence[State]) -> list[Val]:
    """All values of several states."""
    return [v for state in states for v in state]


def group_like(values: Sequence[Val], like: Sequence[State]) -> list[State]:
    """What `flatten` made flat."""
    result, at = [], 0
    for state in like:
        result.append(list(values[at : at + len(state)]))
        at += len(state)
    return result


def flatten_all(copies: Sequence[Sequence[State]]) -> list[Val]:
    """All values of several copies of the states."""
    return [v for states in copies for v in flatten(states)]


def group_all(values: Sequence[Val], like: Sequence[Sequence[State]]) -> list[list[State]]:
    """What `flatten_all` made flat."""
    result, at = [], 0
    for states in like:
        count = sum(len(s) for s in states)
        result.append(group_like(values[at : at + count], states))
        at += count
    return result
