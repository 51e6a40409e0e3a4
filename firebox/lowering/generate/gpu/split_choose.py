"""Whether several work-groups share each reduction, and how many: by estimated times."""

from dataclasses import replace

from firebox import dims
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.lanes import accesses
from firebox.lowering.generate.nest import Nest
from firebox.runtime.opencl_target import OpenClTarget

_UNIT_BYTES = 16
_LATENCY_NS = 700.0
"""Of a read that misses the caches."""
_PROCESSOR_BYTES_PER_NS = 32.0
"""Of one processor's share of the bandwidth of memory."""
_LAUNCH_NS = 5000.0
"""Of one more kernel."""
_GROUPS_PER_PROCESSOR = 2
"""Of `_SPLIT_ITEMS` work-items: so many fit at a time with any number of registers, and four vectors of each in flight
are enough; one more round of a few groups would leave most processors idle."""
_SPLIT_ITEMS = 512
_MAX_SPLIT = 1024
_UNROLL = 4


def split_of(group: GroupOp, nest: Nest, schedule: Schedule, rows: int, length: int, target: OpenClTarget) -> Schedule:
    """The schedule, split if the reductions take much longer without.

    Args:
        rows: units of the parallel loops.
        length: units of the reduced loops.
    """
    groups = -(-rows // schedule.rows_per_group)
    reduced = {loop.name for loop in nest.reduced}
    sizes = [size for offset, size in accesses(nest) if reduced & set(dims.names(offset))]
    unit = sum(min(_UNIT_BYTES, size * schedule.lanes) for size in sizes)
    total = float(rows * length * unit)
    in_flight = schedule.group * _UNIT_BYTES * max(schedule.unroll, min(schedule.block, 4))
    rate = min(1.5 * _PROCESSOR_BYTES_PER_NS, in_flight / _LATENCY_NS)
    whole = total / min(groups * rate, target.compute_units * _PROCESSOR_BYTES_PER_NS)
    shared = total / (target.compute_units * _PROCESSOR_BYTES_PER_NS) + _LAUNCH_NS * nest.depth
    if whole < 1.3 * shared:
        return schedule
    return _split(schedule, groups, length, target)


def _split(schedule: Schedule, groups: int, length: int, target: OpenClTarget) -> Schedule:
    """Groups of many items; enough groups to fill the machine, each with some turns to take."""
    unroll = max(schedule.unroll, _UNROLL)
    size = min(_SPLIT_ITEMS, 1 << target.max_group.bit_length() - 1)
    items = max(1, size // schedule.rows_per_group)
    enough = max(1, target.compute_units * _GROUPS_PER_PROCESSOR // groups)
    split = max(1, min(enough, _MAX_SPLIT, length // (items * unroll)))
    if split == 1:
        return schedule
    return replace(schedule, group=items * schedule.rows_per_group, block=0, unroll=unroll, split=split)
