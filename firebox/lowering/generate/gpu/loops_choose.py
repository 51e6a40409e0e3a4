"""Chooses how work-items share the loops of a group on a GPU.

The numbers are for a machine that needs some 25 KB of reads in flight on each processor to reach the bandwidth of its
memory, which is a thousand work-items with 16 to 32 bytes each.
"""

from dataclasses import replace

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.lanes import access_cost, accesses, vector_lanes
from firebox.lowering.generate.gpu.space import stores_full
from firebox.lowering.generate.gpu.split_choose import split_of
from firebox.lowering.generate.gpu.tree import local_bytes
from firebox.lowering.generate.nest import Loop, Nest
from firebox.lowering.generate.stages import monoid_of
from firebox.runtime.opencl_target import OpenClTarget

TEMPLATE = "gpu-loops"

_GROUP = 256
"""Work-items of a group, where nothing asks for more: eight groups fill a processor, so that some wait at a barrier
while others read."""

_LARGEST_GROUP = 1024
"""Larger ones, which some devices offer, wait for each other too long."""

UNKNOWN_ROWS = 1024
UNKNOWN_LENGTH = 4096
"""What symbolic extents are taken for: of parallel loops, and of reduced ones."""

_FILL = 1024
"""Work-items a processor should have at least."""

_IN_FLIGHT = 64
"""Bytes that an item of a map reads before it waits."""
_LARGE_BODY = 120.0
"""Cost of the code that is written out for one item: as many copies of a body as fit."""

_HELD = 16
"""Elements that an item should hold of a row, and how many it may when the row is long."""
_MOST_HELD = 32

_SHORT = 16
"""Turns of the reduced loops that one item takes alone, with rows side by side."""


