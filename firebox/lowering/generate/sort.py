"""The kernel of `nd.sort`: a row at a time, by merging runs of words that hold a value's key and its position.

The key is an unsigned integer in the order of the values: sign bits flipped, all bits inverted to sort in descending
order, -0 equal to 0, all ones for NaN. With keys of 32 bits, key and position fill one 64-bit word; wider keys have
their positions beside them. As no two words are equal, the order is total and every way of sorting is stable. A row is
padded with the greatest word to full blocks of 8 x 8 words: a sorting network over 8 vectors sorts the columns of a
block, transposed they are runs of 8, and runs are merged from one half of the scratch to the other. Two runs of equal
length are merged from both ends at once: neither end can leave its run in as many steps as it has words, so there is
nothing to check. Short rows are transposed before as well: then a run is made of neighbours, and the runs that are all
padding need not be merged.
"""

from collections.abc import Sequence
from math import log2

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import INDEX, KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import i32, i64, u32, u64
from firebox.lowering.generate.frame import Frame, estimate, grain_of, three
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

Word = list[Val]
"""One word in each lane: key and position packed, or (key, position)."""

RUN = 8
BLOCK = RUN * RUN
SHORT_ROW = 4 * RUN
NETWORK = (
    (0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7), (0, 1), (2, 3),
    (4, 5), (6, 7), (2, 4), (3, 5), (1, 4), (3, 6), (1, 2), (3, 4), (5, 6),
)  # fmt: skip
"""Comparators that sort 8 values, the fewest possible (D. Knuth, The Art of Computer Programming 3, 5.3.4)."""


