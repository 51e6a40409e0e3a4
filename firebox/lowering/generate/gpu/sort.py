"""`nd.sort` on a GPU: rows of words that hold keys and positions, merged as `merge` says.

The first kernel reads the values, the last one writes the results: each value is read again where its position says.
"""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dtypes import i64
from firebox.lowering.generate.frame import Frame, three
from firebox.lowering.generate.gpu.frame import device_frame
from firebox.lowering.generate.gpu.merge import EACH, Merger, Plan, Word, items_for
from firebox.lowering.generate.sort import is_packed, word_of
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.runtime.opencl_target import OpenClTarget


def schedule_sort(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule of a sort."""
    op = group.members[-1]
    x = op.operand_avals[0]
    items = items_for(x.shape[op.values["axis"]], 1 if is_packed(x) else 2, target)
    return Schedule("gpu-sort", unroll=EACH, group=items)


def _plan(group: GroupOp, schedule: Schedule) -> Plan:
    op = group.members[-1]
    x = op.operand_avals[0]
    outer, size, inner = three(x.shape, op.values["axis"])
    return Plan(dims.multiply(outer, inner), size, 1 if is_packed(x) else 2, schedule.group)


def launch_sort(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Sort tiles, then merge runs of twice the length each time."""
    plan = _plan(group, schedule)
    counts = [plan.tiles, *(plan.groups(width) for width in plan.widths)]
    if group.members[-1].operand_avals[0].size == 0:
        counts = [0] * len(counts)
    return tuple(Launch(count, schedule.group, plan.workspace) for count in counts)


def generate_sort(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernels of a scheduled sort."""
    plan = _plan(group, schedule)

    def start(number: int) -> "SortRows":
        return SortRows(device_frame(group, dim_order, op_ids, schedule.group, number, plan.workspace), plan)

    return Kernels(tuple(start(number).build(number) for number in range(1 + len(plan.widths))))


GPU_SORT = Template("gpu-sort", schedule_sort, generate_sort, launch_sort)


class SortRows(Merger):
    """One of the kernels of a sort."""

    def __init__(self, frame: Frame, plan: Plan) -> None:
        super().__init__(frame, plan)
        params = frame.op.values
        self.descending: bool = params["descending"]
        self.outer, _, self.inner = three(frame.op.operand_avals[0].shape, params["axis"])
        self.rows_are_neighbours = self.inner != 1
        self.source = frame.operand(0)

    def word(self, row: Val, column: Val) -> Word:
        value = self.k.load(self.source, self._element(row, column))
        return word_of(self.k, value, self.k.cast(column, i64), self.descending)

    def deliver(self, row: Val, column: Val, word: Word) -> None:
        """The value and its position."""
        k = self.k
        origin = k.cast(k.and_(word[0], 0xFFFFFFFF) if len(word) == 1 else word[1], i64)
        place = self._element(row, column)
        values, indices = self.frame.op.results
        if values in self.frame.outputs:
            picked = k.load(self.source, self._element(row, k.index(origin)), raw=True)
            k.store(self.frame.outputs[values], place, picked, raw=True)
        if indices in self.frame.outputs:
            k.store(self.frame.outputs[indices], place, origin)

    def _element(self, row: Val, column: Val) -> Val:
        k, number = self.k, self.frame.body.expression
        outer, inner = self.frame.split(row, self.outer, self.inner)
        along = k.add(k.mul(outer, number(self.plan.size)), column)
        return k.add(k.mul(along, number(self.inner)), inner)
