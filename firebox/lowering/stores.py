"""Where the values of a block live: the first half of the pass `bufferize`.

Every result of a group gets a store: an output of the block, the place it has inside a packed buffer, the store of an
operand that dies there and may be overwritten, or a part of the arena. The blocks of control flow are looked at in the
same way; what they need in memory while they run is one more part of the arena of the block around, their frame.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block as IRBlock
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.lowering.access import formula_of
from firebox.lowering.generate.body import linear
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.templates import HOST
from firebox.lowering.memory import Block, aligned, place
from firebox.lowering.ranges import is_checked

DEVICE_ALIGNMENT = 16
"""Bytes at whose multiples a buffer argument of an OpenCL kernel starts."""


@dataclass(eq=False)
class Store:
    """A buffer before it has an address.

    Attributes:
        size: bytes.
        first: step that makes it.
        last: last step that reads it.
        kind: ``input``, ``output``, ``arena`` or ``part`` (of another store).
        index: of the input or output.
        host: the store it is part of, or shares.
        offset: bytes into the host.
    """

    size: DimLike
    first: int
    last: int
    kind: str = "arena"
    index: int = 0
    host: "Store | None" = None
    offset: DimLike = 0
    block: Block | None = None


@dataclass
class State:
    """A block on its way to a plan.

    Attributes:
        ops, results, arguments: of the block.
        kind: of the targets.
        carried: of a block of control flow, how many of its first arguments are what its first results were in the
            step before; None for @main.
        stores: of the values that have one of their own.
        views: value -> (value, byte offset) that it is a part of.
        moved: reshapes that are copies, and where in their operand they begin.
        copies: numbers of the results that are copied to where they belong.
        aliases: pairs (result, argument) that may be one buffer.
        frames: of the ops with control flow.
        arena: bytes of workspace.
    """

    ops: list[NdOp]
    results: tuple[SSAValue, ...]
    arguments: tuple[SSAValue, ...]
    kind: str = "cpu"
    carried: int | None = None
    stores: dict[SSAValue, Store] = field(default_factory=dict)
    views: dict[SSAValue, tuple[SSAValue, DimLike]] = field(default_factory=dict)
    moved: dict[NdOp, DimLike] = field(default_factory=dict)
    copies: list[int] = field(default_factory=list)
    aliases: list[tuple[int, int]] = field(default_factory=list)
    frames: "dict[NdOp, Frame]" = field(default_factory=dict)
    arena: DimLike = 0


@dataclass
class Frame:
    """What an op with control flow needs while it runs.

    Attributes:
        states: of its blocks.
        store: its part of the arena; what follows are byte offsets in it.
        single: carried values that every step overwrites, and that lie where the op's results do.
        pairs: the other carried values: two places for each, which the steps read and write in turn.
        rows: slices and rows of stacks, by number of the argument or result, that cannot be read or written in place.
        flag: of a while, its condition.
        arena: the arena of the blocks.
    """

    states: tuple[State, ...]
    store: Store
    single: frozenset[int] = frozenset()
    pairs: dict[int, DimLike] = field(default_factory=dict)
    rows: dict[tuple[str, int], DimLike] = field(default_factory=dict)
    flag: DimLike = 0
    arena: DimLike = 0


def analyse(block: IRBlock, kind: str = "cpu", carried: int | None = None) -> State:
    """Give every value of a block a store."""
    last = block.last_op
    assert last is not None
    ops = [op for op in block.ops if isinstance(op, NdOp) and op is not last]
    state = State(ops, tuple(last.operands), tuple(block.args), kind, carried)
    _lifetimes(state)
    _assign_outputs(state)
    _pack_in_place(state)
    _reuse_operands(state)
    _find_aliases(state)
    _place(state)
    return state


def nbytes(value: SSAValue) -> DimLike:
    return aval_of(value.type).nbytes


# ---- lifetimes ---------------------------------------------------------------------------------------------------


def _lifetimes(state: State) -> None:
    for k, argument in enumerate(state.arguments):
        state.stores[argument] = Store(nbytes(argument), -1, -1, "input", k)
    for step, op in enumerate(state.ops):
        if op.kind is Kind.RESHAPE and _view(state, op):
            continue
        for result in op.results:
            state.stores[result] = Store(nbytes(result), step, step)
        for operand in op._operands:
            store = store_of(state, operand)
            store.last = max(store.last, step)
        if isinstance(op, ControlOp):
            state.frames[op] = _frame(op, state.kind, step)
    for value in state.results:
        store_of(state, value).last = len(state.ops)


def _view(state: State, op: NdOp) -> bool:
    """A reshape shares the buffer of its operand; the byte offset is that of its first element. False for a copy."""
    source = op._operands[0]
    aval = aval_of(source.type)
    formula = formula_of(op)
    first = tuple(dims.substitute(e, _zeros(len(formula.extents))) for e in formula.reads[0].index)
    offset = dims.multiply(linear(first, aval.shape), aval.dtype.itemsize)
    if state.kind == "opencl" and not is_aligned(offset):
        state.moved[op] = offset
        return False
    state.views[op.results[0]] = (source, offset)
    return True


def is_aligned(offset: DimLike) -> bool:
    """Whether it is a multiple of what kernels rely on, whatever the dims are."""
    if isinstance(offset, int):
        return offset % DEVICE_ALIGNMENT == 0
    return all(factor % DEVICE_ALIGNMENT == 0 for _, factor in offset.terms)


def _zeros(rank: int) -> dict[str, DimLike]:
    return {f"i{k}": 0 for k in range(rank)}


def root_of(state: State, value: SSAValue) -> tuple[SSAValue, DimLike]:
    offset: DimLike = 0
    while value in state.views:
        value, more = state.views[value]
        offset = offset + more
    return value, offset


def store_of(state: State, value: SSAValue) -> Store:
    return state.stores[root_of(state, value)[0]]


# ---- where buffers live ------------------------------------------------------------------------------------------


def _assign_outputs(state: State) -> None:
    """A result made by a group is written straight into the output; inputs and repeated results are copied."""
    for k, value in enumerate(state.results):
        root, offset = root_of(state, value)
        store = state.stores[root]
        if store.kind == "arena" and offset == 0 and store.size == nbytes(value):
            store.kind, store.index = "output", k
        else:
            state.copies.append(k)


def _pack_in_place(state: State) -> None:
    """Operands of a pack are computed at their places inside it."""
    for op in state.ops:
        if not isinstance(op, GroupOp) or not is_pack(op):
            continue
        host = state.stores[op.results[0]]
        itemsize = aval_of(op.results[0].type).dtype.itemsize
        inner = op.members[0]
        for operand, offset in zip(inner._operands, inner.values["offsets"], strict=True):
            value = outside(op, operand)
            root, at = root_of(state, value)
            store = state.stores[root]
            free = store.kind == "arena" and store.host is None and at == 0 and store.size == nbytes(value)
            if free and (state.kind == "cpu" or is_aligned(offset * itemsize)):
                store.kind, store.host, store.offset = "part", host, offset * itemsize
                host.first = min(host.first, store.first)
                host.last = max(host.last, store.last)


def is_pack(op: NdOp) -> bool:
    return isinstance(op, GroupOp) and op.schedule.template == HOST


def outside(op: NdOp, value: SSAValue) -> SSAValue:
    """The operand of the group behind a block argument."""
    if isinstance(op, GroupOp):
        return op._operands[list(op.block.args).index(value)]  # type: ignore[arg-type]
    return value


def in_place_pairs(group: GroupOp) -> list[tuple[int, int]]:
    """(operand, result) pairs that may share a buffer: each element is read, for the last time, where it is written."""
    if group.group not in ("loops", "contract"):
        return []
    nest = Nest.of(group)
    taken = {o for op in group.members if op.kind is Kind.CONTRACT for o in op._operands}
    pairs = []
    for r, value in enumerate(group.yielded):
        aval = aval_of(value.type)
        if group.axes and (nest.is_row(value) or nest.levels[value] != nest.depth):
            continue
        written = linear(nest.homes[value], aval.shape)
        for a, argument in enumerate(group.block.args):
            same = aval_of(argument.type) == aval and argument not in taken
            if same and all(read == written for read in nest.reads.get(argument, [])):
                pairs.append((a, r))
    return pairs


def _reuse_operands(state: State) -> None:
    """Write a result over an operand that nobody reads afterwards."""
    for step, op in enumerate(state.ops):
        if not any(r in state.stores and state.stores[r].kind == "arena" for r in op.results):
            continue
        used: set[int] = set()
        for a, r in _reusable(state, op):
            store = state.stores[op.results[r]]
            source = store_of(state, op._operands[a])
            whole = _is_alone(state, op, a) and source.size == store.size
            free = source.kind == "arena" and source.host is None and source.last == step
            if store.kind == "arena" and store.host is None and whole and free and a not in used:
                used.add(a)
                store.kind, store.host = "part", source
                source.last = max(source.last, store.last)
                store.size = source.size


def _reusable(state: State, op: NdOp) -> Sequence[tuple[int, int]]:
    """(operand, result) pairs that may share a buffer if nobody else reads the operand."""
    if isinstance(op, ControlOp):
        return [(k, k) for k in sorted(state.frames[op].single)]
    return in_place_pairs(op) if isinstance(op, GroupOp) else ()


def _is_alone(state: State, op: NdOp, position: int) -> bool:
    """The operand begins at the start of its buffer, and the op reads no other view of it."""
    root, offset = root_of(state, op._operands[position])
    others = (v for k, v in enumerate(op._operands) if k != position)
    return offset == 0 and all(root_of(state, v)[0] is not root for v in others)


def _find_aliases(state: State) -> None:
    """Outputs that may be written over an input: made by the last reader of the input, element by element.

    No kernel that can report a fault runs from there on, so that a program which fails has overwritten nothing. In the
    body of a loop these are the carried values, which are never inputs of the program.
    """
    taken: set[int] = set()
    last_fault = max((step for step, op in enumerate(state.ops) if may_fault(op)), default=-1)
    for step, op in enumerate(state.ops):
        if step <= last_fault and state.carried is None:
            continue
        if not isinstance(op, GroupOp) or not any(state.stores[r].kind == "output" for r in op.results):
            continue
        for a, r in sorted(in_place_pairs(op), key=lambda pair: store_of(state, op._operands[pair[0]]).index):
            store = state.stores[op.results[r]]
            source = store_of(state, op._operands[a])
            if store.kind != "output" or source.kind != "input" or source.last != step or source.index in taken:
                continue
            if state.carried is not None and not store.index == source.index < state.carried:
                continue
            whole = _is_alone(state, op, a) and source.size == store.size
            if whole and all(store.index != output for output, _ in state.aliases):
                taken.add(source.index)
                state.aliases.append((store.index, source.index))


def _place(state: State) -> None:
    """Give the stores of the arena their places in it."""
    blocks = []
    for store in (*state.stores.values(), *(f.store for f in state.frames.values())):
        if store.kind == "arena":
            store.block = Block(store.size, store.first, store.last)
            blocks.append(store.block)
    state.arena = place(blocks)


def may_fault(op: NdOp) -> bool:
    """Whether a kernel uses data as an index that nothing proves to be in range."""
    if isinstance(op, ControlOp):
        return any(may_fault(inner) for block in op.blocks for inner in block.ops if isinstance(inner, NdOp))
    if not isinstance(op, GroupOp) or is_pack(op):
        return False
    checked = [member for member in op.members if is_checked(member)]
    return any(op.group == "opaque" or _indexes_by_data(member) for member in checked)


def _indexes_by_data(op: NdOp) -> bool:
    if op.kind not in (Kind.MAP, Kind.REDUCE):
        return False
    return any(n.startswith("v") for read in formula_of(op).reads for e in read.index for n in dims.names(e))


# ---- control flow ------------------------------------------------------------------------------------------------


class _Layout:
    """Places in a frame, one after the other."""

    def __init__(self) -> None:
        self.size: DimLike = 0

    def add(self, size: DimLike) -> DimLike:
        """The place of so many bytes."""
        at = self.size
        self.size = self.size + aligned(size)
        return at


def _frame(op: ControlOp, kind: str, step: int) -> Frame:
    carry = 0 if isinstance(op, CondOp) else op.values["carry"]
    last = len(op.blocks) - 1
    states = [analyse(block, kind, carry if k == last else 0) for k, block in enumerate(op.blocks)]
    frame = Frame(tuple(states), Store(0, step, step))
    layout = _Layout()
    frame.single = _single(states[-1])
    wide = (k for k in range(carry) if k not in frame.single)
    frame.pairs = {k: layout.add(2 * aligned(nbytes(op.results[k]))) for k in wide}
    if isinstance(op, WhileOp):
        frame.flag = layout.add(1)
    if isinstance(op, ScanOp):
        frame.rows = {key: layout.add(size) for key, size in _rows(op, kind)}
    frame.arena = layout.add(functools.reduce(dims.maximum, [aligned(s.arena) for s in states]))
    frame.store.size = layout.size
    return frame


def _single(body: State) -> frozenset[int]:
    """Carried values that are overwritten in place, or stay what they are."""
    assert body.carried is not None
    same = [k for k in range(body.carried) if root_of(body, body.results[k]) == (body.arguments[k], 0)]
    return frozenset([*same, *(k for k, _ in body.aliases)])


def _rows(op: ScanOp, kind: str) -> list[tuple[tuple[str, int], DimLike]]:
    """Slices and rows that do not begin where a buffer of a kernel may, with their sizes."""
    if kind == "cpu":
        return []
    carry, slices = op.values["carry"], op.values["slices"]
    block = op.blocks[0]
    last = block.last_op
    assert last is not None
    values: list[tuple[tuple[str, int], SSAValue]] = []
    values += [(("slice", k), block.args[k]) for k in range(carry, carry + slices)]
    values += [(("row", k), last.operands[k]) for k in range(carry, len(op.results))]
    return [(key, nbytes(v)) for key, v in values if not is_aligned(nbytes(v))]
