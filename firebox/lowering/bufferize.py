"""Pass `bufferize`: from values to buffers; appends the `plan.program` of the module.

Every result of a group gets a buffer: an output of the program, the place it has inside a packed buffer, the buffer of
an operand that dies there and may be overwritten, or a part of the arena. Views share the buffer of their source; on
OpenCL, where kernels rely on buffers that start at 16-byte boundaries, a view that starts elsewhere is a copy. Sizes are
dim expressions, so a symbolic batch has a symbolic arena.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block as IRBlock
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from firebox import dims
from firebox.dialects import plan
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike, dim
from firebox.lowering.access import formula_of
from firebox.lowering.generate.body import linear
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.templates import HOST, Launch, kernel_name, template_named
from firebox.lowering.memory import Block, aligned, place
from firebox.lowering.module import main_function

THREADS = "threads"
DEVICE_ALIGNMENT = 16
"""Bytes at whose multiples a buffer argument of an OpenCL kernel starts."""


@dataclass(eq=False)
class _Store:
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
    host: "_Store | None" = None
    offset: DimLike = 0
    block: Block | None = None


@dataclass
class _State:
    """The program under construction."""

    ops: list[NdOp]
    results: tuple[SSAValue, ...]
    arguments: tuple[SSAValue, ...]
    kind: str = "cpu"
    stores: dict[SSAValue, _Store] = field(default_factory=dict)
    views: dict[SSAValue, tuple[SSAValue, DimLike]] = field(default_factory=dict)
    moved: dict[NdOp, DimLike] = field(default_factory=dict)
    copies: list[int] = field(default_factory=list)
    aliases: list[tuple[int, int]] = field(default_factory=list)


def bufferize(module: ModuleOp, kind: str = "cpu") -> plan.ProgramOp:
    """Append and return the plan of @main, for targets of a kind."""
    function = main_function(module)
    block = function.body.block
    last = block.last_op
    assert last is not None
    ops = [op for op in block.ops if isinstance(op, NdOp)]
    state = _State(ops, tuple(last.operands), tuple(block.args), kind)
    _lifetimes(state)
    _assign_outputs(state)
    _pack_in_place(state)
    _reuse_operands(state)
    _find_aliases(state)
    program = _Writer(state).program(_dim_names(block.args))
    module.body.block.add_op(program)
    return program


def _dim_names(arguments: Sequence[SSAValue]) -> tuple[str, ...]:
    """The symbolic dims of the inputs, in order of appearance."""
    return dims.names(*(d for a in arguments for d in aval_of(a.type).shape))


def _bytes(value: SSAValue) -> DimLike:
    return aval_of(value.type).nbytes


# ---- lifetimes ---------------------------------------------------------------------------------------------------


def _lifetimes(state: _State) -> None:
    for k, argument in enumerate(state.arguments):
        state.stores[argument] = _Store(_bytes(argument), -1, -1, "input", k)
    for step, op in enumerate(state.ops):
        if op.kind is Kind.RESHAPE and _view(state, op):
            continue
        for result in op.results:
            state.stores[result] = _Store(_bytes(result), step, step)
        for operand in op._operands:
            store = _store(state, operand)
            store.last = max(store.last, step)
    for value in state.results:
        _store(state, value).last = len(state.ops)


def _view(state: _State, op: NdOp) -> bool:
    """A reshape shares the buffer of its operand; the byte offset is that of its first element. False for a copy."""
    source = op._operands[0]
    aval = aval_of(source.type)
    formula = formula_of(op)
    first = tuple(dims.substitute(e, _zeros(len(formula.extents))) for e in formula.reads[0].index)
    offset = dims.multiply(linear(first, aval.shape), aval.dtype.itemsize)
    if state.kind == "opencl" and not _is_aligned(offset):
        state.moved[op] = offset
        return False
    state.views[op.results[0]] = (source, offset)
    return True


def _is_aligned(offset: DimLike) -> bool:
    """Whether it is a multiple of what kernels rely on, whatever the dims are."""
    if isinstance(offset, int):
        return offset % DEVICE_ALIGNMENT == 0
    return all(factor % DEVICE_ALIGNMENT == 0 for _, factor in offset.terms)


def _zeros(rank: int) -> dict[str, DimLike]:
    return {f"i{k}": 0 for k in range(rank)}


def _root(state: _State, value: SSAValue) -> tuple[SSAValue, DimLike]:
    offset: DimLike = 0
    while value in state.views:
        value, more = state.views[value]
        offset = offset + more
    return value, offset


def _store(state: _State, value: SSAValue) -> _Store:
    return state.stores[_root(state, value)[0]]


# ---- where buffers live ------------------------------------------------------------------------------------------


def _assign_outputs(state: _State) -> None:
    """A result made by a group is written straight into the output; inputs and repeated results are copied."""
    for k, value in enumerate(state.results):
        root, offset = _root(state, value)
        store = state.stores[root]
        if store.kind == "arena" and offset == 0 and store.size == _bytes(value):
            store.kind, store.index = "output", k
        else:
            state.copies.append(k)


def _pack_in_place(state: _State) -> None:
    """Operands of a pack are computed at their places inside it."""
    for op in state.ops:
        if not isinstance(op, GroupOp) or not _is_pack(op):
            continue
        host = state.stores[op.results[0]]
        itemsize = aval_of(op.results[0].type).dtype.itemsize
        inner = op.members[0]
        for operand, offset in zip(inner._operands, inner.values["offsets"], strict=True):
            value = _outside(op, operand)
            root, at = _root(state, value)
            store = state.stores[root]
            free = store.kind == "arena" and store.host is None and at == 0 and store.size == _bytes(value)
            if free and (state.kind == "cpu" or _is_aligned(offset * itemsize)):
                store.kind, store.host, store.offset = "part", host, offset * itemsize
                host.first = min(host.first, store.first)
                host.last = max(host.last, store.last)


def _is_pack(op: NdOp) -> bool:
    return isinstance(op, GroupOp) and op.schedule.template == HOST


def _outside(op: NdOp, value: SSAValue) -> SSAValue:
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


def _reuse_operands(state: _State) -> None:
    """Write a result over an operand that nobody reads afterwards."""
    for step, op in enumerate(state.ops):
        if not isinstance(op, GroupOp) or not any(state.stores[r].kind == "arena" for r in op.results):
            continue
        used: set[int] = set()
        for a, r in in_place_pairs(op):
            store = state.stores[op.results[r]]
            source = _store(state, op._operands[a])
            whole = _is_alone(state, op, a) and source.size == store.size
            free = source.kind == "arena" and source.host is None and source.last == step
            if store.kind == "arena" and store.host is None and whole and free and a not in used:
                used.add(a)
                store.kind, store.host = "part", source
                source.last = max(source.last, store.last)
                store.size = source.size


def _is_alone(state: _State, op: GroupOp, position: int) -> bool:
    """The operand begins at the start of its buffer, and the op reads no other view of it."""
    root, offset = _root(state, op._operands[position])
    others = (v for k, v in enumerate(op._operands) if k != position)
    return offset == 0 and all(_root(state, v)[0] is not root for v in others)


def _find_aliases(state: _State) -> None:
    """Outputs that may be written over an input: made by the last reader of the input, element by element.

    No kernel that can report a fault runs from there on, so that a program which fails has overwritten nothing.
    """
    taken: set[int] = set()
    last_fault = max((step for step, op in enumerate(state.ops) if may_fault(op)), default=-1)
    for step, op in enumerate(state.ops):
        if step <= last_fault:
            continue
        if not isinstance(op, GroupOp) or not any(state.stores[r].kind == "output" for r in op.results):
            continue
        for a, r in sorted(in_place_pairs(op), key=lambda pair: _store(state, op._operands[pair[0]]).index):
            store = state.stores[op.results[r]]
            source = _store(state, op._operands[a])
            if store.kind != "output" or source.kind != "input" or source.last != step or source.index in taken:
                continue
            whole = _is_alone(state, op, a) and source.size == store.size
            if whole and all(store.index != output for output, _ in state.aliases):
                taken.add(source.index)
                state.aliases.append((store.index, source.index))


def may_fault(op: NdOp) -> bool:
    """Whether a kernel uses data as an index, and so may find it out of range."""
    if not isinstance(op, GroupOp) or _is_pack(op):
        return False
    return op.group == "opaque" or any(_indexes_by_data(member) for member in op.members)


def _indexes_by_data(op: NdOp) -> bool:
    if op.kind not in (Kind.MAP, Kind.REDUCE):
        return False
    return any(n.startswith("v") for read in formula_of(op).reads for e in read.index for n in dims.names(e))


# ---- writing the plan --------------------------------------------------------------------------------------------


class _Writer:
    """Writes steps and buffers."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.block = IRBlock()
        self.inputs = [self._buffer(plan.InputOp.make(k)) for k in range(len(state.arguments))]
        self.outputs = [self._buffer(plan.OutputOp.make(k)) for k in range(len(state.results))]
        self.addresses: dict[_Store, SSAValue] = {}
        self.launches: dict[str, tuple[Launch, ...]] = {}
        self.faults = any(may_fault(op) for op in state.ops)

    def _buffer(self, op: plan.InputOp | plan.OutputOp | plan.AllocOp | plan.ViewOp) -> SSAValue:
        self.block.add_op(op)
        return op.buffer

    def program(self, names: tuple[str, ...]) -> plan.ProgramOp:
        state = self.state
        arena = self._place()
        for op in state.ops:
            if isinstance(op, GroupOp) and not _is_pack(op) and op.label not in self.launches:
                self.launches[op.label] = template_named(op.schedule.template).launch(op, op.schedule)
        needs = [aligned(launch.scratch) for parts in self.launches.values() for launch in parts if launch.scratch != 0]
        scratch = functools.reduce(dims.maximum, needs) if needs else 0
        for op in state.ops:
            self._step(op, arena)
        for k in state.copies:
            self.block.add_op(
                plan.CopyOp.make(self._value(state.results[k]), self.outputs[k], _bytes(state.results[k]))
            )
        self.block.add_op(plan.EndOp.make())
        total = arena + (dims.multiply(scratch, dim(THREADS)) if state.kind == "cpu" else scratch)
        return plan.ProgramOp.make("main", names, total, state.aliases, self.block)

    def _place(self) -> DimLike:
        blocks = []
        for store in self.state.stores.values():
            if store.kind == "arena":
                store.block = Block(store.size, store.first, store.last)
                blocks.append(store.block)
        return place(blocks)

    def _address(self, store: _Store) -> SSAValue:
        found = self.addresses.get(store)
        if found is None:
            found = self.addresses[store] = self._make_address(store)
        return found

    def _make_address(self, store: _Store) -> SSAValue:
        if store.kind == "input":
            return self.inputs[store.index]
        if store.kind == "output":
            return self.outputs[store.index]
        if store.kind == "part":
            assert store.host is not None
            host = self._address(store.host)
            return host if store.offset == 0 else self._buffer(plan.ViewOp.make(host, store.offset))
        assert store.block is not None
        return self._buffer(plan.AllocOp.make(store.block.offset, aligned(store.size)))

    def _value(self, value: SSAValue) -> SSAValue:
        root, offset = _root(self.state, value)
        address = self._address(self.state.stores[root])
        return address if offset == 0 else self._buffer(plan.ViewOp.make(address, offset))

    def _step(self, op: NdOp, arena: DimLike) -> None:
        if op in self.state.moved:
            self._move(op, self.state.moved[op])
        elif isinstance(op, GroupOp) and _is_pack(op):
            self._pack(op)
        elif isinstance(op, GroupOp):
            self._launch(op, arena)

    def _move(self, op: NdOp, offset: DimLike) -> None:
        """Copy what would be a view that starts where no buffer may."""
        source = self._buffer(plan.ViewOp.make(self._value(op._operands[0]), offset))
        self.block.add_op(plan.CopyOp.make(source, self._value(op.results[0]), _bytes(op.results[0])))

    def _launch(self, op: GroupOp, arena: DimLike) -> None:
        buffers = [self._value(v) for v in (*op.operands, *op.results)]
        overwrites = self.faults and any(self._overwrites(r) for r in op.results)
        for number, launch in enumerate(self.launches[op.label]):
            name = kernel_name(op.label, number)
            step = plan.LaunchOp.make(name, buffers, launch.count, launch.grain, aligned(launch.scratch), arena)
            step.location = op.location
            if overwrites:
                step.attributes["unless_fault"] = UnitAttr()
            self.block.add_op(step)

    def _overwrites(self, value: SSAValue) -> bool:
        """The value may be written over an input."""
        store = self.state.stores[value]
        return store.kind == "output" and any(store.index == output for output, _ in self.state.aliases)

    def _pack(self, op: GroupOp) -> None:
        """Zero the gaps, and copy what could not be computed in place."""
        inner = op.members[0]
        host = self.state.stores[op.results[0]]
        base = self._address(host)
        itemsize = aval_of(op.results[0].type).dtype.itemsize
        end = 0
        parts = zip(inner._operands, inner.values["offsets"], strict=True)
        for operand, offset in sorted(parts, key=lambda part: part[1]):
            value = _outside(op, operand)
            store = _store(self.state, value)
            size = _bytes(value)
            assert isinstance(size, int)
            self._gap(base, end, offset * itemsize)
            if store.host is not host or store.offset != offset * itemsize:
                self.block.add_op(plan.CopyOp.make(self._value(value), self._at(base, offset * itemsize), size))
            end = offset * itemsize + size
        assert isinstance(host.size, int)
        self._gap(base, end, host.size)

    def _gap(self, base: SSAValue, start: int, stop: int) -> None:
        if stop > start:
            self.block.add_op(plan.FillOp.make(self._at(base, start), stop - start))

    def _at(self, base: SSAValue, offset: int) -> SSAValue:
        return base if offset == 0 else self._buffer(plan.ViewOp.make(base, offset))


@dataclass(frozen=True)
class BufferizePass(ModulePass):
    """Append the plan of @main, for targets of a kind."""

    name = "nd-bufferize"

    kind: str = "cpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        bufferize(op, self.kind)
