"""What a contraction keeps in a thread's scratch: slabs of its operands, and the sums of a block."""

from collections.abc import Mapping
from dataclasses import dataclass

from firebox.dims import DimLike
from firebox.lowering.generate.contract_pack import Slab
from firebox.lowering.generate.contract_tiling import RESULT, SPAN_LIMIT, Tiling


@dataclass(frozen=True)
class Sums:
    """The sums of one block: along the lanes next to each other, whole register tiles; the other loops in their order.

    Attributes:
        strides: by loop.
        elements: size, with room for a square that is read past the end.
    """

    strides: Mapping[str, int]
    elements: int

    @classmethod
    def of(cls, tiling: Tiling) -> "Sums":
        """The layout; all blocks of the result must have known sizes."""
        columns = 1
        strides: dict[str, int] = {}
        if tiling.lane is not None:
            turns = tiling.turns(tiling.lane.name)
            assert turns is not None
            columns = -(-turns // tiling.columns) * tiling.columns
            strides[tiling.lane.name] = 1
        running = columns
        for loop in reversed(tiling.problem.out):
            turns = tiling.turns(loop.name)
            assert turns is not None
            if loop != tiling.lane and turns > 1:
                strides[loop.name] = running
                running *= turns
        return cls(strides, running + tiling.lanes * columns)


@dataclass(frozen=True)
class Scratch:
    """The layout of scratch.

    Attributes:
        slabs: by number of the operand.
        places: byte offsets, by number of the operand; `RESULT` for the sums.
        sums: layout of the sums of a unit; None where they stay in registers.
        spanning: all units have their sums at once, so that the reduced loop is cut outside of the units.
        square: byte offset of one square of vectors.
        nbytes: size.
    """

    slabs: Mapping[int, Slab]
    places: Mapping[int, int]
    sums: Sums | None
    spanning: bool
    square: int
    nbytes: int

    @classmethod
    def of(cls, tiling: Tiling) -> "Scratch":
        """Lay out what a tiling wants in scratch."""
        itemsize = tiling.problem.dtype.itemsize
        slabs: dict[int, Slab] = {}
        places: dict[int, int] = {}
        at = 0
        for number in (0, 1):
            slab = Slab.of(tiling, tiling.problem.operands[number]) if number in tiling.pack else None
            if slab is not None:
                slabs[number], places[number] = slab, at
                at += _aligned(slab.elements * itemsize)
        if not tiling.sums_in_scratch:
            return cls(slabs, places, None, False, at, at)
        sums = Sums.of(tiling)
        places[RESULT] = at
        total = tiling.units * sums.elements * itemsize
        spanning = bool(tiling.parts) and isinstance(total, int) and total <= SPAN_LIMIT
        size: DimLike = total if spanning else sums.elements * itemsize
        assert isinstance(size, int)
        at += _aligned(size)
        return cls(slabs, places, sums, spanning, at, at + tiling.lanes * tiling.lanes * itemsize)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
