"""Lifetimes of values in the order in which ops stand, and copies of ops before a late use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.xdsl_compat import operands_of, ops_of
from firebox.lowering.rewrite import RECOMPUTE, is_pure, next_mark

FAR = 32
"""Ops between two uses from which a value counts as kept over a long time."""
NEGLIGIBLE = 16
"""How many times smaller an operand must be for its memory not to count."""
LONGEST = 16
"""Ops that may be repeated for one value."""


@dataclass(frozen=True)
class Allowed:
    """What may be done with ops so that less memory is taken.

    Attributes:
        repeats: computed again.
        keeps: kept for it, though it is not used any more.
    """

    repeats: Callable[[NdOp], bool]
    keeps: Callable[[NdOp], bool]


def memory_bound(op: NdOp) -> bool:
    """Element-wise ops and moves of elements: what is bound by memory rather than by arithmetic."""
    return op.kind in (Kind.MAP, Kind.RESHAPE) and len(op.results) == 1 and bool(operands_of(op))


def repeatable(op: NdOp) -> bool:
    """Any op without a region that computes something of operands: values never change, so it gives the same again."""
    return is_pure(op) and not op.regions and bool(operands_of(op))


BALANCED = Allowed(memory_bound, lambda op: not memory_bound(op))
"""Memory-bound ops are repeated, of what the others gave."""
EVERYTHING = Allowed(repeatable, lambda op: False)
"""All ops are repeated; nothing is kept longer."""


def nbytes(value: SSAValue) -> int:
    """Size in memory; 0 while it depends on symbolic dims."""
    size = aval_of(value.type).nbytes
    return size if isinstance(size, int) else 0


def arithmetic(op: NdOp) -> float:
    """Additions that the op takes; sizes that are not known count 1."""
    each = op.cost(op.operand_avals, op.avals, **op.values)
    return each * sum(dims.evaluate(a.size, dict.fromkeys(dims.names(a.size), 1)) for a in op.avals)


class Lives:
    """When values are made and used.

    Attributes:
        ops: of the block, in order.
        position: of each in it.
        mark: of the next copies.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.ops = list(ops_of(block))
        self.position: dict[Operation, int] = {op: k for k, op in enumerate(self.ops)}
        self.mark = next_mark(block)

    def uses(self, value: SSAValue) -> list[int]:
        """Positions of the uses, ascending; uses inside regions count as those of the op that holds them."""
        return sorted({self.place(use.operation) for use in value.uses})

    def place(self, op: Operation) -> int:
        """Where the op, or the one that holds it, stands; -1 for a copy made meanwhile."""
        while op not in self.position:
            parent = op.parent_op()
            if parent is None:
                return -1
            op = parent
        return self.position[op]

    def made(self, value: SSAValue) -> int:
        """Where the value is made; -1 for arguments and copies."""
        return self.position.get(value.owner, -1) if isinstance(value.owner, Operation) else -1

    def last(self, value: SSAValue) -> int:
        return max(self.uses(value), default=-1)

    def after_gap(self, value: SSAValue) -> Operation | None:
        """The first use after a long wait."""
        for earlier, later in pairwise([max(self.made(value), 0), *self.uses(value)]):
            if later - earlier >= FAR:
                return self.ops[later]
        return None

    def after(self, op: NdOp, position: int) -> Operation | None:
        """The first use of the op's results after a position that they wait over; None where one is used there."""
        uses = sorted({u for result in op.results for u in self.uses(result)})
        later = [u for u in uses if u > position]
        return self.ops[later[0]] if later and position not in uses else None

    def is_there(self, value: SSAValue, late: Operation, like: SSAValue) -> bool:
        """Whether a value is in memory when ``late`` runs without being kept for it, or takes next to none."""
        owner = value.owner
        if not isinstance(owner, Operation) or not operands_of(owner):
            return True  # an argument, or a constant
        return self.last(value) >= self.position[late] or 0 < NEGLIGIBLE * nbytes(value) <= nbytes(like)

    def available(self, op: NdOp, late: Operation) -> bool:
        """Whether all operands are there when ``late`` runs."""
        return all(self.is_there(v, late, op.results[0]) for v in operands_of(op))

    def chain(self, op: NdOp, late: Operation, ops: Allowed) -> list[NdOp] | None:
        """The ops to repeat for this one before ``late``, in order, down to what is there; None where that fails."""
        found: dict[NdOp, None] = {}
        return list(found) if self._collect(op, late, ops, found) else None

    def _collect(self, op: NdOp, late: Operation, ops: Allowed, found: dict[NdOp, None]) -> bool:
        if op in found:
            return True
        if len(found) >= LONGEST or op not in self.position or not ops.repeats(op):
            return False
        for value in operands_of(op):
            owner = value.owner
            if self.is_there(value, late, op.results[0]) or (isinstance(owner, NdOp) and ops.keeps(owner)):
                continue
            if not isinstance(owner, NdOp) or not self._collect(owner, late, ops, found):
                return False
        found[op] = None
        return len(found) <= LONGEST

    def peak(self) -> tuple[int, int]:
        """(position, bytes) of the largest sum of live results; arguments are the caller's and do not count."""
        change = [0] * (len(self.ops) + 1)
        for k, op in enumerate(self.ops):
            for result in op.results:
                change[k] += nbytes(result)
                change[max(self.last(result), k) + 1] -= nbytes(result)
        total, best = 0, (0, 0)
        for k, delta in enumerate(change):
            total += delta
            best = (k, total) if total > best[1] else best
        return best

    def repeat(self, chain: Sequence[NdOp], late: Operation) -> None:
        """Copies of the ops before ``late``; those of the last one serve its uses from there on."""
        copies: dict[SSAValue, SSAValue] = {}
        for op in chain:
            self.copy(op, late, copies)
        self.serve(chain[-1], late, copies)
        self.mark += 1

    def copy(self, op: NdOp, late: Operation, known: dict[SSAValue, SSAValue]) -> None:
        """A copy of an op before another, on copies of its operands where they are known, as those of its results."""
        copy = op.clone()
        copy.attributes[RECOMPUTE] = IntegerAttr(self.mark, i64)
        for number, operand in enumerate(operands_of(op)):
            if operand in known:
                copy.operands[number] = known[operand]
        self.block.insert_op_before(copy, late)
        known.update(zip(op.results, copy.results, strict=True))

    def serve(self, op: NdOp, late: Operation, copies: Mapping[SSAValue, SSAValue]) -> None:
        """What uses the op's results at ``late`` and after it uses the copies instead."""
        start = self.position[late]
        for result in op.results:
            result.replace_uses_with_if(copies[result], lambda use: self.place(use.operation) >= start)
