"""Merge sort of words by work-groups: what `nd.sort` and `nd.scatter_add` have in common.

A word is an unsigned integer of 64 bits (a key of 32 bits and a position of 32 bits), or a pair of them (key and
position). As no two words of a row are equal, the order is total and sorting is stable; the greatest word of all fills
what is missing at the end of a row. A *tile* is what a group holds in local memory, 8 words for each work-item. First
every tile is sorted: each work-item sorts 8 words in registers with a network, then runs are merged in local memory.
Then kernels merge runs of whole tiles, each from one half of the workspace to the other: a binary search says which
words of the two runs go to a tile of the result (O. Green, R. McColl, D. Bader, GPU Merge Path, ICS 2012), and another
one does so for each work-item.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import INDEX, KernelBuilder, Ref, Val
from firebox.dims import DimLike
from firebox.dtypes import bool_, u64
from firebox.lowering.generate.frame import Frame
from firebox.lowering.generate.gpu.local import padded, padded_size
from firebox.lowering.generate.sort import NETWORK
from firebox.runtime.opencl_target import OpenClTarget

Word = list[Val]
"""Key and position packed, or (key, position)."""

EACH = 8
"""Words of a work-item."""
ITEMS = 512
"""Work-items of a group at most."""
SHORT_ITEMS = 128
"""Work-items of a group whose rows are shorter than a tile."""
WORD = 8
MAX_SIZE = 1 << 31
"""Rows of unknown size are shorter than that."""


def items_for(size: DimLike, parts: int, target: OpenClTarget) -> int:
    """Work-items of a group: enough for a row, as long as its words fit in local memory."""
    room = target.local_bytes // (padded_size(EACH, WORD) * WORD * parts)
    most = min(ITEMS, target.max_group, 1 << (room.bit_length() - 1))
    if not isinstance(size, int):
        return most
    return max(min(SHORT_ITEMS, most), min(most, power(size) // EACH))


def power(number: int) -> int:
    """The power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


@dataclass(frozen=True)
class Plan:
    """How rows of words are divided.

    Attributes:
        rows: number of rows.
        size: words of a row.
        parts: integers of a word: 1 or 2.
        items: work-items of a group.
    """

    rows: DimLike
    size: DimLike
    parts: int
    items: int

    @property
    def tile(self) -> int:
        """Words of a group."""
        return self.items * EACH

    @property
    def segment(self) -> int:
        """Words of a row in a tile: several rows share one if they are short."""
        if not isinstance(self.size, int):
            return self.tile
        return min(self.tile, max(EACH, power(self.size)))

    @property
    def rows_per_tile(self) -> int:
        return self.tile // self.segment

    @property
    def is_local(self) -> bool:
        """Rows fit in a tile: there is nothing to merge."""
        return isinstance(self.size, int) and self.size <= self.tile

    @property
    def tiles(self) -> DimLike:
        """Groups that sort tiles."""
        if self.size == 0:
            return 0
        if self.is_local:
            return dims.ceildiv(self.rows, self.rows_per_tile)
        return dims.multiply(self.rows, dims.ceildiv(self.size, self.tile))

    @property
    def padded(self) -> DimLike:
        """Words kept of a row that does not fit in a tile."""
        return dims.multiply(dims.ceildiv(self.size, self.tile), self.tile)

    @property
    def half(self) -> DimLike:
        """Bytes of one half of the workspace."""
        return dims.product((self.rows, self.padded, self.parts * WORD))

    @property
    def workspace(self) -> DimLike:
        """Bytes for words on their way."""
        return 0 if self.is_local else dims.multiply(self.half, 2)

    @property
    def widths(self) -> tuple[int, ...]:
        """Lengths of the runs that each merging kernel starts from."""
        last = self.size if isinstance(self.size, int) else MAX_SIZE
        found, width = [], self.tile
        while width < last:
            found.append(width)
            width *= 2
        return tuple(found)

    def groups(self, width: int) -> DimLike:
        """Groups that merge runs of a length; 0 where a row is no longer than that."""
        if isinstance(self.size, int):
            return self.tiles
        return dims.multiply(self.tiles, dims.minimum(1, dims.floordiv(self.size - 1, width)))


class Words:
    """Words in one of the halves of the workspace, or in local memory."""

    def __init__(self, k: KernelBuilder, memory: Sequence[Ref], is_local: bool) -> None:
        self.k = k
        self.memory = list(memory)
        self.is_local = is_local

    @classmethod
    def local(cls, k: KernelBuilder, plan: Plan) -> "Words":
        """Room for a tile, and one word that is read but not used."""
        size = padded_size(plan.tile + 1, WORD)
        return cls(k, [k.alloc_local(u64, size) for _ in range(plan.parts)], True)

    @classmethod
    def half(cls, frame: Frame, plan: Plan, number: int) -> "Words":
        """A half of the workspace: first the keys, then the positions."""
        k = frame.k
        step = dims.product((plan.rows, plan.padded, WORD))
        offsets = [frame.body.expression(dims.multiply(step, number * plan.parts + part)) for part in range(plan.parts)]
        return cls(k, [k.view(k.workspace, offset, u64) for offset in offsets], False)

    def get(self, place: Val) -> Word:
        at = padded(self.k, place, WORD) if self.is_local else place
        return [self.k.load(ref, at) for ref in self.memory]

    def put(self, place: Val, word: Word) -> None:
        at = padded(self.k, place, WORD) if self.is_local else place
        for ref, part in zip(self.memory, word, strict=True):
            self.k.store(ref, at, part)


