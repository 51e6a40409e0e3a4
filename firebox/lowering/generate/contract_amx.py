"""Kernels of contractions of bf16 with sums in f32: products of squares in tile registers, or of pairs in vectors.

The template ``tiles`` multiplies squares of 16 x 32 by 32 x 16 in AMX tiles, the template ``pairs`` adds two products a
lane with AVX512-BF16. Both read slabs of squares (`contract_amx_pack`), or rows in place where they are squares.
The sums of a tile go through scratch, where the maps that follow the contraction finish them, as in other contractions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.kernel.tile_ops import TILES
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import i32
from firebox.lowering.generate.contract_amx_choose import TILES_TEMPLATE
from firebox.lowering.generate.contract_amx_layout import DEPTH, SIDE, SQUARE, PairScratch, PairTiling
from firebox.lowering.generate.contract_amx_pack import PairPacking
from firebox.lowering.generate.contract_finish import Finish
from firebox.lowering.generate.contract_tiling import RESULT
from firebox.lowering.generate.contract_units import BlockKernel
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

_HALF = 8
"""Rows whose sums are in vectors at a time."""

_UNROLL = 2


def generate_tiles(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled contraction of bf16."""
    return Kernels((TileKernel(group, schedule, target, dim_order, op_ids).build(),))


def launch_tiles(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Blocks of the result."""
    tiling = PairTiling.of_group(group, schedule)
    return (Launch(tiling.units, schedule.grain, PairScratch.of(tiling).nbytes),)


@dataclass(frozen=True)
class _Factor:
    """Where the squares of an operand are.

    Attributes:
        ref: memory.
        origin: address of the block's first square.
        along: step of the address from row to row (or column to column) of the block, for multiples of `SIDE`.
        line: step from line to line of a square.
        deep: step from square to square along the depth.
        others: steps along the other reduced loops.
    """

    ref: Ref
    origin: Val
    along: DimLike
    line: DimLike
    deep: int
    others: Mapping[str, DimLike]


class TileKernel(BlockKernel):
    """Builds the kernel of one group."""

    tiling: PairTiling

    def __init__(
        self, group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
    ) -> None:
        super().__init__(group, PairTiling.of_group(group, schedule), target, dim_order, op_ids)
        self.roles = self.tiling.roles
        self.in_tiles = schedule.template == TILES_TEMPLATE
        self.scratch = PairScratch.of(self.tiling)
        k = self.k
        self.memory = {n: k.view(k.scratch, at, i32) for n, at in self.scratch.places.items() if n != RESULT}
        self.sums = k.view(k.scratch, self.scratch.places[RESULT], self.problem.dtype)

    def build(self) -> FuncOp:
        """The finished kernel."""
        tiling = self.tiling
        if self.in_tiles:
            self.k.tile_config()
        self._fill([n for n in self.scratch.slabs if not tiling.cut(n)])
        kept = [n for n in self.scratch.slabs if tiling.cut(n) and not tiling.parts_of(n)]
        self.units(kept, self._fill, self._unit)
        if self.in_tiles:
            self.k.tile_release()
        return self.k.finish()

    def _fill(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            slab, memory = self.scratch.slabs[number], self.memory[number]
            PairPacking(self.body, self.tiling, number, slab, memory, self.target).fill(self.start, self.count)

    def _unit(self) -> None:
        self.parts(self._part)
        if self.tiling.parts:
            self._finish(self.start, self.count)

    def _part(self) -> None:
        """One part of the depth: all tiles of the block."""
        self._fill([n for n in self.scratch.slabs if self.tiling.parts_of(n)])
        self.factors = self._factor(self.roles.rows), self._factor(self.roles.columns)
        rows, columns = self.tiling.tile
        k, row, column = self.k, self.roles.row, self.roles.column

        def strip(i: Val) -> None:
            k.loop(0, self.count[column.name], columns, [], lambda j, _: self._tile(i, j))

        k.loop(0, self.count[row.name], rows, [], lambda i, _: strip(i))

    def _factor(self, number: int) -> _Factor:
        k, roles, operand = self.k, self.roles, self.problem.operands[number]
        slab = self.scratch.slabs.get(number)
        if slab is not None:
            held = self.tiling.holds_depth(number)
            first = k.mul(self.start[roles.depth.name], SQUARE // DEPTH) if held else k.index(0)
            return _Factor(self.memory[number], first, slab.deep * SIDE, SIDE, SQUARE, slab.strides())
        origin = self.body.expression(operand.origin)
        for name in operand.names:
            if self.start[name].const != 0:
                origin = k.add(origin, k.mul(self.start[name], self.body.expression(operand.stride(name))))
        step = operand.stride(roles.side(number).name)
        others = {loop.name: operand.stride(loop.name) for loop in roles.others}
        return _Factor(self.body.buffers[operand.value], origin, step, step, DEPTH, others)

    # ---- one tile ------------------------------------------------------------------------------------------------

    def _tile(self, i: Val, j: Val) -> None:
        """Sums of the tile at a row and a column of the block, and their end where the depth is not cut."""
        k, tiling, sums = self.k, self.tiling, self.scratch.sums
        row, column = self.roles.row.name, self.roles.column.name
        base = k.index(0)
        if tiling.parts:
            base = k.add(k.mul(i, sums.strides[row]), j)
        self._sizes(i, j, lambda rows, columns: self._product(i, j, base, rows, columns))
        if not tiling.parts:
            start = {**self.start, row: k.add(self.start[row], i), column: k.add(self.start[column], j)}
            count = dict(self.count)
            for loop, at, size in ((self.roles.row, i, tiling.tile[0]), (self.roles.column, j, tiling.tile[1])):
                whole = tiling.even(loop.name) and _divides(size, tiling.turns(loop.name))
                count[loop.name] = k.index(size) if whole else k.min(k.sub(self.count[loop.name], at), size)
            self._finish(start, count)

    def _finish(self, start: dict[str, Val], count: dict[str, Val]) -> None:
        sums = self.sums
        Finish(self.body, self.tiling, self.scratch.sums, sums, sums, self.outputs, self.target).block(
            start, count, self.k.index(0)
        )

    def _sizes(self, i: Val, j: Val, product: Callable[[int, int], None]) -> None:
        """Whole tiles, and smaller ones for what is left over of loops whose extents are known."""
        rows, columns = (size // SIDE for size in self.tiling.tile)
        self._choose(
            self.roles.row, i, rows, lambda r: self._choose(self.roles.column, j, columns, lambda c: product(r, c))
        )

    def _choose(self, loop: Loop, at: Val, squares: int, work: Callable[[int], None]) -> None:
        k, size = self.k, squares * SIDE
        left = -(-(loop.extent % size) // SIDE) if isinstance(loop.extent, int) else 0
        if left in (0, squares):
            work(squares)
            return
        few = k.le(k.sub(self.count[loop.name], at), left * SIDE)
        k.if_(few, lambda: work(left), lambda: work(squares))

    def _product(self, i: Val, j: Val, base: Val, rows: int, columns: int) -> None:
        """Sums of some squares of a tile."""
        k = self.k
        places = [
            k.add(f.origin, k.mul(at, self.body.expression(f.along)))
            for f, at in zip(self.factors, (i, j), strict=True)
        ]
        if self.in_tiles:
            _Registers(self, rows, columns).product(places, base)
            return
        for first in range(0, rows * SIDE, _HALF):
            self._vectors(places, base, first, columns)

    def steps(
        self, places: Sequence[Val], carried: list[Val], step: Callable[[list[Val], list[Val]], list[Val]]
    ) -> list[Val]:
        """Loops over all squares along the depth and the other reduced loops; ``step`` gets the addresses."""
        return self._other_steps(list(self.roles.others), list(places), carried, step)

    def _other_steps(
        self, rest: list[Loop], places: list[Val], carried: list[Val], step: Callable[[list[Val], list[Val]], list[Val]]
    ) -> list[Val]:
        k, body = self.k, self.body
        if rest:
            loop, *inner = rest

            def turn(position: Val, now: list[Val]) -> list[Val]:
                moved = [
                    k.add(p, k.mul(position, body.expression(f.others[loop.name])))
                    for p, f in zip(places, self.factors, strict=True)
                ]
                return self._other_steps(inner, moved, now, step)

            return k.loop(0, body.expression(loop.extent), 1, carried, turn)
        squares = k.floordiv(k.add(self.count[self.roles.depth.name], DEPTH - 1), DEPTH)

        def squares_from(number: Val, now: list[Val], several: int) -> list[Val]:
            for part in range(several):
                at = k.add(number, part)
                now = step([k.add(p, k.mul(at, f.deep)) for p, f in zip(places, self.factors, strict=True)], now)
            return now

        full = k.mul(k.floordiv(squares, _UNROLL), _UNROLL)
        carried = k.loop(0, full, _UNROLL, carried, lambda n, now: squares_from(n, now, _UNROLL))
        return k.loop(full, squares, 1, carried, lambda n, now: squares_from(n, now, 1))

    # ---- vectors -------------------------------------------------------------------------------------------------

    def _vectors(self, places: Sequence[Val], base: Val, first: int, columns: int) -> None:
        """Some rows of a tile as vectors of sums."""
        k, stride = self.k, self.scratch.sums.strides[self.roles.row.name]
        along = [int(f.along) for f in self.factors if isinstance(f.along, int)]
        at = [k.add(base, (first + row) * stride + column * SIDE) for row in range(_HALF) for column in range(columns)]
        zero = k.broadcast(k.const(0, self.problem.dtype), SIDE)
        rows, cols = self.factors

        def step(now: list[Val], sums: list[Val]) -> list[Val]:
            def pair(number: Val, sums: list[Val]) -> list[Val]:
                right = [
                    k.load(cols.ref, k.add(k.add(now[1], c * SIDE * along[1]), k.mul(number, SIDE)), SIDE)
                    for c in range(columns)
                ]
                result = []
                for row in range(_HALF):
                    square, line = divmod(first + row, SIDE)
                    place = k.add(k.add(now[0], square * SIDE * along[0] + line * SIDE), number)
                    left = k.load(rows.ref, place)
                    result += [k.dot_pairs(sums[row * columns + c], left, right[c]) for c in range(columns)]
                return result

            return k.loop(0, SIDE, 1, sums, pair)

        begin = [zero if self.first is None else self._begin(a, zero) for a in at]
        for a, total in zip(at, self.steps(places, begin, step), strict=True):
            k.store(self.sums, a, total)

    def _begin(self, at: Val, zero: Val) -> Val:
        assert self.first is not None
        return self.k.if_(self.first, lambda: [zero], lambda: [self.k.load(self.sums, at, SIDE)])[0]


class _Registers:
    """Writes the product of one tile in tile registers.

    The sums come first, then the squares of the side that has fewer of them, then those of the other side, in turn.
    """

    def __init__(self, kernel: TileKernel, rows: int, columns: int) -> None:
        self.kernel, self.k = kernel, kernel.k
        self.rows, self.columns = rows, columns
        self.stride = kernel.scratch.sums.strides[kernel.roles.row.name]
        self.kept = 0 if rows <= columns else 1

    def product(self, places: Sequence[Val], base: Val) -> None:
        """The sums of all squares, from scratch where there are some, to scratch."""
        k, kernel = self.k, self.kernel
        at = {
            row * self.columns + column: k.add(base, row * SIDE * self.stride + column * SIDE)
            for row in range(self.rows)
            for column in range(self.columns)
        }

        def clear() -> None:
            for tile in at:
                k.tile_zero(tile)

        def load() -> None:
            for tile, address in at.items():
                k.tile_load(tile, kernel.sums, address, self.stride)

        if kernel.first is None:
            clear()
        else:
            k.if_(kernel.first, clear, load)
        kernel.steps(places, [], self._step)
        for tile, address in at.items():
            k.tile_store(tile, kernel.sums, address, self.stride)

    def _step(self, now: list[Val], carried: list[Val]) -> list[Val]:
        counts, kept, other = (self.rows, self.columns), self.kept, 1 - self.kept
        first = self.rows * self.columns
        begin = first + counts[kept]
        for square in range(counts[other]):
            tiles = [0, 0]
            tiles[other] = begin + square % (TILES - begin)
            self._load(tiles[other], other, now[other], square)
            for number in range(counts[kept]):
                tiles[kept] = first + number
                if square == 0:
                    self._load(tiles[kept], kept, now[kept], number)
                row, column = (number, square) if kept == 0 else (square, number)
                self.k.tile_dot(row * self.columns + column, *tiles)
        return carried

    def _load(self, tile: int, which: int, place: Val, square: int) -> None:
        k, factor, body = self.k, self.kernel.factors[which], self.kernel.body
        at = k.add(place, body.expression(factor.along * (square * SIDE)))
        k.tile_load(tile, factor.ref, at, body.expression(factor.line))


def _divides(size: int, turns: int | None) -> bool:
    return turns is not None and turns % size == 0
