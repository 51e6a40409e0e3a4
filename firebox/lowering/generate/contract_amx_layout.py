"""How a contraction of bf16 is cut for tile registers: its roles, its slabs of pairs, its scratch.

One operand gives the rows of a product, the other the columns. Both are read in squares of 16 rows, or columns, by 16
pairs along a reduced loop, the *depth*; a slab holds such squares one after the other along the depth, with zeros where
the loop ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from firebox import dims
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dtypes import bf16, f32
from firebox.lowering.generate.contract_problem import Operand, Problem
from firebox.lowering.generate.contract_scratch import Sums
from firebox.lowering.generate.contract_tiling import RESULT, Tiling
from firebox.lowering.generate.frame import estimate
from firebox.lowering.generate.nest import Loop

SIDE = 16
"""Rows, columns and pairs of a square."""

DEPTH = 2 * SIDE
"""Turns along the depth of a square."""

SQUARE = SIDE * SIDE
"""Pairs of a square."""

SLAB_LIMIT = 8 << 20
"""Bytes up to which a slab of columns holds the whole depth, although the sums are added part by part."""


@dataclass(frozen=True)
class Roles:
    """What the loops and operands of a contraction are to a product of matrices.

    Attributes:
        rows: number of the operand that varies along `row`.
        row: a loop of the result.
        column: the last loop of the result, along which its memory goes.
        depth: the reduced loop that pairs follow.
        others: the other reduced loops.
    """

    rows: int
    row: Loop
    column: Loop
    depth: Loop
    others: tuple[Loop, ...]

    @property
    def columns(self) -> int:
        """Number of the operand that varies along `column`."""
        return 1 - self.rows

    @classmethod
    def of(cls, problem: Problem) -> "Roles | None":
        """None where the contraction is not made of such products, or its memory is not read well as pairs."""
        if problem.dtype is not f32 or any(o.dtype is not bf16 or not o.direct for o in problem.operands):
            return None
        if not problem.out or not problem.reduced:
            return None
        names = [set(o.names) for o in problem.operands]
        if any(loop.name not in names[0] & names[1] for loop in problem.reduced):
            return None
        column = problem.out[-1]
        met = [number for number in (0, 1) if column.name in names[number]]
        if len(met) != 1:
            return None
        rows = 1 - met[0]
        found = [
            cls(rows, row, column, depth, tuple(loop for loop in problem.reduced if loop != depth))
            for row in problem.out
            if row.name in names[rows] and row.name not in names[met[0]]
            for depth in problem.reduced
            if follows(problem.operands[rows], row, depth) and follows(problem.operands[met[0]], column, depth)
        ]
        return max(found, key=lambda r: (estimate(r.row.extent) * estimate(r.depth.extent), r.row.name), default=None)

    def side(self, number: int) -> Loop:
        """The loop that an operand has of its own."""
        return self.row if number == self.rows else self.column


def follows(operand: Operand, side: Loop, depth: Loop) -> bool:
    """The operand's memory follows one of the two loops."""
    return operand.stride(side.name) == 1 or operand.stride(depth.name) == 1


