"""`MmaFeed`: brings tiles of a factor to local memory by asynchronous copies, and loads fragments from there.

A tile keeps the order of the factor in memory: rows of the depth for each turn of the side, or the other way round;
fragments are transposed while they are loaded if need be. The chunks of a row are permuted, differently in each of 8
rows, so that neither copies nor fragments meet twice in a bank.
"""

from dataclasses import dataclass

from firebox.dialects.kernel.builder import Val
from firebox.dtypes import i32, i64
from firebox.errors import CompilerError
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.gpu.contract_plan import Env, Side, step_along, vector_lanes
from firebox.lowering.generate.gpu.contract_reads import Reader
from firebox.lowering.generate.gpu.device_body import is_multiple
from firebox.lowering.generate.gpu.mma_ptx import CHUNK, Place, copy_chunk, global_address, load_fragments

LANES = 8
"""Elements of a chunk; also rows of local memory after which banks repeat."""

FRAGMENT = 16

_FAR = 1 << 20
"""Elements: constants in instructions have 32 bits, for up to 256 turns and 4 bytes each."""


def runs_along_depth(operand: Operand, side: Side, depth: Side) -> bool | None:
    """Whether chunks follow the depth or the side; None if neither has whole chunks next to each other."""
    ways = [
        (step_along(operand, of), along)
        for of, along in ((side, False), (depth, True))
        if vector_lanes(operand, of, LANES) == LANES
    ]
    return min(ways)[1] if ways else None


def _steps(operand: Operand, sides: tuple[Side, Side]) -> tuple[int, int] | None:
    """Distances in memory of two turns of the side, and of the depth; None where these are not constants."""
    if not operand.direct or any(len(side.loops) != 1 for side in sides):
        return None
    first, second = (operand.stride(side.last) for side in sides)
    if not isinstance(first, int) or not isinstance(second, int) or max(abs(first), abs(second)) >= _FAR:
        return None
    return first, second


@dataclass(frozen=True)
class Copy:
    """One chunk that a work-item copies of each tile.

    Attributes:
        shift: rows of local memory after the work-item's first copy.
        target: its place in local memory, without the stage.
        deep: its turn of the depth within the tile.
        env: the loops other than the depth.
    """

    shift: int
    target: Place
    deep: Val
    env: Env


class MmaFeed:
    """The tiles of one factor.

    Attributes:
        bytes: of a tile in local memory.
        along_depth: rows in local memory are turns of the side; else of the depth.
        straight: addresses are those of the first tile's first chunk plus multiples of constants.
        steps: those constants, in elements: of a turn of the side, and of the depth.
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
        self.itemsize = operand.dtype.itemsize
        self.bytes = block * deep * self.itemsize
        steps = _steps(operand, sides) if self._is_even() else None
        self.straight = steps is not None
        self.steps = steps or (0, 0)

    def _is_even(self) -> bool:
        """Whether all tiles are inside."""
        return is_multiple(self.side.extent, self.block) and is_multiple(self.depth.extent, self.deep)

    # ---- copies --------------------------------------------------------------------------------------------------

    def enter(self, env: Env, start: Val, base: Val) -> None:
        """Stand at the tile that begins at a turn of the side; the first of its places in local memory is the base."""
        k = self.k
        row, chunk = k.floordiv(k.local_id(), self.chunks), k.mod(k.local_id(), self.chunks)
        apart = k.group // self.chunks
        self.copies = [self._copy(env, start, base, (row, chunk), n * apart) for n in range(self._number_of_copies())]
        self.source = global_address(k, self.reader.ref)
        if self.straight:
            first = self.copies[0]
            at = self.reader.address({**first.env, **self.depth.decode(self.body, first.deep)}, [])
            self.source = self._after(at)

    def _number_of_copies(self) -> int:
        group, total = self.k.group, self.block * self.deep // LANES
        if group % self.chunks or total % group:
            expected = f"a multiple of {self.chunks} that divides {total}"
            raise CompilerError("work-items cannot share a tile", op="gpu-mma", expected=expected, found=group)
        return total // group

    def _copy(self, env: Env, start: Val, base: Val, place: tuple[Val, Val], shift: int) -> Copy:
        k, (first, chunk) = self.k, place
        row = k.add(first, shift)
        at, deep = (row, k.mul(chunk, LANES)) if self.along_depth else (k.mul(chunk, LANES), row)
        turn = k.add(start, at)
        if not is_multiple(self.side.extent, self.block):
            turn = k.min(turn, k.sub(self.body.expression(self.side.extent), 1 if self.along_depth else LANES))
            turn.nonneg = True
        same = self._period  # chunks of rows that far apart are permuted in the same way
        around = k.cast(k.add(first, shift % same), i32)
        target = k.add(base, self._place(around, k.cast(chunk, i32)))
        further = (shift - shift % same) * self.chunks * CHUNK
        return Copy(shift, (target, further), deep, {**env, **self.side.decode(self.body, turn)})

    @property
    def _rows_alike(self) -> int:
        """Rows next to each other whose chunks are permuted in the same way."""
        return max(1, LANES // self.chunks)

    @property
    def _period(self) -> int:
        return LANES * self._rows_alike

    def _place(self, row: Val, chunk: Val) -> Val:
        """Offset of a chunk in a tile."""
        k = self.k
        turned = k.and_(k.shr(row, self._rows_alike.bit_length() - 1), min(self.chunks, LANES) - 1)
        return k.add(k.mul(row, self.chunks * CHUNK), k.mul(k.xor(chunk, turned), CHUNK))

    def _after(self, at: Val) -> Val:
        """The address of an element of the factor."""
        k = self.k
        return k.add(self.source, k.mul(k.cast(at, i64), self.itemsize))

    def fetch(self, copy: Copy, number: Val, stage: Val, wanted: Val) -> None:
        """Start one of the work-item's copies of a tile, by its number along the depth, to an offset from the base."""
        k, (target, further) = self.k, copy.target
        place = (k.add(target, stage), further)
        if self.straight:
            start = k.add(self.source, k.mul(k.cast(number, i64), self.deep * self.steps[1] * self.itemsize))
            row = self.steps[0] if self.along_depth else self.steps[1]
            copy_chunk(k, place, (start, copy.shift * row * self.itemsize), wanted=wanted)
            return
        turn, conditions = k.add(k.mul(number, self.deep), copy.deep), []
        if not is_multiple(self.depth.extent, self.deep):
            extent = self.body.expression(self.depth.extent)
            conditions.append(k.lt(turn, extent))
            turn = k.min(turn, k.sub(extent, LANES if self.along_depth else 1))
            turn.nonneg = True
        at = self.reader.address({**copy.env, **self.depth.decode(self.body, turn)}, conditions)
        inside = self.reader.all_of(conditions)
        if inside is not None:
            at = k.select(inside, at, 0)
        copy_chunk(k, place, (self._after(at), 0), inside, wanted)

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
