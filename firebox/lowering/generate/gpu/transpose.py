"""Maps that read along another loop than they write: through tiles in local memory, so that both are coalesced.

A tile has ``tile[0]`` turns of the loop that the transposed operands are contiguous along (`rows` of the schedule) and
``tile[1]`` of the one that the result is contiguous along (`lane`). A work-group reads the tile of each transposed
operand in their order, and evaluates the map in the order of the result; all other loops count tiles.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import bool_
from firebox.lowering.generate.body import Lane, linear
from firebox.lowering.generate.frame import Frame, estimate
from firebox.lowering.generate.gpu.device_body import is_multiple
from firebox.lowering.generate.gpu.frame import device_frame
from firebox.lowering.generate.nest import Loop, Nest
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.runtime.opencl_target import OpenClTarget

SIDE = 32
"""Turns of a tile's side for elements of 4 bytes or more; twice as many for smaller ones that are moved in pairs."""
ITEMS = 256
LEAST = 8
"""Shorter loops are not worth tiles."""
MAX_OPERANDS = 3
"""Transposed operands at most: each needs a tile."""


def is_transposing(group: GroupOp, target: OpenClTarget) -> bool:
    """The group is a map of one result with operands that are read along another loop than the result is written."""
    if group.group != "loops" or group.axes or len(group.yielded) != 1:
        return False
    if any(op.kind not in (Kind.MAP, Kind.RESHAPE) for op in group.members):
        return False
    nest = Nest.of(group)
    return not nest.special and _loops(nest) is not None


def _loops(nest: Nest) -> tuple[Loop, Loop] | None:
    """The loops for reading and for writing."""
    written = _along(nest, _written(nest))
    if written is None:
        return None
    for reads in nest.reads.values():
        read = _along(nest, reads[0])
        if read is None or min(estimate(read.extent), estimate(written.extent)) < LEAST:
            continue
        if 0 < len(_transposed(nest, read, written)) <= MAX_OPERANDS:
            return read, written
    return None


def _written(nest: Nest) -> DimLike:
    (value,) = nest.outputs
    return linear(nest.homes[value], aval_of(value.type).shape)


def _along(nest: Nest, access: DimLike) -> Loop | None:
    """The loop that an access is contiguous along."""
    return next((loop for loop in nest.loops if nest.coefficient(access, loop.name) == 1), None)


def _transposed(nest: Nest, read: Loop, written: Loop) -> list[SSAValue]:
    """Operands that are read at one place, contiguous along ``read`` and at a distance along ``written``."""
    return [v for v, reads in nest.reads.items() if len(set(reads)) == 1 and _crosses(nest, reads[0], read, written)]


def _crosses(nest: Nest, access: DimLike, read: Loop, written: Loop) -> bool:
    return _along(nest, access) == read and nest.coefficient(access, written.name) not in (0, 1)


