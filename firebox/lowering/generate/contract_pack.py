"""Slabs: the part of a factor that a block needs, copied to scratch, with zeros where the formula reads none.

Two layouts. *Rows*: the dims of the operand in their order, padding and dilation written out, so that a window is read
at constant steps. *Lanes*: the dim that fills the lanes comes last, cut into the columns of a register tile, so that a
vector is read at once and tiles stream through the slab; where it is not last in memory, squares are transposed in
registers.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dims import DimLike
from firebox.dtypes import bool_, i32, i64
from firebox.lowering.generate.addressing import strides_of
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_problem import Operand, Position
from firebox.lowering.generate.contract_tiling import Tiling
from firebox.lowering.generate.transpose import transpose
from firebox.runtime.target import Target


@dataclass(frozen=True)
class SlabDim:
    """One dim of a slab.

    Attributes:
        position: where the operand is read along it.
        step: of the operand's address.
        size: extent in the slab.
        low: least value of the part of the position that varies within the block.
        fixed: the part that does not vary within a block, over the first turns of the block.
        checked: it may reach outside of the operand.
        stride: of the slab's address.
    """

    position: Position
    step: DimLike
    size: int
    low: int
    fixed: tuple[tuple[str, int], ...]
    checked: bool
    stride: int = 0


@dataclass(frozen=True)
class Slab:
    """A slab of an operand.

    Attributes:
        operand: that is copied.
        dims: in the operand's order; sorted by layout are their strides.
        lane: number of the dim that fills the lanes in the lanes layout; None for the rows layout.
        tiles: register tiles along the lanes.
        elements: size, with room for one vector that is written past the end.
    """

    operand: Operand
    dims: tuple[SlabDim, ...]
    lane: int | None
    tiles: int
    elements: int

    @classmethod
    def of(cls, tiling: Tiling, operand: Operand) -> "Slab | None":
        """The slab of an operand; None where its size is not known, or the lanes run along several dims."""
        if operand.positions is None or any(tiling.turns(name) is None for name in operand.names):
            return None
        steps = strides_of(tuple(p.size for p in operand.positions))
        found = [_dim(tiling, p, step) for p, step in zip(operand.positions, steps, strict=True)]
        lane = _lane_dim(tiling, found)
        rest = [d.size for k, d in enumerate(found) if k != lane]
        inner = 1 if lane is None else tiling.columns
        inside = math.prod(rest)
        strides = [inner * math.prod(rest[k + 1 :]) for k in range(len(rest))]
        tiles = 1 if lane is None else -(-found[lane].size // tiling.columns)
        if lane is not None:
            strides.insert(lane, inside)
        placed = tuple(replace(d, stride=s) for d, s in zip(found, strides, strict=True))
        return cls(operand, placed, lane, tiles, tiles * inside * inner + tiling.lanes)

    def strides(self) -> dict[str, DimLike]:
        """Steps of the slab's addresses along the loops; along the lanes, from tile to tile."""
        found: dict[str, DimLike] = {}
        for d in self.dims:
            for name, coefficient in d.position.terms:
                found[name] = found.get(name, 0) + coefficient * d.stride
        return found

    @property
    def origin(self) -> int:
        """The address where all loops are at the start of the block."""
        return sum(-d.low * d.stride for d in self.dims)


def _dim(tiling: Tiling, position: Position, step: DimLike) -> SlabDim:
    low = high = 0
    checked = position.guarded
    for name, coefficient in position.terms:
        turns = tiling.turns(name)
        assert turns is not None
        low += min(0, coefficient * (turns - 1))
        high += max(0, coefficient * (turns - 1))
        checked = checked or not tiling.even(name)
    fixed = tuple((name, c) for name, c in position.terms if tiling.is_cut(name))
    return SlabDim(position, step, high - low + 1, low, fixed, checked)


def _lane_dim(tiling: Tiling, found: list[SlabDim]) -> int | None:
    """The dim that the lanes alone run along."""
    if tiling.lane is None:
        return None
    at = [k for k, d in enumerate(found) if d.position.coefficient(tiling.lane.name)]
    if len(at) != 1:
        return None
    position = found[at[0]].position
    return at[0] if position.terms == ((tiling.lane.name, 1),) and position.base == 1 else None


Leaf = Callable[[Val, Val, Val | None], None]
"""Copies one line: from an address, to an address, and whether the operand is met there (None: it is)."""


@dataclass
class _Line:
    """A dim while it is copied; neighbours that are copied as a whole are one.

    Attributes:
        first: position in the operand of the slab's first element.
        limit: positions from there on are outside; None where none is.
    """

    size: int
    first: Val
    step: DimLike
    limit: Val | None
    base: int
    stride: int


