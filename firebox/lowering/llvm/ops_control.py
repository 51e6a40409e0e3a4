"""LLVM text of structured control flow: counted loops, branches, conditional loops, calls."""

from collections.abc import Sequence

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.llvm.function import FunctionText, lowers

_Values = Sequence[SSAValue[Attribute]]


def _terminator(block: Block) -> _Values:
    """What the yield at the end of a block gives."""
    last = block.last_op
    return operands_of(last) if isinstance(last, scf.YieldOp) else ()


@lowers(scf.YieldOp, scf.ConditionOp, func.ReturnOp)
def _nothing(f: FunctionText, op: Operation) -> None:
    """Written by the op around it."""


@lowers(scf.ForOp)
def _for(f: FunctionText, op: scf.ForOp) -> None:
    """Bottom-tested, with a test before it unless the first turn is certain."""
    low, high, step, *inits = operands_of(op)
    block = op.regions[0].block
    counter, *carried = block.args
    type_ = f.type(counter)
    lo, hi = f.value(low), f.value(high)
    certain = not lo.startswith("%") and not hi.startswith("%") and int(lo) < int(hi)
    body, done = f.new_label("loop"), f.new_label("done")
    before = f.label
    if certain:
        f.branch(body)
    else:
        f.branch_if(f.op(f"icmp slt {type_} {lo}, {hi}"), body, done)
    f.block(body)
    place = f.reserve()
    for value in (counter, *carried):
        f.define(value, f.fresh())
    f.write_block(block)
    results = [f.value(v) for v in _terminator(block)]
    no_wrap = " nsw" if isinstance(counter.type, IndexType) else ""
    following = f.op(f"add{no_wrap} {type_} {f.value(counter)}, {f.value(step)}")
    latch = f.label
    f.branch_if(f.op(f"icmp slt {type_} {following}, {hi}"), body, done)
    starts = [lo, *(f.value(v) for v in inits)]
    f.fill(place, (
        f"{f.value(v)} = phi {f.type(v)} [ {start}, %{before} ], [ {end}, %{latch} ]"
        for v, start, end in zip((counter, *carried), starts, [following, *results], strict=True)
    ))  # fmt: skip
    f.block(done)
    for result, start, end in zip(op.results, starts[1:], results, strict=True):
        f.define(result, end if certain else f.phi(f.type(result), [(start, before), (end, latch)]))


@lowers(scf.IfOp)
def _if(f: FunctionText, op: scf.IfOp) -> None:
    cond = f.value(operands_of(op)[0])
    then, otherwise = op.regions
    has_else = bool(otherwise.blocks)
    yes, done = f.new_label("then"), f.new_label("end")
    no = f.new_label("else") if has_else else done
    f.branch_if(cond, yes, no)
    f.block(yes)
    f.write_block(then.block)
    sources = [([f.value(v) for v in _terminator(then.block)], f.label)]
    f.branch(done)
    if has_else:
        f.block(no)
        f.write_block(otherwise.block)
        sources.append(([f.value(v) for v in _terminator(otherwise.block)], f.label))
        f.branch(done)
    f.block(done)
    for position, result in enumerate(op.results):
        f.define(result, f.phi(f.type(result), [(values[position], label) for values, label in sources]))


@lowers(scf.WhileOp)
def _while(f: FunctionText, op: scf.WhileOp) -> None:
    before, after = (region.block for region in op.regions)
    head, body, done = f.new_label("while"), f.new_label("do"), f.new_label("done")
    entry = f.label
    f.branch(head)
    f.block(head)
    place = f.reserve()
    for argument in before.args:
        f.define(argument, f.fresh())
    f.write_block(before)
    last = before.last_op
    assert isinstance(last, scf.ConditionOp)
    cond, *passed = (f.value(v) for v in operands_of(last))
    f.branch_if(cond, body, done)
    f.block(body)
    for argument, value in zip(after.args, passed, strict=True):
        f.define(argument, value)
    f.write_block(after)
    results, latch = [f.value(v) for v in _terminator(after)], f.label
    f.branch(head)
    f.fill(place, (
        f"{f.value(a)} = phi {f.type(a)} [ {f.value(start)}, %{entry} ], [ {end}, %{latch} ]"
        for a, start, end in zip(before.args, operands_of(op), results, strict=True)
    ))  # fmt: skip
    f.block(done)
    for value, result in zip(passed, op.results, strict=True):
        f.define(result, value)


@lowers(func.CallOp)
def _call(f: FunctionText, op: func.CallOp) -> None:
    arguments = ", ".join(f"{f.type(v)} {f.value(v)}" for v in operands_of(op))
    f.line(f"call void @{op.callee.root_reference.data}({arguments})")
