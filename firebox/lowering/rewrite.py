"""Small moves that passes share: inline a region, move ops, make zeros, erase dead ops. All keep source locations."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator, Pure

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.transform import yield_values, yielded
from firebox.dialects.nd.value import Inserter, Value
from firebox.dialects.xdsl_compat import is_used, operands_of, ops_of
from firebox.dtypes import DType
from firebox.errors import CompilerError

AnyControl = TypeVar("AnyControl", bound=ControlOp)

RECOMPUTE = "recompute"
"""Attribute of ops that a derivative computes again; ops with different ids are never merged."""


def functions_of(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module, in order."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]


def block_holding(op: Operation) -> Block:
    """The block that an op stands in.

    Raises:
        CompilerError: the op is detached.
    """
    if op.parent is None:
        raise CompilerError("the op is not in a block", op=op.name)
    return op.parent


def body_ops(block: Block) -> list[Operation]:
    """The ops of a block without its terminator."""
    return list(ops_of(block))[:-1]


def move_before(ops: Iterable[Operation], anchor: Operation) -> None:
    """Move ops, in order, to just before another op."""
    block = block_holding(anchor)
    for op in ops:
        if op.parent is not None:
            op.parent.detach_op(op)
        block.insert_op_before(op, anchor)


def replace_args(block: Block, values: Sequence[SSAValue]) -> None:
    """Make everything that uses the block's arguments use the values instead."""
    for arg, value in zip(block.args, values, strict=True):
        arg.replace_all_uses_with(value)


def inline_before(block: Block, values: Sequence[SSAValue], anchor: Operation) -> tuple[SSAValue, ...]:
    """Move the ops of a region's block before the anchor with its arguments bound; returns what it yielded.

    The block is left with its terminator only.
    """
    move_before(body_ops(block), anchor)
    replace_args(block, values)
    return yielded(block)


def replace_op(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace the results of an op and erase it with its regions."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    block_holding(op).erase_op(op)


def inline_region(op: Operation) -> None:
    """Replace an op by the ops of its first region, whose block takes the operands and yields at least the results."""
    values = inline_before(op.regions[0].block, operands_of(op), op)
    replace_op(op, values[: len(op.results)])


def copy_ops(source: Block, values: Sequence[SSAValue], put: Callable[[Operation], object]) -> list[SSAValue]:
    """Put copies of a block's ops somewhere, with values in place of its arguments; what the block yields of them."""
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args, values, strict=True))
    for op in body_ops(source):
        put(op.clone(mapping))
    return [mapping.get(v, v) for v in yielded(source)]


def remade(op: AnyControl, operands: Sequence[SSAValue], params: dict[str, Any], blocks: Sequence[Block]) -> AnyControl:
    """A detached op in place of one with control flow, with its location and its ``recompute`` mark."""
    new = type(op).build_region_op(operands, params, blocks, op.location)
    if RECOMPUTE in op.attributes:
        new.attributes[RECOMPUTE] = op.attributes[RECOMPUTE]
    return new


class Held:
    """Values that outlive rewrites: a detached user keeps track when they are replaced."""

    def __init__(self, values: Sequence[SSAValue]) -> None:
        self._user = yield_values(values)

    def release(self) -> tuple[SSAValue, ...]:
        """What the values are now."""
        values = operands_of(self._user)
        self._user.erase()
        return values


def constant(at: Inserter, value: float | int | bool, dtype: DType) -> Value:
    """A 0-d constant."""
    literal = Literal.of(np.asarray(value).astype(dtype.numpy))
    return at.value(at.insert(lookup("nd.constant"), (), {"value": literal}).results[0])


def zeros(at: Inserter, aval: Aval) -> Value:
    """A tensor of zeros: a broadcast 0-d constant."""
    return constant(at, 0, aval.dtype).broadcast_to(aval.shape)


_PURE: dict[type[Operation], bool] = {}


def is_pure(op: Operation) -> bool:
    """Whether the op may be erased when its results are not used, and merged with an equal one."""
    cls = type(op)
    found = _PURE.get(cls)
    if found is None:
        found = issubclass(cls, NdOp) and cls.has_trait(Pure) and not cls.has_trait(IsTerminator)
        _PURE[cls] = found
    return found


def erase_dead(block: Block) -> int:
    """Erase pure ops without used results, also in regions; returns how many."""
    erased = 0
    for op in reversed(list(ops_of(block))):
        if is_pure(op) and not any(is_used(r) for r in op.results):
            block.erase_op(op)
            erased += 1
            continue
        for region in op.regions:
            erased += sum(erase_dead(b) for b in region.blocks)
    return erased


def next_mark(block: Block) -> int:
    """A number for `RECOMPUTE` above those in use in a block and its regions."""
    return 1 + max((_mark_of(op) for op in block.walk()), default=0)


def _mark_of(op: Operation) -> int:
    mark = op.attributes.get(RECOMPUTE)
    return mark.value.data if isinstance(mark, IntegerAttr) else 0
