"""`MmaFeed`: brings tiles of a factor to local memory by asynchronous copies, and loads fragments from there.

A tile keeps the order of the factor in memory: rows of the depth for each turn of the side, or the other way round;
fragments are transposed while they are loaded if need be. The chunks of a row are permuted, differently in each of 8
rows, so that neither copies nor fragments meet twice in a bank.
"""

from dataclasses import dataclass

from firebox.dialects.kernel.builder import Val
from firebox.dtypes import i32, i64
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.gpu.contract_plan import Env, Side, step_along, vector_lanes
from firebox.lowering.generate.gpu.contract_reads import Reader
from firebox.lowering.generate.gpu.device_body import is_multiple
from firebox.lowering.generate.gpu.mma_ptx import CHUNK, copy_chunk, global_address, load_fragments

LANES = 8
"""Elements of a chunk; also rows of local memory after which banks repeat."""

FRAGMENT = 16


def runs_along_depth(operand: Operand, side: Side, depth: Side) -> bool | None:
    """Whether chunks follow the depth or the side; None if neither has whole chunks next to each other."""
    ways = [
        (step_along(operand, of), along)
        for of, along in ((side, False), (depth, True))
        if vector_lanes(operand, of, LANES) == LANES
    ]
    return min(ways)[1] if ways else None


@dataclass(frozen=True)
class _Copy:
    """One chunk that a work-item copies: its turn of the depth within the tile, the loops outside, where it goes."""

    deep: Val
    env: Env
    target: Val


class MmaFeed:
    """The tiles of one factor.

    Attributes:
        bytes: of a tile in local memory.
        along_depth: rows in local memory are turns of the side; else of the depth.
        second_below: the second matrix of a fragment is below the first one in local memory, not beside it.
    """

    def __init__(
        self, body: Body, operand: Operand, sides: tuple[Side, Side], block: int, deep: int, rows: bool
    ) -> None:
        self.body, self.k = body, body.k
        self.reader = Reader(body, operand)
        self.side, self.depth = sides
        self.block, self.deep = block, deep
        self.along_depth = bool(runs_along_depth(operand, self.side, self.depth))
        self.transposed = not self.along_depth
        self.second_below = rows == self.along_depth
        self.chunks = (deep if self.along_depth else block) // LANES
        self.bytes = block * deep * operand.dtype.itemsize

    # ---- copies --------------------------------------------------------------------------------------------------

    def enter(self, env: Env, start: Val, base: Val) -> None:
        """Stand at the tile that begins at a turn of the side; the first of its places in local memory is the base."""
        k = self.k
        self.source = global_address(k, self.reader.ref)
        total = self.block * self.deep // LANES
        last = k.sub(self.body.expression(self.side.extent), LANES if not self.along_depth else 1)
        self.copies: list[_Copy] = []
        for number in range(total // k.group):
            flat = k.add(k.local_id(), number * k.group)
            row, chunk = k.floordiv(flat, self.chunks), k.mod(flat, self.chunks)
            at, deep = (row, k.mul(chunk, LANES)) if self.along_depth else (k.mul(chunk, LANES), row)
            turn = k.add(start, at)
            if not is_multiple(self.side.extent, self.block):
                turn = k.min(turn, last)
                turn.nonneg = True
            place = k.add(base, self._place(k.cast(row, i32), k.cast(chunk, i32)))
            self.copies.append(_Copy(deep, {**env, **self.side.decode(self.body, turn)}, place))

    def _place(self, row: Val, chunk: Val) -> Val:
        """Offset of a chunk in a tile."""
        k = self.k
        apart = max(1, LANES // self.chunks)
        turned = k.and_(k.shr(row, apart.bit_length() - 1), min(self.chunks, LANES) - 1)
        return k.add(k.mul(row, self.chunks * CHUNK), k.mul(k.xor(chunk, turned), CHUNK))

    def fetch(self, number: Val, stage: Val) -> None:
        """Start to copy the work-item's part of a tile, by its number along the depth, to an offset from the base."""
        k = self.k
        extent = self.body.expression(self.depth.extent)
        even = is_multiple(self.depth.extent, self.deep)
        start = k.mul(number, self.deep)
        for copy in self.copies:
            turn, conditions = k.add(start, copy.deep), []
            if not even:
                conditions.append(k.lt(turn, extent))
                turn = k.min(turn, k.sub(extent, LANES if self.along_depth else 1))
                turn.nonneg = True
            env = {**copy.env, **self.depth.decode(self.body, turn)}
            at = self.reader.address(env, conditions)
            inside = self.reader.all_of(conditions)
            if inside is not None:
                at = k.select(inside, at, 0)
            source = k.add(self.source, k.mul(k.cast(at, i64), self.reader.operand.dtype.itemsize))
            copy_chunk(k, k.add(copy.target, stage), source, inside)

    # ---- fragments -----------------------------------------------------------------------------------------------

    def stand(self, first: Val, lane: Val, base: Val, count: int) -> None:
        """Prepare the addresses of a warp's fragments: ``count`` of them from a turn of the side on."""
        k = self.k
        low, high = k.and_(lane, 7), k.and_(k.shr(lane, 3), 1)
        if self.second_below:
            row, second = k.add(low, k.mul(high, 8)), k.shr(lane, 4)
        else:
            row, second = k.add(low, k.mul(k.shr(lane, 4), 8)), high
        self.count = count
        if self.along_depth:
            row = k.add(row, first)
            chunks = [k.add(second, 2 * n) for n in range(self.deep // FRAGMENT)]
        else:
            chunks = [k.add(k.add(k.shr(first, 3), second), 2 * n) for n in range(count)]
        self.lanes_at = [k.add(base, self._place(row, chunk)) for chunk in chunks]

    def load(self, stage: Val, deep: int) -> list[list[Val]]:
        """All fragments of the warp at a 16th of the tile's depth."""
        k, apart = self.k, FRAGMENT * self.chunks * CHUNK
        found = []
        for number in range(self.count):
            chunk, row = (deep, number) if self.along_depth else (number, deep)
            address = k.add(self.lanes_at[chunk], stage)
            found.append(load_fragments(k, address, row * apart, self.transposed))
        return found
