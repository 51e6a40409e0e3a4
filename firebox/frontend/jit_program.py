"""Compiled traces of `jit`: what they need of cells and random streams at a call, and the call."""

import sys
from collections.abc import Sequence
from typing import Any

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.dims import DimLike
from firebox.errors import FireboxError
from firebox.frontend import execute, tree
from firebox.frontend.backends import backend_of, bind
from firebox.frontend.devices import place_bytes
from firebox.frontend.entries import intern
from firebox.frontend.graph import CallNode, Failure, Node, Var
from firebox.frontend.jit_trace import TracedFunction
from firebox.frontend.stats import COUNTERS
from firebox.frontend.tensor import wrap
from firebox.frontend.trace import STATE, record_region
from firebox.lowering.options import Options
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer
from firebox.runtime.program import Guard

_ALONE = 3  # references to a buffer that only a list holds: the list's, the loop variable's, the call's


class MissError(Exception):
    """A prepared call does not fit any more."""


class Variant:
    """One compiled trace.

    Attributes:
        leaves: what it was traced for: an `Aval`, a `Scalar`, or a fixed value for each leaf of the arguments.
        traced: what tracing found.
    """

    def __init__(self, leaves: Sequence[Any], traced: TracedFunction, device: Device, options: Options) -> None:
        self.leaves = list(leaves)
        self.traced = traced
        self.device = device
        self.compiled = backend_of(device).compile(traced.plan, (), (), options)
        self.hidden = [(slot, traced.trace.reads[slot].aval, slot.is_flat) for slot in traced.trace.hidden]
        written = set(traced.written)
        first = len(traced.arguments)
        self.replaced = [(first + k, slot) for k, slot in enumerate(traced.trace.hidden) if slot in written]
        self.keys = [(generator, traced.trace.drawn[generator]) for generator in traced.trace.keys]
        self.constants = [execute.buffer_of(v) for v in traced.constants]
        self.absent = traced.trace.absent
        self.modes = traced.trace.modes
        self.dims = dims.names(*(d for v in traced.plan.inputs for d in v.aval.shape))
        self.is_static = not self.dims
        self.needs = _needs(traced.plan.nodes) if self.dims else ()
        self.returns = [v.tracked and not (v.node is not None and v.node.consumed) for v in traced.outputs]
        self.count = len(traced.outputs) - len(traced.written)
        only = traced.results == [0] and traced.structure == tree.LEAF
        self.single = only and not traced.written and not traced.emptied

    def accepts(self, sizes: Sequence[int]) -> bool:
        """Whether every op stays inside its operands for these values of the dims."""
        env = dict(zip(self.dims, sizes, strict=True))
        return all(Guard(need, 0).holds(env) for need in self.needs)

    def holds(self) -> bool:
        """Whether the cells and modes that it was traced with are as they were then."""
        for slot, aval, storage in self.hidden:
            if storage is not None and storage.is_dirty:
                storage.sync()
            value = slot.own()
            if value is None or value.aval is not aval or slot.storage is not None:
                return False
        return all(slot.own() is None for slot in self.absent) and all(
            getattr(owner, name) == value for owner, name, value in self.modes
        )


def _needs(nodes: Sequence[Node]) -> tuple[DimLike, ...]:
    """What the recorded ops need to be 0 or more, as far as the dims decide about it."""
    entries = {node.entry for node in nodes}
    ordered = sorted(entries, key=lambda entry: entry.uid)
    found = dict.fromkeys(d for e in ordered for d in e.op.unproven(e.operands, e.results, e.params))
    return tuple(found)


