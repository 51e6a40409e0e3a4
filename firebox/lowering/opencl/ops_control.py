"""OpenCL C of structured control flow, calls, and of where a work-item is."""

from collections.abc import Sequence

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation

from firebox.dialects.kernel import group_ops
from firebox.dialects.xdsl_compat import is_used, operands_of
from firebox.lowering.opencl import text
from firebox.lowering.opencl.calls import called
from firebox.lowering.opencl.function import FunctionText, Value, lowers
from firebox.lowering.opencl.transfer import assign, declare


def _terminator(block: Block) -> Sequence[Value]:
    """What the yield at the end of a block gives."""
    last = block.last_op
    return operands_of(last) if isinstance(last, scf.YieldOp) else ()


@lowers(scf.YieldOp, scf.ConditionOp, func.ReturnOp)
def _nothing(f: FunctionText, op: Operation) -> None:
    """Written by the op around it."""


@lowers(scf.ForOp)
def _for(f: FunctionText, op: scf.ForOp) -> None:
    low, high, step, *inits = operands_of(op)
    block = op.regions[0].block
    counter, *carried = block.args
    end, stride = f.atom(high), f.atom(step)
    names = [declare(f, v, f.value(start)) for v, start in zip(carried, inits, strict=True)]
    i, type_ = f.counter(), f.type_of("index", 1, signed=True)
    following = f"{i}++" if stride.text == "1" else f"{i} += {stride.text}"
    f.open(f"for ({type_} {i} = {f.value(low).text}; {i} < {end.text}; {following})")
    f.define_name(counter, i)
    f.depth += 1
    f.write_block(block)
    assign(f, names, _terminator(block))
    f.depth -= 1
    f.close()
    for result, name in zip(op.results, names, strict=True):
        f.define_name(result, name)


@lowers(scf.IfOp)
def _if(f: FunctionText, op: scf.IfOp) -> None:
    then, otherwise = op.regions
    cond = f.value(operands_of(op)[0])
    names = [declare(f, result) for result in op.results]
    f.open(f"if ({cond.text})")
    f.write_block(then.block)
    assign(f, names, _terminator(then.block))
    if otherwise.blocks and (names or otherwise.block.first_op is not otherwise.block.last_op):
        f.again("else")
        f.write_block(otherwise.block)
        assign(f, names, _terminator(otherwise.block))
    f.close()


@lowers(scf.WhileOp)
def _while(f: FunctionText, op: scf.WhileOp) -> None:
    """A result that is what the first block was given is that variable; any other gets one of its own."""
    before, after = (region.block for region in op.regions)
    carried = [declare(f, v, f.value(start)) for v, start in zip(before.args, operands_of(op), strict=True)]
    last = before.last_op
    assert isinstance(last, scf.ConditionOp)
    cond, *passed = operands_of(last)
    kept = [k < len(carried) and value is before.args[k] for k, value in enumerate(passed)]
    names = [carried[k] if same else declare(f, op.results[k]) for k, same in enumerate(kept)]
    place = len(f.lines)
    f.open("while (true)")
    f.depth += 1
    f.write_block(before)
    assign(f, [n for n, same in zip(names, kept, strict=True) if not same],
           [v for v, same in zip(passed, kept, strict=True) if not same])  # fmt: skip
    if len(f.lines) == place + 1:
        f.lines[place] = f.lines[place].replace("while (true)", f"while ({f.value(cond).text})")
    else:
        f.line(f"if ({text.unary('!', f.value(cond)).text}) break;")
    for argument, name in zip(after.args, names, strict=True):
        f.define_name(argument, name)
    f.write_block(after)
    assign(f, carried, _terminator(after))
    f.depth -= 1
    f.close()
    for result, name in zip(op.results, names, strict=True):
        f.define_name(result, name)


@lowers(func.CallOp)
def _call(f: FunctionText, op: func.CallOp) -> None:
    operands = operands_of(op)
    name = called(f, op.callee.root_reference.data, operands)
    f.line(f"{name}({', '.join(f.argument(v).text for v in operands)});")


_IDS = {"group": "get_group_id(0)", "groups": "get_num_groups(0)", "item": "get_local_id(0)"}


@lowers(group_ops.IdOp)
def _id(f: FunctionText, op: group_ops.IdOp) -> None:
    kind = op.kind.data
    if is_used(op.results[0]):
        name = f.fresh(kind)
        f.line(f"const {f.index_type} {name} = ({f.index_type}){_IDS[kind]};")
        f.define_name(op.results[0], name)


@lowers(group_ops.BarrierOp)
def _barrier(f: FunctionText, op: group_ops.BarrierOp) -> None:
    f.line("barrier(CLK_LOCAL_MEM_FENCE);")
