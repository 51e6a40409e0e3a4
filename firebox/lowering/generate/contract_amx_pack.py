"""Fills slabs of pairs: squares of 16 rows or columns by 16 pairs of bf16 along the depth, with zeros past its end.

Where memory follows the depth, a square is 16 loads of 16 pairs, one for each row or column; where it follows the rows
or columns, pairs are two loads, interleaved. Squares are transposed in registers where they stand the other way:
a square of rows has a row in each line, one of columns a pair. Rows and columns past the end of a block repeat its last
one or are zero: their sums are not read.
"""

from collections.abc import Callable, Mapping, Sequence

from firebox.dialects.kernel.builder import Ref, Val
from firebox.lowering.generate.body import Body
from firebox.lowering.generate.contract_amx_layout import DEPTH, SIDE, SQUARE, PairSlab, PairTiling
from firebox.lowering.generate.transpose import transpose
from firebox.runtime.target import Target

_AT_ONCE = 4
"""Pairs that are written out in a turn of a loop over them."""


class PairPacking:
    """Writes the filling of the slab of one operand."""

    def __init__(
        self, body: Body, tiling: PairTiling, number: int, slab: PairSlab, memory: Ref, machine: Target
    ) -> None:
        self.body, self.k = body, body.k
        self.tiling, self.slab, self.memory, self.machine = tiling, slab, memory, machine
        self.operand = operand = tiling.problem.operands[number]
        self.source = body.buffers[operand.value]
        self.side, self.depth = tiling.roles.side(number), tiling.roles.depth
        self.across, self.down = (body.expression(operand.stride(loop.name)) for loop in (self.side, self.depth))
        self.as_rows = number == tiling.roles.rows
        self.whole = tiling.holds_depth(number)

    def fill(self, start: Mapping[str, Val], count: Mapping[str, Val]) -> None:
        """Copy the part for the block that starts at those turns."""
        k = self.k
        self.wide = count[self.side.name]
        self.long = self.body.expression(self.depth.extent) if self.whole else count[self.depth.name]
        base = self.body.expression(self.operand.origin)
        for name in self.operand.names:
            if name not in self.slab.others and not (self.whole and name == self.depth.name):
                base = k.add(base, k.mul(start[name], self.body.expression(self.operand.stride(name))))
        self._others(list(self.slab.others), base, k.index(0))

    def _others(self, rest: list[str], source: Val, target: Val) -> None:
        """Loops over the other reduced loops."""
        if not rest:
            self._squares(source, target)
            return
        k = self.k
        name, *inner = rest
        step, stride = self.body.expression(self.operand.stride(name)), self.slab.strides()[name]

        def turn(position: Val) -> None:
            self._others(inner, k.add(source, k.mul(position, step)), k.add(target, k.mul(position, stride)))

        k.loop(0, self.slab.others[name], 1, [], lambda position, _: turn(position))

    def _squares(self, source: Val, target: Val) -> None:
        """All squares, along the memory inside, so that lines are read one after the other."""
        k = self.k
        if self.operand.stride(self.depth.name) == 1:
            k.loop(0, self.wide, SIDE, [], lambda first, _: self._lines_along_depth(source, target, first))
        else:
            self._along(lambda at, rest: self._along_side(source, target, at, rest))

    def _along(self, square: Callable[[Val, Val | None], None]) -> None:
        """Whole squares along the depth, then what is left over, with the number of turns there."""
        k = self.k
        full = k.mul(k.floordiv(self.long, DEPTH), DEPTH)
        k.loop(0, full, DEPTH, [], lambda at, _: square(at, None))
        rest = k.sub(self.long, full)
        if rest.const != 0:
            k.if_(k.gt(rest, 0), lambda: square(full, rest))

    def _place(self, target: Val, side: Val, depth: Val) -> Val:
        """Address of a square, by its first row or column and its first turn along the depth."""
        k = self.k
        return k.add(k.add(target, k.mul(side, self.slab.deep * SIDE)), k.mul(depth, SQUARE // DEPTH))

    # ---- memory follows the depth --------------------------------------------------------------------------------

    def _lines_along_depth(self, source: Val, target: Val, first: Val) -> None:
        k = self.k
        begins = []
        for number in range(SIDE):
            line = k.add(first, number)
            if self.wide.const is None or self.wide.const % SIDE:
                line = k.min(line, k.sub(self.wide, 1))
            begins.append(k.add(source, k.mul(line, self.across)))

        def square(at: Val, rest: Val | None) -> None:
            mask = None if rest is None else k.mask(rest, DEPTH)
            lines = [k.pairs(k.load(self.source, k.add(b, at), DEPTH, mask, 0, raw=True)) for b in begins]
            self._store(lines if self.as_rows else transpose(k, lines, self.machine), self._place(target, first, at))

        self._along(square)

    def _store(self, lines: Sequence[Val], place: Val) -> None:
        for number, line in enumerate(lines):
            self.k.store(self.memory, self.k.add(place, number * SIDE), line)

    # ---- memory follows the rows or columns ----------------------------------------------------------------------

    def _along_side(self, source: Val, target: Val, at: Val, rest: Val | None) -> None:
        k = self.k
        begin = k.add(source, k.mul(at, self.down))
        if self.as_rows:
            self._lines(SIDE, rest, lambda first, mask: self._rows(begin, target, first, at, mask, rest))
            return

        def pairs(number: Val) -> None:
            self._lines(DEPTH, rest, lambda first, mask: self._columns(begin, target, first, at, number, mask, rest))

        k.loop(0, SIDE, _AT_ONCE, [], lambda number, _: pairs(number))

    def _lines(self, lanes: int, rest: Val | None, work: Callable[[Val, Val | None], None]) -> None:
        """Loops along the memory; the last turn has a mask, and all of them where the depth ends."""
        k = self.k
        full = k.index(0) if rest is not None else k.mul(k.floordiv(self.wide, lanes), lanes)
        k.loop(0, full, lanes, [], lambda first, _: work(first, None))
        if self.wide.const is None or full.const != self.wide.const:
            last = self.wide
            k.loop(full, last, lanes, [], lambda first, _: work(first, k.mask(k.sub(last, first), lanes)))

    def _pair(self, source: Val, pair: Val, lanes: int, mask: Val | None, rest: Val | None) -> tuple[Val, Val]:
        """Two lines next to each other along the depth."""
        k = self.k
        found = []
        for number in (0, 1):
            turn = k.add(k.mul(pair, 2), number)
            inside = mask
            if rest is not None and mask is not None:
                inside = k.and_(mask, k.broadcast(k.lt(turn, rest), lanes))
            found.append(k.load(self.source, k.add(source, k.mul(turn, self.down)), lanes, inside, 0, raw=True))
        return found[0], found[1]

    def _rows(self, begin: Val, target: Val, first: Val, at: Val, mask: Val | None, rest: Val | None) -> None:
        """A square of rows: pairs are interleaved, then transposed."""
        k = self.k
        lines = []
        for pair in range(SIDE):
            low, high = self._pair(k.add(begin, first), k.index(pair), SIDE, mask, rest)
            lines.append(k.pairs(k.shuffle(low, high, _interleaved(0, SIDE))))
        self._store(transpose(k, lines, self.machine), self._place(target, first, at))

    def _columns(
        self, begin: Val, target: Val, first: Val, at: Val, number: Val, mask: Val | None, rest: Val | None
    ) -> None:
        """Some lines of two squares of columns."""
        k = self.k
        places = [self._place(target, k.add(first, half), at) for half in (0, SIDE)]
        for part in range(_AT_ONCE):
            pair = k.add(number, part)
            low, high = self._pair(k.add(begin, first), pair, DEPTH, mask, rest)
            for place, half in zip(places, (0, SIDE), strict=True):
                line = k.pairs(k.shuffle(low, high, _interleaved(half, DEPTH)))
                k.store(self.memory, k.add(place, k.mul(pair, SIDE)), line)


def _interleaved(first: int, lanes: int) -> list[int]:
    """`SIDE` lanes of two vectors from one on, in turn."""
    return [first + lane // 2 + lanes * (lane % 2) for lane in range(2 * SIDE)]
