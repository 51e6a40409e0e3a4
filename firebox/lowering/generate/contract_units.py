"""What kernels of contractions have in common: arguments, units of work, blocks of loops."""

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_tiling import Tiling
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.stages import needs_wide_indices
from firebox.runtime.target import Target


class BlockKernel:
    """A kernel that works block by block.

    Attributes:
        start: first turn of the present block along each loop.
        count: its turns.
        local: first turn of the present register tile within the block.
        unit: number of the present unit of work.
        first: whether this is the first part of the reduced loops; None where they are not cut.
    """

    def __init__(
        self, group: GroupOp, tiling: Tiling, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
    ) -> None:
        self.target = target
        self.tiling = tiling
        self.problem = problem = tiling.problem
        used = _dim_names(group, problem)
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
        every = (*problem.out, *problem.reduced)
        self.start: dict[str, Val] = {loop.name: k.index(0) for loop in every}
        self.count: dict[str, Val] = {loop.name: self._count(loop) for loop in every if self.tiling.whole(loop)}
        self.local: dict[str, Val] = {}
        self.unit = k.index(0)
        self.first: Val | None = None

    # ---- units ---------------------------------------------------------------------------------------------------

    def units(self, slabs: Sequence[int], fill: Callable[[Sequence[int]], None], work: Callable[[], None]) -> None:
        """A loop over the units; a slab that depends on the unit is filled where that part of its number changes."""
        k = self.k

        def turn(unit: Val, filled: list[Val]) -> list[Val]:
            numbers = self._enter_unit(unit)
            now = [self._key(n, numbers) for n in slabs]
            for number, before, key in zip(slabs, filled, now, strict=True):
                k.if_(k.ne(before, key), lambda number=number: fill([number]))  # type: ignore[misc]
            work()
            return now

        k.loop(k.begin, k.end, 1, [k.index(-1) for _ in slabs], turn)

    def _enter_unit(self, unit: Val) -> dict[str, Val]:
        """Set the block of a unit; gives its number along each loop that is cut."""
        k, tiling = self.k, self.tiling
        self.unit = unit
        numbers: dict[str, Val] = {}
        outer = tiling.unit_loops
        for loop in reversed(outer):
            number = unit
            if loop is not outer[0]:
                extent = self.body.expression(tiling.unit_extent(loop))
                number, unit = k.mod(unit, extent), k.floordiv(unit, extent)
            numbers[loop.name] = number
            self.start[loop.name] = k.mul(number, self.body.expression(tiling.block(loop)))
            self.count[loop.name] = self._count(loop)
        return numbers

    def _count(self, loop: Loop) -> Val:
        """Turns of a loop in this block."""
        k, block = self.k, self.tiling.block(loop)
        extent = self.body.expression(loop.extent)
        if self.tiling.whole(loop):
            return extent
        if self.tiling.even(loop.name):
            return self.body.expression(block)
        return k.min(self.body.expression(block), k.sub(extent, self.start[loop.name]))

    def _key(self, number: int, numbers: dict[str, Val]) -> Val:
        """A number for the part of an operand that a unit needs."""
        k, key = self.k, self.k.index(0)
        for loop in self.tiling.unit_loops:
            if loop.name in self.tiling.cut(number):
                key = k.add(k.mul(key, self.body.expression(self.tiling.unit_extent(loop))), numbers[loop.name])
        return key

    # ---- parts of the reduced loops ------------------------------------------------------------------------------

    def parts(self, work: Callable[[], None]) -> None:
        """Loops over the blocks of the reduced loops that are cut."""
        self.first = None
        self._part_loops(self.tiling.parts, work)

    def _part_loops(self, rest: list[Loop], work: Callable[[], None]) -> None:
        if not rest:
            work()
            return
        k = self.k
        loop, *inner = rest
        outer = self.first

        def turn(number: Val) -> None:
            self.start[loop.name] = k.mul(number, self.body.expression(self.tiling.block(loop)))
            self.count[loop.name] = self._count(loop)
            now = k.eq(number, 0)
            self.first = now if outer is None else k.and_(outer, now)
            self._part_loops(inner, work)

        k.loop(0, self.body.expression(self.tiling.unit_extent(loop)), 1, [], lambda number, _: turn(number))


def _dim_names(group: GroupOp, problem: Problem) -> set[str]:
    return {*group.dim_names, *dims.names(*(loop.extent for loop in (*problem.reduced, *problem.out)))}
