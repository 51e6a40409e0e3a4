"""Pass `bufferize`: from values to buffers; appends the `plan.program` of the module.

`firebox.lowering.stores` finds where every value lives; here the steps are written. Views share the buffer of their
source; on OpenCL, where kernels rely on buffers that start at 16-byte boundaries, a view that starts elsewhere is a
copy. Sizes are dim expressions, so a symbolic batch has a symbolic arena.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block as IRBlock
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from firebox import dims
from firebox.dialects import plan
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike, dim
from firebox.lowering.generate.templates import Launch, kernel_name, template_named
from firebox.lowering.memory import aligned
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.stores import (
    Frame,
    State,
    Store,
    analyse,
    is_pack,
    may_fault,
    nbytes,
    outside,
    root_of,
    store_of,
)

THREADS = "threads"


def bufferize(module: ModuleOp, kind: str = "cpu") -> plan.ProgramOp:
    """Append and return the plan of @main, for targets of a kind."""
    block = main_function(module).body.block
    state = analyse(block, kind)
    shared = Shared(block, state)
    steps = IRBlock()
    inputs = [plan.InputOp.make(k) for k in range(len(state.arguments))]
    outputs = [plan.OutputOp.make(k) for k in range(len(state.results))]
    steps.add_ops([*inputs, *outputs])
    Writer(state, shared, steps, [op.buffer for op in inputs], [op.buffer for op in outputs]).write()
    steps.add_op(plan.EndOp.make())
    program = plan.ProgramOp.make("main", _dim_names(block.args), shared.arena(), state.aliases, steps)
    module.body.block.add_op(program)
    return program


def _dim_names(arguments: Sequence[SSAValue]) -> tuple[str, ...]:
    """The symbolic dims of the inputs, in order of appearance."""
    return dims.names(*(d for a in arguments for d in aval_of(a.type).shape))


# ---- writing the plan --------------------------------------------------------------------------------------------


class Shared:
    """What the writers of all blocks of a program share.

    Attributes:
        kind: of the targets.
        launches: how the kernels of each label are started.
        scratch: where the scratch memory of kernels begins in the arena.
    """

    def __init__(self, block: IRBlock, state: State) -> None:
        self.kind = state.kind
        self.launches: dict[str, tuple[Launch, ...]] = {}
        self.scratch = state.arena
        self._counters = 0
        for op in groups_in(block):
            if not is_pack(op) and op.label not in self.launches:
                self.launches[op.label] = template_named(op.schedule.template).launch(op, op.schedule)

    def arena(self) -> DimLike:
        """Bytes of the whole arena."""
        needs = [aligned(launch.scratch) for parts in self.launches.values() for launch in parts if launch.scratch != 0]
        scratch = functools.reduce(dims.maximum, needs) if needs else 0
        return self.scratch + (dims.multiply(scratch, dim(THREADS)) if self.kind == "cpu" else scratch)

    def counter(self) -> str:
        """A name for the steps of a loop."""
        self._counters += 1
        return f"step{self._counters - 1}"


class Writer:
    """Writes the steps and buffers of one block.

    Args:
        state: the block.
        shared: the program.
        inputs, outputs: buffers of its arguments and results.
        base: where its arena begins in that of the program.
    """

    def __init__(
        self,
        state: State,
        shared: Shared,
        block: IRBlock,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        base: DimLike = 0,
    ) -> None:
        self.state = state
        self.shared = shared
        self.block = block
        self.inputs = inputs
        self.outputs = outputs
        self.base = base
        self.addresses: dict[Store, SSAValue] = {}
        self.faults = any(may_fault(op) for op in state.ops)

    def write(self) -> None:
        """Write all steps, and the copies of results that are not made where they belong."""
        state = self.state
        for op in state.ops:
            self._step(op)
        for k in state.copies:
            self.copy(self.value(state.results[k]), self.outputs[k], nbytes(state.results[k]))

    def copy(self, source: SSAValue, target: SSAValue, size: DimLike) -> None:
        """Copy unless it is one buffer."""
        if source is not target:
            self.block.add_op(plan.CopyOp.make(source, target, size))

    def view(self, buffer: SSAValue, offset: DimLike) -> SSAValue:
        """A buffer from an offset on."""
        return buffer if offset == 0 else self._buffer(plan.ViewOp.make(buffer, offset))

    def alloc(self, offset: DimLike, size: DimLike) -> SSAValue:
        """A part of the block's arena."""
        return self._buffer(plan.AllocOp.make(self.base + offset, aligned(size)))

    def _buffer(self, op: plan.AllocOp | plan.ViewOp) -> SSAValue:
        self.block.add_op(op)
        return op.buffer

    def _address(self, store: Store) -> SSAValue:
        found = self.addresses.get(store)
        if found is None:
            found = self.addresses[store] = self._make_address(store)
        return found

    def _make_address(self, store: Store) -> SSAValue:
        if store.kind == "input":
            return self.inputs[store.index]
        if store.kind == "output":
            return self.outputs[store.index]
        if store.kind == "part":
            assert store.host is not None
            host = self._address(store.host)
            return self.view(host, store.offset)
        assert store.block is not None
        return self.alloc(store.block.offset, store.size)

    def value(self, value: SSAValue) -> SSAValue:
        """The buffer of a value."""
        root, offset = root_of(self.state, value)
        address = self._address(self.state.stores[root])
        return self.view(address, offset)

    def _step(self, op: NdOp) -> None:
        if op in self.state.moved:
            self._move(op, self.state.moved[op])
        elif isinstance(op, GroupOp) and is_pack(op):
            self._pack(op)
        elif isinstance(op, GroupOp):
            self._launch(op)
        elif isinstance(op, ControlOp):
            ControlWriter(self, op).write()

    def _move(self, op: NdOp, offset: DimLike) -> None:
        """Copy what would be a view that starts where no buffer may."""
        source = self.view(self.value(op._operands[0]), offset)
        self.copy(source, self.value(op.results[0]), nbytes(op.results[0]))

    def _launch(self, op: GroupOp) -> None:
        buffers = [self.value(v) for v in (*op.operands, *op.results)]
        main = self.state.carried is None
        overwrites = main and self.faults and any(self._overwrites(r) for r in op.results)
        at = self.shared.scratch
        for number, launch in enumerate(self.shared.launches[op.label]):
            name = kernel_name(op.label, number)
            step = plan.LaunchOp.make(name, buffers, launch.count, launch.grain, aligned(launch.scratch), at)
            step.location = op.location
            if overwrites:
                step.attributes["unless_fault"] = UnitAttr()
            self.block.add_op(step)

    def _overwrites(self, value: SSAValue) -> bool:
        """The value may be written over an input of the program."""
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
            value = outside(op, operand)
            store = store_of(self.state, value)
            size = nbytes(value)
            assert isinstance(size, int)
            self._gap(base, end, offset * itemsize)
            if store.host is not host or store.offset != offset * itemsize:
                self.copy(self.value(value), self.view(base, offset * itemsize), size)
            end = offset * itemsize + size
        assert isinstance(host.size, int)
        self._gap(base, end, host.size)

    def _gap(self, base: SSAValue, start: int, stop: int) -> None:
        if stop > start:
            self.block.add_op(plan.FillOp.make(self.view(base, start), stop - start))


