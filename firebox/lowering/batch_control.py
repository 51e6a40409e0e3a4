"""Batching of control flow: what differs from slice to slice gets a leading axis, what does not stays as it is.

A branch or a loop that all slices take alike stays one. Where they differ, both branches are computed and the results
selected; a loop runs until the last slice is done, and those that are done keep their values. No slice can then fail,
or run on for ever, in a region that it alone would not have entered: where that could be, it is given the values of one
that does enter.
"""

from collections.abc import Sequence
from typing import Protocol

from xdsl.ir import Block, SSAValue

from firebox import dtypes
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.transform import yield_values, yielded
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dialects.xdsl_compat import operands_of
from firebox.dims import DimLike
from firebox.lowering.rewrite import body_ops, copy_ops, remade, zeros

Known = dict[SSAValue, SSAValue]
Batched = list[tuple[SSAValue, bool]]
"""For each result of an op, what takes its place and whether that is batched."""


class Batching(Protocol):
    """What the rules here need of the driver: it batches plain ops, and regions of them."""

    at: Inserter
    size: DimLike

    def spread(self, value: SSAValue) -> Value:
        """The value repeated along a new leading axis."""

    def region(self, old: Block, flags: Sequence[bool], known: Known, wanted: Sequence[bool] | None = None) -> Block:
        """A new block with the batched ops of an old one."""


def batch_control(op: ControlOp, known: Known, batching: Batching) -> Batched:
    """Put a batched op, or several, in place of one with control flow."""
    flags = [v in known for v in operands_of(op)]
    rule = _Rule(op, known, batching)
    if isinstance(op, CondOp):
        return rule.select(op) if flags[0] else rule.cond(op, flags)
    flags = _settled(op, flags)
    if isinstance(op, ScanOp):
        return rule.scan(op, flags)
    assert isinstance(op, WhileOp)
    return rule.loop_apart(op, flags) if _differs(op.blocks[0], flags)[0] else rule.loop(op, flags)


# ---- what differs from slice to slice ----------------------------------------------------------------------------


def _differs(block: Block, flags: Sequence[bool]) -> list[bool]:
    """Which yields of a block differ from slice to slice when some of its arguments do."""
    found: set[SSAValue] = {a for a, flag in zip(block.args, flags, strict=True) if flag}
    for op in body_ops(block):
        if isinstance(op, ControlOp):
            results = _results(op, [v in found for v in operands_of(op)])
            found.update(r for r, flag in zip(op.results, results, strict=True) if flag)
        elif any(v in found for inner in op.walk() for v in operands_of(inner)):
            found.update(op.results)
    return [v in found for v in yielded(block)]


def _results(op: ControlOp, flags: Sequence[bool]) -> list[bool]:
    """Which results of an op differ when some of its operands do."""
    if isinstance(op, CondOp):
        if flags[0]:
            return [True] * len(op.results)
        return _either(op, flags)
    flags = _settled(op, flags)
    carry = op.values["carry"]
    return [*flags[:carry], *_differs(op.blocks[-1], flags)[carry:]]


def _either(op: CondOp, flags: Sequence[bool]) -> list[bool]:
    first, second = (_differs(block, flags[1:]) for block in op.blocks)
    return [a or b for a, b in zip(first, second, strict=True)]


def _settled(op: ControlOp, flags: Sequence[bool]) -> list[bool]:
    """The flags of a loop's operands, with those carried values that differ after some steps, or end apart."""
    carry, found = op.values["carry"], list(flags)
    while True:
        ends = _differs(op.blocks[-1], found)
        apart = isinstance(op, WhileOp) and _differs(op.blocks[0], found)[0]
        more = [flag or end or apart for flag, end in zip(found[:carry], ends, strict=False)]
        if more == found[:carry]:
            return found
        found[:carry] = more


def _is_risky(block: Block) -> bool:
    """Whether a region may fail or not end, for values that are not meant for it."""
    ops = [op for op in block.walk() if isinstance(op, NdOp)]
    return any(isinstance(op, WhileOp) or op.checks_indices or not op.name.startswith("nd.") for op in ops)


# ---- rules -------------------------------------------------------------------------------------------------------


