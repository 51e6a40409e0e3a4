"""Our own rows of the table of templates."""

from collections.abc import Sequence

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.errors import CompilerError
from firebox.lowering.generate.choose import loop_schedule
from firebox.lowering.generate.contract import contract_schedule, generate_contract, launch_contract
from firebox.lowering.generate.contract_amx import generate_tiles, launch_tiles
from firebox.lowering.generate.contract_amx_choose import PAIRS_TEMPLATE, TILES_TEMPLATE
from firebox.lowering.generate.loops import LoopKernel
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.scan import generate_scan, launch_scan, schedule_scan
from firebox.lowering.generate.scatter import generate_scatter, launch_scatter, schedule_scatter
from firebox.lowering.generate.scratch import cached_values, scratch_layout
from firebox.lowering.generate.sort import generate_sort, launch_sort, schedule_sort
from firebox.lowering.generate.templates import HOST, Kernels, Launch, Template, add_template, register_template
from firebox.lowering.generate.units import unit_count
from firebox.runtime.target import Target


def register_all() -> None:
    """Enter the templates of this package."""
    for kind in ("cpu", "opencl"):
        register_template("nd.pack", Template(HOST, lambda group, target: Schedule(HOST), _no_kernel, _no_launch), kind)
    register_template("loops", Template("loops", loop_schedule, _loops, _launch_loops))
    register_template("contract", Template("contract", contract_schedule, generate_contract, launch_contract))
    for name in (TILES_TEMPLATE, PAIRS_TEMPLATE):
        add_template(Template(name, contract_schedule, generate_tiles, launch_tiles))
    register_template("scan", Template("scan", schedule_scan, generate_scan, launch_scan))
    register_template("nd.sort", Template("sort", schedule_sort, generate_sort, launch_sort))
    register_template("nd.scatter_add", Template("scatter", schedule_scatter, generate_scatter, launch_scatter))


def _no_kernel(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    raise CompilerError("done by the host, not by a kernel", op=group.label)


def _no_launch(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    raise CompilerError("done by the host, not by a kernel", op=group.label)


def _loops(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    return Kernels((LoopKernel(group, schedule, dim_order, op_ids).build(),))


def _launch_loops(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    nest = Nest.of(group)
    scratch, _ = scratch_layout(nest, cached_values(group, nest, schedule), schedule)
    return (Launch(unit_count(nest, schedule), schedule.grain, scratch),)