# ---- control flow ------------------------------------------------------------------------------------------------


class ControlWriter:
    """Writes one op with control flow; its steps go into the block of the writer around."""

    def __init__(self, around: Writer, op: ControlOp) -> None:
        self.around = around
        self.op = op
        self.frame: Frame = around.state.frames[op]
        assert self.frame.store.block is not None
        self.base = self.frame.store.block.offset
        self.operands = [around.value(v) for v in op._operands]
        self.results = [around.value(r) for r in op.results]

    def write(self) -> None:
        """Write it."""
        if isinstance(self.op, CondOp):
            self._cond()
        elif isinstance(self.op, WhileOp):
            self._while(self.op)
        elif isinstance(self.op, ScanOp):
            self._scan(self.op)

    def _block(self, number: int, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], steps: IRBlock) -> IRBlock:
        """The steps of a region."""
        base = self.around.base + self.base + self.frame.arena
        state = self.frame.states[number]
        Writer(state, self.around.shared, steps, inputs, outputs, base).write()
        return steps

    def _alloc(self, offset: DimLike, size: DimLike) -> SSAValue:
        return self.around.alloc(self.base + offset, size)

    def _cond(self) -> None:
        blocks = [self._block(k, self.operands[1:], self.results, IRBlock()) for k in range(2)]
        self.around.block.add_op(plan.IfOp.make(self.operands[0], *blocks))

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _enter(self, carry: int) -> dict[int, SSAValue]:
        """Put the carried values where the loop expects them; returns the places of those that have two."""
        pairs = {}
        for k in range(carry):
            size = nbytes(self.op.results[k])
            place = self.frame.pairs.get(k)
            if place is not None:
                pairs[k] = self._alloc(place, 2 * aligned(size))
            self.around.copy(self.operands[k], pairs.get(k, self.results[k]), size)
        return pairs

    def _leave(self, pairs: dict[int, SSAValue], steps: DimLike) -> None:
        """Take the carried values from where they are after so many steps."""
        for k, pair in pairs.items():
            last = self.around.view(pair, self._turn(k, steps))
            self.around.copy(last, self.results[k], nbytes(self.op.results[k]))

    def _turn(self, number: int, step: DimLike) -> DimLike:
        """Where in its two places a carried value is before a step."""
        return dims.multiply(dims.mod(step, 2), aligned(nbytes(self.op.results[number])))

    def _carried(self, pairs: dict[int, SSAValue], carry: int, step: DimLike, steps: IRBlock) -> list[SSAValue]:
        found = []
        for k in range(carry):
            place = self.results[k]
            if k in pairs:
                view = plan.ViewOp.make(pairs[k], self._turn(k, step))
                steps.add_op(view)
                place = view.buffer
            found.append(place)
        return found

    def _while(self, op: WhileOp) -> None:
        carry = op.values["carry"]
        others = self.operands[carry:]
        pairs = self._enter(carry)
        flag = self._alloc(self.frame.flag, 1)
        name = self.around.shared.counter()
        condition, body = IRBlock(), IRBlock()
        self._block(0, [*self._carried(pairs, carry, dim(name), condition), *others], [flag], condition)
        before = self._carried(pairs, carry, dim(name), body)
        self._block(1, [*before, *others], self._carried(pairs, carry, dim(name) + 1, body), body)
        self.around.block.add_op(plan.WhileOp.make(flag, name, condition, body))
        self._leave(pairs, dim(name))

    def _scan(self, op: ScanOp) -> None:
        carry, sliced = op.values["carry"], op.values["carry"] + op.values["slices"]
        pairs = self._enter(carry)
        name = self.around.shared.counter()
        step, length = dim(name), op.length
        index = length - 1 - step if op.values["reverse"] else step
        body = IRBlock()
        before = self._carried(pairs, carry, step, body)
        after = self._carried(pairs, carry, step + 1, body)
        rows = _Rows(self, op, index, body)
        inputs = [*before, *(rows.slice(k) for k in range(carry, sliced)), *self.operands[sliced:]]
        outputs = [*after, *(rows.row(k) for k in range(carry, len(op.results)))]
        self._block(0, inputs, outputs, body)
        rows.finish()
        self.around.block.add_op(plan.ForOp.make(name, length, body))
        self._leave(pairs, length)


