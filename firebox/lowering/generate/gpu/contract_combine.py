"""The second kernel of a contraction whose depth is shared by several work-groups: adds the parts, in order."""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.gpu.contract_frame import Frame, vector_fits
from firebox.lowering.generate.gpu.contract_plan import MAX_LANES, Plan
from firebox.lowering.generate.gpu.device_body import is_multiple

ITEMS = 128


def combine_lanes(plan: Plan) -> int:
    """Elements of the result that a work-item finishes."""
    last = plan.out.last
    fit = vector_fits(plan, last, MAX_LANES) and vector_fits(plan, last, MAX_LANES, partial=True)
    return MAX_LANES if last and fit else 1


def combine_count(plan: Plan) -> DimLike:
    """Work-groups of the second kernel."""
    return dims.ceildiv(plan.out.extent, ITEMS * combine_lanes(plan))


class CombineKernel(Frame):
    """Builds the second kernel."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids, 1, ITEMS)

    def write(self) -> None:
        """The sums, and their end."""
        k, plan, lanes = self.k, self.plan, combine_lanes(self.plan)
        at = k.mul(k.add(k.mul(k.group_id(), ITEMS), k.local_id()), lanes)
        extent = self.body.expression(plan.out.extent)
        if is_multiple(plan.out.extent, ITEMS * lanes):
            self._finish_at(at, extent, lanes)
        else:
            k.if_(k.lt(at, extent), lambda: self._finish_at(at, extent, lanes))

    def _finish_at(self, at: Val, extent: Val, lanes: int) -> None:
        k, memory = self.k, self.partial_sums()
        total = k.broadcast(k.const(0, self.problem.dtype), lanes)

        def turn(part: Val, carried: list[Val]) -> list[Val]:
            return [k.add(carried[0], k.load(memory, k.add(k.mul(part, extent), at), lanes))]

        (total,) = k.loop(0, self.schedule.split, 1, [total], turn)
        self.end(self.plan.out.decode(self.body, at), total, self.plan.out.last)
