"""The register tile of a contraction: sums that stay in registers while the reduced loops run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from firebox.dialects.kernel.builder import Ref, Val
from firebox.dims import DimLike
from firebox.dtypes import i32, i64
from firebox.lowering.access import loops, point
from firebox.lowering.generate.body import Body, Lane
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.contract_tiling import Tiling
from firebox.lowering.generate.nest import Loop

Offsets = Sequence[Mapping[str, int]]
"""The rows of a tile, as offsets along their loops."""


@dataclass
class Source:
    """Memory that a factor is read from, at ``origin + sum of stride * position in the block``.

    Attributes:
        ref: the memory.
        strides: by loop; loops along which it does not vary are missing.
        along: step from lane to lane within a register tile.
        origin: address of the block's first element.
        shared: nobody writes to it while the kernel runs.
    """

    ref: Ref
    strides: Mapping[str, DimLike]
    along: DimLike
    origin: Val
    shared: bool


@dataclass
class Place:
    """Where a register tile is.

    Attributes:
        start: first turn of the block along each loop.
        count: turns of the block.
        local: first turn of the tile within the block.
        masks: valid lanes of each vector; None where all are.
    """

    start: dict[str, Val]
    count: dict[str, Val]
    local: dict[str, Val]
    masks: list[Val | None]


class RegisterTile:
    """Writes the sums of one tile."""

    def __init__(self, body: Body, tiling: Tiling, sources: Sequence[Source | None]) -> None:
        self.body = body
        self.k = body.k
        self.tiling = tiling
        self.problem = tiling.problem
        self.sources = sources
        self.lane = tiling.lane.name if tiling.lane is not None else ""
        self.across = tiling.lane is not None and tiling.lane.reduced
        self.vectors = tiling.vectors

    def zeros(self, offsets: Offsets) -> list[Val]:
        """The sums before the first turn."""
        k = self.k
        zero = k.broadcast(k.const(0, self.problem.dtype), self.tiling.lanes)
        return [zero] * (len(offsets) * self.tiling.vectors)

    def sums(self, place: Place, offsets: Offsets, start: list[Val]) -> list[Val]:
        """The sums after the reduced loops, row by row: a value for each vector, or a scalar where lanes are summed."""
        self.place, self.offsets = place, offsets
        self.masks = place.masks
        bases = [self._base(source) for source in self.sources]
        loops_ = sorted(self.problem.reduced, key=lambda loop: loop.name == self.lane)  # the lanes innermost
        if not any(loop.extent == 0 for loop in loops_):
            start = self._reduce(loops_, bases, start)
        return (
            [self._folded(start[k : k + self.vectors]) for k in range(0, len(start), self.vectors)]
            if self.across
            else start
        )

    def _folded(self, sums: list[Val]) -> Val:
        """The sum of all lanes of some vectors: a tree."""
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [self.k.add(a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
        return self.k.reduce("add", sums[0])

    def _base(self, source: Source | None) -> Val | None:
        if source is None:
            return None
        address = source.origin
        for name, position in self.place.local.items():
            address = self._step(address, position, source.strides.get(name, 0))
        return address

    def _step(self, address: Val, position: Val, stride: DimLike) -> Val:
        k = self.k
        if isinstance(stride, int) and (stride == 0 or position.const == 0):
            return address
        return k.add(address, k.mul(position, self.body.expression(stride)))

    # ---- reduced loops -------------------------------------------------------------------------------------------

    def _reduce(self, rest: list[Loop], bases: list[Val | None], sums: list[Val]) -> list[Val]:
        if not rest:
            return self._multiply(bases, sums)
        loop, *inner = rest
        k = self.k
        extent = self.place.count[loop.name]
        if self.across and not inner:
            return self._along_lanes(loop, bases, sums)

        def turn(position: Val, carried: list[Val]) -> list[Val]:
            self.body.env[loop.name] = k.add(self.place.start[loop.name], position)
            return self._reduce(inner, self._moved(bases, loop.name, position), carried)

        unroll = 1 if inner else self.tiling.unroll
        if unroll == 1:
            return k.loop(0, extent, 1, sums, turn)
        full = k.mul(k.floordiv(extent, unroll), unroll)

        def several(position: Val, carried: list[Val]) -> list[Val]:
            for part in range(unroll):
                carried = turn(k.add(position, part), carried)
            return carried

        sums = k.loop(0, full, unroll, sums, several)
        return sums if full.const is not None and full.const == extent.const else k.loop(full, extent, 1, sums, turn)

    def _along_lanes(self, loop: Loop, bases: list[Val | None], sums: list[Val]) -> list[Val]:
        """The reduced loop that fills the lanes: several vectors at a time, single ones, and the rest under a mask."""
        k, lanes = self.k, self.tiling.lanes
        extent = self.place.count[loop.name]
        at = k.index(0)

        def turn(position: Val, carried: list[Val]) -> list[Val]:
            return self._multiply(self._moved(bases, loop.name, position), carried)

        def steps(first: Val, last: Val, width: int) -> Callable[[list[Val]], list[Val]]:
            return lambda some: k.loop(first, last, lanes * width, some, turn)

        for width in sorted({self.vectors, 1}, reverse=True):
            end = k.mul(k.floordiv(extent, lanes * width), lanes * width)
            if at.const is None or at.const != end.const:
                sums = self._narrowed(width, sums, steps(at, end, width))
            at = end
        if extent.const is not None and extent.const == at.const:
            return sums
        self.masks = [k.mask(k.sub(extent, at), lanes)]
        return self._narrowed(1, sums, lambda some: turn(at, some))

    def _narrowed(self, vectors: int, sums: list[Val], work: Callable[[list[Val]], list[Val]]) -> list[Val]:
        """Work on the first vectors of every row only."""
        whole = self.vectors
        self.vectors = vectors
        chosen = [k for k in range(len(sums)) if k % whole < vectors]
        done = work([sums[k] for k in chosen])
        self.vectors = whole
        result = list(sums)
        for k, value in zip(chosen, done, strict=True):
            result[k] = value
        return result

    def _moved(self, bases: list[Val | None], name: str, position: Val) -> list[Val | None]:
        moved: list[Val | None] = []
        for base, source in zip(bases, self.sources, strict=True):
            moved.append(
                None if base is None or source is None else self._step(base, position, source.strides.get(name, 0))
            )
        return moved

    # ---- one turn ------------------------------------------------------------------------------------------------

    def _multiply(self, bases: list[Val | None], sums: list[Val]) -> list[Val]:
        """Factors are loaded where they are first needed, so that few of them are in registers at once."""
        found: dict[tuple[int, DimLike, int], Val] = {}
        result = []
        for number, total in enumerate(sums):
            row, vector = self.offsets[number // self.vectors], number % self.vectors
            lhs, rhs = (self._factor(side, base, row, vector, found) for side, base in enumerate(bases))
            result.append(self.k.fma(lhs, rhs, total))
        return result

    def _factor(
        self,
        side: int,
        base: Val | None,
        row: Mapping[str, int],
        vector: int,
        found: dict[tuple[int, DimLike, int], Val],
    ) -> Val:
        """One factor of one sum; equal ones are one value."""
        source = self.sources[side]
        if source is None or base is None:
            return self._computed(side, row, vector)
        step: DimLike = 0
        for name, offset in row.items():
            step = step + source.strides.get(name, 0) * offset
        key = (side, step, vector if source.along != 0 else 0)
        if key not in found:
            found[key] = self._load(source, base, step + source.along * (vector * self.tiling.lanes), vector)
        return found[key]

    def _load(self, source: Source, base: Val, step: DimLike, vector: int) -> Val:
        k, lanes, along = self.k, self.tiling.lanes, source.along
        at = base if step == 0 else k.add(base, self.body.expression(step))
        if along == 0 or lanes == 1:
            return k.broadcast(k.load(source.ref, at, invariant=source.shared), lanes)
        mask = self.masks[vector] if source.shared else None
        if along == 1:
            return k.load(source.ref, at, lanes, mask, 0, invariant=source.shared)
        kind = i64 if self.body.wide_indices else i32
        apart = k.mul(k.iota(lanes, kind), k.cast(self.body.expression(along), kind))
        return k.gather(source.ref, k.add(apart, k.cast(at, kind)), mask, 0, invariant=source.shared)

    def _computed(self, side: int, row: Mapping[str, int], vector: int) -> Val:
        """Read element by element, with the guards of the formula."""
        problem = self.problem
        env = point(loops(problem.op.avals[0].shape)) | problem.reduced_env
        self.enter(self.place, row, vector)
        return self.k.broadcast(self.body.read(problem.op, problem.operands[side].read, env), self.tiling.lanes)

    def enter(self, place: Place, row: Mapping[str, int], vector: int) -> None:
        """Let the body stand at one vector of a tile."""
        body, k = self.body, self.k
        body.at_point()
        for name, position in place.local.items():
            offset = row.get(name, 0) + (vector * self.tiling.lanes if name == self.lane else 0)
            body.env[name] = k.add(k.add(place.start[name], position), offset)
        body.lane = None if self.across or not self.lane else Lane(self.lane, self.tiling.lanes, place.masks[vector])


def direct_strides(operand: Operand) -> dict[str, DimLike]:
    """Steps of an operand's addresses along the loops."""
    return {name: operand.stride(name) for name in operand.names}
