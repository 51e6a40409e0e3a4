"""Kernels of groups of kind ``contract``: a contraction in register tiles, with the maps that follow it on each tile.

A unit of work is a block of the result. Its register tiles follow each other, along the lanes outside and along the rows
inside; rows that are left over form smaller tiles, columns that are left over are masked.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.body import Body, linear
from firebox.lowering.generate.contract_choose import contract_schedule
from firebox.lowering.generate.contract_problem import Operand, Problem
from firebox.lowering.generate.contract_tile import Offsets, Place, RegisterTile, Source, direct_strides
from firebox.lowering.generate.contract_tiling import Tiling
from firebox.lowering.generate.loops import needs_wide_indices
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

__all__ = ["contract_schedule", "generate_contract", "launch_contract"]


def generate_contract(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled contraction."""
    return Kernels(ContractKernel(group, schedule, dim_order, op_ids).build())


def launch_contract(group: GroupOp, schedule: Schedule) -> Launch:
    """Blocks of the result."""
    tiling = Tiling.of(Problem.of(group), schedule)
    return Launch(tiling.units, schedule.grain)


class ContractKernel:
    """Builds the kernel of one group."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.problem = problem = Problem.of(group)
        self.tiling = Tiling.of(problem, schedule)
        used = _dim_names(group)
        names = [n for n in dim_order if n in used]
        dtypes = [aval_of(v.type).dtype for v in (*group.operands, *group.results)]
        indices = [dim_order.index(n) for n in names]
        self.k = k = KernelBuilder.kernel(group.label, dtypes, len(indices), indices)
        count = len(group.operands)
        self.body = Body(k, dict(zip(group.block.args, k.buffers[:count], strict=True)), op_ids)
        self.outputs: list[tuple[SSAValue, Ref]] = list(zip(group.yielded, k.buffers[count:], strict=True))
        self.body.env.update(zip(names, k.dims, strict=True))
        self.body.collapse = dict(problem.collapse)
        self.body.wide_indices = needs_wide_indices(group)

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        k.loop(k.begin, k.end, 1, [], lambda unit, _: self._unit(unit))
        return k.finish()

    # ---- units and blocks ----------------------------------------------------------------------------------------

    def _unit(self, unit: Val) -> None:
        k, tiling = self.k, self.tiling
        self.start: dict[str, Val] = {loop.name: k.index(0) for loop in self.problem.out}
        self.count: dict[str, Val] = {}
        outer = tiling.unit_loops
        for loop in reversed(outer):
            number = unit
            if loop is not outer[0]:
                extent = self.body.expression(tiling.unit_extent(loop))
                number, unit = k.mod(unit, extent), k.floordiv(unit, extent)
            self.start[loop.name] = k.mul(number, self.body.expression(tiling.block(loop)))
        for loop in self.problem.out:
            self.count[loop.name] = self._count(loop)
        self._block()

    def _count(self, loop: Loop) -> Val:
        """Turns of a loop in this block."""
        k, block = self.k, self.tiling.block(loop)
        extent = self.body.expression(loop.extent)
        if self.tiling.whole(loop):
            return extent
        if isinstance(loop.extent, int) and isinstance(block, int) and loop.extent % block == 0:
            return k.index(block)
        return k.min(self.body.expression(block), k.sub(extent, self.start[loop.name]))

    def _block(self) -> None:
        self.tile = RegisterTile(self.body, self.tiling, [self._source(o) for o in self.problem.operands])
        self.local: dict[str, Val] = {}
        tiled = {loop.name for loop, _ in self.tiling.rows}
        lane = self.tiling.lane
        others = [loop for loop in self.problem.out if loop.name not in tiled and loop != lane]
        self._others(others)

    def _source(self, operand: Operand) -> Source | None:
        """The operand in place; None where each element has to be looked at."""
        if not operand.direct:
            return None
        strides = direct_strides(operand)
        origin = self.body.expression(operand.origin)
        for name, stride in strides.items():
            if name in self.start and self.start[name].const != 0:
                origin = self.k.add(origin, self.k.mul(self.start[name], self.body.expression(stride)))
        return Source(self.body.buffers[operand.value], strides, origin, True)

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
        if lane is None:
            self.masks: list[Val | None] = [None]
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
        """Full tiles, and what is left over of the last row loop in smaller ones."""
        self._row_loops(list(self.tiling.rows), ())

    def _row_loops(self, rest: list[tuple[Loop, int]], counts: tuple[int, ...]) -> None:
        if not rest:
            self._tile(self.tiling.row_offsets(counts))
            return
        (loop, rows), *inner = rest

        def tiles(size: int) -> Callable[[Val], None]:
            def turn(position: Val) -> None:
                self.local[loop.name] = position
                self._row_loops(inner, (*counts, size))

            return turn

        k, count = self.k, self.count[loop.name]
        if isinstance(loop.extent, int) and loop.extent % rows == 0:
            self._loop(count, rows, tiles(rows))
            return
        full = k.mul(k.floordiv(count, rows), rows)
        self._loop(full, rows, tiles(rows))
        if isinstance(loop.extent, int):
            k.if_(k.lt(full, count), lambda: tiles(loop.extent % rows)(full))  # type: ignore[operator]
        else:
            k.loop(full, count, 1, [], lambda position, _: tiles(1)(position))

    def _loop(self, count: Val, step: int, turn: Callable[[Val], None]) -> None:
        """Turns from 0 on; no loop where there is one turn."""
        if count.const is not None and 0 < count.const <= step:
            turn(self.k.index(0))
        else:
            self.k.loop(0, count, step, [], lambda position, _: turn(position))

    # ---- one tile ------------------------------------------------------------------------------------------------

    def _tile(self, offsets: Offsets) -> None:
        place = Place(self.start, dict(self.local), self.masks)
        sums = self.tile.sums(place, offsets, self.tile.zeros(offsets))
        vectors = self.tiling.vectors
        for number, total in enumerate(sums):
            self.tile.enter(place, offsets[number // vectors], number % vectors)
            self.body.known = {self.problem.result: total}
            self._store_all()
        self.body.known = {}
        self.body.lane = None

    def _store_all(self) -> None:
        """Compute and store the outputs at one vector."""
        homes = self.problem.nest.homes
        values = [self.body.value(v, homes[v]) for v, _ in self.outputs]
        for (value, ref), computed in zip(self.outputs, values, strict=True):
            self.body.store(ref, linear(homes[value], aval_of(value.type).shape), computed)


def _dim_names(group: GroupOp) -> set[str]:
    shapes = [aval_of(v.type).shape for v in (*group.operands, *group.results)]
    shapes += [a.shape for op in group.members for a in op.avals]
    formula = [loop.extent for loop in (*Problem.of(group).reduced, *Problem.of(group).out)]
    return {n for shape in (*shapes, formula, group.domain) for n in dims.names(*shape)}
