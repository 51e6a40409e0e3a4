"""Values on their way to another device.

A transfer is recorded like an op, but no program has one in it: a program runs on one device. What is behind a transfer
is computed by a program of its own device, then copied; `execute` splits what is pending at the transfers.
"""

import weakref
from collections.abc import Sequence

from firebox.dialects.nd.base import lookup
from firebox.frontend import locations
from firebox.frontend.devices import move
from firebox.frontend.entries import entry_of
from firebox.frontend.graph import Failure, Node, ScalarVar, Var
from firebox.frontend.trace import STATE
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer


class TransferNode(Node):
    """The copy of a value on another device; its op says no more than that the value stays the same.

    Attributes:
        target: the device it goes to.
        buffer: the copy, once it is made; a `Failure` when there is nothing to copy.
    """

    __slots__ = ("__weakref__", "buffer", "target")

    def __init__(self, source: Var, target: Device) -> None:
        super().__init__(entry_of(lookup("nd.stop_gradient"), (source,), {}), (source,), locations.capture(3), False)
        self.tracked = source.tracked and STATE.grad
        self.cut = source.tracked and not STATE.grad
        self.target = target
        self.buffer: Buffer | Failure | None = None
        WAITING.add(self)

    @property
    def source(self) -> Var:
        return self.operands[0]

    def take(self, buffer: Buffer | Failure) -> None:
        """Copy the value, which has been computed."""
        WAITING.discard(self)
        self.buffer = buffer if isinstance(buffer, Failure) else move(buffer, self.source.device, self.target)


WAITING: "weakref.WeakSet[TransferNode]" = weakref.WeakSet()
"""Transfers that have not been made."""


def transfer(var: Var, device: Device) -> Var:
    """The value on another device, copied when a program needs it.

    Raises:
        DeviceError: inside a function that is compiled as one program.
    """
    if var.device is device:
        return var
    if STATE.trace is not None:
        STATE.trace.check_transfer(var.device, device)
    if type(var) is ScalarVar:
        return ScalarVar(var.aval, var.data, device)
    node = TransferNode(var, device)
    return Var(var.aval, device, node, 0, node.tracked)


class Behind:
    """Transfers that wait to be made behind some values.

    Attributes:
        ready: those whose source is behind no other one.
    """

    def __init__(self, values: Sequence[Var]) -> None:
        self.ready: list[TransferNode] = []
        self._waits: dict[Node, bool] = {}
        for var in values:
            self._visit(var)

    def waits(self, var: Var) -> bool:
        """Whether one of the transfers has to be made before the value can be computed."""
        node = _pending_node(var)
        return node is not None and self._waits[node]

    def _visit(self, var: Var) -> None:
        root = _pending_node(var)
        stack = [] if root is None else [root]
        while stack:
            node = stack[-1]
            if node in self._waits:
                stack.pop()
                continue
            inputs = [n for v in node.inputs() if (n := _pending_node(v)) is not None]
            open_ = [n for n in inputs if n not in self._waits]
            if open_:
                stack.extend(open_)
                continue
            self._close(node, any(self._waits[n] for n in inputs))
            stack.pop()

    def _close(self, node: Node, waits: bool) -> None:
        if isinstance(node, TransferNode) and not waits:
            self.ready.append(node)
        self._waits[node] = waits or isinstance(node, TransferNode)


def _pending_node(var: Var) -> Node | None:
    """What computes a value that is not there yet; None for one that is, or that has been copied."""
    node = var.node
    if var.buffer is not None or node is None:
        return None
    return None if isinstance(node, TransferNode) and node.buffer is not None else node
