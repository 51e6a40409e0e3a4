"""`GroupTree`: the states of the work-items that share a row, combined through local memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.base import NdOp
from firebox.dtypes import DType
from firebox.lowering.generate.stages import State, combine_all, flatten, group_like

_ONE_STEP = 8
"""So many states every work-item combines on its own; of more, some items combine columns of a square first."""

_TOGETHER = 4
"""Scalar states that are loaded as one vector."""


@dataclass
class GroupTree:
    """Combines states over the items of a row, in an order that depends on their number only.

    Attributes:
        k: the builder.
        items: work-items of a row, a power of two.
        item: number of this one in its row.
        first: slot of the row's item 0.
        apart: slots from one item of a row to the next.
    """

    k: KernelBuilder
    items: int
    item: Val
    first: Val
    apart: int
    _arrays: dict[tuple[int, DType, int], Ref] = field(default_factory=dict)
    _levels: int = 0

    def combined(self, ops: Sequence[NdOp], states: list[State]) -> list[State]:
        """The states of the whole row, in every item of it; all items of the group must come here."""
        if self.items == 1 or not ops:
            return states
        self._levels += 1
        if self.items <= _ONE_STEP:  # arrays in turn, so that nobody writes what others still read
            return self._exchanged(self._levels % 2, ops, states, self.items)
        width = 1 << (self.items.bit_length() // 2)
        self._put(0, states)
        self.k.barrier()
        self.k.if_(self.k.lt(self.item, width), lambda: self._put(1, self._column(ops, states, width)))
        self.k.barrier()
        return combine_all(self.k, ops, self._first(1, states, width))

    def _exchanged(self, array: int, ops: Sequence[NdOp], states: list[State], count: int) -> list[State]:
        self._put(array, states)
        self.k.barrier()
        return combine_all(self.k, ops, self._first(array, states, count))

    def _column(self, ops: Sequence[NdOp], states: list[State], width: int) -> list[State]:
        """The states of the items that are a multiple of the width away from this one."""
        own = self._slot_of(self.item)
        slots = [self.k.add(own, number * width * self.apart) for number in range(self.items // width)]
        return combine_all(self.k, ops, [self._get(0, states, slot) for slot in slots])

    def _first(self, array: int, like: list[State], count: int) -> list[list[State]]:
        """The states of the first items of the row; scalars that lie next to each other as vectors."""
        together = min(count, _TOGETHER)
        if self.apart != 1 or any(value.lanes > 1 for value in flatten(like)) or together == 1:
            return [self._get(array, like, self.k.add(self.first, n * self.apart)) for n in range(count)]
        found = []
        for start in range(0, count, together):
            slot = self.k.add(self.first, start)
            vectors = [
                self.k.load(self._array(array, value, part), slot, together) for part, value in enumerate(flatten(like))
            ]
            found += [group_like([self.k.extract(v, n) for v in vectors], like) for n in range(together)]
        return found

    def _slot_of(self, item: Val) -> Val:
        return self.k.add(self.first, self.k.mul(item, self.apart))

    def _put(self, array: int, states: list[State]) -> None:
        slot = self._slot_of(self.item)
        for part, value in enumerate(flatten(states)):
            self.k.store(self._array(array, value, part), self.k.mul(slot, value.lanes), value)

    def _get(self, array: int, like: list[State], slot: Val) -> list[State]:
        found = [
            self.k.load(self._array(array, value, part), self.k.mul(slot, value.lanes), value.lanes)
            for part, value in enumerate(flatten(like))
        ]
        return group_like(found, like)

    def _array(self, array: int, value: Val, part: int) -> Ref:
        """Local memory with a slot for each item; levels share it."""
        key = (array, value.dtype, part)
        if key not in self._arrays:
            self._arrays[key] = self.k.alloc_local(value.dtype, self.k.group * value.lanes)
        return self._arrays[key]


def local_bytes(items: int, group: int, lanes: int, itemsizes: Sequence[int]) -> int:
    """Local memory of a tree for the parts of the states of one level."""
    return 0 if items == 1 else 2 * group * lanes * sum(itemsizes)