class Merger:
    """One of the kernels that sort rows of words; subclasses say what the words are and where they go.

    Attributes:
        frame: the kernel.
        plan: how rows are divided.
        rows_are_neighbours: elements of neighbouring rows, not of one row, are neighbours in memory.
    """

    rows_are_neighbours = False

    def __init__(self, frame: Frame, plan: Plan) -> None:
        self.frame, self.plan = frame, plan
        self.k = k = frame.k
        self.item = k.local_id()
        self.words = Words.local(k, plan)
        self.own = k.mul(self.item, EACH)

    def word(self, row: Val, column: Val) -> Word:
        """The word of an element."""
        raise NotImplementedError

    def deliver(self, row: Val, column: Val, word: Word) -> None:
        """Take a word that is at its final place."""
        raise NotImplementedError

    def is_last(self, width: int) -> Val:
        """Runs of this length are whole rows, so that words are delivered and not kept in the workspace."""
        return self.k.ge(self.k.index(width), self.frame.body.expression(self.plan.size))

    def build(self, number: int) -> FuncOp:
        """The finished kernel: the first one sorts tiles, each of the others doubles the length of runs."""
        k, plan = self.k, self.plan
        tiles = 1 if plan.is_local else dims.ceildiv(plan.size, plan.tile)
        row, tile = self.frame.split(k.group_id(), plan.rows, tiles)
        if number == 0:
            self._fill(row, tile)
            self.sort_tile()
            self._empty(row, tile, self.is_last(plan.tile), 0)
        else:
            width = plan.widths[number - 1]
            self.load_pair(Words.half(self.frame, plan, 1 - number % 2), row, tile, width)
            self._empty(row, tile, self.is_last(2 * width), number % 2)
        return k.finish()

    # ---- between a tile and rows ---------------------------------------------------------------------------------

    def _fill(self, row: Val, tile: Val) -> None:
        """Put the words of the tile; the greatest word where there is no element."""
        k = self.k
        size, rows = self.frame.body.expression(self.plan.size), self.frame.body.expression(self.plan.rows)
        for place in self.places():
            at, column, local = self._where(row, tile, place)
            inside = k.and_(k.lt(at, rows), k.lt(column, size))
            found = self.word(k.min(at, k.sub(rows, 1)), k.min(column, k.sub(size, 1)))
            self.words.put(local, [k.select(inside, part, k.const(-1, u64)) for part in found])

    def _empty(self, row: Val, tile: Val, is_last: Val, half: int) -> None:
        """Deliver the words of the tile, or write them to a half of the workspace."""
        k, plan = self.k, self.plan
        size, rows = self.frame.body.expression(plan.size), self.frame.body.expression(plan.rows)
        stride = self.frame.body.expression(plan.padded)
        target = Words.half(self.frame, plan, half)
        for place in self.places():
            at, column, local = self._where(row, tile, place)
            word = self.words.get(local)
            inside = k.and_(k.lt(at, rows), k.lt(column, size))
            kept = partial(target.put, k.add(k.mul(at, stride), column), word)
            k.if_(
                is_last,
                partial(k.if_, inside, partial(self.deliver, at, column, word)),
                partial(k.if_, inside if plan.is_local else k.const(True, bool_), kept),
            )

    def _where(self, row: Val, tile: Val, place: Val) -> tuple[Val, Val, Val]:
        """Row and column of what this work-item copies, and its place in the tile."""
        k, plan = self.k, self.plan
        if not plan.is_local:
            return row, k.add(k.mul(tile, plan.tile), place), place
        count = plan.rows_per_tile
        first = k.mul(row, count)
        if not self.rows_are_neighbours:
            return k.add(first, k.floordiv(place, plan.segment)), k.mod(place, plan.segment), place
        number, column = k.mod(place, count), k.floordiv(place, count)
        return k.add(first, number), column, k.add(k.mul(number, plan.segment), column)

    def places(self) -> list[Val]:
        """Numbers of what this work-item copies: neighbours have neighbouring numbers."""
        return [self.k.add(self.item, number * self.plan.items) for number in range(EACH)]

    # ---- words ---------------------------------------------------------------------------------------------------

    def less(self, a: Word, b: Word) -> Val:
        """The first word comes before the second."""
        k = self.k
        less = k.lt(a[0], b[0])
        return less if len(a) == 1 else k.or_(less, k.and_(k.eq(a[0], b[0]), k.lt(a[1], b[1])))

    def choose(self, condition: Val, a: Word, b: Word) -> Word:
        return [self.k.select(condition, x, y) for x, y in zip(a, b, strict=True)]

    # ---- a tile --------------------------------------------------------------------------------------------------

    def sort_tile(self) -> None:
        """Sort the segments of the tile; all work-items have put their words."""
        k = self.k
        k.barrier()
        self._replace(self._network([self.words.get(k.add(self.own, n)) for n in range(EACH)]))
        width = EACH
        while width < self.plan.segment:
            self._merge_runs(width)
            width *= 2

    def _replace(self, words: list[Word]) -> None:
        """Write the words of this work-item after all have read theirs."""
        self.k.barrier()
        for number, word in enumerate(words):
            self.words.put(self.k.add(self.own, number), word)
        self.k.barrier()

    def _network(self, words: list[Word]) -> list[Word]:
        for low, high in NETWORK:
            a, b = words[low], words[high]
            swap = self.less(b, a)
            words[low], words[high] = self.choose(swap, b, a), self.choose(swap, a, b)
        return words

    def _merge_runs(self, width: int) -> None:
        """Pairs of runs of a length in the tile."""
        k = self.k
        first = k.mul(k.floordiv(self.own, 2 * width), 2 * width)
        self.merge_local(first, k.index(width), k.index(width), k.sub(self.own, first))

    def merge_local(self, first: Val, left: Val, right: Val, start: Val) -> None:
        """Replace a run of ``left`` words at ``first`` and one of ``right`` words after it by their merger, as far as
        it is this work-item's: 8 words from ``start`` on."""
        k = self.k
        middle = k.add(first, left)
        taken = self.search(self.words, first, left, middle, right, start)
        self._replace(self._merged(first, left, middle, right, taken, k.sub(start, taken)))

    def _merged(self, first: Val, left: Val, middle: Val, right: Val, i: Val, j: Val) -> list[Word]:
        """The smaller of the next words of both runs, 8 times."""
        k = self.k
        a, b = self.words.get(k.add(first, i)), self.words.get(k.add(middle, j))
        found: list[Word] = []
        for number in range(EACH):
            take = k.and_(k.lt(i, left), k.or_(k.ge(j, right), self.less(a, b)))
            found.append(self.choose(take, a, b))
            if number == EACH - 1:
                break
            step = k.cast(take, INDEX)
            i, j = k.add(i, step), k.add(j, k.sub(1, step))
            after = self.words.get(k.select(take, k.add(first, i), k.add(middle, j)))
            a, b = self.choose(take, after, a), self.choose(take, b, after)
        return found

    # ---- the merge path ------------------------------------------------------------------------------------------

    def search(self, words: Words, first: Val, left: Val, middle: Val, right: Val, count: Val) -> Val:
        """How many of the first ``count`` words of the merger of two runs are from the left one."""
        k = self.k

        def halve(bounds: list[Val]) -> list[Val]:
            low, high = bounds
            low.nonneg = high.nonneg = True
            i = k.floordiv(k.add(low, high), 2)
            j = k.sub(k.sub(count, i), 1)
            before = self.less(words.get(k.add(first, i)), words.get(k.add(middle, j)))
            return [k.select(before, k.add(i, 1), low), k.select(before, high, i)]

        low, high = k.max(k.sub(count, right), 0), k.min(count, left)
        return k.while_([low, high], lambda bounds: k.lt(bounds[0], bounds[1]), halve)[0]

    def load_pair(self, source: Words, row: Val, tile: Val, width: int) -> None:
        """Bring the words that go to a tile, where runs of a length are merged, to local memory, and merge them."""
        k, plan = self.k, self.plan
        size = self.frame.body.expression(plan.padded)
        start = k.mul(tile, plan.tile)
        first = k.mul(k.floordiv(start, 2 * width), 2 * width)
        middle = k.min(k.add(first, width), size)
        end = k.min(k.add(first, 2 * width), size)
        base = k.mul(row, size)
        left, right = k.sub(middle, first), k.sub(end, middle)
        offset = k.sub(start, first)
        from_i, to_i = self._ends(source, k.add(base, first), left, k.add(base, middle), right, offset)
        from_left = k.sub(to_i, from_i)
        low = k.add(k.add(base, first), from_i)
        high = k.sub(k.add(k.add(base, middle), k.sub(offset, from_i)), from_left)
        for place in self.places():
            at = k.add(k.select(k.lt(place, from_left), low, high), place)
            self.words.put(place, source.get(at))
        k.barrier()
        self.merge_local(k.index(0), from_left, k.sub(plan.tile, from_left), self.own)

    def _ends(self, source: Words, first: Val, left: Val, middle: Val, right: Val, offset: Val) -> tuple[Val, Val]:
        """How many words of the left run come before the tile, and before its end: two work-items search at once."""
        k = self.k
        ends = k.alloc_local(u64, 2)
        side = k.mod(self.item, 2)
        count = k.add(offset, k.mul(side, self.plan.tile))
        found = self.search(source, first, left, middle, right, count)
        k.if_(k.lt(self.item, 2), lambda: k.store(ends, side, k.cast(found, u64)))
        k.barrier()
        return k.index(k.load(ends, 0)), k.index(k.load(ends, 1))
