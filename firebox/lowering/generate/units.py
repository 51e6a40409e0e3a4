"""How the loops of a scheduled group become units of work, shared by the schedule, the launch and the kernel."""

from firebox import dims
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.addressing import FLAT
from firebox.lowering.generate.nest import Loop, Nest


def lane_loop(nest: Nest, schedule: Schedule) -> Loop | None:
    """The loop that fills the lanes."""
    if schedule.lane == FLAT:
        return Loop(FLAT, dims.product(loop.extent for loop in nest.parallel), False)
    return next((loop for loop in nest.loops if loop.name == schedule.lane), None)


def unit_loops(nest: Nest, schedule: Schedule) -> list[Loop]:
    """The loops whose turns are units of work; ``block`` counts the blocks of a parallel lane loop."""
    lane = lane_loop(nest, schedule)
    outer = [] if schedule.lane == FLAT else [loop for loop in nest.parallel if loop != lane]
    if lane is not None and not lane.reduced and schedule.block:
        blocks = dims.ceildiv(lane.extent, schedule.block)
        if blocks != 1:
            outer.append(Loop("block", blocks, False))
    return outer


def unit_count(nest: Nest, schedule: Schedule) -> DimLike:
    """Number of units of work; 0 for an empty domain."""
    if any(loop.extent == 0 for loop in nest.parallel):
        return 0
    return dims.product(loop.extent for loop in unit_loops(nest, schedule))


def lane_is_reduced(nest: Nest, schedule: Schedule) -> bool:
    """The lanes run along a reduced loop, so that they are combined at the end."""
    lane = lane_loop(nest, schedule)
    return lane is not None and lane.reduced
