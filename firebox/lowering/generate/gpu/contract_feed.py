"""`Feed`: brings tiles of a factor from global memory through registers to local memory, depth by depth.

A tile lies in local memory with the side along memory and one row for each turn of the depth, whatever the layout of
the factor is. Work-items follow each other along whichever of both has the smaller step in global memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from firebox.dialects.kernel.builder import Ref, Val
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.gpu.contract_plan import Env, Side, step_along, vector_lanes
from firebox.lowering.generate.gpu.contract_reads import Reader
from firebox.lowering.generate.gpu.device_body import is_multiple

PAD = 4
"""Elements between rows of a tile, so that rows begin in different banks, and vectors stay aligned."""


@dataclass(frozen=True)
class Layout:
    """How a factor is copied.

    Attributes:
        along_depth: neighbouring work-items read along the depth, not along the side.
        lanes: elements of a load.
    """

    along_depth: bool
    lanes: int

    @classmethod
    def of(cls, operand: Operand, side: Side, depth: Side, block: int, deep: int) -> "Layout":
        """For tiles of ``block`` turns of the side and ``deep`` of the depth."""
        ways = [
            cls(False, _cut(vector_lanes(operand, side), block)),
            cls(True, _cut(vector_lanes(operand, depth), deep)),
        ]
        steps = {False: step_along(operand, side), True: step_along(operand, depth)}
        return min(ways, key=lambda way: (steps[way.along_depth], -way.lanes, way.along_depth))


def _cut(lanes: int, size: int) -> int:
    while size % lanes:
        lanes //= 2
    return lanes


class Feed:
    """The tiles of one factor.

    Attributes:
        side: loops along the tile.
        block: turns of the side in a tile.
        deep: turns of the depth in a tile.
        pitch: distance of two rows in local memory.
        elements: of one tile in local memory.
    """

    def __init__(self, body: Body, operand: Operand, sides: tuple[Side, Side], block: int, deep: int) -> None:
        self.body, self.k = body, body.k
        self.reader = Reader(body, operand)
        self.side, self.depth = sides
        self.block, self.deep = block, deep
        self.layout = Layout.of(operand, self.side, self.depth, block, deep)
        self.pitch = block + PAD
        self.elements = deep * self.pitch

    def allocate(self, tiles: int) -> None:
        """Take local memory for some tiles."""
        self.memory: Ref = self.k.alloc_local(self.reader.dtype, tiles * self.elements)

    def enter(self, env: Env, start: Val) -> None:
        """Stand at the tile that begins at a turn of the side.

        Args:
            env: the loop variables that neither the side nor the depth has.
        """
        k = self.k
        self.places = self._places()
        self.envs: list[Env] = []
        last = k.sub(self.body.expression(self.side.extent), 1 if self.layout.along_depth else self.layout.lanes)
        even = is_multiple(self.side.extent, self.block)
        for at, _ in self.places:
            flat = k.add(start, at)
            if not even:
                flat = k.min(flat, last)
                flat.nonneg = True
            self.envs.append({**env, **self.side.decode(self.body, flat)})

    def _places(self) -> list[tuple[Val, Val]]:
        """Turns within the tile, of the side and of the depth, at which this work-item loads."""
        k, lanes, item = self.k, self.layout.lanes, self.k.local_id()
        fast = (self.deep if self.layout.along_depth else self.block) // lanes
        total = self.block * self.deep // lanes
        found = []
        for number in range(-(-total // k.group)):
            quick, slow = self._split(item, number, fast, total)
            quick = k.mul(quick, lanes)
            found.append((slow, quick) if self.layout.along_depth else (quick, slow))
        return found

    def _split(self, item: Val, number: int, fast: int, total: int) -> tuple[Val, Val]:
        """Place of a load along memory and across it; loads beyond the tile repeat those at its begin."""
        k = self.k
        if k.group == fast:  # the same row for all, which the device's compiler then knows
            return item, k.index(number)
        if k.group % fast == 0 and total % k.group == 0:
            return k.mod(item, fast), k.add(k.floordiv(item, fast), number * (k.group // fast))
        flat = k.add(item, number * k.group)
        if total % k.group:
            flat = k.mod(flat, total)
        return k.mod(flat, fast), k.floordiv(flat, fast)

    def fetch(self, number: Val) -> list[Val]:
        """Load the work-item's part of a tile, by its number along the depth."""
        k, lanes = self.k, self.layout.lanes
        extent = self.body.expression(self.depth.extent)
        last = k.sub(extent, lanes if self.layout.along_depth else 1)
        even = is_multiple(self.depth.extent, self.deep)
        start, found = k.mul(number, self.deep), []
        for (_, deep), env in zip(self.places, self.envs, strict=True):
            turn, inside = k.add(start, deep), None
            if not even:
                inside = k.lt(turn, extent)
                turn = k.min(turn, last)
                turn.nonneg = True
            found.append(self.reader.load({**env, **self.depth.decode(self.body, turn)}, inside, lanes))
        return found

    def empty(self) -> list[Val]:
        """Zeros in place of a tile."""
        k = self.k
        return [k.broadcast(k.const(0, self.reader.dtype), self.layout.lanes)] * len(self.places)

    def put(self, values: Sequence[Val], base: Val) -> None:
        """Write what was fetched to the tile that begins at an offset."""
        k = self.k
        for (at, deep), value in zip(self.places, values, strict=True):
            if not self.layout.along_depth:
                k.store(self.memory, k.add(base, k.add(k.mul(deep, self.pitch), at)), value)
                continue
            for lane in range(value.lanes):
                row = k.mul(k.add(deep, lane), self.pitch)
                k.store(self.memory, k.add(base, k.add(row, at)), k.extract(value, lane))

    def row(self, base: Val, deep: int, first: Sequence[Val], lanes: int) -> list[Val]:
        """Vectors of one row of a tile, at some turns of the side."""
        k = self.k
        start = k.add(base, deep * self.pitch)
        return [k.load(self.memory, k.add(start, at), lanes) for at in first]
