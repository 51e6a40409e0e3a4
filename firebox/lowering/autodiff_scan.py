"""The way back through a `nd.scan`: another scan, from the last step to the first.

What of the forward steps the backward ones need is stacked by the forward scan: not what costs nothing to move again,
not what is the same in every step, and not what a checkpoint in the region says to compute again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.control import ScanOp
from firebox.dialects.nd.transform import GradOp, yield_values, yielded
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.access import is_movement
from firebox.lowering.autodiff_control import (
    ExpandGrad,
    active_arguments,
    avals_of,
    dependents,
    is_float,
    region_of,
    uses_of,
)
from firebox.lowering.rewrite import RECOMPUTE, body_ops, erase_dead, remade, zeros


@dataclass
class Backward:
    """The way back through a scan.

    Attributes:
        block: its region: cotangents of carried values, sums for the constants, then cotangents of rows, then slices of
            what was kept, then constants.
        carry, others, slices: numbers of the arguments that have a cotangent.
        rows: numbers of the results whose rows have one.
        kept: what the slices are of: numbers of operands, or of results of the forward scan (minus their count).
        constants: numbers of operands.
    """

    block: Block
    carry: list[int]
    others: list[int]
    slices: list[int]
    rows: list[int]
    kept: list[tuple[str, int]]
    constants: list[int]


def open_scan(op: ScanOp, active: Collection[SSAValue], expand: ExpandGrad) -> tuple[ScanOp, Backward]:
    """A detached scan that gives what the way back needs as further results, and the way back."""
    params, body = op.values, op.blocks[0]
    carry, sliced = params["carry"], params["carry"] + params["slices"]
    by = active_arguments(op, active)
    reached = dependents(body_ops(body), [body.args[k] for k in by])
    rows = [k for k in range(carry, len(op.results)) if yielded(body)[k] in reached and is_float(yielded(body)[k])]
    back = Backward(
        Block(),
        [k for k in by if k < carry],
        [k for k in by if k >= sliced],
        [k for k in by if carry <= k < sliced],
        rows,
        [],
        [],
    )
    block, primal = _gradient(op, back, by, expand)
    kept = _Residuals(block, op, back, primal)
    forward = kept.forward()
    new = remade(op, operands_of(op), params, [forward])
    kept.finish()
    return new, back


def _gradient(op: ScanOp, back: Backward, by: list[int], expand: ExpandGrad) -> tuple[Block, list[SSAValue]]:
    """A block that computes a step and its gradient; it takes cotangents, then what the step takes."""
    body = op.blocks[0]
    ends, arguments = yielded(body), body.args
    avals = avals_of([ends[k] for k in back.carry])
    avals += avals_of([arguments[k] for k in back.others]) + avals_of([ends[k] for k in back.rows])
    block = block_of([*avals, *avals_of(arguments)])
    own = block.args[len(avals) :]
    seeds = [*back.carry, *back.rows]
    order = [*seeds, *(k for k in range(len(ends)) if k not in seeds)]
    inside = region_of(body, own, by, order)
    first = len(back.carry) + len(back.others)
    cotangents = [*block.args[: len(back.carry)], *block.args[first : len(avals)]]
    grad = GradOp.build_region_op(
        [*(own[k] for k in by), *cotangents], {"wrt": len(by), "seeds": len(seeds)}, [inside], op.location
    )
    block.add_op(grad)
    at = Inserter(block)
    at.location = op.location
    found = dict(zip(by, grad.results, strict=False))
    sums = []
    for position, k in enumerate(back.others, len(back.carry)):
        total = Value(block.args[position], at)
        sums.append((total.one("add", total, Value(found[k], at))).ssa)
    results = [*(found[k] for k in back.carry), *sums, *(found[k] for k in back.slices)]
    values = dict(zip(order, grad.results[len(by) :], strict=True))
    primal = [values[k] for k in range(len(ends))]
    block.add_op(yield_values([*results, *primal]))
    expand(grad)
    erase_dead(block)
    return block, list(yielded(block)[len(results) :])


class _Residuals:
    """Divides a block that computes a step and its gradient into the two, at the values to keep in between."""

    def __init__(self, block: Block, op: ScanOp, back: Backward, primal: list[SSAValue]) -> None:
        self.block = block
        self.op = op
        self.back = back
        self.primal = primal
        count = len(back.carry) + len(back.others) + len(back.rows)
        self.seeds = list(block.args[:count])
        self.own = list(block.args[count:])
        self.ops = body_ops(block)
        self.later = self._later()
        self.kept = self._keep()

    def _later(self) -> set[Operation]:
        """What runs on the way back: what depends on a cotangent, or is to be computed again."""
        needed = self._behind(self.primal)
        found: set[Operation] = set()
        reached: set[SSAValue] = set(self.seeds)
        for op in self.ops:
            again = RECOMPUTE in op.attributes and op not in needed
            if again or any(v in reached for v in uses_of(op)):
                found.add(op)
                reached.update(op.results)
        return found

    def _behind(self, values: Sequence[SSAValue]) -> set[Operation]:
        """The ops that compute some values."""
        found: set[Operation] = set()
        stack = [v.owner for v in values]
        while stack:
            op = stack.pop()
            if isinstance(op, Operation) and op not in found:
                found.add(op)
                stack.extend(v.owner for v in uses_of(op))
        return found

    def _keep(self) -> list[SSAValue]:
        """The values that the way back reads; what is cheap to make of others, or always the same, is made again."""
        last = self.block.last_op
        assert last is not None
        ends = operands_of(last)[: -len(self.primal)] if self.primal else operands_of(last)
        varying = dependents(self.ops, self.own[: self.op.values["carry"] + self.op.values["slices"]])
        found: dict[SSAValue, None] = {}
        stack = [*reversed(ends), *(v for op in self.ops if op in self.later for v in uses_of(op))]
        inner = {r for op in self.ops for r in op.results} | set(self.own)
        while stack:
            value = stack.pop()
            owner = value.owner
            if value not in inner or owner in self.later:
                continue
            if isinstance(owner, Operation) and (is_movement(owner) or value not in varying):
                self.later.add(owner)
                stack.extend(uses_of(owner))
            else:
                found[value] = None
        return [v for v in found if not (isinstance(v.owner, Operation) and v.owner in self.later)]

    def forward(self) -> Block:
        """The step that yields the values to keep too."""
        block = block_of(avals_of(self.own))
        mapping: dict[SSAValue, SSAValue] = dict(zip(self.own, block.args, strict=True))
        carry, sliced = self.op.values["carry"], self.op.values["carry"] + self.op.values["slices"]
        self.stacks = [v for v in self.kept if v not in self.own[carry:]]
        needed = self._behind([*self.primal, *self.stacks])
        for op in self.ops:
            if op in needed:
                block.add_op(op.clone(mapping))
        ends = [mapping.get(v, v) for v in (*self.primal, *self.stacks)]
        block.add_op(yield_values(ends))
        self.sliced = [k for k in range(carry, sliced) if self.own[k] in self.kept]
        return block

    def finish(self) -> None:
        """Leave the way back in the block."""
        back, block = self.back, self.block
        last = block.last_op
        assert last is not None
        count = len(back.carry) + len(back.others) + len(back.slices)
        last.operands = operands_of(last)[:count]
        values = [*self.stacks, *(self.own[k] for k in self.sliced)]
        back.kept = [("result", len(self.primal) + k) for k in range(len(self.stacks))]
        back.kept += [("operand", k) for k in self.sliced]
        for value in values:
            self._enter(value)
        first = self.op.values["carry"] + self.op.values["slices"]
        back.constants = [k for k in range(first, len(self.own)) if self.own[k] in self.kept]
        for k in back.constants:
            self._enter(self.own[k])
        erase_dead(block)
        for argument in self.own:
            assert isinstance(argument, BlockArgument)
            block.erase_arg(argument)
        back.block = block

    def _enter(self, value: SSAValue) -> None:
        """The way back takes a value as an argument."""
        argument = self.block.insert_arg(value.type, len(self.block.args))
        last = self.block.last_op

        def is_later(use: object) -> bool:
            top = _top(use.operation, self.block)  # type: ignore[attr-defined]
            return top is last or top in self.later

        value.replace_uses_with_if(argument, is_later)


def pull_scan(op: ScanOp, back: Backward, cotangents: Sequence[Value | None], at: Inserter) -> list[Value | None]:
    """Cotangents of the operands of a scan that was opened."""
    operands, results = operands_of(op), op.results
    block = back.block
    start = [cotangents[k] or zeros(at, aval_of(results[k].type)) for k in back.carry]
    start += [zeros(at, aval_of(operands[k].type)) for k in back.others]
    count = len(start)
    slices = []
    for argument, k in zip(list(block.args[count : count + len(back.rows)]), back.rows, strict=True):
        cotangent = cotangents[k]
        if cotangent is None:
            first = block.first_op
            assert first is not None
            argument.replace_all_uses_with(zeros(Inserter(first), aval_of(argument.type)).ssa)
            block.erase_arg(argument)
        else:
            slices.append(cotangent.ssa)
    slices += [results[k] if kind == "result" else operands[k] for kind, k in back.kept]
    values = [*(v.ssa for v in start), *slices, *(operands[k] for k in back.constants)]
    params = {
        "carry": count, "slices": len(slices), "length": op.values["length"], "reverse": not op.values["reverse"]
    }  # fmt: skip
    made = at.put(ScanOp.build_region_op(values, params, [block], op.location))
    found = dict(zip([*back.carry, *back.others, *back.slices], made.results, strict=True))
    return [Value(found[k], at) if k in found else None for k in range(len(operands))]


def _top(op: Operation, block: Block) -> Operation | None:
    """The op of a block in which another stands; None if it stands elsewhere."""
    found: Operation | None = op
    while found is not None and found.parent is not block:
        found = found.parent_op()
    return found