def schedule_sort(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a sort."""
    op = group.members[-1]
    size = estimate(op.operand_avals[0].shape[op.values["axis"]])
    return Schedule("sort", lanes=RUN, grain=grain_of(int(size * (8 + 4 * log2(size + 2)))))


def launch_sort(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """One unit a row; each thread needs room for two rows of words."""
    op = group.members[-1]
    x = op.operand_avals[0]
    outer, size, inner = three(x.shape, op.values["axis"])
    if x.size == 0:
        return (Launch(0, 1),)
    scratch = dims.multiply(_padded(size), 2 * 8 * (1 if is_packed(x) else 2))
    return (Launch(dims.multiply(outer, inner), schedule.grain, scratch),)


def generate_sort(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled sort."""
    return Kernels((SortKernel(group, dim_order, op_ids).build(),))


def _padded(size: DimLike) -> DimLike:
    """The size in full blocks."""
    return dims.multiply(dims.ceildiv(size, BLOCK), BLOCK)


def is_packed(x: Aval) -> bool:
    """Key and position of an element fill one word."""
    return x.dtype.compute.itemsize <= 4


class SortKernel:
    """Builds the kernel of one sort."""

    def __init__(self, group: GroupOp, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.frame = frame = Frame.of(group, dim_order, op_ids)
        self.k = k = frame.k
        x, params = frame.op.operand_avals[0], frame.op.values
        self.descending: bool = params["descending"]
        self.packed = is_packed(x)
        self.source = frame.operand(0)
        self.outer, size, self.inner = three(x.shape, params["axis"])
        self.size, self.padded = frame.body.expression(size), frame.body.expression(_padded(size))
        self.stride = frame.body.expression(self.inner)
        self.short = isinstance(size, int) and size <= SHORT_ROW
        self.limit = self.size if self.short else self.padded
        halves = k.mul(self.padded, 2 * 8)
        self.words: list[Ref] = [k.view(k.scratch, 0, u64)]
        if not self.packed:
            self.words.append(k.view(k.scratch, halves, u64))
        self.base = k.index(0)

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        k.loop(k.begin, k.end, 1, [], lambda unit, _: self._unit(unit))
        return k.finish()

    def _unit(self, unit: Val) -> None:
        k = self.k
        outer, inner = self.frame.split(unit, self.outer, self.inner)
        self.base = k.add(k.mul(k.mul(outer, self.size), self.stride), inner)
        full = k.mul(k.floordiv(self.size, RUN), RUN)
        k.loop(0, full, RUN, [], lambda p, _: self._fill(p, None))
        k.loop(full, self.padded, RUN, [], lambda p, _: self._fill(p, self._mask(p)))
        k.loop(0, self.padded, BLOCK, [], lambda p, _: self._sort_block(p))
        half = self._merge_all()
        k.loop(0, full, RUN, [], lambda p, _: self._write(p, half, None))
        k.if_(k.lt(full, self.size), lambda: self._write(full, half, self._mask(full)))

    def _mask(self, position: Val) -> Val:
        return self.k.mask(self.k.max(self.k.sub(self.size, position), 0), RUN)

    # ---- rows in memory ------------------------------------------------------------------------------------------

    def _fill(self, position: Val, mask: Val | None) -> None:
        """Words of 8 elements; the greatest word beyond the end of the row."""
        k = self.k
        places = k.add(k.iota(RUN, i64), position)
        if self.inner == 1:
            value = k.load(self.source, k.add(self.base, position), RUN, mask)
        else:
            value = k.gather(self.source, self._elements(places), mask)
        word = word_of(k, value, places, self.descending)
        if mask is not None:
            word = [k.select(mask, part, k.const(-1, u64)) for part in word]
        self._put(position, word)

    def _write(self, position: Val, half: Val, mask: Val | None) -> None:
        """Values and positions of 8 words to the results."""
        k = self.k
        word = self._get(k.add(half, position), RUN)
        origin = k.cast(k.and_(word[0], 0xFFFFFFFF) if self.packed else word[1], i64)
        values, indices = self.frame.op.results
        if values in self.frame.outputs:
            picked = k.gather(self.source, self._elements(origin), mask, raw=True)
            self._write_to(self.frame.outputs[values], position, picked, mask)
        if indices in self.frame.outputs:
            self._write_to(self.frame.outputs[indices], position, origin, mask)

    def _write_to(self, target: Ref, position: Val, value: Val, mask: Val | None) -> None:
        k = self.k
        if self.inner == 1:
            k.store(target, k.add(self.base, position), value, mask, raw=True)
        else:
            k.scatter(target, self._elements(k.add(k.iota(RUN, i64), position)), value, mask, raw=True)

    def _elements(self, places: Val) -> Val:
        """Offsets of elements of the row."""
        return self.k.add(self.k.mul(places, self.stride), self.base)

    # ---- words ---------------------------------------------------------------------------------------------------

    def _get(self, place: Val, lanes: int = 1) -> Word:
        return [self.k.load(ref, place, lanes) for ref in self.words]

    def _put(self, place: Val, word: Word) -> None:
        for ref, part in zip(self.words, word, strict=True):
            self.k.store(ref, place, part)

    def _less(self, a: Word, b: Word) -> Val:
        k = self.k
        less = k.lt(a[0], b[0])
        return less if self.packed else k.or_(less, k.and_(k.eq(a[0], b[0]), k.lt(a[1], b[1])))

    def _choose(self, condition: Val, a: Word, b: Word) -> Word:
        return [self.k.select(condition, x, y) for x, y in zip(a, b, strict=True)]

    # ---- runs of 8 -----------------------------------------------------------------------------------------------

    def _sort_block(self, first: Val) -> None:
        """64 words become 8 sorted runs."""
        k = self.k
        rows = [self._get(k.add(first, RUN * row), RUN) for row in range(RUN)]
        rows = self._transposed(rows) if self.short else rows
        for low, high in NETWORK:
            a, b = rows[low], rows[high]
            if self.packed:
                rows[low], rows[high] = [k.min(a[0], b[0])], [k.max(a[0], b[0])]
            else:
                swap = self._less(b, a)
                rows[low], rows[high] = self._choose(swap, b, a), self._choose(swap, a, b)
        for row, word in enumerate(self._transposed(rows)):
            self._put(k.add(first, RUN * row), word)

    def _transposed(self, rows: list[Word]) -> list[Word]:
        """Exchange single lanes between neighbouring rows, then pairs, then fours."""
        for step in (1, 2, 4):
            low = [lane if not lane & step else RUN + lane - step for lane in range(RUN)]
            high = [lane + step if not lane & step else RUN + lane for lane in range(RUN)]
            rows = [
                self._mixed(rows[row], rows[row + step], low)
                if not row & step
                else self._mixed(rows[row - step], rows[row], high)
                for row in range(RUN)
            ]
        return rows

    def _mixed(self, a: Word, b: Word, lanes: list[int]) -> Word:
        return [self.k.shuffle(x, y, lanes) for x, y in zip(a, b, strict=True)]

    # ---- merging -------------------------------------------------------------------------------------------------

    def _merge_all(self) -> Val:
        """Merge runs until one is left; the half of the scratch that holds it."""
        k = self.k

        def level(values: list[Val]) -> list[Val]:
            width, half = values
            other = k.sub(self.padded, half)
            double = k.mul(width, 2)
            k.loop(0, self.limit, double, [], lambda first, _: self._merge(first, width, half, other))
            return [double, other]

        return k.while_([k.index(RUN), k.index(0)], lambda values: k.lt(values[0], self.limit), level)[1]

    def _merge(self, first: Val, width: Val, half: Val, other: Val) -> None:
        """Merge the run that starts at ``first`` with the one after it, which may be short or missing."""
        k = self.k
        end = k.add(first, k.mul(width, 2))
        k.if_(
            k.le(end, self.padded),
            lambda: self._merge_equal(k.add(half, first), width, k.add(other, first)),
            lambda: self._merge_ragged(first, k.min(k.add(first, width), self.padded), half, other),
        )

    def _merge_equal(self, first: Val, width: Val, target: Val) -> None:
        """From the front the smaller of the two next words, from the back the greater, as many as a run has."""
        k = self.k
        front = k.add(k.mul(first, 2), width)  # sum of the two places read next
        back = k.add(front, k.mul(k.sub(width, 1), 2))
        last = k.add(target, k.sub(k.mul(width, 2), 1))

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            low, high = carried
            a, b = self._get(low), self._get(k.sub(k.add(front, number), low))
            right_first = self._less(b, a)
            self._put(k.add(target, number), self._choose(right_first, b, a))
            c, d = self._get(high), self._get(k.sub(k.sub(back, number), high))
            left_last = self._less(d, c)
            self._put(k.sub(last, number), self._choose(left_last, c, d))
            return [k.add(low, self._one(k.not_(right_first))), k.sub(high, self._one(left_last))]

        k.loop(0, width, 1, [first, k.add(first, k.sub(width, 1))], turn)

    def _one(self, condition: Val) -> Val:
        """1 or 0: arithmetic in place of a branch that nothing could predict."""
        return self.k.cast(self.k.cast(condition, i64), INDEX)

    def _merge_ragged(self, first: Val, middle: Val, half: Val, other: Val) -> None:
        """The words from ``first`` to ``middle`` with those from there to the end of the row."""
        k, end = self.k, self.padded

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            (left,) = carried
            right = k.sub(k.add(middle, number), left)
            a = self._get(k.add(half, k.min(left, k.sub(middle, 1))))
            b = self._get(k.add(half, k.min(right, k.sub(end, 1))))
            take_right = k.or_(k.ge(left, middle), k.and_(k.lt(right, end), self._less(b, a)))
            self._put(k.add(other, number), self._choose(take_right, b, a))
            return [k.add(left, self._one(k.not_(take_right)))]

        k.loop(first, end, 1, [first], turn)


def word_of(k: KernelBuilder, value: Val, place: Val, descending: bool) -> Word:
    """The word of an element with its place (i64) in the row; packed where the key has 32 bits."""
    key, position = _key(k, value, descending), k.cast(place, u64)
    return [k.or_(k.shl(k.cast(key, u64), 32), position)] if key.dtype is u32 else [key, position]


def _key(k: KernelBuilder, value: Val, descending: bool) -> Val:
    """An unsigned integer of 32 or 64 bits that is ordered as the values are to be."""
    dtype, narrow = value.dtype, value.dtype.itemsize <= 4
    unsigned = u32 if narrow else u64
    if not dtype.is_signed:
        key = k.cast(value, unsigned)
    else:
        signed, sign = (i32, 1 << 31) if narrow else (i64, 1 << 63)
        bits = k.bitcast(k.add(value, 0.0), signed) if dtype.is_float else k.cast(value, signed)
        flipped = k.const(sign, signed)  # negative floats grow in magnitude: all their bits turn over
        key = k.xor(bits, k.or_(k.shr(bits, sign.bit_length() - 1), flipped) if dtype.is_float else flipped)
        key = k.cast(key, unsigned)
    if descending:
        key = k.not_(key)
    return k.select(k.isnan(value), k.const(-1, unsigned), key) if dtype.is_float else key
