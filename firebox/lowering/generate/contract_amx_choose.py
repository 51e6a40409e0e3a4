"""Chooses the schedule of a contraction of bf16 whose sums are products of squares: tile, blocks, what is copied."""

from dataclasses import dataclass

from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.contract_amx_layout import DEPTH, SIDE, SQUARE, Roles
from firebox.lowering.generate.contract_blocks import FEW_UNITS, UNIT, turns_of
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_tiling import RESULT, blocks_text
from firebox.lowering.generate.nest import Loop
from firebox.runtime.target import Target

TILES_TEMPLATE, PAIRS_TEMPLATE = "tiles", "pairs"

_TWICE_AS_FAST = ("znver4", "znver5")
"""Processors that start a product of pairs every cycle. Intel's take four times as long for it as for an f32 fma."""

_GRID = 2 * SIDE
_LONG, _SYMBOLIC_DEPTH = 4096, 512
"""Turns of the depth that are added at a time; and where they are not known."""

_MAX_COLUMNS, _NEAR_COLUMNS = 512, 128
"""Columns of a block; and where all rows stay in the second cache, so that they may be read again for each."""

_FEW_DEPTH = 256
"""Turns of the depth that are added at a time where there is one tile of rows."""

_COPIED_ROWS, _PART_ROWS = 64, 512
"""Rows of a block where they are copied; and where sums of parts of the depth wait for the rest."""

_FEW, _HUGE = 4, 256 * UNIT
"""Units that are enough for threads to share, if none takes longer than this many cycles."""

_STAGE = 2500.0
"""Cycles to set up tiles and start copying."""


@dataclass(frozen=True)
class TileChoice:
    """A schedule and its estimated cycles."""

    schedule: Schedule
    cost: float


def tile_choice(problem: Problem, target: Target) -> TileChoice | None:
    """The schedule by products of squares; None where the contraction or the target does not allow it."""
    template = _template(target)
    roles = Roles.of(problem) if template else None
    if roles is None or any(not isinstance(loop.extent, int) for loop in roles.others):
        return None
    sizes = _Sizes(problem, roles, template, target)
    return TileChoice(sizes.schedule(), sizes.cost())


def _template(target: Target) -> str:
    if target.has("amx-bf16") and target.vector_bits == 512:
        return TILES_TEMPLATE
    fast = target.has("avx512bf16") and target.cpu in _TWICE_AS_FAST and target.vector_bits == 512
    return PAIRS_TEMPLATE if fast else ""


