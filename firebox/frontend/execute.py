"""Running what is pending: a program ends at a read, at `flush`, or when too much is pending.

The outputs of a program are the values that somebody still holds. Programs are kept by their plan's key; Python numbers
in them are compiled in at first, and become inputs once a program comes again with other numbers.
"""

import math
import sys
import threading
from collections.abc import Sequence
from typing import Any, cast

from firebox import dims
from firebox.dialects.nd.aval import Aval
from firebox.errors import CompilerError, FireboxError, TraceError
from firebox.frontend.backends import Compiled, backend_of
from firebox.frontend.devices import place_bytes
from firebox.frontend.faults import unaffected
from firebox.frontend.graph import Failure, LeafVar, Node, ScalarVar, Var
from firebox.frontend.plan import Key, Plan, Planner
from firebox.frontend.stats import COUNTERS
from firebox.frontend.trace import STATE, Pending
from firebox.frontend.transfers import WAITING, Behind, TransferNode, transfer
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer

MAX_PENDING = 4096
"""Recorded values after which a program is ended."""
_MAX_FAMILIES = 4096
_MAX_VARIANTS = 4
_ALONE = 3  # references to a buffer that only a list holds: the list's, the loop variable's, the call's

_lock = threading.RLock()
_epoch = 0


def epoch() -> int:
    """How many programs have ended."""
    return _epoch


# ---- reading -----------------------------------------------------------------------------------------------------


def buffer_of(var: Var) -> Buffer:
    """The memory of a value, computed now if it is pending.

    Raises:
        TraceError: the value depends on the arguments of a function being traced. FireboxError: its program failed.
    """
    buffer = var.buffer
    if buffer is None:
        if type(var) is ScalarVar:
            return place_bytes(var.data, var.device)
        flat = view_base(var)
        if flat is not None:
            return _view(buffer_of(flat), var)
        run([var])
        buffer = var.buffer
    if type(buffer) is Failure:
        if buffer.error in STATE.unreported:
            STATE.unreported.remove(buffer.error)
        raise buffer.error
    return cast(Buffer, buffer)


def moved(var: Var, device: Device) -> Var:
    """The value on another device: copied now if it is computed, else when a program needs it.

    Raises:
        DeviceError: inside a function that is compiled as one program.
    """
    result = transfer(var, device)
    node = result.node
    if isinstance(node, TransferNode) and node.buffer is None and node.source is var and _is_computed(var):
        node.take(buffer_of(var))
        _settle(result, node)
    return result


def _is_computed(var: Var) -> bool:
    value = view_base(var) if var.buffer is None else var
    return value is not None and value.buffer is not None and type(value.buffer) is not Failure


def _settle(var: Var, node: TransferNode) -> None:
    """A transfer has been made: its result is computed, and keeps its recipe for a backward only."""
    var.buffer = node.buffer
    if not var.tracked:
        var.node = None


def view_base(var: Var) -> Var | None:
    """The flat value that a pending value is a view of, if it is one."""
    node = var.node
    return node.operands[0] if node is not None and node.entry.is_view else None


def _view(flat: Buffer, var: Var) -> Buffer:
    assert var.node is not None
    size = dims.evaluate(var.aval.nbytes, {})
    (offset,) = var.node.entry.params["offset"]
    return flat.view(offset * var.aval.dtype.itemsize, size)


# ---- programs ----------------------------------------------------------------------------------------------------


def flush(*cells: Any) -> None:
    """End the program: launch everything that is pending and held; ``cells`` are among it already, named or not."""
    del cells  # what a cell holds is held
    run([])


def note_pending() -> None:
    """Called when many values have been recorded: forget those that nobody holds, and run the rest if they are many."""
    pending = STATE.pending
    with _lock:
        pending[:] = [r for r in pending if _is_pending(r)]
        limit = MAX_PENDING // 2
        if len(pending) > limit or len(_nodes_behind(_held(pending), limit)) > limit:
            run([])


def _nodes_behind(values: Sequence[Var], limit: float = math.inf) -> set[Node]:
    """The recorded ops behind the values; a few above the limit when there are more."""
    seen: set[Node] = set()
    stack = list(values)
    while stack and len(seen) <= limit:
        var = stack.pop()
        if var.buffer is None and var.node is not None and var.node not in seen:
            seen.add(var.node)
            stack.extend(var.node.inputs())
    return seen


def run(requested: Sequence[Var]) -> None:
    """Compute everything that this thread has pending and somebody holds, and the requested values.

    Raises:
        TraceError: a requested value depends on the arguments of a function being traced. Any other value whose
            computation fails raises when it is read.
    """
    global _epoch
    STATE.report()
    with _lock:
        _epoch += 1
        others = [pending for pending in STATE.others() if pending]
        try:
            wanted = _wanted(requested, others)
            crosses = bool(WAITING)
            if crosses:
                _run_to_transfers(wanted, requested)
            _run_all(wanted, requested)
            if crosses:
                _forget_consumed(wanted)
        finally:
            STATE.pending[:] = [r for r in STATE.pending if _is_pending(r)]


