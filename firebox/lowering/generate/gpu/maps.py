"""Kernels of maps on a GPU: every work-item computes some vectors, a work-group's worth apart from each other."""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.gpu.device_body import Memo
from firebox.lowering.generate.gpu.loop_frame import LoopFrame
from firebox.lowering.generate.gpu.space import Space
from firebox.lowering.generate.nest import Nest


def map_groups(group: GroupOp, schedule: Schedule) -> DimLike:
    """Number of work-groups."""
    space = Space.of(Nest.of(group), schedule, False)
    return dims.ceildiv(space.size, space.lanes * schedule.group * schedule.unroll)


class MapKernel:
    """Builds the kernel of a map.

    Vectors that a work-item has in flight together are computed before the first of them is stored, since the compiler
    may not move loads over stores.
    """

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.frame = LoopFrame(group, schedule, dim_order, op_ids)
        self.space = self.frame.parallel
        self.k = self.frame.k

    def build(self) -> FuncOp:
        """The finished kernel."""
        if self.space.size != 0:
            self._units()
            if self.space.ragged:
                self._rest()
        return self.k.finish()

    def _units(self) -> None:
        k, schedule = self.k, self.frame.schedule
        units = self.frame.body.expression(self.space.units)
        per_group = schedule.group * schedule.unroll
        first = k.mul(k.group_id(), per_group)
        mine = k.add(first, k.local_id())
        if schedule.unroll == 1:
            k.if_(k.lt(mine, units), lambda: self._together(mine))
            return
        end = k.add(first, per_group)
        if isinstance(self.space.units, int) and self.space.units % per_group == 0:
            self._together(mine)
            return
        k.if_(k.le(end, units), lambda: self._together(mine), lambda: self._one_by_one(mine, units))

    def _one_by_one(self, mine: Val, units: Val) -> None:
        """The last group: as many vectors as there are."""
        self.k.loop(mine, units, self.frame.schedule.group, [], lambda unit, _: self._compute_and_store(unit))

    def _together(self, mine: Val) -> None:
        """All vectors of a work-item."""
        schedule, body = self.frame.schedule, self.frame.body
        units = [self.k.add(mine, number * schedule.group) for number in range(schedule.unroll)]
        points = []
        for unit in units:
            memo: Memo = {}
            self._enter(unit, memo)
            points.append((unit, memo, self.frame.values(self.frame.outputs)))
        for unit, memo, values in points:
            self._enter(unit, memo)
            self.frame.store(self.frame.outputs, values)
        body.lane = None

    def _compute_and_store(self, unit: Val) -> None:
        self._enter(unit, {})
        self.frame.store(self.frame.outputs, self.frame.values(self.frame.outputs))

    def _enter(self, unit: Val, memo: Memo) -> None:
        body = self.frame.body
        self.space.enter(body, unit)
        body.lane = self.space.vector
        body.resume(memo)

    def _rest(self) -> None:
        """Elements after the last whole vector: one for each of the first work-items."""
        k, body = self.k, self.frame.body
        left = body.expression(dims.mod(self.space.size, self.space.lanes))
        number = k.add(k.mul(k.group_id(), k.group), k.local_id())

        def element() -> None:
            self.space.enter_element(body, number)
            body.lane = None
            body.resume({})
            self.frame.store(self.frame.outputs, self.frame.values(self.frame.outputs))

        k.if_(k.lt(number, left), element)
