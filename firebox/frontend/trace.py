"""Recording: what operators append to the graph, and the state of a thread in which they do."""

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from firebox.dialects.nd.base import NdOp
from firebox.errors import DeviceError, FireboxError
from firebox.frontend import locations
from firebox.frontend.devices import current_device
from firebox.frontend.entries import Entry, entry_of
from firebox.frontend.graph import Node, RegionNode, Var
from firebox.runtime.device import Device

if TYPE_CHECKING:
    from firebox.frontend.random import Generator
    from firebox.frontend.slots import Slot


# ---- the state of a thread ---------------------------------------------------------------------------------------


class Trace:
    """A function being traced: what its cells hold inside.

    Attributes:
        parent: the trace around it.
        reads: placeholders that stand for cells inside.
        writes: values written to cells inside.
        parts: views of flat storage made inside, by cell and flat tensor.
    """

    def __init__(self, parent: "Trace | None") -> None:
        self.parent = parent
        self.reads: dict[Slot, Var] = {}
        self.writes: dict[Slot, Var | None] = {}
        self.parts: dict[tuple[Slot, Var], Var] = {}

    def read(self, slot: "Slot") -> Var | None:
        """The value of a cell inside this trace."""
        trace: Trace | None = self
        outermost = self
        while trace is not None:
            if slot in trace.writes:
                return trace.writes[slot]
            if slot in trace.reads:
                return trace.reads[slot]
            outermost, trace = trace, trace.parent
        return outermost.enter(slot)

    def enter(self, slot: "Slot") -> Var | None:
        """The value with which a cell comes in from outside of all traces."""
        return slot.own() if slot.storage is None or slot.is_written() else slot.storage.part(slot)

    def draw(self, generator: "Generator", blocks: int, device: Device) -> tuple[Var, int] | None:
        """Key and static offset of random blocks that a compiled function takes as an input; None outside of one."""
        return self.parent.draw(generator, blocks, device) if self.parent is not None else None

    def check_transfer(self, source: Device, target: Device) -> None:
        """A value goes to another device. Raises DeviceError where the function is compiled as one program."""
        if self.parent is not None:
            self.parent.check_transfer(source, target)

    def note_mode(self, owner: Any, name: str, value: bool) -> None:
        """The function's course depends on this attribute."""
        if self.parent is not None:
            self.parent.note_mode(owner, name, value)


class Mode:
    """An attribute on which a function's course depends, such as ``training``: code is compiled for one value."""

    def __init__(self, default: bool) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type | None = None) -> bool:
        if owner is None:
            return self.default
        value: bool = vars(owner).get(self.name, self.default)
        if STATE.trace is not None:
            STATE.trace.note_mode(owner, self.name, value)
        return value

    def __set__(self, owner: Any, value: bool) -> None:
        vars(owner)[self.name] = value


Pending = list[weakref.ref[Any]]
"""Holders of values recorded outside of traces since the last program; a holder that died is asked for no more."""

_pending: dict[threading.Thread, Pending] = {}


class State(threading.local):
    """What a thread is doing: the innermost trace, whether derivatives are recorded, what is pending.

    Programs are made of what one thread has recorded, so that they do not depend on how far others have come.
    """

    trace: Trace | None = None
    grad: bool = True

    def __init__(self) -> None:
        self.pending: Pending = []
        self.unreported: list[Exception] = []
        _pending[threading.current_thread()] = self.pending

    def report(self) -> None:
        """Raise the error of a program whose cells have gone back to what they held, unless it was raised before."""
        if self.unreported:
            raise self.unreported.pop(0)

    def others(self) -> Iterator[Pending]:
        """What other threads have pending; what is left by one that has ended is this one's from now on."""
        if len(_pending) > 1:
            for thread, pending in list(_pending.items()):
                if not thread.is_alive():
                    self.pending += _pending.pop(thread, [])
                elif pending is not self.pending:
                    yield pending


STATE = State()


# ---- recording ---------------------------------------------------------------------------------------------------


def record(
    op: type[NdOp], operands: Sequence[Var], params: dict[str, Any], device: Device | None = None
) -> Sequence[Var]:
    """Append one op; returns its results.

    Args:
        operands: values of one device.
        device: of the result when no operand lives anywhere; the default device when it is None.

    Raises:
        UserError: the op does not take such operands. DeviceError: operands of several devices.
    """
    return record_entry(entry_of(op, operands, params), operands, device)


def record_entry(entry: Entry, operands: Sequence[Var], device: Device | None = None) -> Sequence[Var]:
    """As `record`, with an op on operands of those types that is known to fit."""
    tracked = False
    for var in operands:
        if var.tracked:
            tracked = True
        if var.device is not device and var.device is not None:
            if device is not None:
                raise _mixed_devices(entry, operands, device)
            device = var.device
    if device is None:
        device = current_device()
    node = Node(entry, tuple(operands), locations.capture(3), tracked)
    if tracked and not STATE.grad:
        node.cut = True
        node.tracked = tracked = False
    results, floats = entry.results, entry.floats
    if len(results) == 1:
        return (Var(results[0], device, node, 0, tracked and floats[0]),)
    return [Var(a, device, node, k, tracked and floats[k]) for k, a in enumerate(results)]


def record_region(node: RegionNode, device: Device) -> list[Var]:
    """The results of a region op."""
    entry = node.entry
    results = [Var(a, device, node, k, node.tracked and entry.floats[k]) for k, a in enumerate(entry.results)]
    node.live = [weakref.ref(v) for v in results]
    return results


def _mixed_devices(entry: Entry, operands: Sequence[Var], device: Device) -> FireboxError:
    op = "a function" if entry.body is not None else entry.op.name.partition(".")[2]
    values = [(str(v.aval), v.device) for v in operands if v.device is not None]
    if all(found is not device for _, found in values):
        values.append(("the result", device))
    return mixed_devices(op, values)


def mixed_devices(op: str, values: Sequence[tuple[str, Device]]) -> FireboxError:
    """The error for values, each with what to call it, that live on several devices."""
    moves = dict.fromkeys(f'x.to("{device.name}")' for _, device in values)
    return DeviceError(
        "operands live on different devices",
        op=op,
        expected="one device",
        found=", ".join(f"{name} on {device.name}" for name, device in values),
        hint=f"move one of them: {' or '.join(moves)}",
    )
