"""Pass `order`: the order in which groups run, and one label for structurally equal groups.

Among the groups whose operands are ready, the next one is that which frees the most memory (buffers read for the last
time less buffers made); ties go to the original order. Labels are ``kind_number``, e.g. ``loops_0``: groups of one
label become one kernel.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.params import TEXT
from firebox.lowering.access import owner_op
from firebox.lowering.module import main_function

_UNKNOWN_BYTES = 1 << 16


def order(module: ModuleOp) -> None:
    """Sort and label the groups of @main; in place."""
    block = main_function(module).body.block
    _label(block)
    _sort(block)


def _label(block: Block) -> None:
    labels: dict[tuple[object, ...], str] = {}
    for op in block.ops:
        if isinstance(op, GroupOp):
            key = structure(op)
            if key not in labels:
                labels[key] = f"{op.group}_{len(labels)}"
            op.attributes["label"] = TEXT.encode(labels[key])


def structure(group: GroupOp) -> tuple[object, ...]:
    """What makes two groups one kernel: types, ops, parameters and wiring, not names or source lines."""
    numbers: dict[SSAValue, int] = {v: k for k, v in enumerate(group.block.args)}
    ops: list[object] = []
    for op in group.block.ops:
        attributes = tuple(sorted(((n, a) for n, a in op.attributes.items() if n != "recompute"), key=lambda p: p[0]))
        ops.append((op.name, tuple(numbers[o] for o in op._operands), attributes, tuple(r.type for r in op.results)))
        for result in op.results:
            numbers[result] = len(numbers)
    schedule = group.attributes.get("schedule")
    return (group.group, group.domain, group.axes, schedule, tuple(a.type for a in group.block.args), *ops)


def _sort(block: Block) -> None:
    ops = [op for op in block.ops if not isinstance(op, ReturnOp)]
    terminator = block.last_op
    assert terminator is not None
    readers = _reader_counts(ops, terminator)
    here: set[object] = set(ops)
    missing = {op: {o for v in op._operands if (o := v.owner) in here} for op in ops}
    waiting = list(ops)
    while waiting:
        ready = [op for op in waiting if not missing[op]]
        chosen = max(ready, key=lambda op: _freed(op, readers))
        waiting.remove(chosen)
        for value in chosen._operands:
            root = _root(value)
            readers[root] = readers.get(root, 0) - 1
        for op in waiting:
            missing[op].discard(chosen)
        chosen.detach()
        block.insert_op_before(chosen, terminator)


def _reader_counts(ops: list[Operation], terminator: Operation) -> dict[SSAValue, int]:
    """Reads still to come of each buffer; the program's results are never freed."""
    counts: dict[SSAValue, int] = {}
    for op in ops:
        for value in op._operands:
            root = _root(value)
            counts[root] = counts.get(root, 0) + 1
    for value in terminator._operands:
        counts[_root(value)] = 1 << 30
    return counts


def _root(value: SSAValue) -> SSAValue:
    """The buffer behind views."""
    op = owner_op(value)
    while op is not None and op.kind is Kind.RESHAPE:
        value = op._operands[0]
        op = owner_op(value)
    return value


def _freed(op: Operation, readers: dict[SSAValue, int]) -> int:
    if isinstance(op, NdOp) and op.kind is Kind.RESHAPE:
        return 1 << 40  # a view costs nothing: place it where it can be placed first
    made = sum(_bytes(r) for r in op.results)
    roots: dict[SSAValue, int] = {}
    for value in op._operands:
        root = _root(value)
        roots[root] = roots.get(root, 0) + 1
    dying = (r for r, n in roots.items() if readers.get(r, 0) == n and not _is_argument(r))
    return sum(_bytes(r) for r in dying) - made


def _is_argument(value: SSAValue) -> bool:
    return owner_op(value) is None


def _bytes(value: SSAValue) -> int:
    size = aval_of(value.type).nbytes
    return size if isinstance(size, int) else _UNKNOWN_BYTES


@dataclass(frozen=True)
class OrderPass(ModulePass):
    """Sort and label the groups of @main."""

    name = "nd-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        order(op)