def _run_all(values: Sequence[Var], requested: Sequence[Var]) -> None:
    for device, outputs in _by_device(values):
        _run_or_isolate(device, outputs, requested)


def _run_to_transfers(values: Sequence[Var], requested: Sequence[Var]) -> None:
    """Compute what transfers behind the values take, and make them, until none is left to be made.

    What needs no transfer is computed with the first ones, so that nothing is computed twice.
    """
    while (behind := Behind(values)).ready:
        sources = [view_base(node.source) or node.source for node in behind.ready]
        _run_all([*sources, *(v for v in values if not behind.waits(v))], requested)
        for node in behind.ready:
            node.take(_result(node.source))


def _forget_consumed(values: Sequence[Var]) -> None:
    """Let go of what backwards have used up; those that had to wait for a transfer needed it until now."""
    for var in values:
        if var.buffer is not None and var.node is not None and var.node.consumed and type(var) is not LeafVar:
            var.node = None


def _result(var: Var) -> Buffer | Failure:
    try:
        return buffer_of(var)
    except FireboxError as error:
        return Failure(error)


def _wanted(requested: Sequence[Var], others: Sequence[Pending]) -> list[Var]:
    """What this thread holds and what is requested; and values behind these that other threads hold, for them."""
    values = [*_held(STATE.pending), *requested]
    if others:
        nodes = _nodes_behind(values)
        values += [var for pending in others for var in _held(pending) if var.node in nodes]
    return values


def _by_device(values: Sequence[Var]) -> list[tuple[Device, list[list[Var]]]]:
    """The pending ones of the values for each device, names of the same value together. Nodes are not kept here."""
    groups: dict[Device, dict[tuple[Node, int], list[Var]]] = {}
    for var in values:
        if var.buffer is None and type(var.node) is TransferNode and var.node.buffer is not None:
            _settle(var, var.node)
        elif var.buffer is None and var.node is not None:
            groups.setdefault(var.device, {}).setdefault((var.node, var.index), []).append(var)
        elif var.buffer is None:
            Planner().make([var])  # a placeholder: raises the error that says so
    return [(device, list(outputs.values())) for device, outputs in groups.items()]


def _is_pending(reference: Any) -> bool:
    holder = reference()
    var = None if holder is None else holder._var
    return var is not None and var.buffer is None and view_base(var) is None


def _held(pending: Pending) -> list[Var]:
    """Pending values that somebody holds; in place of views, what they are views of."""
    found = []
    for reference in list(pending):
        holder = reference()
        var = None if holder is None else holder._var
        if var is not None and var.buffer is None:
            flat = view_base(var)
            found.append(var if flat is None else flat)
    return found


def _run_or_isolate(device: Device, outputs: list[list[Var]], requested: Sequence[Var], alone: bool = False) -> None:
    """Run one program; when it cannot be made, run each output by itself, so that only what is wrong fails.

    Args:
        alone: there are outputs besides these, which may need the graph behind these.
    """
    try:
        _run_program(device, outputs, alone)
    except Exception as cause:
        error = _reported(cause)
        if len(outputs) > 1:
            _isolate(device, outputs, requested)
        elif isinstance(error, TraceError) and any(v in requested for v in outputs[0]):
            raise
        else:
            _fail(outputs, error)


def _isolate(device: Device, outputs: list[list[Var]], requested: Sequence[Var]) -> None:
    """Run each output by itself. A loss that is computed before its gradient is still what that is taken of."""
    try:
        for output in outputs:
            if output[0].buffer is None:
                _run_or_isolate(device, [output], requested, alone=True)
    finally:
        _forget_consumed([var for output in outputs for var in output])


def _reported(cause: Exception) -> FireboxError:
    """The error to raise at the read. A defect of the compiler is one too: it must not end every later program."""
    if isinstance(cause, FireboxError):
        return cause
    error = CompilerError("a program cannot be compiled or run: this is a defect of firebox", found=repr(cause))
    error.__cause__ = cause
    return error


def _fail(outputs: list[list[Var]], error: BaseException) -> None:
    for group in outputs:
        for var in group:
            var.buffer = Failure(error)
            var.node = None


