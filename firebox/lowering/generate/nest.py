"""`Nest`: the loops of a group after merging neighbours, what it accesses along them, and the order of its stages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from xdsl.ir import SSAValue

from firebox import dims, dtypes
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.lowering.access import (
    Index,
    formula_of,
    is_movement,
    loops,
    op_env,
    owner_op,
    reduction_of,
    substitute,
    substitute_guard,
)
from firebox.lowering.generate.body import linear, split, strides_of


@dataclass(frozen=True)
class Loop:
    """One loop.

    Attributes:
        name: the loop variable, of the innermost loop merged into it.
        extent: number of turns.
        reduced: whether the group reduces over it.
    """

    name: str
    extent: DimLike
    reduced: bool


@dataclass
class Nest:
    """The loop structure of a group of kind ``loops`` or ``contract``.

    Attributes:
        loops: outermost first; loops of extent 1 are left out.
        collapse: merged loop variables, which read 0.
        homes: where each member is computed.
        levels: number of reductions a member's value depends on, in sequence.
        accesses: offsets of all reads and writes of memory, in elements of the buffer.
        special: loops whose variable is used otherwise than as an affine part of an address.
        guarded: loops whose variable decides whether an element is read.
        reads: offsets of the reads of each argument.
    """

    group: GroupOp
    loops: list[Loop] = field(default_factory=list)
    collapse: dict[str, DimLike] = field(default_factory=dict)
    homes: dict[SSAValue, Index] = field(default_factory=dict)
    levels: dict[SSAValue, int] = field(default_factory=dict)
    accesses: list[DimLike] = field(default_factory=list)
    special: set[str] = field(default_factory=set)
    guarded: set[str] = field(default_factory=set)
    reads: dict[SSAValue, list[DimLike]] = field(default_factory=dict)

    @classmethod
    def of(cls, group: GroupOp) -> "Nest":
        """Analyse a group; groups do not change once they have a label, so each is analysed once."""
        nest = _NESTS.get(group)
        if nest is None:
            nest = _NESTS[group] = cls(group)
            _place(nest)
            _Walk(nest).run()
            _merge(nest)
        return nest

    @property
    def outputs(self) -> tuple[SSAValue, ...]:
        return self.group.yielded

    @property
    def parallel(self) -> list[Loop]:
        return [loop for loop in self.loops if not loop.reduced]

    @property
    def reduced(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.reduced]

    @property
    def depth(self) -> int:
        """Number of stages: one per level of reduction, and one more where full values are stored after the last."""
        return max((self.levels[v] for v in self.homes), default=0)

    def reductions(self, level: int) -> list[NdOp]:
        """Reduce members whose input is known at that level."""
        return [op for op in self.group.members if op.kind is Kind.REDUCE and self.levels[op.results[0]] == level + 1]

    def is_row(self, value: SSAValue) -> bool:
        """The value does not vary along the reduced loops."""
        reduced = {f"d{a}" for a in self.group.axes}
        return not any(n in reduced for e in self.homes[value] for n in dims.names(e))

    def coefficient(self, access: DimLike, name: str) -> DimLike | None:
        """Step of an access along a loop; None where it is not affine."""
        if self.collapse:
            access = dims.substitute(access, self.collapse)
        return split(access, name)[1]


_NESTS: WeakKeyDictionary[GroupOp, Nest] = WeakKeyDictionary()


def _place(nest: Nest) -> None:
    """Homes and levels of the members; movement and free ops have none (they are computed wherever they are read)."""
    group = nest.group
    variables = loops(group.domain)
    kept = tuple(0 if k in group.axes else v for k, v in enumerate(variables))
    dropped = tuple(v for k, v in enumerate(variables) if k not in group.axes)
    for op in group.members:
        if op.kind is Kind.REDUCE:
            home = reduction_of(formula_of(op)).home
        elif op.avals[0].shape == group.domain:
            home = variables
        elif len(op.avals[0].shape) == len(group.domain):
            home = kept
        else:
            home = dropped
        level = max((nest.levels.get(o, 0) for o in op._operands), default=0)
        level += op.kind is Kind.REDUCE
        for result in op.results:
            nest.levels[result] = level
            nest.homes[result] = home


class _Walk:
    """Collects accesses and the loops whose variable is used in another way than as an affine part of an address."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.seen: set[tuple[SSAValue, Index]] = set()

    def run(self) -> None:
        group = self.nest.group
        for value in group.yielded:
            self.value(value, self.nest.homes[value])
            self.nest.accesses.append(linear(self.nest.homes[value], aval_of(value.type).shape))
        for op in group.members:
            if op.kind is Kind.REDUCE:
                self.op(op, reduction_of(formula_of(op)).env)

    def value(self, value: SSAValue, index: Index) -> None:
        if (value, index) in self.seen:
            return
        self.seen.add((value, index))
        op = owner_op(value)
        if op is None:
            offset = linear(index, aval_of(value.type).shape)
            self.nest.reads.setdefault(value, []).append(offset)
            self.address(offset)
        elif op.kind in (Kind.MAP, Kind.RESHAPE):
            self.op(op, op_env(op, index))

    def op(self, op: NdOp, env: dict[str, DimLike]) -> None:
        formula = formula_of(op)
        probe = _Probe(env, self.special)
        if (op.kind is not Kind.REDUCE and not is_movement(op)) or op.kind is Kind.REDUCE:
            formula.scalar(probe, *([_Dummy()] * len(formula.reads)))
        for read in formula.reads:
            shape = op.operand_avals[read.operand].shape
            index = substitute(read.index, env)
            index = tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))
            for guard in read.guards:
                inner = substitute_guard(guard, env)
                self.special(inner.expression, inner.multiple)
                self.nest.guarded.update(dims.names(inner.expression, inner.multiple))
            self.value(op._operands[read.operand], index)

    def address(self, offset: DimLike) -> None:
        self.nest.accesses.append(offset)
        for name in dims.names(offset):
            if split(offset, name)[1] is None:
                self.special(dims.dim(name))

    def special(self, *expressions: DimLike) -> None:
        self.nest.special.update(dims.names(*expressions))


