"""Contractions on GPUs: the templates, and how their kernels are launched.

``gpu-contract`` makes tiles of the result from tiles in local memory, ``gpu-dot`` shares the depth of each element
among work-items, ``gpu-window`` lets each work-item sum on its own, ``gpu-mma`` uses tensor cores. Which one a group
takes is said by its schedule.
"""

from collections.abc import Sequence
from dataclasses import replace

from firebox import dims
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.gpu.contract_choose import DOT, MMA, TILE, WINDOW, contract_schedule
from firebox.lowering.generate.gpu.contract_combine import ITEMS, CombineKernel, combine_count
from firebox.lowering.generate.gpu.contract_dot import Dot, DotKernel
from firebox.lowering.generate.gpu.contract_frame import workspace_bytes
from firebox.lowering.generate.gpu.contract_plan import Plan
from firebox.lowering.generate.gpu.contract_tile import TileKernel
from firebox.lowering.generate.gpu.contract_tiled import Tile, tile_count
from firebox.lowering.generate.gpu.contract_window import WindowKernel, window_count
from firebox.lowering.generate.gpu.mma import MmaKernel
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.runtime.opencl_target import OpenClTarget

_KERNELS: dict[str, type[TileKernel | DotKernel | WindowKernel | MmaKernel]] = {
    TILE: TileKernel,
    DOT: DotKernel,
    WINDOW: WindowKernel,
    MMA: MmaKernel,
}


def generate_contract(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled contraction, and the one that adds the parts of its depth."""
    main = _KERNELS[schedule.template](group, schedule, dim_order, op_ids).build()
    if schedule.split == 1:
        return Kernels((main,))
    return Kernels((main, CombineKernel(group, schedule, dim_order, op_ids).build()))


def launch_contract(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Work-groups of the kernels; none where the result is empty."""
    plan = Plan.of(group)
    empty = any(loop.extent == 0 for loop in plan.out.loops)
    first = Launch(0 if empty else _count(plan, schedule), schedule.group, workspace_bytes(plan, schedule))
    if schedule.split == 1:
        return (first,)
    return first, Launch(0 if empty else combine_count(plan), ITEMS)


def _count(plan: Plan, schedule: Schedule) -> DimLike:
    if schedule.template == WINDOW:
        return window_count(plan, schedule)
    if schedule.template == DOT:
        dot = Dot.of(plan)
        assert dot is not None
        return dims.multiply(dot.count(schedule.rows_per_group), schedule.split)
    tile = Tile.of(schedule)
    return dims.multiply(tile_count(plan, tile.rows, tile.columns), schedule.split)


CONTRACT = Template(TILE, contract_schedule, generate_contract, launch_contract)
"""For groups of kind ``contract``; its schedule may name one of the others."""

TEMPLATES = (CONTRACT, replace(CONTRACT, name=DOT), replace(CONTRACT, name=WINDOW), replace(CONTRACT, name=MMA))