class _Sizes:
    """The sizes of one contraction.

    Attributes:
        rows: of a block.
        columns: of a block.
        depth: turns along the depth that are added at a time.
    """

    def __init__(self, problem: Problem, roles: Roles, template: str, target: Target) -> None:
        self.problem, self.roles, self.template = problem, roles, template
        self.row, self.column = turns_of(roles.row), turns_of(roles.column)
        self.deep = turns_of(roles.depth)
        self.others = 1
        for loop in roles.others:
            self.others *= turns_of(loop)
        self.tile = self._tile()
        self.in_place = self._in_place()
        self._start(target.l2_bytes)
        self._share()

    def _tile(self) -> tuple[int, int]:
        if self.template == PAIRS_TEMPLATE:
            return SIDE, _GRID
        if self.row <= SIDE and self.column > _GRID:
            return SIDE, 4 * SIDE
        return (4 * SIDE, SIDE) if self.column <= SIDE and self.row > _GRID else (_GRID, _GRID)

    def _start(self, cache: int) -> None:
        """Columns whose slab stays in the second cache, while strips of rows pass by."""
        static = isinstance(self.roles.depth.extent, int)
        along = self.problem.operands[self.roles.columns].stride(self.roles.column.name) == 1
        if static and along and self.row <= _GRID and self.deep >= 2 * _FEW_DEPTH:
            self._read_once()
            return
        self.depth = _up(-(-self.deep // -(-self.deep // _LONG)), DEPTH) if static else _SYMBOLIC_DEPTH
        room = cache // 2 // (2 * self.depth * self.others)
        near = 2 * self.row * self.depth * self.others <= cache // 2
        most = min(_NEAR_COLUMNS if near else _MAX_COLUMNS, room)
        self.columns = self._fitted(self.roles.column, self.column, most, self.tile[1])
        whole = static and self.depth >= self.deep
        rows = _PART_ROWS if not whole else self.row if self.in_place else _COPIED_ROWS
        self.rows = self._fitted(self.roles.row, self.row, rows, self.tile[0])

    def _read_once(self) -> None:
        """For one tile of rows what counts is to read the columns' memory in long lines."""
        self.depth = _FEW_DEPTH
        self.columns = self._fitted(self.roles.column, self.column, 2 * _MAX_COLUMNS, self.tile[1])
        self.rows = self._fitted(self.roles.row, self.row, self.row, self.tile[0])

    @staticmethod
    def _fitted(loop: Loop, turns: int, most: int, tile: int) -> int:
        """Blocks of about equal size, in whole tiles."""
        grid = max(tile, _GRID)
        most = max(grid, most // grid * grid)
        if not isinstance(loop.extent, int):
            return min(most, 8 * grid)
        return _up(-(-turns // -(-turns // most)), grid)

    def units(self) -> int:
        """Blocks of the result."""
        return self._repeats() * -(-self.row // self.rows) * -(-self.column // self.columns)

    def _repeats(self) -> int:
        total = 1
        for loop in self.problem.out:
            if loop not in (self.roles.row, self.roles.column):
                total *= turns_of(loop)
        return total

    def work(self) -> float:
        """Cycles of a block."""
        squares = -(-self.rows // SIDE) * -(-self.columns // SIDE) * -(-self.deep // DEPTH) * self.others
        return squares * self._square()

    def _square(self) -> float:
        """Cycles of a product of two squares."""
        return 24.0 if self.template == TILES_TEMPLATE else 1.2 * SQUARE

    def _share(self) -> None:
        """Cut columns, then rows, while units are large and few."""
        least = max(_GRID, self.tile[1]), max(_GRID, self.tile[0])
        while self.work() >= 2 * UNIT and (self.units() < _FEW or (self.units() < FEW_UNITS and self.work() >= _HUGE)):
            if self.columns >= 4 * least[0]:
                self.columns = _up(-(-self.columns // 2), least[0])
            elif self.rows >= 4 * least[1]:
                self.rows = _up(-(-self.rows // 2), least[1])
            else:
                return

    def _in_place(self) -> bool:
        """Rows are squares in memory already."""
        roles, operand = self.roles, self.problem.operands[self.roles.rows]
        static = isinstance(roles.row.extent, int) and isinstance(roles.depth.extent, int)
        step = operand.stride(roles.row.name)
        if self.template != TILES_TEMPLATE or not static or operand.stride(roles.depth.name) != 1:
            return False
        return self.row % SIDE == 0 and self.deep % DEPTH == 0 and isinstance(step, int)

    def schedule(self) -> Schedule:
        """As an attribute."""
        roles = self.roles
        blocks = {}
        for loop in self.problem.out:
            size = {roles.row: self.rows, roles.column: self.columns}.get(loop, 1)
            if not isinstance(loop.extent, int) or size < loop.extent:
                blocks[loop.name] = size
        if not isinstance(roles.depth.extent, int) or self.depth < roles.depth.extent:
            blocks[roles.depth.name] = self.depth
        pack = {roles.columns, RESULT} | ({roles.rows} if not self.in_place else set())
        return Schedule(
            self.template,
            roles.column.name,
            SIDE,
            grain=self._grain(),
            tile=self.tile,
            rows=roles.row.name,
            blocks=blocks_text(blocks),
            pack=tuple(sorted(pack)),
        )

    def _grain(self) -> int:
        """Units that share a slab of columns, unless too few slabs are left for other threads."""
        shared = -(-self.row // self.rows)
        least = -(-UNIT // max(1, round(self.work())))
        if self.units() // shared < _FEW:
            return max(least, -(-self.units() // FEW_UNITS))
        return -(-least // shared) * shared

    def cost(self) -> float:
        """Cycles on one core."""
        units = self.units()
        fills = self._repeats() * self.others * self.column * self.deep / 8
        if not self.in_place:
            fills += self._repeats() * self.others * self.row * self.deep / 8 * -(-self.column // self.columns)
        return units * self.work() + fills + self._repeats() * self.row * self.column / SIDE * 4 + _STAGE


def _up(size: int, grid: int) -> int:
    return -(-size // grid) * grid
