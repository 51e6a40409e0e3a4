"""Which values of a row are kept in scratch memory between the stages of a kernel, and where."""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike, dim
from firebox.dtypes import DType
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.units import lane_is_reduced, lane_loop

SCRATCH_LIMIT = 128 * 1024


def cached_values(group: GroupOp, nest: Nest, schedule: Schedule) -> list[SSAValue]:
    """Full values that a later stage needs again and that are dear to compute: they are kept in a scratch row."""
    if not group.axes or nest.depth == 0:
        return []
    outputs = set(group.yielded)
    found: list[SSAValue] = []
    for op in group.members:
        if op.kind is not Kind.MAP or not op.transcendental or nest.is_row(op.results[0]):
            continue
        value = op.results[0]
        level = nest.levels[value]
        if value not in outputs and level < nest.depth and _read_later(value, level, nest):
            found.append(value)
    room = SCRATCH_LIMIT
    size = dims.product(loop.extent for loop in nest.reduced)
    width = schedule.lanes if schedule.lane and not lane_is_reduced(nest, schedule) else 1
    if not isinstance(size, int) or size * width * 4 * max(len(found), 1) > room:
        return []
    return found


def _read_later(value: SSAValue, level: int, nest: Nest) -> bool:
    for use in value.uses:
        user = use.operation
        if isinstance(user, NdOp) and user.results and user.results[0] in nest.levels:
            later = nest.levels[user.results[0]] - (user.kind is Kind.REDUCE)
            if later > level or (user.kind is not Kind.REDUCE and _read_later(user.results[0], level, nest)):
                return True
        elif nest.depth > level:  # the terminator: stored at its own level
            continue
    return False


@dataclass(frozen=True)
class Place:
    """Where a value lies in the scratch of a thread.

    Attributes:
        at: byte offset of its row.
        dtype: element type.
        offset: element of the row, in terms of the reduced loops; with a parallel lane loop one vector each, and
            ``lane0`` stands for the lane loop's value in lane 0.
    """

    at: int
    dtype: DType
    offset: DimLike


def scratch_layout(nest: Nest, cached: list[SSAValue], schedule: Schedule) -> tuple[int, dict[SSAValue, Place]]:
    """Bytes of scratch per thread, and the place of each cached value."""
    places: dict[SSAValue, Place] = {}
    at = 0
    lane = lane_loop(nest, schedule)
    width = 1 if lane is None or lane.reduced else schedule.lanes
    offset: DimLike = 0
    for loop in nest.reduced:
        offset = dims.multiply(offset, loop.extent) + dim(loop.name)
    if width > 1 and lane is not None:
        offset = dims.multiply(offset, width) + dim(lane.name) - dim("lane0")
    size = dims.product(loop.extent for loop in nest.reduced)
    for value in cached:
        assert isinstance(size, int)
        dtype = aval_of(value.type).dtype.compute
        places[value] = Place(at, dtype, offset)
        at += -(-(size * width * dtype.itemsize) // 64) * 64
    return at, places
