"""Pass `order`: the order in which groups run, and one label for structurally equal groups.

Among the groups whose operands are ready, the next one is that which frees the most memory (buffers read for the last
time less buffers made); ties go to the original order. Where all that takes more memory at its peak than the original
order, as it may where values are computed again late, that stays. Labels are ``kind_number``, e.g. ``loops_0``: groups
of one label become one kernel.
"""

import heapq
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.params import TEXT
from firebox.lowering.access import owner_op
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.structure import structure

_UNKNOWN_BYTES = 1 << 16


def order(module: ModuleOp) -> None:
    """Sort and label the groups of @main; in place."""
    block = main_function(module).body.block
    _label(block)
    _sort(block)


def _label(block: Block) -> None:
    labels: dict[tuple[object, ...], str] = {}
    for op in groups_in(block):
        key = structure(op)
        if key not in labels:
            labels[key] = f"{op.group}_{len(labels)}"
        op.attributes["label"] = TEXT.encode(labels[key])


def _sort(block: Block) -> None:
    ops = list(block.ops)[:-1]
    for op in ops:
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                _sort(inner)
    terminator = block.last_op
    assert terminator is not None
    found = _Sorter(ops, terminator).sorted()
    if _peak(ops, terminator) < _peak(found, terminator):
        return
    for op in found:
        block.insert_op_before(block.detach_op(op), terminator)


class _Sorter:
    """The state of one sort: a heap of the ops that are ready, with a new entry whenever what an op frees grows."""

    def __init__(self, ops: list[Operation], terminator: Operation) -> None:
        self.ops = ops
        self.position = {op: k for k, op in enumerate(ops)}
        self.readers = _reader_counts(ops, terminator)
        self.missing = {op: {o for v in op._operands if (o := v.owner) in self.position} for op in ops}
        self.reading: dict[SSAValue, list[Operation]] = {}
        self.most: dict[SSAValue, int] = {}
        for op in ops:
            for root, count in _root_counts(op).items():
                self.reading.setdefault(root, []).append(op)
                self.most[root] = max(self.most.get(root, 0), count)
        self.heap: list[tuple[int, int]] = []
        self.done: set[Operation] = set()

    def sorted(self) -> list[Operation]:
        """Again and again the op that frees most, the first of equal ones."""
        for op in self.ops:
            self._push(op)
        found: list[Operation] = []
        while len(found) < len(self.ops):
            op = self.ops[heapq.heappop(self.heap)[1]]
            if op not in self.done:
                self.done.add(op)
                found.append(op)
                self._advance(op)
        return found

    def _push(self, op: Operation) -> None:
        if not self.missing[op] and op not in self.done:
            heapq.heappush(self.heap, (-_freed(op, self.readers), self.position[op]))

    def _advance(self, chosen: Operation) -> None:
        """Let go of what the op has read; enter what may run now, and those that free more now."""
        for root, count in _root_counts(chosen).items():
            self.readers[root] -= count
            if self.readers[root] <= self.most[root]:
                for op in self.reading[root]:
                    self._push(op)
        for user in {use.operation for result in chosen.results for use in result.uses}:
            if user in self.missing:
                self.missing[user].discard(chosen)
                self._push(user)


def _peak(ops: list[Operation], terminator: Operation) -> int:
    """The most memory that buffers take at a time when the ops run in this order."""
    readers = _reader_counts(ops, terminator)
    live = most = 0
    for op in ops:
        if not (isinstance(op, NdOp) and op.kind is Kind.RESHAPE):  # a view
            live += sum(_bytes(r) for r in op.results)
        most = max(most, live)
        for root, count in _root_counts(op).items():
            readers[root] -= count
            if readers[root] == 0 and not _is_argument(root):
                live -= _bytes(root)
    return most


def _root_counts(op: Operation) -> dict[SSAValue, int]:
    """How often the op reads each buffer."""
    counts: dict[SSAValue, int] = {}
    for value in op._operands:
        root = _root(value)
        counts[root] = counts.get(root, 0) + 1
    return counts


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
    dying = (r for r, n in _root_counts(op).items() if readers.get(r, 0) == n and not _is_argument(r))
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
