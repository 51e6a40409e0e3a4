"""How many elements of a loop a work-item takes as one vector."""

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dims import DimLike
from firebox.lowering.generate.body import linear, split
from firebox.lowering.generate.gpu.device_body import ALIGNMENT, aligned
from firebox.lowering.generate.nest import Loop, Nest

_MAX_LANES = 8


def accesses(nest: Nest) -> list[tuple[DimLike, int]]:
    """Offset in elements and bytes of an element, of every read and write of memory."""
    found = []
    for value, offsets in nest.reads.items():
        found += [(offset, aval_of(value.type).dtype.itemsize) for offset in offsets]
    for value in nest.outputs:
        aval = aval_of(value.type)
        found.append((linear(nest.homes[value], aval.shape), aval.dtype.itemsize))
    return [(dims.substitute(offset, nest.collapse), itemsize) for offset, itemsize in found]


def vector_lanes(nest: Nest, loop: Loop) -> int:
    """The most lanes with which every access along the loop is an aligned vector of 16 bytes or less, or constant.

    Elements after the last whole vector are taken one by one, where the loop is the only one of its kind.
    """
    moving = [(o, size) for o, size in accesses(nest) if split(o, loop.name)[1] != 0]
    if loop.name in nest.guarded or any(split(o, loop.name)[1] != 1 for o, _ in moving) or not moving:
        return 1
    alone = sum(other.reduced == loop.reduced for other in nest.loops) == 1
    lanes = min(_MAX_LANES, ALIGNMENT // max(size for _, size in moving))
    while lanes > 1 and not _fits(loop, moving, lanes, alone):
        lanes //= 2
    return lanes


def _fits(loop: Loop, moving: list[tuple[DimLike, int]], lanes: int, alone: bool) -> bool:
    if not all(aligned(offset, loop.name, lanes, size) for offset, size in moving):
        return False
    if dims.mod(loop.extent, lanes) == 0:
        return True
    return alone and (not isinstance(loop.extent, int) or loop.extent >= 4 * lanes)


def access_cost(nest: Nest, loop: Loop) -> int:
    """Cost of the accesses when neighbouring work-items follow the loop: what is not contiguous takes more lines."""
    return sum(1 if split(offset, loop.name)[1] in (0, 1) else 8 for offset, _ in accesses(nest))