@dataclass(frozen=True)
class PairTiling(Tiling):
    """A tiling whose slab of columns may hold more of the depth than is added at a time.

    Attributes:
        roles: of the loops.
    """

    roles: Roles

    @classmethod
    def of_group(cls, group: GroupOp, schedule: Schedule) -> "PairTiling":
        """Read a schedule."""
        problem = Problem.of(group)
        plain = Tiling.of(problem, schedule)
        roles = Roles.of(problem)
        assert roles is not None
        parts = (plain.lane, plain.lanes, plain.vectors, plain.rows, plain.blocks, plain.unroll, plain.pack)
        return cls(problem, *parts, roles)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of sums that stay in registers."""
        return self.rows[0][1], self.columns

    def holds_depth(self, number: int) -> bool:
        """The slab of an operand holds the whole depth."""
        depth, column = self.roles.depth, self.turns(self.roles.column.name)
        if number == self.roles.rows or not isinstance(depth.extent, int) or column is None:
            return False
        if self.whole(self.roles.row):  # no other block of rows would use it again
            return self.whole(depth)
        return 2 * depth.extent * column * self.others <= SLAB_LIMIT

    @property
    def others(self) -> int:
        """Turns of the reduced loops beside the depth; they are not cut, so they must be known."""
        total = dims.product(loop.extent for loop in self.roles.others)
        assert isinstance(total, int)
        return total

    def cut(self, number: int) -> set[str]:
        """As of a tiling, without the depth where the slab holds all of it."""
        found = super().cut(number)
        return found - {self.roles.depth.name} if self.holds_depth(number) else found

    @property
    def unit_loops(self) -> list[Loop]:
        """Loops of the columns outside, since their slab is the one that is costly to fill."""
        found = [loop for loop in self.problem.out if not self.whole(loop)]
        names = self.problem.operands[self.roles.columns].names
        return sorted(found, key=lambda loop: loop.name not in names)


@dataclass(frozen=True)
class PairSlab:
    """Squares of one operand.

    Attributes:
        squares: of `SIDE` rows or columns each; an even number.
        deep: squares along the depth.
        others: turns of each of the other reduced loops, outermost first.
    """

    squares: int
    deep: int
    others: Mapping[str, int]

    @classmethod
    def of(cls, tiling: PairTiling, number: int) -> "PairSlab":
        """The slab of an operand; the blocks of its loops must be known."""
        roles = tiling.roles
        side, depth = tiling.turns(roles.side(number).name), tiling.turns(roles.depth.name)
        if tiling.holds_depth(number):
            depth = roles.depth.extent if isinstance(roles.depth.extent, int) else None
        assert side is not None and depth is not None
        others = {loop.name: int(loop.extent) for loop in roles.others if isinstance(loop.extent, int)}
        return cls(2 * -(-side // (2 * SIDE)), -(-depth // DEPTH), others)

    @property
    def pairs(self) -> int:
        """Size in pairs."""
        total = self.squares * self.deep * SQUARE
        for turns in self.others.values():
            total *= turns
        return total

    def strides(self) -> dict[str, int]:
        """Steps of the address along the other reduced loops, in pairs."""
        found, step = {}, self.squares * self.deep * SQUARE
        for name, turns in reversed(list(self.others.items())):
            found[name] = step
            step *= turns
        return found


@dataclass(frozen=True)
class PairScratch:
    """The layout of scratch.

    Attributes:
        slabs: by number of the operand.
        places: byte offsets, by number of the operand; `RESULT` for the sums.
        sums: layout of the sums: of a block where the depth is cut, else of one tile.
        nbytes: size.
    """

    slabs: Mapping[int, PairSlab]
    places: Mapping[int, int]
    sums: Sums
    nbytes: int

    @classmethod
    def of(cls, tiling: PairTiling) -> "PairScratch":
        """Lay out what a tiling wants in scratch."""
        slabs = {number: PairSlab.of(tiling, number) for number in tiling.pack if number != RESULT}
        places, at = {}, 0
        for number, slab in slabs.items():
            places[number] = at
            at += 4 * slab.pairs
        places[RESULT] = at
        rows, columns = (_rounded(tiling, n) for n in (0, 1)) if tiling.parts else tiling.tile
        strides = {tiling.roles.row.name: columns, tiling.roles.column.name: 1}
        return cls(slabs, places, Sums(strides, rows * columns), at + 4 * rows * columns)


def _rounded(tiling: PairTiling, which: int) -> int:
    """Rows (0) or columns (1) of a block, in whole tiles."""
    loop = (tiling.roles.row, tiling.roles.column)[which]
    turns = tiling.turns(loop.name)
    assert turns is not None
    return -(-turns // tiling.tile[which]) * tiling.tile[which]
