"""Placement of buffers in one arena: lifetimes in, byte offsets out."""

from dataclasses import dataclass

from firebox import dims
from firebox.dims import Dim, DimLike

ALIGNMENT = 64


@dataclass(eq=False)
class Block:
    """A piece of the arena.

    Attributes:
        size: bytes.
        first: step that writes it first.
        last: step that uses it last.
        offset: where it lies; set by `place`.
    """

    size: DimLike
    first: int
    last: int
    offset: DimLike = 0


def aligned(size: DimLike) -> DimLike:
    """Rounded up to the alignment of buffers."""
    return dims.multiply(dims.ceildiv(size, ALIGNMENT), ALIGNMENT)


def place(blocks: list[Block]) -> DimLike:
    """Give every block an offset such that blocks alive at the same time do not overlap; the total size.

    Static blocks are placed from the largest down, each at the lowest gap that fits. Symbolic blocks follow behind
    them and reuse the place of a dead block that is provably as large.
    """
    static = [b for b in blocks if isinstance(b.size, int)]
    symbolic = [b for b in blocks if not isinstance(b.size, int)]
    total: DimLike = _place_static(static)
    for guests in _shared(symbolic):
        for block in guests:
            block.offset = total
        total = total + aligned(guests[0].size)
    return total


def _place_static(blocks: list[Block]) -> int:
    total = 0
    placed: list[Block] = []
    for block in sorted(blocks, key=lambda b: (-_int(b.size), b.first)):
        size = _int(aligned(block.size))
        at = 0
        busy = sorted((b for b in placed if _overlap(b, block)), key=lambda b: _int(b.offset))
        for other in busy:
            if at + size <= _int(other.offset):
                break
            at = max(at, _int(other.offset) + _int(aligned(other.size)))
        block.offset = at
        placed.append(block)
        total = max(total, at + size)
    return total


def _shared(blocks: list[Block]) -> list[list[Block]]:
    """Blocks that share one place; the first of each list is the largest."""
    places: list[list[Block]] = []
    for block in sorted(blocks, key=lambda b: b.first):
        for guests in places:
            if _fits(block.size, guests[0].size) and not any(_overlap(g, block) for g in guests):
                guests.append(block)
                break
        else:
            places.append([block])
    return places


def _fits(size: DimLike, room: DimLike) -> bool:
    """``size <= room`` for all values of the dims, as far as equal or single-term expressions show it."""
    if size == room:
        return True
    if isinstance(size, Dim) and isinstance(room, Dim) and len(size.terms) == len(room.terms) == 1:
        (a, ca), (b, cb) = size.terms[0], room.terms[0]
        return a == b and 0 <= ca <= cb
    return False


def _overlap(a: Block, b: Block) -> bool:
    return a.first <= b.last and b.first <= a.last


def _int(value: DimLike) -> int:
    assert isinstance(value, int)
    return value
