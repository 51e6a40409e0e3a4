"""Chooses the schedule of a group of loops: which loop fills the vector lanes, how work is cut.

The lane loop is the one with the lowest estimated cost per element: a contiguous or constant access costs one vector
instruction, any other one a gather; lanes that run past the end of a short loop are lost.
"""

from dataclasses import dataclass

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.addressing import FLAT
from firebox.lowering.generate.nest import Loop, Nest
from firebox.runtime.target import Target

UNKNOWN_EXTENT = 256
"""What a symbolic extent is taken for in estimates."""

_BLOCK = 2048
_LARGE_BODY = 60.0
"""Cost of a body that is written once, under a mask, instead of once for full vectors and once for the rest."""
_BLOCK_WORK = 16384
"""Elements of work of one block of lanes, reduced loops included."""

_CHUNK_NS = 10_000.0
"""Work worth handing to another thread. A call that takes less than 2.5 times as much stays on one: waking the other
and fetching what it wrote would cost as much as it saves."""


def loop_schedule(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a group of kind ``loops``."""
    nest = Nest.of(group)
    lanes = target.lanes(_widest(group))
    if not nest.loops or lanes < 2:
        return Schedule("loops")
    best = min(_candidates(nest, lanes), key=lambda c: c.cost)
    return _complete(group, nest, best, lanes, target)


@dataclass(frozen=True)
class _Candidate:
    """A lane loop and the estimated cost of one element."""

    loop: Loop | None
    cost: float


def _candidates(nest: Nest, lanes: int) -> list[_Candidate]:
    found = [_Candidate(loop, _lane_cost(nest, loop, lanes)) for loop in reversed(nest.loops)]
    if len(nest.parallel) > 1 and _flat_pays(nest, lanes):
        found.append(_Candidate(None, _flat_cost(nest, lanes)))
    return found


def _size(extent: DimLike) -> int:
    return extent if isinstance(extent, int) else UNKNOWN_EXTENT


def _lane_cost(nest: Nest, loop: Loop, lanes: int) -> float:
    extent = max(_size(loop.extent), 1)
    used = extent / (-(-extent // lanes) * lanes)
    cost = 1.0 + (lanes * 0.5 if loop.name in nest.special else 0.0)
    for access in nest.accesses:
        step = nest.coefficient(access, loop.name)
        cost += 1.0 if step in (0, 1) else lanes * 0.8
    if loop.reduced and extent < 4 * lanes:  # combining the lanes at the end costs some ten instructions
        cost += 10.0 * lanes / extent
    return cost / used


def _flat_pays(nest: Nest, lanes: int) -> bool:
    """The innermost loop is too short for the lanes, and all extents are numbers to divide by."""
    extents = [loop.extent for loop in nest.parallel]
    return dims.is_static(extents) and 0 not in extents and _size(extents[-1]) < 2 * lanes


def _flat_cost(nest: Nest, lanes: int) -> float:
    identity = 0
    for access in nest.accesses:
        inner: DimLike = 1
        matches = True
        for loop in reversed(nest.parallel):
            matches = matches and nest.coefficient(access, loop.name) == inner
            inner = dims.multiply(inner, loop.extent)
        identity += matches
    others = len(nest.accesses) - identity
    return 1.0 + identity + others * (lanes * 0.8 + 2.0 * len(nest.parallel))


def _complete(group: GroupOp, nest: Nest, best: _Candidate, lanes: int, target: Target) -> Schedule:
    if best.loop is not None and best.loop.reduced:
        name = best.loop.name
        per_unit = dims.product(loop.extent for loop in nest.reduced)
        unroll = 4 if _size(best.loop.extent) >= 4 * lanes and nest.depth <= 3 else 1
        grain = _grain(group, nest, _size(per_unit), lanes)
        return Schedule("loops", name, lanes, 0, unroll, grain, (), _streams(group, target))
    name = best.loop.name if best.loop is not None else FLAT
    extent = best.loop.extent if best.loop is not None else dims.product(loop.extent for loop in nest.parallel)
    inner = _size(dims.product(loop.extent for loop in nest.reduced))
    block = _BLOCK if not nest.reduced else max(lanes, min(_BLOCK, _BLOCK_WORK // max(inner, 1) // lanes * lanes))
    cost = _body_cost(group)
    unroll = 2 if best.loop is not None and not nest.reduced and _size(extent) >= 2 * lanes and cost <= 16 else 1
    grain = _grain(group, nest, min(block, _size(extent)) * inner, lanes)
    return Schedule("loops", name, lanes, block, unroll, grain, (), _streams(group, target), cost > _LARGE_BODY)


def _body_cost(group: GroupOp) -> float:
    return sum(op.cost(op.operand_avals, op.avals, **op.values) for op in group.members)


def _grain(group: GroupOp, nest: Nest, elements: int, lanes: int) -> int:
    """Units of that many elements that make up a worthwhile piece of work; all of them if the whole is small.

    A full vector op takes about 0.4 ns, moving a vector twice that.
    """
    per_element = (0.4 * _body_cost(group) + 0.8) / lanes
    total = per_element * _size(dims.product(loop.extent for loop in nest.loops))
    units = max(1, round(_CHUNK_NS / max(per_element * elements, 1.0)))
    small = total < 2.5 * _CHUNK_NS and all(isinstance(loop.extent, int) for loop in nest.loops)
    return max(units, round(total / max(per_element * elements, 1.0)) + 1) if small else units


def _streams(group: GroupOp, target: Target) -> bool:
    """Every output is larger than the caches can hold until somebody reads it."""
    sizes = [aval_of(r.type).nbytes for r in group.results]
    return bool(sizes) and all(isinstance(s, int) and s >= 16 * target.l2_bytes for s in sizes)


def _widest(group: GroupOp) -> int:
    """Bytes of the widest element that is computed with."""
    avals = [a for op in group.members for a in (*op.avals, *op.operand_avals)]
    full = [a for a in avals if a.shape == group.domain] or avals
    return max((a.dtype.compute.itemsize for a in full), default=4)