class _Dummy:
    """Stands for a scalar value while a formula is only looked at."""

    dtype = dtypes.f32
    lanes = 1
    const = None
    level = 0
    nonneg = False


class _Probe:
    """A scalar builder that computes nothing and notes which indices are asked for."""

    def __init__(self, env: dict[str, DimLike], note: Any) -> None:
        self._env = env
        self._note = note

    def index(self, expression: DimLike) -> _Dummy:
        self._note(*substitute((expression,), self._env))
        return _Dummy()

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: _Dummy()


def _merge(nest: Nest) -> None:
    """Merge neighbouring loops that every access walks through as if they were one."""
    axes = set(nest.group.axes)
    names = [f"d{k}" for k in range(len(nest.group.domain))]
    whole = [Loop(n, e, k in axes) for k, (n, e) in enumerate(zip(names, nest.group.domain, strict=True)) if e != 1]
    merged: list[Loop] = []
    for loop in whole:
        if merged and _mergeable(nest, merged[-1], loop):
            outer = merged.pop()
            nest.collapse[outer.name] = 0
            loop = Loop(loop.name, dims.multiply(outer.extent, loop.extent), loop.reduced)
        merged.append(loop)
    nest.loops = merged


def _mergeable(nest: Nest, outer: Loop, inner: Loop) -> bool:
    if outer.reduced != inner.reduced or nest.special & {outer.name, inner.name}:
        return False
    for access in nest.accesses:
        step = nest.coefficient(access, inner.name)
        wide = nest.coefficient(access, outer.name)
        if step is None or wide is None or wide != dims.multiply(step, _inner_extent(nest, inner)):
            return False
    return True


def _inner_extent(nest: Nest, inner: Loop) -> DimLike:
    return inner.extent


def offsets(nest: Nest, values: Iterable[SSAValue]) -> list[DimLike]:
    """Offsets at which values are stored."""
    return [linear(nest.homes[v], aval_of(v.type).shape) for v in values]


__all__ = ["Loop", "Nest", "offsets", "strides_of"]