def _run_program(device: Device, outputs: list[list[Var]], alone: bool) -> None:
    plan = Planner().make([group[0] for group in outputs])
    variant = _find(device, plan)
    inputs = [cast(Buffer, v.buffer) for v in plan.inputs]
    inputs += [place_bytes(plan.slots[k].data, device) for k in variant.dynamic]
    before = _values_before(outputs, inputs)
    COUNTERS.programs_run += 1
    COUNTERS.nodes_run += plan.count
    # From here on the graph is gone, unless a backward may still need it: so an input that nobody else refers to is
    # known, and its memory may be taken for an output.
    _release(plan, outputs, alone or bool(WAITING))
    del plan
    donate = [sys.getrefcount(buffer) <= _ALONE and not buffer.exported for buffer in inputs]
    COUNTERS.buffers_donated += sum(donate)
    try:
        results = variant.compiled(inputs, (), donate)
    except BaseException as error:
        _keep(outputs, variant.unaffected, error)
        if not isinstance(error, FireboxError):
            raise
        for slot, aval, position in before:
            slot.set(Var(aval, device, buffer=inputs[position]))
        if before:
            STATE.unreported.append(error)
        return
    for group, buffer in zip(outputs, results, strict=True):
        for var in group:
            var.buffer = buffer


def _keep(outputs: list[list[Var]], unaffected: Sequence[bool], error: BaseException) -> None:
    """Fail the outputs, but for those that are right whatever the index was that the program stumbled over."""
    computed = getattr(error, "computed", None)
    if computed is None:
        _fail(outputs, error)
        return
    cast(FireboxError, error).computed = None  # the error may live long
    for group, buffer, is_right in zip(outputs, computed, unaffected, strict=True):
        if is_right:
            for var in group:
                var.buffer = buffer
        else:
            _fail([group], error)


def _values_before(outputs: list[list[Var]], inputs: list[Buffer]) -> list[tuple[Any, Aval, int]]:
    """Cells that the program writes: each with the type of its value before, and which input that is.

    A program that reports a fault has overwritten no input, so its cells can go back. The values are kept as inputs
    only: another reference would keep their memory from being reused.
    """
    written = {id(var) for group in outputs for var in group}
    positions = {id(buffer): k for k, buffer in enumerate(inputs)}
    found = []
    for reference in STATE.pending:
        slot = reference()
        if slot is not None and hasattr(slot, "take_before") and id(slot._var) in written:
            value = slot.take_before()
            if value is not None and id(value.buffer) in positions:
                found.append((slot, value.aval, positions[id(value.buffer)]))
    return found


def _release(plan: Plan, outputs: list[list[Var]], keep_consumed: bool) -> None:
    keeps = False
    for group in outputs:
        for var in group:
            node = var.node
            if node is None or not var.tracked or type(var) is LeafVar or (node.consumed and not keep_consumed):
                var.node = None
            else:
                keeps = True
    if keeps:
        for node in plan.nodes:
            node.ran = True


# ---- programs by key ---------------------------------------------------------------------------------------------


class Variant:
    """A compiled program and the numbers that it was compiled for; None stands for a number that is an input.

    Attributes:
        dynamic: the slots that are inputs.
        unaffected: for each output, whether it is right whatever the indices in the program are.
    """

    __slots__ = ("compiled", "dynamic", "fixed", "unaffected")

    def __init__(self, compiled: Compiled, fixed: list[bytes | None], plan: Plan) -> None:
        self.compiled = compiled
        self.fixed = fixed
        self.dynamic = tuple(k for k, data in enumerate(fixed) if data is None)
        self.unaffected = unaffected(plan.steps, plan.outputs)

    def fits(self, data: list[bytes]) -> bool:
        return all(wanted is None or wanted == found for wanted, found in zip(self.fixed, data, strict=True))


_families: dict[tuple[Device, Key], list[Variant]] = {}


def _find(device: Device, plan: Plan) -> Variant:
    """The compiled program for a plan."""
    variants = _families.get((device, plan.key))
    if variants is None:
        if len(_families) >= _MAX_FAMILIES:
            _families.clear()
        variants = _families[(device, plan.key)] = []
    data = [slot.data for slot in plan.slots]
    for variant in reversed(variants):
        if variant.fits(data):
            return variant
    fixed = _generalise(variants, data)
    dynamic = [k for k, value in enumerate(fixed) if value is None]
    compiled = backend_of(device).compile(plan, dynamic, ())
    COUNTERS.programs_compiled += 1
    variants.append(Variant(compiled, fixed, plan))
    return variants[-1]


def _generalise(variants: list[Variant], data: list[bytes]) -> list[bytes | None]:
    """What the next variant compiles in: everything at first, then only what did not change; in the end nothing."""
    if not variants:
        return list(data)
    if len(variants) >= _MAX_VARIANTS:
        return [None] * len(data)
    last = variants[-1].fixed
    return [found if wanted == found else None for wanted, found in zip(last, data, strict=True)]


def forget_programs() -> None:
    """Drop every program kept in memory."""
    with _lock:
        _families.clear()