class _Rows:
    """Slices that a step reads and rows of stacks that it writes: in place, or by a copy where the device needs it."""

    def __init__(self, control: ControlWriter, op: ScanOp, index: DimLike, steps: IRBlock) -> None:
        self.control = control
        self.op = op
        self.index = index
        self.steps = steps
        self.late: list[plan.CopyOp] = []

    def _place(self, whole: SSAValue, size: DimLike) -> SSAValue:
        view = plan.ViewOp.make(whole, dims.multiply(self.index, size))
        self.steps.add_op(view)
        return view.buffer

    def slice(self, number: int) -> SSAValue:
        """The buffer of an argument."""
        size = nbytes(self.op.blocks[0].args[number])
        place = self._place(self.control.operands[number], size)
        offset = self.control.frame.rows.get(("slice", number))
        if offset is None:
            return place
        own = self.control._alloc(offset, size)
        self.steps.add_op(plan.CopyOp.make(place, own, size))
        return own

    def row(self, number: int) -> SSAValue:
        """The buffer of a result."""
        size = nbytes(self.control.frame.states[0].results[number])
        place = self._place(self.control.results[number], size)
        offset = self.control.frame.rows.get(("row", number))
        if offset is None:
            return place
        own = self.control._alloc(offset, size)
        self.late.append(plan.CopyOp.make(own, place, size))
        return own

    def finish(self) -> None:
        """After the body: copy the rows to their stacks."""
        self.steps.add_ops(self.late)


@dataclass(frozen=True)
class BufferizePass(ModulePass):
    """Append the plan of @main, for targets of a kind."""

    name = "nd-bufferize"

    kind: str = "cpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        bufferize(op, self.kind)