class _Rule:
    """Batches one op."""

    def __init__(self, op: ControlOp, known: Known, batching: Batching) -> None:
        self.op = op
        self.known = known
        self.batching = batching
        self.at = batching.at

    def _operands(self, flags: Sequence[bool]) -> list[SSAValue]:
        found = []
        for value, flag in zip(operands_of(self.op), flags, strict=True):
            batched = self.known.get(value)
            spread = flag and batched is None
            found.append(self.batching.spread(value).ssa if spread else batched if batched is not None else value)
        return found

    def _region(self, block: Block, flags: Sequence[bool], wanted: Sequence[bool]) -> Block:
        return self.batching.region(block, flags, {}, wanted)

    def _put(self, operands: Sequence[SSAValue], blocks: Sequence[Block]) -> ControlOp:
        return self.at.put(remade(self.op, operands, dict(self.op.values), blocks))

    def cond(self, op: CondOp, flags: Sequence[bool]) -> Batched:
        """One branch for all slices."""
        wanted = _either(op, flags)
        blocks = [self._region(block, flags[1:], wanted) for block in op.blocks]
        return list(zip(self._put(self._operands(flags), blocks).results, wanted, strict=True))

    def scan(self, op: ScanOp, flags: Sequence[bool]) -> Batched:
        """Slices are read, and rows stacked, along the axis behind the new one, which is brought to the front."""
        carry, sliced = op.values["carry"], op.values["carry"] + op.values["slices"]
        wanted = [*flags[:carry], *_differs(op.blocks[0], flags)[carry:]]
        operands = self._operands(flags)
        for k in range(carry, sliced):
            if flags[k]:
                operands[k] = self._swapped(operands[k])
        made = self._put(operands, [self._region(op.blocks[0], flags, wanted)])
        results: list[SSAValue] = list(made.results)
        for k in range(carry, len(results)):
            if wanted[k]:
                results[k] = self._swapped(results[k])
        return list(zip(results, wanted, strict=True))

    def _swapped(self, value: SSAValue) -> SSAValue:
        batched = Value(value, self.at)
        return batched.transpose((1, 0, *range(2, batched.rank))).ssa

    def loop(self, op: WhileOp, flags: Sequence[bool]) -> Batched:
        """All slices take the same steps."""
        wanted = flags[: op.values["carry"]]
        blocks = [self._region(op.blocks[0], flags, [False]), self._region(op.blocks[1], flags, wanted)]
        return list(zip(self._put(self._operands(flags), blocks).results, wanted, strict=True))

    def loop_apart(self, op: WhileOp, flags: Sequence[bool]) -> Batched:
        """A loop that also carries which slices go on: it ends when none does."""
        carry, risky = op.values["carry"], _is_risky(op.blocks[1])
        condition = self._region(op.blocks[0], flags, [True])
        step = self._region(op.blocks[1], flags, [True] * carry)
        operands = self._operands(flags)
        start = copy_ops(condition, operands, self.at.put)
        avals = [aval_of(start[0].type), *(aval_of(v.type) for v in operands)]
        body = block_of(avals)
        at = self._inserter(body)
        active, *values = (Value(a, at) for a in body.args)
        given = _filled(active, values, flags) if risky else values
        ends = copy_ops(step, [v.ssa for v in given], body.add_op)
        kept = [_chosen(active, Value(e, at), v).ssa for e, v in zip(ends, values, strict=False)]
        more = copy_ops(condition, [*kept, *(v.ssa for v in values[carry:])], body.add_op)
        body.add_op(yield_values([*more, *kept]))
        params = {"carry": 1 + carry}
        made = self.at.put(remade(op, [*start, *operands], params, [self._any(avals), body]))
        return [(r, True) for r in made.results[1:]]

    def _inserter(self, block: Block) -> Inserter:
        at = Inserter(block)
        at.location = self.op.location
        at.mark = self.at.mark
        return at

    def _any(self, avals: Sequence[Aval]) -> Block:
        """Whether the first argument holds for any slice."""
        block = block_of(avals)
        block.add_op(yield_values([Value(block.args[0], self._inserter(block)).any().ssa]))
        return block

    def select(self, op: CondOp) -> Batched:
        """The results of both branches, of which each slice takes its own."""
        flags = [v in self.known for v in operands_of(op)]
        condition, *operands = (Value(v, self.at) for v in self._operands(flags))
        wanted = [True] * len(op.results)
        sides = []
        for number, source in enumerate(op.blocks):
            risky = _is_risky(source)
            block = self._region(source, flags[1:], wanted)
            taken = condition.one("logical_not", condition) if number else condition
            if risky:
                sides.append(self._if_any(taken, operands, flags[1:], block))
            else:
                sides.append(copy_ops(block, [v.ssa for v in operands], self.at.put))
        pairs = zip(*sides, strict=True)
        return [(_chosen(condition, Value(a, self.at), Value(b, self.at)).ssa, True) for a, b in pairs]

    def _if_any(self, taken: Value, operands: Sequence[Value], flags: Sequence[bool], source: Block) -> list[SSAValue]:
        """A branch that runs if any slice takes it, for values of slices that do; else zeros."""
        given = [taken, *operands]
        block = block_of([v.aval for v in given])
        inside = self._inserter(block)
        chosen, *values = (Value(a, inside) for a in block.args)
        filled = [v.ssa for v in _filled(chosen, values, flags)]
        block.add_op(yield_values(copy_ops(source, filled, block.add_op)))
        nothing = block_of([v.aval for v in given])
        at = self._inserter(nothing)
        nothing.add_op(yield_values([zeros(at, aval_of(v.type)).ssa for v in yielded(source)]))
        made = self.at.put(remade(self.op, [taken.any().ssa, *(v.ssa for v in given)], {}, [block, nothing]))
        return list(made.results)


def _chosen(which: Value, a: Value, b: Value) -> Value:
    """Slice by slice one of two."""
    aligned = which.reshape((*which.shape, *(1 for _ in a.shape[1:])))
    return which.one("select", aligned, a, b)


def _filled(which: Value, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    """Values with the first slice for which it holds in place of those for which it does not."""
    first = which.astype(dtypes.i32).argmax(0)
    return [
        _chosen(which, v, v.take(first, 0).broadcast_to(v.shape)) if flag else v
        for v, flag in zip(values, flags, strict=True)
    ]
