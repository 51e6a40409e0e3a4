"""The template of groups of kind ``loops`` on a GPU."""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.loops_choose import TEMPLATE, loops_schedule
from firebox.lowering.generate.gpu.maps import MapKernel, map_groups
from firebox.lowering.generate.gpu.partials import Partials
from firebox.lowering.generate.gpu.rows import RowKernel
from firebox.lowering.generate.gpu.space import row_groups, stores_full
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.runtime.opencl_target import OpenClTarget


def generate_loops(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernels of a scheduled group: one, or one for each stage if its rows are split."""
    if not group.axes:
        return Kernels((MapKernel(group, schedule, dim_order, op_ids).build(),))
    count = Nest.of(group).depth + 1 if schedule.split > 1 else 1
    return Kernels(tuple(RowKernel(group, schedule, dim_order, op_ids, number).build() for number in range(count)))


def launch_loops(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Work-groups of each kernel."""
    if not group.axes:
        return (Launch(map_groups(group, schedule), schedule.group),)
    nest = Nest.of(group)
    groups = row_groups(nest, schedule)
    if schedule.split == 1:
        return (Launch(groups, schedule.group),)
    scratch = Partials.of(group, schedule).nbytes
    shared = Launch(dims.multiply(groups, schedule.split), schedule.group, scratch)
    last = shared if stores_full(nest, nest.depth) else Launch(groups, schedule.group, scratch)
    return (shared,) * nest.depth + (last,)


LOOPS = Template(TEMPLATE, loops_schedule, generate_loops, launch_loops)
