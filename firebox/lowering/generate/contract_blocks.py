"""Cuts the loops of a contraction into blocks, so that what a block needs fits the cache and there is work to share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from firebox.dims import DimLike
from firebox.lowering.generate.contract_problem import Operand, Position, Problem
from firebox.lowering.generate.contract_tiling import SPAN_LIMIT
from firebox.lowering.generate.frame import estimate
from firebox.lowering.generate.nest import Loop

UNIT = 8192
"""Cycles of a unit of work below which loops are not cut for the sake of sharing: some 2 us."""

FEW_UNITS = 16

SYMBOLIC_BLOCK = 8
"""Register tiles, or turns of a reduced loop, in a block of a loop of unknown extent."""


def turns_of(loop: Loop) -> int:
    """Turns of a loop, for estimates."""
    return max(1, estimate(loop.extent))


@dataclass(frozen=True)
class Shape:
    """A register tile before blocks are chosen.

    Attributes:
        lane: the loop along the lanes.
        lanes: elements of a vector.
        vectors: vectors along the lanes.
        rows: rows of the tile along each of its loops.
        pack: operands that go to scratch.
        scratch: whether the sums do.
    """

    problem: Problem
    lane: Loop
    lanes: int
    vectors: int
    rows: Mapping[str, int]
    pack: frozenset[int]
    scratch: bool

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def sums(self) -> int:
        """Vectors of sums of a register tile."""
        return self.vectors * math.prod(self.rows.values())

    def grid(self, loop: Loop) -> int:
        """Turns of a loop in a register tile."""
        return self.columns if loop == self.lane else self.rows.get(loop.name, 1)


class Blocks:
    """Finds the blocks for one shape of tile.

    Attributes:
        sizes: turns of every loop in a block.
        cut: the loops that are cut.
        scratch: the sums of a block go to scratch.
    """

    def __init__(self, shape: Shape, cache: int) -> None:
        self.shape = shape
        self.problem = shape.problem
        self.cache = cache
        self.sizes: dict[str, int] = {}
        self.cut: set[str] = set()
        self.scratch = shape.scratch
        self._start()
        if not shape.lane.reduced:
            self._fit()
        self._share()

    def _start(self) -> None:
        shape = self.shape
        windows = {name for n in shape.pack for name in _windows(self.problem.operands[n])}
        for loop in (*self.problem.out, *self.problem.reduced):
            inner = loop.reduced or loop == shape.lane or loop.name in shape.rows or loop.name in windows
            self.sizes[loop.name] = turns_of(loop)
            if not inner:
                self._set(loop, 1)
            elif not isinstance(loop.extent, int) and self._needs_known(loop):
                self._set(loop, shape.grid(loop) * SYMBOLIC_BLOCK)

    def _needs_known(self, loop: Loop) -> bool:
        packed = any(loop.name in self.problem.operands[n].names for n in self.shape.pack)
        return packed or (self.scratch and not loop.reduced)

    def _set(self, loop: Loop, size: int) -> None:
        self.sizes[loop.name] = size
        self.cut.add(loop.name)
        if loop.reduced:
            self.scratch = True
            for other in self.problem.out:
                if not isinstance(other.extent, int) and other.name not in self.cut:
                    self._set(other, self.shape.grid(other) * SYMBOLIC_BLOCK)

    # ---- sizes ---------------------------------------------------------------------------------------------------

    def footprint(self, number: int) -> int:
        """Bytes of an operand that a block reads."""
        operand = self.problem.operands[number]
        return self.problem.dtype.itemsize * math.prod(self.span(p) for p in operand.positions or ())

    def span(self, position: Position) -> int:
        """Elements along one dim of an operand that a block reads."""
        return 1 + sum(abs(c) * (self.sizes[name] - 1) for name, c in position.terms)

    def sums(self) -> int:
        """Bytes of the sums of a block."""
        total = self.problem.dtype.itemsize
        for loop in self.problem.out:
            total *= self.sizes[loop.name]
        return total

    @property
    def spanning(self) -> bool:
        """All units may have their sums in scratch at once, see `Scratch`."""
        known = all(isinstance(loop.extent, int) for loop in self.problem.out)
        return self.scratch and known and self.sums() * self.units() <= SPAN_LIMIT

    def units(self) -> int:
        """Number of blocks of the result."""
        total = 1
        for loop in self.problem.out:
            total *= -(-turns_of(loop) // self.sizes[loop.name])
        return total

    def parts_of(self, number: int) -> int:
        """Parts of an operand that follow each other in one unit."""
        names = self.problem.operands[number].names
        return math.prod(
            -(-turns_of(loop) // self.sizes[loop.name]) for loop in self.problem.reduced if loop.name in names
        )

    def shared_units(self, number: int) -> int:
        """Units that need the same part of an operand."""
        names = self.problem.operands[number].names
        if not self.spanning and any(loop.name in names and loop.name in self.cut for loop in self.problem.reduced):
            return 1
        total = 1
        for loop in self.problem.out:
            if loop.name not in names:
                total *= -(-turns_of(loop) // self.sizes[loop.name])
        return total

    def work(self) -> int:
        """Vector multiplications of a block, over the whole of the reduced loops."""
        total = 1
        for loop in self.problem.out:
            total *= self.sizes[loop.name]
        for loop in self.problem.reduced:
            total *= turns_of(loop)
        return total // self.shape.lanes

    # ---- cutting -------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Cut until what is read again and again stays in the cache."""
        limit = self.cache // 4
        for _ in range(32):
            big = [n for n in (0, 1) if self._kept(n) and self.footprint(n) > limit]
            if big:
                done = self._halve(self._cuttable(self.problem.operands[big[0]]))
            elif self.scratch and self.sums() > limit:
                done = self._halve([loop for loop in self.problem.out if self._size(loop) > self.shape.grid(loop)])
            else:
                return
            if not done:
                return

    def _kept(self, number: int) -> bool:
        """The operand is in scratch, or read again for every tile along the rows."""
        shape = self.shape
        tiles = math.prod(-(-self.sizes[name] // rows) for name, rows in shape.rows.items())
        return number in shape.pack or (tiles > 1 and shape.lane.name in self.problem.operands[number].names)

    def _size(self, loop: Loop) -> int:
        return self.sizes[loop.name]

    def _cuttable(self, operand: Operand) -> list[Loop]:
        """Loops that make an operand's part of a block smaller: lanes, then rows and others, then reduced loops."""
        names = operand.names
        out = [loop for loop in self.problem.out if loop.name in names and self._size(loop) > self.shape.grid(loop)]
        windows = set(_windows(operand))
        inner = [loop for loop in self.problem.reduced if loop.name in names and loop.name not in windows]
        lanes = [loop for loop in out if loop == self.shape.lane]
        return [*lanes, *(loop for loop in out if loop not in lanes), *(loop for loop in inner if self._size(loop) > 1)]

    def _halve(self, loops: list[Loop]) -> bool:
        if not loops:
            return False
        loop = loops[0]
        grid = 1 if loop.reduced else self.shape.grid(loop)
        self._set(loop, max(grid, -(-self._size(loop) // 2 // grid) * grid))
        return True

    def _share(self) -> None:
        """Cut rows, then lanes, while units are large and few."""
        for _ in range(16):
            if self.units() >= FEW_UNITS or self.work() < 2 * UNIT:
                return
            windows = {name for n in self.shape.pack for name in _windows(self.problem.operands[n])}
            rows = [loop for loop in self.problem.out if loop != self.shape.lane and loop.name not in windows]
            wanted = [*rows, self.shape.lane] if not self.shape.lane.reduced else rows
            if not self._halve([loop for loop in wanted if self._size(loop) > self.shape.grid(loop)]):
                return

    def result(self) -> dict[str, int]:
        """Turns of the loops that are cut."""
        loops = (*self.problem.out, *self.problem.reduced)
        return {
            loop.name: self.sizes[loop.name]
            for loop in loops
            if loop.name in self.cut and not _covers(self.sizes[loop.name], loop.extent)
        }


def _covers(size: int, extent: DimLike) -> bool:
    return isinstance(extent, int) and size >= extent


def _windows(operand: Operand) -> list[str]:
    """Loops that share a dim of the operand with another loop."""
    return [name for p in operand.positions or () if len(p.terms) > 1 for name, _ in p.terms]