def loops_schedule(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule of a group of kind ``loops``."""
    nest = Nest.of(group)
    if not group.axes:
        return _map(group, nest, target)
    return _fitted(nest, _reduction(group, nest, target), target)


def _estimate(loops: list[Loop], unknown: int) -> int:
    size = dims.product(loop.extent for loop in loops)
    return dims.evaluate(size, dict.fromkeys(dims.names(size), unknown))


def body_cost(group: GroupOp) -> float:
    """Elementary steps of one point."""
    return sum(op.cost(op.operand_avals, op.avals, **op.values) for op in group.members)


# ---- maps ----------------------------------------------------------------------------------------------------------


def _map(group: GroupOp, nest: Nest, target: OpenClTarget) -> Schedule:
    """The last loop gives the lanes, since results are written along it."""
    items = min(_GROUP, _most(target))
    if not nest.loops:
        return Schedule(TEMPLATE, group=min(32, items))
    lane = nest.loops[-1]
    lanes = vector_lanes(nest, lane)
    units = max(1, _estimate(nest.loops, UNKNOWN_LENGTH) // lanes)
    unroll = _map_unroll(group, nest, lanes)
    while unroll > 1 and units < target.compute_units * _FILL * unroll:
        unroll //= 2
    while items > max(32, target.warp) and units < target.compute_units * items * unroll:
        items //= 2
    return Schedule(TEMPLATE, lane.name, lanes, unroll=unroll, group=items)


def _map_unroll(group: GroupOp, nest: Nest, lanes: int) -> int:
    """Vectors of an item."""
    read = sum(size * lanes for _, size in accesses(nest)[: -len(nest.outputs)])
    fits = int(_LARGE_BODY // max(body_cost(group), 1.0))
    return max(1, min(8, _power_below(_IN_FLIGHT // max(read, 8)), _power_below(fits)))


# ---- reductions ----------------------------------------------------------------------------------------------------


def _reduction(group: GroupOp, nest: Nest, target: OpenClTarget) -> Schedule:
    lane = _lane(nest)
    if lane is None:
        return Schedule(TEMPLATE, block=1, group=min(32, _most(target)), rows_per_group=min(32, _most(target)))
    lanes = vector_lanes(nest, lane)
    if not lane.reduced and _is_ragged(lane, lanes):
        lanes = 1
    length = _estimate(nest.reduced, UNKNOWN_LENGTH) // (lanes if lane.reduced else 1)
    rows = max(1, _estimate(nest.parallel, UNKNOWN_ROWS) // (1 if lane.reduced else lanes))
    static = isinstance(dims.product(loop.extent for loop in nest.reduced), int)
    if lane.reduced and static and _is_ragged(lane, lanes) and length * lanes <= _MOST_HELD * _most(target):
        length, lanes = length * lanes + int(dims.mod(lane.extent, lanes)), 1  # such a row is held in registers
    if lane.reduced:
        items, group_rows = _row_items(nest, rows, length, lanes, target)
    else:
        wide = _power_below(max(1, _estimate([lane], UNKNOWN_ROWS) // lanes))
        items, group_rows = _column_items(nest, min(wide, rows), length, lanes, target, rows)
    held = -(-length // items) if static and length else 0
    if held * lanes * _live(group) > (_MOST_HELD if items * group_rows > 512 else 2 * _MOST_HELD) or held > _MOST_HELD:
        held = 0
    unroll = 1 if held or body_cost(group) > _LARGE_BODY else max(1, min(4, 16 // max(lanes, 1) // _parts(nest)))
    schedule = Schedule(TEMPLATE, lane.name, lanes, held, unroll, group=items * group_rows, rows_per_group=group_rows)
    return split_of(group, nest, schedule, rows, length, target)


def _lane(nest: Nest) -> Loop | None:
    """The loop that neighbouring work-items follow: the last reduced one, or the last of the others."""
    candidates = [part[-1] for part in (nest.reduced, nest.parallel) if part]
    short = _estimate(nest.reduced, UNKNOWN_LENGTH) <= _SHORT
    if short and nest.reduced and vector_lanes(nest, nest.reduced[-1]) == 1:
        candidates.reverse()
    return min(candidates, key=lambda loop: access_cost(nest, loop), default=None)


def _is_ragged(lane: Loop, lanes: int) -> bool:
    return dims.mod(lane.extent, lanes) != 0


def _row_items(nest: Nest, rows: int, length: int, lanes: int, target: OpenClTarget) -> tuple[int, int]:
    """Work-items of a row, and rows of a group: as many as the row needs, more if there are few rows."""
    most = _most(target)
    each = max(1, _HELD // lanes) if lanes > 1 else _HELD // 2
    items = min(most, _power_above(-(-length // each)))
    while items < most and items < length and rows * items < target.compute_units * _FILL:
        items *= 2
    group_rows = max(1, min(_GROUP, most) // items)
    while (
        group_rows > 1 and group_rows * items > max(32, target.warp) and rows // group_rows < 2 * target.compute_units
    ):
        group_rows //= 2
    return items, group_rows


def _column_items(nest: Nest, wide: int, length: int, lanes: int, target: OpenClTarget, rows: int) -> tuple[int, int]:
    """Items that share a column, and columns side by side: 32 of them fill whole lines of memory.

    Args:
        wide: columns that lie next to each other, at most; a power of two.
        length: units of the reduced loops.
        rows: all columns.
    """
    most = min(_GROUP, _most(target))
    if length <= _SHORT:
        group_rows = most
        while group_rows > 32 and rows // group_rows < 2 * target.compute_units:
            group_rows //= 2
        return 1, group_rows
    held = _held_columns(wide, length, lanes, target)
    if held is not None and (nest.depth > 1 or stores_full(nest, nest.depth)):
        return held
    group_rows = min(32, wide)
    if rows <= 32 and length >= 4 * most:
        most = min(2 * _GROUP, _most(target))
    return min(most // group_rows, _power_above(length)), group_rows


def _held_columns(wide: int, length: int, lanes: int, target: OpenClTarget) -> tuple[int, int] | None:
    """Items and columns with which columns are held in registers, at least a line of memory side by side."""
    group_rows = min(8 if lanes > 1 else 32, wide)
    items = _power_above(-(-length * lanes // _HELD))
    return (items, group_rows) if items * group_rows <= _most(target) else None


def _live(group: GroupOp) -> int:
    """Full values that are in registers side by side: what is read from memory for each point."""
    nest = Nest.of(group)
    reduced = {loop.name for loop in nest.reduced}
    moving = [v for v, offsets in nest.reads.items() if any(reduced & set(dims.names(o)) for o in offsets)]
    full = [v for v in moving if aval_of(v.type).size == dims.product(group.domain)]
    return max(1, len(full))


def _parts(nest: Nest) -> int:
    """Parts of the states of the level that has the most."""
    return max((_level_parts(nest, level) for level in range(nest.depth)), default=1) or 1


def _level_parts(nest: Nest, level: int) -> int:
    return sum(len(monoid_of(op).dtypes) for op in nest.reductions(level))


def _fitted(nest: Nest, schedule: Schedule, target: OpenClTarget) -> Schedule:
    """With smaller groups until the trees have room in local memory: fewer rows, and then fewer items for a row."""
    while schedule.group > 1 and _local_bytes(nest, schedule) > target.local_bytes:
        rows = max(1, schedule.rows_per_group // 2)
        held = schedule.block if schedule.rows_per_group > 1 else 2 * schedule.block
        if held * schedule.lanes > 2 * _MOST_HELD:
            held = 0
        schedule = replace(schedule, group=schedule.group // 2, rows_per_group=rows, block=held)
    return schedule


def _local_bytes(nest: Nest, schedule: Schedule) -> int:
    """Stages share arrays where the states' parts have the same type."""
    lanes = schedule.lanes if schedule.lane in {loop.name for loop in nest.parallel} else 1
    levels = [[d for op in nest.reductions(n) for d in monoid_of(op).dtypes] for n in range(nest.depth)]
    arrays = {(d, part) for dtypes in levels for part, d in enumerate(dtypes)}
    items = schedule.group // schedule.rows_per_group
    return local_bytes(items, schedule.group, lanes, [d.itemsize for d, _ in arrays])


def _most(target: OpenClTarget) -> int:
    """Work-items that a group may have: a power of two."""
    return min(_LARGEST_GROUP, _power_below(target.max_group))


def _power_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


def _power_below(value: int) -> int:
    return 1 << max(0, value.bit_length() - 1)


__all__ = ["TEMPLATE", "loops_schedule"]
