"""Contractions of f16 and bf16 on NVIDIA's tensor cores: ``gpu-mma``.

A work-group makes a tile of the result, a warp of 32 work-items a part of it in registers. Tiles of both factors come
by asynchronous copies, several turns of the depth ahead. The sums, f32, go through local memory at the end, so that
the maps that follow read and write whole lines.
"""

from collections.abc import Sequence
from itertools import product

from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dtypes import f32, i32
from firebox.lowering.generate.gpu.contract_plan import Plan
from firebox.lowering.generate.gpu.contract_tiled import Tile, Tiled
from firebox.lowering.generate.gpu.mma_feed import FRAGMENT, Copy, MmaFeed, runs_along_depth
from firebox.lowering.generate.gpu.mma_ptx import (
    commit_copies,
    local_address,
    multiply_fragments,
    wait_for_copies,
)

WARP = 32
_LANES = 4
_PAD = 8
"""Elements between rows of sums in local memory: two rows of a fragment's pairs then never meet in a bank."""


def mma_items(tile: Tile) -> int:
    """Work-items of a group."""
    return tile.items * WARP


def mma_local_bytes(tile: Tile, stages: int, itemsize: int = 2) -> int:
    """Local memory of a group: the tiles on their way, and later the sums."""
    factors = stages * tile.deep * (tile.rows + tile.columns) * itemsize
    return max(factors, tile.rows * (tile.columns + _PAD) * f32.itemsize)


