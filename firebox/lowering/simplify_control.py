"""Patterns of canonicalize for ops with control flow: what their regions take and yield.

A number comes into a region as a constant, not as an operand in memory, so that the patterns for plain ops see it.
What a loop carries along unchanged is the same in every step. Values that nobody uses are neither taken, nor carried,
nor yielded, and a branch whose condition is known is the only one.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.transform import yielded
from firebox.dialects.nd.value import Inserter, Value
from firebox.dialects.xdsl_compat import is_used, operands_of
from firebox.lowering.patterns import Rewriter, pattern, uniform
from firebox.lowering.rewrite import body_ops, constant, copy_ops, erase_dead, is_pure, remade


@pattern(CondOp)
def known_condition(op: NdOp, rewriter: Rewriter) -> Sequence[Value] | None:
    """The ops of the only branch that runs."""
    assert isinstance(op, CondOp)
    found = uniform(operands_of(op)[0])
    if found is None:
        return None
    block = op.blocks[0 if found else 1]
    return [rewriter.value(v) for v in copy_ops(block, operands_of(op)[1:], rewriter.at.put)]


@pattern(CondOp, WhileOp, ScanOp)
def trimmed(op: NdOp, rewriter: Rewriter) -> Sequence[Value] | None:
    """The op without what is superfluous."""
    assert isinstance(op, ControlOp)
    trim = _Trim(op)
    return trim.applied(rewriter) if trim.is_needed() else None


class _Trim:
    """What is superfluous in one op; arguments of its regions and results are named by their numbers.

    Attributes:
        first: number of the operand that is the first argument.
        carry, sliced: where the carried values, and the slices, end among the arguments.
        ending: the blocks that yield the results.
        same: carried values that no step changes.
        live: results that are needed, for themselves or to carry others on.
        numbers: arguments, not carried, that are one repeated number.
        twice: arguments, not carried -> an earlier one that is the same.
        unused: arguments, not carried, that no region uses.
    """

    def __init__(self, op: ControlOp) -> None:
        self.op = op
        self.blocks = op.blocks
        self.first = 1 if isinstance(op, CondOp) else 0
        self.carry: int = 0 if isinstance(op, CondOp) else op.values["carry"]
        self.sliced: int = self.carry + (op.values["slices"] if isinstance(op, ScanOp) else 0)
        self.ending = self.blocks[-1:] if isinstance(op, WhileOp) else self.blocks
        self.operands = operands_of(op)[self.first :]
        self.same = self._same()
        self.live = self._live()
        given = range(self.carry, len(self.operands))
        self.numbers = {k for k in given if uniform(self.operands[k]) is not None}
        self.twice = self._twice()
        used = {k for k in given if any(is_used(b.args[k]) for b in self.blocks)} | set(self.twice.values())
        self.unused = set(given) - used

    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        found = self.same or self.numbers or self.twice or self.unused
        return bool(found) or len(self.live) < len(self.op.results)

    def _same(self) -> set[int]:
        body = self.blocks[-1]
        return {k for k in range(self.carry) if yielded(body)[k] is body.args[k]}

    def _twice(self) -> dict[int, int]:
        known: dict[tuple[SSAValue, bool], int] = {}
        found = {}
        for k in range(self.carry, len(self.operands)):
            first = known.setdefault((self.operands[k], k < self.sliced), k)
            if first != k:
                found[k] = first
        return found

    def _live(self) -> set[int]:
        """Results that are used, and carried values that those, or the condition of a loop, depend on."""
        found = {k for k, r in enumerate(self.op.results) if is_used(r)}
        stack = [yielded(block)[k] for block in self.ending for k in found]
        if isinstance(self.op, WhileOp):
            stack += yielded(self.blocks[0])
        stack += [v for b in self.blocks for op in body_ops(b) if not is_pure(op) for v in operands_of(op)]
        seen: set[SSAValue] = set()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value.owner, Operation):
                stack += [v for inner in value.owner.walk() for v in operands_of(inner)]
            elif isinstance(value, BlockArgument) and value.owner in self.blocks and value.index < self.carry:
                found.add(value.index)
                stack.append(yielded(self.blocks[-1])[value.index])
        return found

    # ---- the new op ----------------------------------------------------------------------------------------------

    def applied(self, rewriter: Rewriter) -> list[Value]:
        """What takes the place of the results."""
        kept = [k for k in range(len(self.op.results)) if k in self.live and k not in self.same]
        carried = [k for k in kept if k < self.carry]
        dropped = self.numbers | self.unused | set(self.twice)
        slices = [k for k in range(self.carry, self.sliced) if k not in dropped]
        others = [k for k in range(self.sliced, len(self.operands)) if k not in dropped]
        order = [*carried, *slices, *others, *sorted(self.same & self.live)]
        params = dict(self.op.values)
        if "carry" in params:
            params["carry"] = len(carried)
        if "slices" in params:
            params["slices"] = len(slices)
        operands = [*operands_of(self.op)[: self.first], *(self.operands[k] for k in order)]
        blocks = [self._block(block, order, kept) for block in self.blocks]
        results = dict(zip(kept, rewriter.at.put(remade(self.op, operands, params, blocks)).results, strict=True))
        return [rewriter.value(self._result(k, results)) for k in range(len(self.op.results))]

    def _result(self, number: int, results: Mapping[int, SSAValue]) -> SSAValue:
        """Of the new op, or the value that was carried along; nobody asks for those that are gone."""
        if number in self.same:
            return self.operands[number]
        return results.get(number, self.op.results[number])

    def _block(self, block: Block, order: Sequence[int], kept: Sequence[int]) -> Block:
        last, region, old = block.last_op, block.parent, list(block.args)
        assert last is not None and region is not None
        if block in self.ending:
            last.operands = [yielded(block)[k] for k in kept]
        erase_dead(block)
        for k in self.twice:
            old[k].replace_all_uses_with(old[self.twice[k]])
        for k in self.numbers:
            self._enter_number(block, old[k])
        for k in order:
            argument = block.insert_arg(old[k].type, len(block.args))
            argument.name_hint = old[k].name_hint
            old[k].replace_all_uses_with(argument)
        for argument in old:
            block.erase_arg(argument)
        region.detach_block(block)
        return block

    def _enter_number(self, block: Block, argument: BlockArgument) -> None:
        if not is_used(argument):
            return
        number = uniform(self.operands[argument.index])
        first = block.first_op
        assert number is not None and first is not None
        at = Inserter(first)
        at.location = self.op.location
        aval = aval_of(argument.type)
        argument.replace_all_uses_with(constant(at, number.item(), aval.dtype).broadcast_to(aval.shape).ssa)
