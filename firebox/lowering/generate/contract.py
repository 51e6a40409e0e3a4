"""Kernels of groups of kind ``contract``: a contraction in register tiles, with the maps that follow it on each tile.

A unit of work is a block of the result. What a block needs of an operand may be copied to scratch first; it is copied
again only when a later unit needs another part. Register tiles follow each other along the lanes outside and along the
rows inside; rows that are left over form smaller tiles, columns that are left over are masked. Where a reduced loop is
cut, or the lanes do not follow the result's memory, a block's sums go to scratch and are finished from there.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp

from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.contract_choose import contract_schedule
from firebox.lowering.generate.contract_finish import Finish, store_outputs
from firebox.lowering.generate.contract_pack import Packing
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_scratch import Scratch
from firebox.lowering.generate.contract_tile import Offsets, Place, RegisterTile, Source, direct_strides
from firebox.lowering.generate.contract_tiling import RESULT, Tiling
from firebox.lowering.generate.contract_units import BlockKernel
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

__all__ = ["contract_schedule", "generate_contract", "launch_contract"]


def generate_contract(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled contraction."""
    return Kernels((ContractKernel(group, schedule, target, dim_order, op_ids).build(),))


def launch_contract(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Blocks of the result."""
    tiling = Tiling.of(Problem.of(group), schedule)
    return (Launch(tiling.units, schedule.grain, Scratch.of(tiling).nbytes),)


class ContractKernel(BlockKernel):
    """Builds the kernel of one group.

    Attributes:
        stack: the sums of a register tile, where they are finished in turn.
    """

    def __init__(
        self, group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
    ) -> None:
        super().__init__(group, Tiling.of(Problem.of(group), schedule), target, dim_order, op_ids)
        self.scratch = Scratch.of(self.tiling)
        k, dtype = self.k, self.problem.dtype
        self.memory = {n: k.view(k.scratch, at, dtype) for n, at in self.scratch.places.items()}
        self.stack: Ref | None = None

    def build(self) -> FuncOp:
        """The finished kernel."""
        self._fill([n for n in self.scratch.slabs if not self.tiling.cut(n)])
        if self.scratch.spanning:
            self._parts(lambda: self._units(self._add))
            self._units(self._finish)
        else:
            self._units(self._whole_unit)
        return self.k.finish()

    # ---- units ---------------------------------------------------------------------------------------------------

    def _units(self, work: Callable[[], None]) -> None:
        tiling = self.tiling
        slabs = [n for n in self.scratch.slabs if tiling.cut(n) and not tiling.parts_of(n)]
        self.units([] if work == self._finish else slabs, self._fill, work)

    def _fill(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            slab = self.scratch.slabs[number]
            buffer = self.body.buffers[slab.operand.value]
            Packing(self.body, self.tiling, slab, buffer, self.memory[number], self.target).fill(self.start)

    # ---- parts of the reduced loops ------------------------------------------------------------------------------

    def _parts(self, work: Callable[[], None]) -> None:
        def part() -> None:
            if self.scratch.spanning:
                tiling = self.tiling
                self._fill([n for n in self.scratch.slabs if tiling.cut(n) and tiling.parts_of(n) == tiling.cut(n)])
            work()

        self.parts(part)

    def _whole_unit(self) -> None:
        self._parts(self._add)
        if self.scratch.sums is not None:
            self._finish()

    def _add(self) -> None:
        """Add one part of the reduced loops to a block of sums."""
        tiling = self.tiling
        late = [n for n in self.scratch.slabs if tiling.parts_of(n)]
        self._fill([n for n in late if not self.scratch.spanning or tiling.parts_of(n) != tiling.cut(n)])
        if self.first is not None:
            self.k.if_(self.first, self._clear)
        self.tile = RegisterTile(self.body, tiling, [self._source(side) for side in (0, 1)])
        tiled = {loop.name for loop, _ in tiling.rows}
        self._others([loop for loop in self.problem.out if loop.name not in tiled and loop != tiling.lane])

    def _source(self, side: int) -> Source | None:
        """The operand in scratch or in place; None where each element has to be looked at."""
        k, operand = self.k, self.problem.operands[side]
        lane = self.tiling.lane.name if self.tiling.lane is not None else ""
        slab = self.scratch.slabs.get(side)
        if slab is not None:
            strides = slab.strides()
            along = strides.get(lane, 0) if slab.lane is None else 1
            return Source(self.memory[side], strides, along, k.index(slab.origin), False)
        if not operand.direct:
            return None
        strides = direct_strides(operand)
        origin = self.body.expression(operand.origin)
        for name, stride in strides.items():
            if self.start[name].const != 0:
                origin = k.add(origin, k.mul(self.start[name], self.body.expression(stride)))
        return Source(self.body.buffers[operand.value], strides, strides.get(lane, 0), origin, True)

    # ---- sums in scratch -----------------------------------------------------------------------------------------

    def _base(self) -> Val:
        """Where the sums of this unit begin."""
        assert self.scratch.sums is not None
        return self.k.mul(self.unit, self.scratch.sums.elements) if self.scratch.spanning else self.k.index(0)

    def _clear(self) -> None:
        k, sums, lanes = self.k, self.scratch.sums, self.tiling.lanes
        assert sums is not None
        zero, base = k.broadcast(k.const(0, self.problem.dtype), lanes), self._base()
        end = sums.elements - lanes
        k.loop(0, end, lanes, [], lambda at, _: k.store(self.memory[RESULT], k.add(base, at), zero))

    def _finish(self) -> None:
        assert self.scratch.sums is not None
        square = self.k.view(self.k.scratch, self.scratch.square, self.problem.dtype)
        finish = Finish(
            self.body, self.tiling, self.scratch.sums, self.memory[RESULT], square, self.outputs, self.target
        )
        finish.block(self.start, self.count, self._base())

    # ---- tiles of a block ----------------------------------------------------------------------------------------

    def _others(self, rest: list[Loop]) -> None:
        """The loops of a block that are not part of a tile."""
        if not rest:
            self._lanes()
            return
        loop, *inner = rest

        def turn(position: Val) -> None:
            self.local[loop.name] = position
            self._others(inner)

        self._loop(self.count[loop.name], 1, turn)

    def _lanes(self) -> None:
        lane = self.tiling.lane
        if lane is None or lane.reduced:
            self.masks: list[Val | None] = [None] * self.tiling.vectors
            self._rows()
            return

        def turn(position: Val) -> None:
            self.local[lane.name] = position
            self.masks = [self._mask(lane, v) for v in range(self.tiling.vectors)]
            self._rows()

        self._loop(self.count[lane.name], self.tiling.columns, turn)

    def _mask(self, lane: Loop, vector: int) -> Val | None:
        """The lanes of a vector that are inside the loop; None if they always are."""
        k, tiling, extent = self.k, self.tiling, lane.extent
        if isinstance(extent, int):
            last = (extent - 1) // tiling.columns * tiling.columns
            if extent - last >= (vector + 1) * tiling.lanes:
                return None
        first = k.add(k.add(self.start[lane.name], self.local[lane.name]), vector * tiling.lanes)
        return k.mask(k.sub(self.body.expression(extent), first), tiling.lanes)

    def _rows(self) -> None:
        """Full tiles, and what is left over of a row loop in smaller ones."""
        self._row_loops(list(self.tiling.rows), ())

    def _row_loops(self, rest: list[tuple[Loop, int]], counts: tuple[int, ...]) -> None:
        if not rest:
            self._tile(counts)
            return
        (loop, rows), *inner = rest

        def tiles(size: int) -> Callable[[Val], None]:
            def turn(position: Val) -> None:
                self.local[loop.name] = position
                self._row_loops(inner, (*counts, size))

            return turn

        k, count = self.k, self.count[loop.name]
        block = self.tiling.block(loop)
        left = [d % rows if isinstance(d, int) else None for d in (loop.extent, block)]
        if left[0] == 0 and left[1] == 0:
            self._loop(count, rows, tiles(rows))
            return
        full = k.mul(k.floordiv(count, rows), rows)
        self._loop(full, rows, tiles(rows))
        if left[0] is not None and (left[1] == 0 or block == loop.extent):
            k.if_(k.lt(full, count), lambda: tiles(left[0] or 1)(full))
        else:
            k.loop(full, count, 1, [], lambda position, _: tiles(1)(position))

    def _loop(self, count: Val, step: int, turn: Callable[[Val], None]) -> None:
        """Turns from 0 on; no loop where there is one turn."""
        if count.const is not None and 0 < count.const <= step:
            turn(self.k.index(0))
        else:
            self.k.loop(0, count, step, [], lambda position, _: turn(position))

    # ---- one tile ------------------------------------------------------------------------------------------------

    def _tile(self, counts: tuple[int, ...]) -> None:
        offsets = self.tiling.row_offsets(counts)
        place = Place(self.start, self.count, dict(self.local), self.masks)
        if self.scratch.sums is not None:
            self._tile_to_scratch(place, offsets)
            return
        sums = self.tile.sums(place, offsets, self.tile.zeros(offsets))
        vectors = len(sums) // len(offsets)
        if len(sums) > 1 and not self.tiling.cheap:
            self._store_in_turn(place, counts, sums)
            return
        for number, total in enumerate(sums):
            self.tile.enter(place, offsets[number // vectors], number % vectors)
            store_outputs(self.body, self.problem, self.outputs, total)
        self.body.known = {}
        self.body.lane = None

    def _store_in_turn(self, place: Place, counts: tuple[int, ...], sums: list[Val]) -> None:
        """Finish the sums one after another from the stack, so that long maps are written once for all of a tile."""
        k, tiling = self.k, self.tiling
        lanes = sums[0].lanes
        if self.stack is None:  # the first tile is the largest one
            self.stack = k.alloc_stack(self.problem.dtype, len(sums) * lanes)
        for number, total in enumerate(sums):
            k.store(self.stack, number * lanes, total)
        turns = [(loop, 1, count) for (loop, _), count in zip(tiling.rows, counts, strict=True)]
        if tiling.lane is not None and not tiling.lane.reduced:
            turns.append((tiling.lane, tiling.lanes, tiling.vectors))
        self._turns([turn for turn in turns if turn[2] > 1], place, k.index(0), lanes)

    def _turns(self, rest: list[tuple[Loop, int, int]], place: Place, number: Val, lanes: int) -> None:
        """Loops over the sums on the stack, as (loop, step, turns); two or three at once hide each other's latency."""
        k, lane = self.k, self.tiling.lane
        if not rest:
            if lane is not None and any(mask is not None for mask in place.masks):
                place.masks = [self._mask_at(lane, place)]
            self.tile.enter(place, {}, 0)
            assert self.stack is not None
            total = k.load(self.stack, k.mul(number, lanes), lanes)
            store_outputs(self.body, self.problem, self.outputs, total)
            self.body.known, self.body.lane = {}, None
            return
        (loop, step, count), *inner = rest

        def turn(position: Val) -> None:
            local = {**place.local, loop.name: k.add(place.local[loop.name], k.mul(position, step))}
            at = Place(place.start, place.count, local, place.masks)
            self._turns(inner, at, k.add(k.mul(number, count), position), lanes)

        together = next(n for n in (2, 3, 1) if count % n == 0) if not inner else 1

        def several(position: Val) -> None:
            for number in range(together):
                turn(k.add(position, number))

        self._loop(k.index(count), together, several)

    def _mask_at(self, lane: Loop, place: Place) -> Val:
        """The lanes that are inside the loop, of the vector at a place."""
        first = self.k.add(place.start[lane.name], place.local[lane.name])
        return self.k.mask(self.k.sub(self.body.expression(lane.extent), first), self.tiling.lanes)

    def _tile_to_scratch(self, place: Place, offsets: Offsets) -> None:
        k, tiling, sums = self.k, self.tiling, self.scratch.sums
        assert sums is not None
        memory = self.memory[RESULT]
        base = self._base()
        for name, position in place.local.items():
            base = k.add(base, k.mul(position, sums.strides.get(name, 0)))
        rows = [sum(sums.strides.get(name, 0) * offset for name, offset in row.items()) for row in offsets]
        at = [k.add(base, row + vector * tiling.lanes) for row in rows for vector in range(tiling.vectors)]
        start = self.tile.zeros(offsets) if self.first is None else [k.load(memory, a, tiling.lanes) for a in at]
        for address, total in zip(at, self.tile.sums(place, offsets, start), strict=True):
            k.store(memory, address, total)