def schedule_transpose(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule of a group for which `is_transposing` holds."""
    nest = Nest.of(group)
    chosen = _loops(nest)
    assert chosen is not None
    read, written = chosen
    moved = [*_transposed(nest, read, written), *nest.outputs]
    widest = max(aval_of(v.type).dtype.itemsize for v in moved)
    lanes = 2 if widest <= 2 and _in_pairs(nest, read, written) else 1
    side = SIDE * lanes
    items = min(ITEMS, target.max_group)
    return Schedule("gpu-transpose", written.name, lanes, tile=(side, side), rows=read.name, group=items)


def _in_pairs(nest: Nest, read: Loop, written: Loop) -> bool:
    """Pairs of neighbours along either loop start at even elements, wherever they are contiguous."""
    accesses = [(r[0], read if v in _transposed(nest, read, written) else written) for v, r in nest.reads.items()]
    accesses += [(a, written) for reads in nest.reads.values() for a in reads[1:]]
    accesses.append((_written(nest), written))
    if not all(isinstance(loop.extent, int) and loop.extent % 2 == 0 for loop in (read, written)):
        return False
    return all(nest.coefficient(a, loop.name) != 1 or _is_even(nest, a, loop) for a, loop in accesses)


def _is_even(nest: Nest, access: DimLike, loop: Loop) -> bool:
    """The access is even wherever the loop's variable is."""
    return is_multiple(dims.substitute(access, {**nest.collapse, loop.name: 0}), 2)


def launch_transpose(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """One group a tile."""
    nest = Nest.of(group)
    count = 0 if 0 in group.domain else dims.product(loop.extent for loop in _units(nest, schedule))
    return (Launch(count, schedule.group),)


def _units(nest: Nest, schedule: Schedule) -> list[Loop]:
    """The other loops, then the tiles along the loop for writing, then those along the one for reading."""
    by_name = {loop.name: loop for loop in nest.loops}
    sides = zip((schedule.lane, schedule.rows), reversed(schedule.tile), strict=True)
    tiles = [Loop(name, dims.ceildiv(by_name[name].extent, side), False) for name, side in sides]
    return [loop for loop in nest.loops if loop.name not in (schedule.lane, schedule.rows)] + tiles


def generate_transpose(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled group."""
    frame = device_frame(group, dim_order, op_ids, schedule.group)
    return Kernels((TransposeKernel(frame, group, schedule).build(),))


GPU_TRANSPOSE = Template("gpu-transpose", schedule_transpose, generate_transpose, launch_transpose)


class TransposeKernel:
    """Builds the kernel of a map that transposes."""

    def __init__(self, frame: Frame, group: GroupOp, schedule: Schedule) -> None:
        self.frame, self.k, self.body = frame, frame.k, frame.body
        self.nest = nest = Nest.of(group)
        self.schedule, self.lanes = schedule, schedule.lanes
        by_name = {loop.name: loop for loop in nest.loops}
        self.read, self.written = by_name[schedule.rows], by_name[schedule.lane]
        self.body.collapse = dict(nest.collapse)
        self.pitch = schedule.tile[0] + self.lanes
        moved = _transposed(nest, self.read, self.written)
        self.tiles = {value: self._tile(value, schedule.tile[1]) for value in moved}

    def _tile(self, value: SSAValue, rows: int) -> Ref:
        """Room for a tile: a row for each turn of the loop for writing, and what keeps columns in different banks."""
        return self.k.alloc_local(aval_of(value.type).dtype, rows * self.pitch)

    def build(self) -> FuncOp:
        """The finished kernel."""
        k, env = self.k, self.body.env
        units = _units(self.nest, self.schedule)
        for loop, number in zip(units, self.frame.split(k.group_id(), *(u.extent for u in units)), strict=True):
            env[loop.name] = number
        row = k.mul(env[self.read.name], self.schedule.tile[0])
        column = k.mul(env[self.written.name], self.schedule.tile[1])
        self._each(self.schedule.tile, lambda r, w: self._bring(k.add(row, r), k.add(column, w), r, w))
        k.barrier()
        self._each(self.schedule.tile[::-1], lambda w, r: self._write(k.add(row, r), k.add(column, w), r, w))
        return k.finish()

    def _each(self, sides: Sequence[int], work: Callable[[Val, Val], None]) -> None:
        """The points of the tile that this work-item visits; along the first side neighbours are side by side."""
        k, width = self.k, sides[0] // self.lanes
        fast = k.mul(k.mod(k.local_id(), width), self.lanes)
        slow = k.floordiv(k.local_id(), width)
        step = max(self.schedule.group // width, 1)
        for number in range(0, sides[1], step):
            work(fast, k.add(slow, number))

    def _bring(self, row: Val, column: Val, r: Val, w: Val) -> None:
        """Elements of the transposed operands along the loop for reading; at the edge those before it once more."""
        k, env = self.k, self.body.env
        env[self.read.name] = self._clamped(row, self.read, self.lanes)
        env[self.written.name] = self._clamped(column, self.written, 1)
        for value, tile in self.tiles.items():
            at = self.body.expression(self.nest.reads[value][0])
            found = k.load(self.body.buffers[value], at, self.lanes, raw=True)
            k.store(tile, k.add(k.mul(w, self.pitch), r), found, raw=True)

    def _write(self, row: Val, column: Val, r: Val, w: Val) -> None:
        k, body = self.k, self.body
        inside = self._both(self._inside(row, self.read), self._inside(column, self.written))

        def store() -> None:
            body.env[self.read.name], body.env[self.written.name] = row, column
            body.lane = Lane(self.written.name, self.lanes) if self.lanes > 1 else None
            body.at_point()
            body.known = {value: self._column(tile, r, w) for value, tile in self.tiles.items()}
            (value,) = self.nest.outputs
            home = self.nest.homes[value]
            body.store(self.frame.outputs[value], _written(self.nest), body.value(value, home))

        k.if_(inside, store)
        body.lane = None

    def _column(self, tile: Ref, r: Val, w: Val) -> Val:
        """Elements along the loop for writing."""
        k = self.k
        values = [k.load(tile, k.add(k.mul(k.add(w, lane), self.pitch), r)) for lane in range(self.lanes)]
        found = k.broadcast(values[0], self.lanes)
        for lane, value in enumerate(values[1:], 1):
            found = k.insert(found, value, lane)
        return found

    def _clamped(self, position: Val, loop: Loop, lanes: int) -> Val:
        if self._is_whole(loop):
            return position
        return self.k.min(position, self.k.sub(self.body.expression(loop.extent), lanes))

    def _inside(self, position: Val, loop: Loop) -> Val:
        if self._is_whole(loop):
            return self.k.const(True, bool_)
        return self.k.lt(position, self.body.expression(loop.extent))

    def _is_whole(self, loop: Loop) -> bool:
        """Tiles end where the loop does."""
        return isinstance(loop.extent, int) and loop.extent % self.schedule.tile[0] == 0

    def _both(self, a: Val, b: Val) -> Val:
        if a.const is True:
            return b
        return a if b.const is True else self.k.and_(a, b)