class Packing:
    """Writes the copying of one slab."""

    def __init__(self, body: Body, tiling: Tiling, slab: Slab, source: Ref, target: Ref, machine: Target) -> None:
        self.body, self.k = body, body.k
        self.tiling, self.slab = tiling, slab
        self.source, self.target = source, target
        self.machine = machine
        self.lanes = tiling.lanes

    def fill(self, start: Mapping[str, Val]) -> None:
        """Copy the part for the block that starts at those turns."""
        k, slab = self.k, self.slab
        lines = [self._line(d, start) for d in slab.dims]
        nothing = k.index(0)
        if slab.lane is None:
            merged = self._merged(lines)
            self._walk(merged[:-1], nothing, nothing, None, lambda s, t, ok: self._row(merged[-1], s, t, ok))
            return
        lane = lines.pop(slab.lane)
        if slab.lane == len(lines):
            self._walk(self._merged(lines), nothing, nothing, None, lambda s, t, ok: self._along(lane, s, t, ok))
            return
        before, after = lines[: slab.lane], self._merged(lines[slab.lane :])
        last = after.pop()
        self._walk(
            [*self._merged(before), *after], nothing, nothing, None, lambda s, t, ok: self._across(lane, last, s, t, ok)
        )

    def _line(self, d: SlabDim, start: Mapping[str, Val]) -> _Line:
        k = self.k
        first = k.index(d.position.offset + d.low)
        for name, coefficient in d.fixed:
            first = k.add(first, k.mul(start[name], coefficient))
        limit = self.body.expression(d.position.size) if d.checked else None
        return _Line(d.size, first, d.step, limit, d.position.base, d.stride)

    def _merged(self, lines: list[_Line]) -> list[_Line]:
        """Neighbours as one line where the inner one is copied whole."""
        merged: list[_Line] = []
        for line in lines:
            outer = merged[-1] if merged else None
            plain = outer is not None and outer.limit is None and line.limit is None and outer.base == line.base == 1
            if (
                outer is not None
                and plain
                and line.first.const == 0
                and outer.step == dims.multiply(line.step, line.size)
            ):
                merged[-1] = _Line(
                    outer.size * line.size, self.k.mul(outer.first, line.size), line.step, None, 1, line.stride
                )
            else:
                merged.append(line)
        return merged

    # ---- one element after the other -----------------------------------------------------------------------------

    def _walk(self, lines: list[_Line], source: Val, target: Val, valid: Val | None, leaf: Leaf) -> None:
        """Loops over lines, outermost first; ``leaf`` gets both addresses and whether the operand is met."""
        if not lines:
            leaf(source, target, valid)
            return
        line, *rest = lines

        def turn(position: Val) -> None:
            at, inside = self._at(line, position)
            further = self._both(valid, inside)
            self._walk(
                rest, self._moved(source, at, line.step), self._moved(target, position, line.stride), further, leaf
            )

        if line.size == 1:
            turn(self.k.index(0))
        else:
            self.k.loop(0, line.size, 1, [], lambda position, _: turn(position))

    def _at(self, line: _Line, position: Val) -> tuple[Val, Val | None]:
        """Index in the operand, and whether there is one."""
        k = self.k
        at = k.add(line.first, position)
        inside: Val | None = None
        if line.base != 1:
            inside = k.eq(k.mod(at, line.base), 0)
            at = k.floordiv(at, line.base)
        if line.limit is not None:
            inside = self._both(inside, k.and_(k.ge(at, 0), k.lt(at, line.limit)))
        return at, inside

    def _both(self, a: Val | None, b: Val | None) -> Val | None:
        return a if b is None else b if a is None else self.k.and_(a, b)

    def _moved(self, address: Val, position: Val, step: DimLike) -> Val:
        return self.k.add(address, self.k.mul(position, self.body.expression(step)))

    # ---- vectors -------------------------------------------------------------------------------------------------

    def _row(self, line: _Line, source: Val, target: Val, valid: Val | None) -> None:
        """A line that follows the memory of both; may write up to a vector past its end, before the next line does."""
        k, lanes = self.k, self.lanes

        def turn(position: Val) -> None:
            value = (
                self._gathered(line, source, position, valid)
                if line.base != 1
                else self._loaded(line, source, position, valid)
            )
            k.store(self.target, k.add(target, position), value)

        if line.size <= 4 * lanes:
            for position in range(0, line.size, lanes):
                turn(k.index(position))
        else:
            k.loop(0, line.size, lanes, [], lambda position, _: turn(position))

    def _loaded(self, line: _Line, source: Val, position: Val, valid: Val | None) -> Val:
        """A vector along a line from a position on; 0 outside."""
        k, lanes = self.k, self.lanes
        first = k.add(line.first, position)
        count = k.sub(line.size, position)
        mask: Val | None = None
        if line.limit is not None:
            count = k.min(count, k.sub(line.limit, first))
            if first.const is None or first.const < 0:
                mask = k.not_(k.mask(k.sub(0, first), lanes))
        if line.limit is not None or line.size % lanes:
            mask = self._both(mask, k.mask(count, lanes))
        if valid is not None:
            mask = self._both(mask, k.broadcast(valid, lanes))
        return k.load(self.source, self._moved(source, first, line.step), lanes, mask, 0)

    def _gathered(self, line: _Line, source: Val, position: Val, valid: Val | None) -> Val:
        """A vector along a line with gaps."""
        k, lanes = self.k, self.lanes
        kind = i64 if self.body.wide_indices else i32
        lane = k.iota(lanes, kind)
        at = k.add(lane, k.cast(k.add(line.first, position), kind))
        inside = k.and_(k.eq(k.mod(at, line.base), 0), k.ge(at, 0))
        at = k.floordiv(at, line.base)
        if line.limit is not None:
            inside = k.and_(inside, k.lt(at, k.cast(line.limit, kind)))
        inside = k.and_(inside, k.mask(k.sub(line.size, position), lanes))
        if valid is not None:
            inside = k.and_(inside, k.broadcast(valid, lanes))
        address = k.add(k.mul(at, k.cast(self.body.expression(line.step), kind)), k.cast(source, kind))
        return k.gather(self.source, address, inside, 0)

    def _along(self, lane: _Line, source: Val, target: Val, valid: Val | None) -> None:
        """The lanes follow the operand's memory."""
        k, tiling = self.k, self.tiling

        def tile(number: Val) -> None:
            at = k.add(target, k.mul(number, lane.stride * tiling.columns))
            for vector in range(tiling.vectors):
                position = k.add(k.mul(number, tiling.columns), vector * self.lanes)
                value = self._loaded(lane, source, position, valid)
                k.store(self.target, k.add(at, vector * self.lanes), value)

        self._tiles(tile)

    def _tiles(self, tile: Callable[[Val], None]) -> None:
        if self.slab.tiles == 1:
            tile(self.k.index(0))
        else:
            self.k.loop(0, self.slab.tiles, 1, [], lambda number, _: tile(number))

    def _across(self, lane: _Line, line: _Line, source: Val, target: Val, valid: Val | None) -> None:
        """The lanes run across the operand's memory: transpose squares of it."""
        k, tiling = self.k, self.tiling

        def tile(number: Val) -> None:
            at = k.add(target, k.mul(number, lane.stride * tiling.columns))

            def vector(position: Val) -> None:
                first = k.add(k.mul(number, tiling.columns), position)
                self._squares(lane, line, first, source, k.add(at, position), valid)

            if tiling.vectors == 1:
                vector(k.index(0))
            else:
                k.loop(0, tiling.columns, self.lanes, [], lambda position, _: vector(position))

        self._tiles(tile)

    def _squares(self, lane: _Line, line: _Line, first: Val, source: Val, target: Val, valid: Val | None) -> None:
        k, lanes = self.k, self.lanes
        if line.base != 1:
            k.loop(0, line.size, 1, [], lambda p, _: self._column(lane, line, first, p, source, target, valid))
            return

        def square(position: Val) -> None:
            rows = []
            for number in range(lanes):
                at, inside = self._lane_at(lane, first, number)
                rows.append(self._loaded(line, self._moved(source, at, lane.step), position, self._both(valid, inside)))
            for number, column in enumerate(transpose(k, rows, self.machine)[: min(lanes, line.size)]):
                k.store(self.target, k.add(target, k.mul(k.add(position, number), line.stride)), column)

        if line.size <= lanes:
            square(k.index(0))
        else:  # the last square overlaps the one before
            last = line.size - lanes
            k.loop(0, line.size, lanes, [], lambda p, _: square(k.min(p, last)))

    def _lane_at(self, lane: _Line, first: Val, number: int) -> tuple[Val, Val | None]:
        position = self.k.add(first, number)
        at, inside = self._at(lane, position)
        if lane.limit is None and lane.size % self.tiling.columns:
            inside = self._both(inside, self.k.lt(position, lane.size))
        return at, None if inside is not None and inside.const is True else inside

    def _column(
        self, lane: _Line, line: _Line, first: Val, position: Val, source: Val, target: Val, valid: Val | None
    ) -> None:
        """One vector across the operand's memory, where its line has gaps."""
        k, lanes = self.k, self.lanes
        kind = i64 if self.body.wide_indices else i32
        at, inside = self._at(line, position)
        base = self._moved(source, at, line.step)
        number = k.add(k.iota(lanes, kind), k.cast(k.add(lane.first, first), kind))
        limit = lane.limit if lane.limit is not None else k.add(lane.first, lane.size)
        mask = k.and_(k.ge(number, 0), k.lt(number, k.cast(limit, kind)))
        for condition in (valid, inside):
            if condition is not None:
                mask = k.and_(mask, k.broadcast(condition, lanes, bool_))
        address = k.add(k.mul(number, k.cast(self.body.expression(lane.step), kind)), k.cast(base, kind))
        k.store(self.target, k.add(target, k.mul(position, line.stride)), k.gather(self.source, address, mask, 0))