class Prepared:
    """A variant for given sizes: what a call needs, without searching.

    Attributes:
        sizes: values of the symbolic dims.
        avals: types of the outputs for these sizes.
    """

    __slots__ = ("_call", "avals", "sizes", "variant")

    def __init__(self, variant: Variant, sizes: Sequence[int]) -> None:
        self.variant = variant
        self.sizes = tuple(sizes)
        self._call = bind(variant.compiled, self.sizes)
        env = dict(zip(variant.dims, sizes, strict=True))
        self.avals = [
            intern(Aval(v.aval.dtype, tuple(dims.evaluate(d, env) for d in v.aval.shape)))
            for v in variant.traced.outputs
        ]

    def call(self, arguments: Sequence[Var], scalars: Sequence[Buffer]) -> Any:
        """Run on computed arguments.

        Raises:
            MissError: the cells are not as they were, or an argument lives elsewhere.
        """
        variant = self.variant
        inputs: list[Any] = []
        flows = False
        for var in arguments:
            buffer = var.buffer
            if buffer is None or type(buffer) is Failure:
                buffer = execute.buffer_of(var)
            if var.device is not variant.device:
                raise MissError
            flows = flows or var.tracked
            inputs.append(buffer)
        inputs += scalars
        if variant.hidden or variant.keys or variant.absent or variant.modes:
            flows = self._add_hidden(inputs) or flows
        inputs += variant.constants
        if flows and STATE.grad and any(variant.returns):
            return self._tracked(arguments, inputs)
        donate = self._take(inputs) if variant.replaced else None
        results = self._run(inputs, donate)
        if variant.single:
            return wrap(Var(self.avals[0], variant.device, buffer=results[0]))
        values = [Var(a, variant.device, buffer=b) for a, b in zip(self.avals, results, strict=True)]
        return self._finish(values)

    def _run(self, inputs: list[Buffer], donate: list[bool] | None) -> list[Buffer]:
        try:
            return self._call(inputs, donate)
        except BaseException as error:
            if donate is not None:
                self._give_back(inputs, error)
            raise

    def _give_back(self, inputs: list[Buffer], error: BaseException) -> None:
        """Cells hold what they held: a program that reports a fault has overwritten nothing. After any other failure
        nothing is known of them."""
        replaced = {slot: position for position, slot in self.variant.replaced}
        for slot, aval, _ in self.variant.hidden:
            if slot in replaced:
                kept = inputs[replaced[slot]] if isinstance(error, FireboxError) else Failure(error)
                slot.set(Var(aval, self.variant.device, buffer=kept))

    def _add_hidden(self, inputs: list[Any]) -> bool:
        """Add what cells and random streams hold; tells whether derivatives flow through any of it."""
        variant = self.variant
        if not variant.holds():
            raise MissError
        flows = False
        for slot, _, _ in variant.hidden:
            var = slot.own()
            assert var is not None
            flows = flows or var.tracked
            inputs.append(execute.buffer_of(var))
        for generator, blocks in variant.keys:
            inputs.append(place_bytes(generator.advance(blocks), variant.device))
        return flows

    def _take(self, inputs: list[Any]) -> list[bool]:
        """Take from their cells the values that the call replaces: their memory may hold the new ones."""
        for _, slot in self.variant.replaced:
            slot.drop()
            if slot.is_flat is not None:
                slot.is_flat.forget_parts()
        donate = [sys.getrefcount(buffer) <= _ALONE and not buffer.exported for buffer in inputs]
        COUNTERS.buffers_donated += sum(donate)
        return donate

    def _tracked(self, arguments: Sequence[Var], inputs: list[Buffer]) -> Any:
        """Run, and let a backward recompute the function to differentiate it."""
        variant = self.variant
        traced = variant.traced
        operands = [*arguments, *(v for slot, _, _ in variant.hidden if (v := slot.own()) is not None)]
        rest = inputs[len(operands) : len(traced.region.args)]
        operands += [
            Var(v.aval, variant.device, buffer=b)
            for v, b in zip(traced.region.args[len(operands) :], rest, strict=True)
        ]
        results = self._run(inputs, None)
        node = CallNode(operands, traced.region, self.avals, True)
        values = record_region(node, variant.device)
        for inner in traced.region.nodes:
            inner.ran = True
        for var, tracked, buffer in zip(values, variant.returns, results, strict=True):
            var.tracked, var.buffer = tracked, buffer
            if not tracked:
                var.node = None
        return self._finish(values)

    def _finish(self, values: Sequence[Var]) -> Any:
        variant = self.variant
        traced = variant.traced
        for slot, var in zip(traced.written, values[variant.count :], strict=True):
            slot.set(var)
        for slot in traced.emptied:
            slot.set(None)
        leaves = [wrap(values[r]) if isinstance(r, int) else r[0] for r in traced.results]
        return tree.unflatten(traced.structure, leaves)