class MmaKernel(Tiled):
    """Builds the kernel of one group; the register tiles of its schedule are those of warps."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids)
        plan, tile, (first, second) = self.plan, self.tile, self.plan.factors
        self.dtype = first.dtype
        self.feeds = (
            MmaFeed(self.body, first, (plan.rows, plan.depth), tile.rows, tile.deep, rows=True),
            MmaFeed(self.body, second, (plan.columns, plan.depth), tile.columns, tile.deep, rows=False),
        )
        self.stage_bytes = sum(feed.bytes for feed in self.feeds)
        elements = mma_local_bytes(tile, schedule.stages) // f32.itemsize
        self.memory = self.k.alloc_local(f32, elements)

    def write(self) -> None:
        """The sums, and their end."""
        self.enter()
        k, tile = self.k, self.tile
        across = tile.columns // tile.item_columns
        warp, lane = k.floordiv(k.local_id(), WARP), k.mod(k.local_id(), WARP)
        self.lane = k.cast(lane, i32)
        self.down = k.mul(k.cast(k.floordiv(warp, across), i32), tile.item_rows)
        self.across = k.mul(k.cast(k.mod(warp, across), i32), tile.item_columns)
        self._stand()
        sums = self._sums()
        self._end_tile(sums)

    def _stand(self) -> None:
        k, tile = self.k, self.tile
        base = local_address(k, self.memory)
        bases = (base, k.add(base, self.feeds[0].bytes))
        turns, firsts = (self.row, self.column), (self.down, self.across)
        counts = (tile.item_rows // FRAGMENT, tile.item_columns // FRAGMENT)
        for feed, turn, at, first, count in zip(self.feeds, turns, bases, firsts, counts, strict=True):
            feed.enter(self.env, turn, at)
            feed.stand(first, self.lane, at, count)

    # ---- sums ----------------------------------------------------------------------------------------------------

    def _sums(self) -> list[Val]:
        """The work-item's sums: four for each fragment of rows and half fragment of columns.

        Fragments are loaded one step before their products, also those of the next turn's first step: a turn's last
        products run while the group waits for the next tiles.
        """
        k, tile, ahead = self.k, self.tile, self.schedule.stages - 1
        sums = [k.const(0.0, f32)] * (tile.item_rows // FRAGMENT * (tile.item_columns // 8) * 4)
        if self.plan.depth.extent == 0:
            return sums
        first, last = self.depth_range()
        for number in range(ahead):
            at = k.add(first, number)
            self._fetch(self._copies(), at, last, k.const(number * self.stage_bytes, i32))
            commit_copies(k)
        self._arrive()
        begin = k.const(0, i32)
        fragments = self._load(begin, 0)

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            here, there = carried[:2]
            after = self._next(here)
            found = carried[2:]
            found = self._turn(k.add(number, ahead), last, (here, after, there), found)
            return [after, self._next(there), *found]

        start = [begin, k.const(ahead * self.stage_bytes, i32), *fragments, *sums]
        return k.loop(first, last, 1, start, turn)[2 + len(fragments) :]

    def _turn(self, number: Val, last: Val, stages: tuple[Val, Val, Val], carried: Sequence[Val]) -> list[Val]:
        """Add the products of a pair of tiles, and start to copy those of a number.

        Args:
            number: of the tiles that are copied, along the depth.
            last: where the tiles end.
            stages: of the tiles that are multiplied, of the next ones, of those that are copied.
            carried: fragments of the first step, then sums.

        Returns:
            Those of the next turn.
        """
        here, after, there = stages
        count, steps = self.fragments, self.tile.deep // FRAGMENT
        fragments, sums = list(carried[:count]), list(carried[count:])
        copies = self._copies()
        for step in range(steps - 1):
            following = self._load(here, step + 1)
            self._fetch(copies[step :: steps - 1], number, last, there)
            sums = self._multiply(fragments, sums)
            fragments = following
        commit_copies(self.k)
        self._arrive()
        following = self._load(after, 0)
        return [*following, *self._multiply(fragments, sums)]

    def _arrive(self) -> None:
        """Wait for the oldest tiles that are on their way, all of the group for their parts of it."""
        wait_for_copies(self.k, self.schedule.stages - 2)
        self.k.barrier()

    def _next(self, stage: Val) -> Val:
        """Offset of the stage that follows."""
        k = self.k
        moved = k.add(stage, self.stage_bytes)
        return k.select(k.ge(moved, self.schedule.stages * self.stage_bytes), k.const(0, i32), moved)

    def _copies(self) -> list[tuple[MmaFeed, Copy]]:
        return [(feed, copy) for feed in self.feeds for copy in feed.copies]

    def _fetch(self, copies: Sequence[tuple[MmaFeed, Copy]], number: Val, last: Val, stage: Val) -> None:
        """Start copies of the tiles of that number, if there are any."""
        wanted = self.k.lt(number, last)
        for feed, copy in copies:
            feed.fetch(copy, number, stage, wanted)

    @property
    def fragments(self) -> int:
        """Registers of the fragments of one step."""
        return (self.tile.item_rows + self.tile.item_columns) // FRAGMENT * 4

    def _load(self, stage: Val, step: int) -> list[Val]:
        """The fragments of one step: those of the rows, then those of the columns."""
        return [register for feed in self.feeds for four in feed.load(stage, step) for register in four]

    def _multiply(self, fragments: Sequence[Val], sums: Sequence[Val]) -> list[Val]:
        """Add the products of all fragments of rows with all half fragments of columns."""
        k, total, count = self.k, list(sums), self.tile.item_rows // FRAGMENT * 4
        rows = [fragments[at : at + 4] for at in range(0, count, 4)]
        columns = [fragments[at : at + 2] for at in range(count, len(fragments), 2)]
        for number, (row, column) in enumerate(product(rows, columns)):
            at = slice(4 * number, 4 * number + 4)
            total[at] = multiply_fragments(k, self.dtype, row, column, total[at])
        return total

    # ---- the end -------------------------------------------------------------------------------------------------

    def _end_tile(self, sums: Sequence[Val]) -> None:
        """Sums to local memory, then vectors of them along rows to the maps that follow."""
        k, tile, pitch = self.k, self.tile, self.tile.columns + _PAD
        wait_for_copies(k, 0)
        k.barrier()
        columns = tile.item_columns // 8
        row = k.index(k.add(self.down, k.shr(self.lane, 2)))
        column = k.index(k.add(self.across, k.mul(k.and_(self.lane, 3), 2)))
        corner = k.add(k.mul(row, pitch), column)
        for number in range(len(sums) // 2):
            fragment, half = divmod(number, 2)
            offset = (fragment // columns * FRAGMENT + half * 8) * pitch + fragment % columns * 8
            pair = k.insert(k.broadcast(sums[2 * number], 2), sums[2 * number + 1], 1)
            k.store(self.memory, k.add(corner, offset), pair)
        k.barrier()
        across = tile.columns // _LANES

        def turn(start: Val) -> None:
            at = k.add(start, k.local_id())
            down, vector = k.floordiv(at, across), k.mod(at, across)
            start = k.mul(vector, _LANES)
            total = k.load(self.memory, k.add(k.mul(down, pitch), start), _LANES)
            self.end_vector(down, start, total)

        k.loop(0, tile.rows * across, k.group, [], lambda number, _: turn(number))


def runs_on_tensor_cores(plan: Plan) -> bool:
    """Whether both factors can be copied in chunks."""
    sides = ((plan.factors[0], plan.rows), (plan.factors[1], plan.columns))
    return all(runs_along_depth(operand, side, plan.depth) is not None for operand, side in sides)
