"""What the kernels of a contraction that work in tiles share: where a group is, its part of the depth, the stores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.gpu.contract_frame import Frame
from firebox.lowering.generate.gpu.contract_plan import Env, Plan
from firebox.lowering.generate.gpu.device_body import is_multiple

SWEEP = 8
"""Tiles of rows that follow each other before the next tile of columns: what they share stays in the L2 cache."""


@dataclass(frozen=True)
class Tile:
    """The sizes in a schedule: of a work-group's tile, of one turn of the depth, of a register tile."""

    rows: int
    columns: int
    deep: int
    item_rows: int
    item_columns: int

    @classmethod
    def of(cls, schedule: Schedule) -> "Tile":
        return cls(*schedule.tile)

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return (self.rows // self.item_rows) * (self.columns // self.item_columns)

    def text(self) -> tuple[int, ...]:
        return self.rows, self.columns, self.deep, self.item_rows, self.item_columns


def tile_count(plan: Plan, rows: int, columns: int) -> DimLike:
    """Tiles of the result of all batches."""
    tiles = dims.multiply(dims.ceildiv(plan.rows.extent, rows), dims.ceildiv(plan.columns.extent, columns))
    return dims.multiply(tiles, plan.batch.extent)


class Tiled(Frame):
    """A kernel whose work-groups make one tile of the result each.

    Attributes:
        tile: the sizes.
        env: loop variables of the batch.
        part: number of the part of the depth.
        row, column: first turns of the tile.
    """

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids)
        self.tile = Tile.of(schedule)

    def enter(self) -> None:
        """Find the place of the work-group."""
        batch, self.part, row, column = self._place()
        self.row, self.column = self.k.mul(row, self.tile.rows), self.k.mul(column, self.tile.columns)
        self.env: Env = self.plan.batch.decode(self.body, batch)

    @property
    def partial(self) -> Val | None:
        """The part of the depth whose sums are stored; None where they are complete."""
        return self.part if self.schedule.split > 1 else None

    def _place(self) -> tuple[Val, Val, Val, Val]:
        """Of a work-group: its batch, its part of the depth, and its tile as numbers of a row and a column of tiles."""
        k, plan, tile, split = self.k, self.plan, self.tile, self.schedule.split
        down = self.body.expression(dims.ceildiv(plan.rows.extent, tile.rows))
        across = self.body.expression(dims.ceildiv(plan.columns.extent, tile.columns))
        one = k.mul(down, across)
        outer, inner = k.floordiv(k.group_id(), one), k.mod(k.group_id(), one)
        sweep = k.mul(across, SWEEP)
        first = k.mul(k.floordiv(inner, sweep), SWEEP)
        height = k.min(k.sub(down, first), SWEEP)
        height.nonneg = True
        at = k.mod(inner, sweep)
        row, column = k.add(first, k.mod(at, height)), k.floordiv(at, height)
        return k.floordiv(outer, split), k.mod(outer, split), row, column

    def depth_range(self) -> tuple[Val, Val]:
        """First and last (exclusive) tile along this group's part of the depth; the part may be empty."""
        k, split = self.k, self.schedule.split
        tiles = dims.ceildiv(self.plan.depth.extent, self.tile.deep)
        if split == 1:
            return k.index(0), self.body.expression(tiles)
        each = self.body.expression(dims.ceildiv(tiles, split))
        first = k.mul(self.part, each)
        return first, k.min(k.add(first, each), self.body.expression(tiles))

    def end_vector(self, row: Val, column: Val, total: Val) -> None:
        """Finish the sums of some columns of a row, as far as they are inside; the place is within the tile."""
        along = self.plan.columns.last
        if total.lanes == 1 or self.fits(along, total.lanes, self.partial is not None):
            self._end_inside(row, column, lambda env: self.end(env, total, along, self.partial))
            return
        for lane in range(total.lanes):
            self._end_scalar(row, self.k.add(column, lane), self.k.extract(total, lane))

    def _end_scalar(self, row: Val, column: Val, total: Val) -> None:
        self._end_inside(row, column, lambda env: self.end(env, total, self.plan.columns.last, self.partial))

    def _end_inside(self, row: Val, column: Val, finish: Callable[[Env], None]) -> None:
        k, plan, tile = self.k, self.plan, self.tile
        row, column = k.add(self.row, row), k.add(self.column, column)
        env = {**self.env, **plan.rows.decode(self.body, row), **plan.columns.decode(self.body, column)}
        inside: Val | None = None
        for side, at, block in ((plan.rows, row, tile.rows), (plan.columns, column, tile.columns)):
            if not is_multiple(side.extent, block):
                within = k.lt(at, self.body.expression(side.extent))
                inside = within if inside is None else k.and_(inside, within)
        if inside is None:
            finish(env)
        else:
            k.if_(inside, lambda: finish(env))
