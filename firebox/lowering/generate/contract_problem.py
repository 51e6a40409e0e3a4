"""`Problem`: what a contraction computes: its loops after merging neighbours, and where its operands are read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.formula import Read
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike, dim
from firebox.dtypes import DType
from firebox.lowering.access import formula_of, loops, point, substitute
from firebox.lowering.generate.addressing import strides_of
from firebox.lowering.generate.nest import Loop, Nest


@dataclass(frozen=True)
class Position:
    """Where an operand is read along one of its dims: at ``(sum of coefficient * loop + offset) / base``.

    Attributes:
        size: extent of the dim.
        terms: (loop, coefficient).
        offset: added to the terms.
        base: only multiples of it are positions; 0 is read between them.
        guarded: the position may lie outside of the dim, where 0 is read.
    """

    size: DimLike
    terms: tuple[tuple[str, int], ...]
    offset: int = 0
    base: int = 1
    guarded: bool = False

    def coefficient(self, name: str) -> int:
        """Of a loop; 0 where it does not occur."""
        return dict(self.terms).get(name, 0)

    @property
    def plain(self) -> str:
        """The loop that the position is; empty for anything else."""
        simple = len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0 and self.base == 1
        return self.terms[0][0] if simple and not self.guarded else ""


@dataclass(frozen=True)
class Operand:
    """One factor of the products.

    Attributes:
        value: the block argument that is read.
        positions: one for each dim that varies; None where the reads are not of that form.
        read: the read as the formula has it, over the loops before merging.
    """

    value: SSAValue
    positions: tuple[Position, ...] | None
    read: Read

    @property
    def dtype(self) -> DType:
        return aval_of(self.value.type).dtype

    @property
    def names(self) -> tuple[str, ...]:
        """The loops it varies along; none where that is unknown."""
        if self.positions is None:
            return ()
        return tuple(dict.fromkeys(name for p in self.positions for name, _ in p.terms))

    @property
    def direct(self) -> bool:
        """Every element is read unconditionally, at an affine address."""
        return self.positions is not None and all(p.base == 1 and not p.guarded for p in self.positions)

    def stride(self, name: str) -> DimLike:
        """Step of the address along a loop, in elements."""
        assert self.positions is not None
        steps = strides_of(tuple(p.size for p in self.positions))
        total: DimLike = 0
        for position, step in zip(self.positions, steps, strict=True):
            total = total + dims.multiply(position.coefficient(name), step)
        return total

    @property
    def origin(self) -> DimLike:
        """The address where all loops are 0."""
        assert self.positions is not None
        steps = strides_of(tuple(p.size for p in self.positions))
        total: DimLike = 0
        for position, step in zip(self.positions, steps, strict=True):
            total = total + dims.multiply(position.offset, step)
        return total


@dataclass(frozen=True)
class Problem:
    """A contraction.

    Attributes:
        op: the member.
        operands: both factors.
        out: loops over the result, outermost first; those of extent 1 are left out.
        reduced: loops that are summed over.
        collapse: merged loop variables, which read 0.
        nest: the loops of the group without the operands of the contraction.
        dtype: of the sums.
    """

    op: NdOp
    operands: tuple[Operand, Operand]
    out: tuple[Loop, ...]
    reduced: tuple[Loop, ...]
    collapse: dict[str, DimLike]
    nest: Nest
    dtype: DType

    @classmethod
    def of(cls, group: GroupOp) -> "Problem":
        """Analyse a group of kind ``contract``; each group once."""
        found = _PROBLEMS.get(group)
        if found is None:
            found = _PROBLEMS[group] = _analyse(group)
        return found

    @property
    def reduced_env(self) -> dict[str, DimLike]:
        """The reduced loops of the formula as expressions; 0 where the extent is 1."""
        extents = formula_of(self.op).reduced
        return {f"r{k}": 0 if extent == 1 else dim(f"r{k}") for k, extent in enumerate(extents)}

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]

    def loop(self, name: str) -> Loop:
        """The loop of a name."""
        return next(loop for loop in (*self.out, *self.reduced) if loop.name == name)


_PROBLEMS: WeakKeyDictionary[GroupOp, Problem] = WeakKeyDictionary()


def _analyse(group: GroupOp) -> Problem:
    op = next(op for op in group.members if op.kind is Kind.CONTRACT)
    formula = formula_of(op)
    assert formula.monoid is not None
    env = point(loops(formula.extents))
    env |= {f"r{k}": 0 if extent == 1 else dim(f"r{k}") for k, extent in enumerate(formula.reduced)}
    out = [Loop(f"d{k}", e, False) for k, e in enumerate(formula.extents) if e != 1]
    reduced = [Loop(f"r{k}", e, True) for k, e in enumerate(formula.reduced) if e != 1]
    names = {loop.name for loop in (*out, *reduced)}
    operands = [_operand(op, read, env, names) for read in formula.reads]
    nest = Nest.of(group)
    collapse: dict[str, DimLike] = {}
    out = _merge(out, operands, collapse, set(nest.collapse))
    reduced = _merge(reduced, operands, collapse, names)
    lhs, rhs = operands
    return Problem(op, (lhs, rhs), tuple(out), tuple(reduced), collapse, nest, formula.monoid.dtypes[0])


# ---- reads -------------------------------------------------------------------------------------------------------


def _operand(op: NdOp, read: Read, env: dict[str, DimLike], names: set[str]) -> Operand:
    shape = op.operand_avals[read.operand].shape
    positions = [_position(read, k, size, env, names) for k, size in enumerate(shape)]
    known = [p for p in positions if p is not None]
    complete = len(known) == len(shape) and read.fill == 0
    varying = tuple(p for p in known if p.size != 1 or p.guarded)
    return Operand(op._operands[read.operand], varying if complete else None, read)


def _position(read: Read, axis: int, size: DimLike, env: dict[str, DimLike], names: set[str]) -> Position | None:
    """None where the index is not affine in the loops."""
    expression, base, guarded = read.index[axis], 1, False
    for guard in read.guards:
        if guard.expression == expression and guard.size == size:
            guarded = True
            if guard.divisor != 1:
                expression, base = guard.multiple, guard.divisor
    if size == 1 and not guarded:
        return Position(size, ())
    (expression,) = substitute((expression,), env)
    if isinstance(expression, int):
        return Position(size, (), expression, base, guarded)
    terms, offset = [], 0
    for monomial, coefficient in expression.terms:
        if not monomial:
            offset = coefficient
        elif len(monomial) == 1 and isinstance(monomial[0], str) and monomial[0] in names:
            terms.append((monomial[0], coefficient))
        else:
            return None
    return Position(size, tuple(terms), offset, base, guarded)


# ---- merging -----------------------------------------------------------------------------------------------------


def _merge(
    chain: Sequence[Loop], operands: list[Operand], collapse: dict[str, DimLike], allowed: set[str]
) -> list[Loop]:
    """Merge neighbouring loops that everything walks through as if they were one; changes the operands' positions."""
    merged: list[Loop] = []
    for loop in chain:
        if merged and merged[-1].name in allowed and all(_fit(o, merged[-1], loop) for o in operands):
            outer = merged.pop()
            operands[:] = [_joined(o, outer, loop) for o in operands]
            collapse[outer.name] = 0
            loop = Loop(loop.name, dims.multiply(outer.extent, loop.extent), loop.reduced)
        merged.append(loop)
    return merged


def _fit(operand: Operand, outer: Loop, inner: Loop) -> bool:
    """The operand varies along neither loop, or has a dim for each, next to each other."""
    if operand.positions is None:
        return False
    at = [k for k, p in enumerate(operand.positions) if p.coefficient(outer.name) or p.coefficient(inner.name)]
    if not at:
        return True
    if len(at) != 2 or at[1] != at[0] + 1:
        return False
    first, second = operand.positions[at[0]], operand.positions[at[1]]
    return first.plain == outer.name and second.plain == inner.name and second.size == inner.extent


def _joined(operand: Operand, outer: Loop, inner: Loop) -> Operand:
    if operand.positions is None or outer.name not in operand.names:
        return operand
    positions = list(operand.positions)
    at = next(k for k, p in enumerate(positions) if p.plain == outer.name)
    size = dims.multiply(positions[at].size, positions[at + 1].size)
    positions[at : at + 2] = [replace(positions[at + 1], size=size)]
    return replace(operand, positions=tuple(positions))
