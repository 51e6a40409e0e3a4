"""Chooses the schedule of a contraction: which loop fills the lanes, which gives the rows of the register tile, how blocks are cut."""

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_tiling import blocks_text
from firebox.lowering.generate.frame import estimate, grain_of
from firebox.lowering.generate.nest import Loop
from firebox.runtime.target import Target


def contract_schedule(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a group of kind ``contract``."""
    problem = Problem.of(group)
    lanes = target.lanes(max(problem.dtype.itemsize, 4))
    if not problem.out or lanes < 2:
        return Schedule("contract")
    lane = problem.out[-1]
    rows = [loop for loop in problem.out if loop != lane][-1:]
    vectors = 2 if estimate(lane.extent) > lanes else 1
    counts = [min(8, _small(loop.extent)) for loop in rows]
    blocks = {loop.name: 1 for loop in problem.out if loop != lane and loop not in rows}
    for loop, count in zip(rows, counts, strict=True):
        blocks[loop.name] = count * 4
    depth = 1
    for loop in problem.reduced:
        depth *= estimate(loop.extent)
    grain = grain_of(depth * 8 * estimate(lane.extent) // lanes)
    tile = (*counts, lanes * vectors)
    names = ",".join(loop.name for loop in rows)
    return Schedule("contract", lane.name, lanes, grain=grain, tile=tile, rows=names, blocks=blocks_text(blocks))


def _small(extent: DimLike) -> int:
    return extent if isinstance(extent, int) and extent > 0 else 8


__all__ = ["Loop", "contract_schedule"]
