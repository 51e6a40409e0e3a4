"""Places of changeable values, below the level of tensors: `Slot` for one, `Storage` for several in one flat value."""

import weakref
from collections.abc import Sequence

from firebox import dims
from firebox.dialects.nd.base import lookup
from firebox.errors import UserError
from firebox.frontend.graph import CutVar, Failure, LeafVar, Var
from firebox.frontend.trace import STATE, record

ALIGNMENT = 256
"""Bytes between the starts of two values in flat storage."""


class Slot:
    """The place of one changeable value. Identity matters: traces know what they read and write by it.

    Attributes:
        grad: the slot where gradients by this value land; None for values that take none.
        storage: the flat storage that holds the value, if any, and `position` its number there.
        is_flat: the storage whose flat value this is, if it is one's.
        tracks: whether values keep their derivatives here (those of a gradient may have some).
    """

    __slots__ = ("__weakref__", "_before", "_value", "grad", "is_flat", "position", "storage", "tracks")

    def __init__(self, value: Var | None = None, tracks: bool = False) -> None:
        self.tracks = tracks
        self.grad: Slot | None = None
        self.storage: Storage | None = None
        self.is_flat: Storage | None = None
        self.position = 0
        self._value: Var | None = None
        self._before: Var | None = None
        self._keep(value)

    @property
    def _var(self) -> Var | None:
        """What the next program has to compute for this slot, under the name that holders of pending values use."""
        return self._value

    def get(self) -> Var | None:
        """The value, as the current trace sees it."""
        current = STATE.trace
        if current is None:
            STATE.report()
            return self._value if self.storage is None else self.storage.part(self)
        return current.read(self)

    def set(self, value: Var | None) -> None:
        """A new value, inside of the current trace if there is one."""
        leaf = self.as_leaf(value)
        current = STATE.trace
        if current is not None:
            current.writes[self] = leaf
            return
        self._keep(leaf)
        if self.storage is not None:
            self.storage.note_write(self)
        elif self.is_flat is not None:
            self.is_flat.forget_parts()

    def base(self) -> Var | None:
        """The value outside of all traces."""
        return self._value if self.storage is None else self.storage.part(self)

    def own(self) -> Var | None:
        """The value that this slot holds itself, outside of all traces and of flat storage."""
        return self._value

    def is_written(self) -> bool:
        """Whether flat storage has not yet taken in the value that this slot holds."""
        return self.storage is not None and self._value is not None

    def drop(self) -> None:
        """Hold nothing: flat storage has the value."""
        self._value = None

    def _keep(self, value: Var | None) -> None:
        before = self._before or self._value
        self._value, self._before = value, None
        if value is not None and value.buffer is None:
            STATE.pending.append(weakref.ref(self))
            if before is not None and before.buffer is not None and type(before.buffer) is not Failure:
                self._before = before

    def take_before(self) -> Var | None:
        """The last computed value before the pending one, for which the slot must go back if that fails; given once."""
        before, self._before = self._before, None
        return before

    def as_leaf(self, value: Var | None) -> Var | None:
        """The value as one that gradients are taken by, if this slot wants them; else as one that takes none."""
        if value is None or self.tracks:
            return value
        if self.grad is None:
            return detached(value)
        if type(value) is LeafVar and value.grad is self.grad:
            return value
        return LeafVar(value, self.grad)


def detached(var: Var) -> Var:
    """The same value without derivatives."""
    if not var.tracked:
        return var
    if var.buffer is None and var.node is None:  # a placeholder
        return record(lookup("nd.stop_gradient"), (var,), {})[0]
    return CutVar(var.aval, var.device, var.node, var.index, False, var.buffer)


class Storage:
    """Several slots' values in one flat value, each a view of it.

    Args:
        slots: of one element type and device.
        names: of the slots, for messages.

    Attributes:
        flat: the slot of the flat value.
        offsets: first element of each slot's value.
        size: number of elements.

    Raises:
        UserError: no slots, one that is in flat storage already, several types or devices, or inside a traced function.
    """

    def __init__(self, slots: Sequence[Slot], align: int = ALIGNMENT) -> None:
        self.slots = tuple(slots)
        values = self._checked()
        self.avals = [v.aval for v in values]
        step = max(1, align // values[0].aval.dtype.itemsize)
        offsets, end = [], 0
        for aval in self.avals:
            offsets.append(end)
            end += -(-dims.evaluate(aval.size, {}) // step) * step
        self.offsets = tuple(offsets)
        self.size = max(end, 1)
        self._written: set[Slot] = set()
        self._parts: dict[Slot, Var] = {}
        self.flat = Slot(self._packed(values))
        self.flat.is_flat = self
        for position, slot in enumerate(self.slots):
            slot.storage, slot.position = self, position
            slot.drop()

    def _checked(self) -> list[Var]:
        values = [v for slot in self.slots if (v := slot.get()) is not None]
        if not values:
            raise UserError("flat storage needs at least one cell", op="Flat")
        if any(slot.storage is not None for slot in self.slots):
            raise UserError("a cell is in flat storage already", op="Flat")
        if STATE.trace is not None:
            raise UserError("flat storage cannot be made inside a traced function", op="Flat")
        kinds = {(v.aval.dtype.name, v.device.name): None for v in values}
        if len(kinds) > 1:
            raise UserError("cells of one element type and device only", op="Flat", found=list(kinds))
        return values

    def _packed(self, values: Sequence[Var]) -> Var:
        plain = [detached(v) for v in values]
        return record(lookup("nd.pack"), plain, {"offsets": self.offsets, "size": self.size})[0]

    def read(self) -> Var:
        """The flat value, with what was written to single slots."""
        self.sync()
        value = self.flat.get()
        assert value is not None
        return value

    def write(self, value: Var) -> None:
        """A new flat value."""
        self._forget_writes()
        self.flat.set(value)

    def sync(self) -> None:
        """Take in what was written to single slots."""
        if self._dirty():
            values = [v for slot in self.slots if (v := slot.get()) is not None]
            self._forget_writes()
            self.flat.set(self._packed(values))

    def _dirty(self) -> bool:
        current = STATE.trace
        return bool(self._written) if current is None else any(slot in current.writes for slot in self.slots)

    def _forget_writes(self) -> None:
        current = STATE.trace
        if current is not None:
            for slot in self.slots:
                current.writes.pop(slot, None)
            return
        for slot in self._written:
            slot.drop()
        self._written.clear()

    def forget_parts(self) -> None:
        """Drop the views made of the flat value: they would keep its memory from being reused."""
        self._parts.clear()

    @property
    def is_dirty(self) -> bool:
        """Whether a single slot was written, outside of traces, since the flat value was last read."""
        return bool(self._written)

    def part(self, slot: Slot) -> Var:
        """The value of one slot: what was written to it, else its view of the flat value."""
        current = STATE.trace
        written = slot.own()
        if current is None and written is not None:
            return written
        flat = self.flat.get()
        assert flat is not None
        known = self._parts.get(slot) if current is None else current.parts.get((slot, flat))
        if known is None:
            params = {"offset": (self.offsets[slot.position],), "shape": self.avals[slot.position].shape}
            known = slot.as_leaf(record(lookup("nd.view"), (flat,), params)[0])
            assert known is not None
            if current is None:
                self._parts[slot] = known
            else:
                current.parts[(slot, flat)] = known
        return known

    def note_write(self, slot: Slot) -> None:
        """A single slot was written: the flat value takes it in when it is read next."""
        self._parts.pop(slot, None)
        self._written.add(slot)
