"""Contractions in tiles: a work-group makes a tile of the result from tiles of both factors in local memory.

Work-items have a register tile each. While the products of one turn of the depth are summed, the next tiles are on
their way from global memory to registers; they go to the other half of local memory, so that one barrier a turn is
enough.
"""

from collections.abc import Sequence

from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.contract_feed import Feed
from firebox.lowering.generate.gpu.contract_tiled import Tiled

_LONG = 600
"""Ops of the maps after all sums of a work-item from which on they are written once, in a loop."""

_WARP_ROWS, _WARP_COLUMNS = 4, 8


class TileKernel(Tiled):
    """Builds the kernel of one group."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids)
        plan, tile, (first, second) = self.plan, self.tile, self.plan.factors
        self.feeds = (
            Feed(self.body, first, (plan.rows, plan.depth), tile.rows, tile.deep),
            Feed(self.body, second, (plan.columns, plan.depth), tile.columns, tile.deep),
        )
        self.row_lanes = min(4, tile.item_rows)
        self.lanes = min(4, tile.item_columns)
        self.downs = _spread(tile.rows, tile.item_rows, self.row_lanes)
        self.acrosses = _spread(tile.columns, tile.item_columns, self.lanes)

    def write(self) -> None:
        """The sums, and their end."""
        self.enter()
        for feed, start in zip(self.feeds, (self.row, self.column), strict=True):
            feed.enter(self.env, start)
        down, across = self._place_of_item()
        self.down, self.across = self.k.mul(down, self.row_lanes), self.k.mul(across, self.lanes)
        self._end_tile(self._sums())

    def _place_of_item(self) -> tuple[Val, Val]:
        """Row and column of the work-item; those that run in step form a block, which reads little of each factor."""
        k, tile, item = self.k, self.tile, self.k.local_id()
        down, across = tile.rows // tile.item_rows, tile.columns // tile.item_columns
        if down % _WARP_ROWS or across % _WARP_COLUMNS:
            return k.floordiv(item, across), k.mod(item, across)
        blocks = across // _WARP_COLUMNS
        block, inner = k.floordiv(item, _WARP_ROWS * _WARP_COLUMNS), k.mod(item, _WARP_ROWS * _WARP_COLUMNS)
        rows = k.add(k.mul(k.floordiv(block, blocks), _WARP_ROWS), k.floordiv(inner, _WARP_COLUMNS))
        columns = k.add(k.mul(k.mod(block, blocks), _WARP_COLUMNS), k.mod(inner, _WARP_COLUMNS))
        return rows, columns

    # ---- sums ----------------------------------------------------------------------------------------------------

    def _sums(self) -> list[Val]:
        """The work-item's sums, row by row in vectors."""
        k, tile = self.k, self.tile
        zero = k.broadcast(k.const(0, self.problem.dtype), self.lanes)
        sums = [zero] * (tile.item_rows * len(self.acrosses))
        if self.plan.depth.extent == 0:
            return sums
        first, last = self.depth_range()
        once = first.const is not None and last.const is not None and last.const - first.const == 1
        for feed in self.feeds:
            feed.allocate(1 if once else 2)
        self._put(self._first(first, last), k.index(0))
        if once:
            return self._multiply(k.index(0), sums)
        end = k.sub(last, 1)
        end.nonneg = True

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            fetched = self._fetch(k.min(k.add(number, 1), end))
            done = k.sub(number, first)
            done.nonneg = True
            odd = k.mod(done, 2)
            carried = self._multiply(odd, carried)
            self._put(fetched, k.sub(1, odd))
            return carried

        return k.loop(first, last, 1, sums, turn)

    def _first(self, first: Val, last: Val) -> list[list[Val]]:
        """The first tiles; zeros where the part of the depth is empty, so that nothing is read."""
        k = self.k
        if first.const is not None and last.const is not None:
            return self._fetch(first)
        count = len(self.feeds[0].empty())

        def some() -> list[Val]:
            return [v for values in self._fetch(first) for v in values]

        found = k.if_(k.lt(first, last), some, lambda: [v for feed in self.feeds for v in feed.empty()])
        return [found[:count], found[count:]]

    def _fetch(self, number: Val) -> list[list[Val]]:
        return [feed.fetch(number) for feed in self.feeds]

    def _put(self, fetched: Sequence[Sequence[Val]], half: Val) -> None:
        for feed, values in zip(self.feeds, fetched, strict=True):
            feed.put(values, self.k.mul(half, feed.elements))
        self.k.barrier()

    def _multiply(self, half: Val, sums: list[Val]) -> list[Val]:
        """Add the products of a pair of tiles."""
        k, tile, (left, right) = self.k, self.tile, self.feeds
        lefts, rights = (k.mul(half, feed.elements) for feed in self.feeds)
        down = [k.add(self.down, d) for d in self.downs]
        across = [k.add(self.across, a) for a in self.acrosses]
        for deep in range(tile.deep):
            rows = left.row(lefts, deep, down, self.row_lanes)
            columns = right.row(rights, deep, across, self.lanes)
            factors = [k.broadcast(k.extract(v, lane), self.lanes) for v in rows for lane in range(self.row_lanes)]
            pairs = [(f, c) for f in factors for c in columns]
            sums = [k.fma(f, c, total) for (f, c), total in zip(pairs, sums, strict=True)]
        return sums

    # ---- the end -------------------------------------------------------------------------------------------------

    def _end_tile(self, sums: list[Val]) -> None:
        k = self.k
        rows = [k.add(self.down, down + lane) for down in self.downs for lane in range(self.row_lanes)]
        columns = [k.add(self.across, across) for across in self.acrosses]
        single = 1 if self.fits(self.plan.columns.last, self.lanes, self.partial is not None) else self.lanes
        if self.partial is None and len(sums) * single * self.length() > _LONG:
            self._end_in_loop(sums)
            return
        places = [(row, column) for row in rows for column in columns]
        for (row, column), total in zip(places, sums, strict=True):
            self.end_vector(row, column, total)

    def _end_in_loop(self, sums: Sequence[Val]) -> None:
        """The sums through private memory, so that long maps are written once."""
        k, lanes, across = self.k, self.lanes, len(self.acrosses)
        memory = k.alloc_stack(self.problem.dtype, len(sums) * lanes)
        for number, total in enumerate(sums):
            k.store(memory, number * lanes, total)
        step, apart = self.tile.rows // len(self.downs), self.tile.columns // across

        def turn(number: Val) -> None:
            row, vector = k.floordiv(number, across), k.mod(number, across)
            block, lane = k.floordiv(row, self.row_lanes), k.mod(row, self.row_lanes)
            down = k.add(self.down, k.add(k.mul(block, step), lane))
            column = k.add(self.across, k.mul(vector, apart))
            self.end_vector(down, column, k.load(memory, k.mul(number, lanes), lanes))

        k.loop(0, len(sums), 1, [], lambda number, _: turn(number))


def _spread(size: int, own: int, lanes: int) -> list[int]:
    """Offsets of a work-item's vectors: they lie far apart, so that those of its neighbours are next to its own."""
    count = own // lanes
    return [number * (size // count) for number in range(count)]
