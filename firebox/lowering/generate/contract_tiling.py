"""`Tiling`: the schedule of a contraction in terms of its loops: register tile, blocks, units of work."""

from collections.abc import Mapping
from dataclasses import dataclass

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.nest import Loop

RESULT = 2
"""The sums, among the numbers of operands."""


SPAN_LIMIT = 128 * 1024
"""Bytes of sums up to which all units of work have theirs in scratch at once."""


_FEW_MEMBERS = 8


@dataclass(frozen=True)
class Tiling:
    """How the loops of a contraction are cut.

    A unit of work is one block of the result. Within it, register tiles follow each other: `rows` x `columns` sums that
    stay in registers while the reduced loops run.

    Attributes:
        problem: the contraction.
        lane: the loop along the lanes; None for scalar code.
        lanes: elements of a vector.
        vectors: vectors of a register tile along the lanes.
        rows: (loop, its rows in a register tile), outermost first.
        blocks: turns of a loop in one block; loops that are not cut are missing.
        unroll: turns of the innermost reduced loop that are written out.
        pack: operands that are copied to scratch; `RESULT` stands for the sums.
    """

    problem: Problem
    lane: Loop | None
    lanes: int
    vectors: int
    rows: tuple[tuple[Loop, int], ...]
    blocks: Mapping[str, int]
    unroll: int
    pack: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule) -> "Tiling":
        """Read a schedule."""
        lane = problem.loop(schedule.lane) if schedule.lane else None
        names = schedule.rows.split(",") if schedule.rows else []
        *counts, columns = schedule.tile or (1,)
        rows = tuple((problem.loop(name), count) for name, count in zip(names, counts, strict=True))
        vectors = max(1, columns // schedule.lanes)
        blocks = dict(_parse(part) for part in schedule.blocks.split(",") if part)
        return cls(problem, lane, schedule.lanes, vectors, rows, blocks, schedule.unroll, schedule.pack)

    @property
    def columns(self) -> int:
        """Elements of a register tile along the lanes."""
        return self.lanes * self.vectors

    def block(self, loop: Loop) -> DimLike:
        """Turns of a loop in one block."""
        size = self.blocks.get(loop.name, loop.extent)
        return loop.extent if isinstance(loop.extent, int) and isinstance(size, int) and size > loop.extent else size

    def whole(self, loop: Loop) -> bool:
        """The loop is not cut into blocks."""
        return self.block(loop) == loop.extent

    def turns(self, name: str) -> int | None:
        """Turns of a loop in one block; None if not known."""
        size = self.block(self.problem.loop(name))
        return size if isinstance(size, int) else None

    def is_cut(self, name: str) -> bool:
        """The loop is cut into blocks."""
        return not self.whole(self.problem.loop(name))

    def even(self, name: str) -> bool:
        """All blocks of the loop are full."""
        loop = self.problem.loop(name)
        size = self.block(loop)
        if self.whole(loop):
            return True
        return isinstance(loop.extent, int) and isinstance(size, int) and loop.extent % size == 0

    def cut(self, number: int) -> set[str]:
        """The loops that are cut and along which an operand varies."""
        return {name for name in self.problem.operands[number].names if self.is_cut(name)}

    @property
    def parts(self) -> list[Loop]:
        """The reduced loops that are cut into blocks."""
        return [loop for loop in self.problem.reduced if not self.whole(loop)]

    def parts_of(self, number: int) -> set[str]:
        """The reduced loops that are cut and along which an operand varies."""
        return {loop.name for loop in self.parts} & self.cut(number)

    @property
    def members(self) -> list[NdOp]:
        """The maps after the contraction."""
        return [op for op in self.problem.nest.group.members if op is not self.problem.op]

    @property
    def cheap(self) -> bool:
        """The maps after the contraction are short enough to be written out for every vector."""
        members = self.members
        return len(members) <= _FEW_MEMBERS and not any(op.transcendental for op in members)

    @property
    def sums_in_scratch(self) -> bool:
        """A block's sums go to scratch and are finished from there, along the result's memory."""
        return RESULT in self.pack

    @property
    def unit_loops(self) -> list[Loop]:
        """The loops that are cut, outermost first: a part of an operand that was copied serves the next units too."""
        found = [loop for loop in self.problem.out if not self.whole(loop)]
        return sorted(found, key=lambda loop: -self._copied(loop))

    def _copied(self, loop: Loop) -> int:
        """Size of the largest operand that is copied anew for another block of the loop, as far as it is known."""
        operands = [self.problem.operands[n] for n in self.pack if n != RESULT]
        sizes = [aval_of(o.value.type).size for o in operands if loop.name in o.names]
        return max((s if isinstance(s, int) else 0 for s in sizes), default=-1)

    def unit_extent(self, loop: Loop) -> DimLike:
        """Number of blocks of a loop."""
        return dims.ceildiv(loop.extent, self.block(loop))

    @property
    def units(self) -> DimLike:
        """Number of units of work; 0 when the result is empty."""
        if any(loop.extent == 0 for loop in self.problem.out):
            return 0
        return dims.product(self.unit_extent(loop) for loop in self.unit_loops)

    def row_offsets(self, counts: tuple[int, ...]) -> list[dict[str, int]]:
        """The rows of a register tile as offsets along their loops, in order."""
        offsets: list[dict[str, int]] = [{}]
        for (loop, _), count in zip(self.rows, counts, strict=True):
            offsets = [{**before, loop.name: k} for before in offsets for k in range(count)]
        return offsets


def _parse(part: str) -> tuple[str, int]:
    name, _, size = part.partition(":")
    return name, int(size)


def blocks_text(blocks: Mapping[str, int]) -> str:
    """Blocks as they stand in a schedule."""
    return ",".join(f"{name}:{size}" for name, size in blocks.items())
