"""Functions traced once for each kind of operands: a call of one is recorded as one node.

The trace is a `Plan` of its own, which is put in place of the call only when a program is compiled. Until then a call
costs as much as an op, however much the function does. Numbers in the trace stay slots of the program.
"""

from collections.abc import Callable, Hashable, Sequence

from firebox.dialects.nd.transform import CheckpointOp
from firebox.errors import CompilerError
from firebox.frontend.entries import Entry, intern
from firebox.frontend.graph import Var
from firebox.frontend.plan import Key, Planner
from firebox.frontend.trace import STATE, Trace, record_entry
from firebox.runtime.device import Device

Function = Callable[[Sequence[Var]], Sequence[Var]]

_MAX_CALLS = 4096
_calls: dict[tuple[Hashable, ...], Entry] = {}
_uids: dict[Key, int] = {}


def record_call(key: Hashable, function: Function, operands: Sequence[Var], device: Device) -> Sequence[Var]:
    """The results of a pure function as those of one node.

    Args:
        key: equal only for functions that do the same; it must keep alive what its identity stands for.
        function: from operands to results. It reads no cells, draws no random numbers and uses no tensors but its
            operands.

    Raises:
        TypeError: the key has something unhashable. CompilerError: the function is not pure.
    """
    full = (key, *[id(v.aval) for v in operands])
    entry = _calls.get(full)
    if entry is None:
        entry = _trace(function, operands, device)
        if len(_calls) >= _MAX_CALLS:
            _calls.clear()
        _calls[full] = entry
    return record_entry(entry, operands, device)


def _trace(function: Function, operands: Sequence[Var], device: Device) -> Entry:
    places = [Var(intern(v.aval), v.device or device, tracked=v.aval.dtype.is_float) for v in operands]
    outer, grad = STATE.trace, STATE.grad
    STATE.trace, STATE.grad = Trace(outer), True
    try:
        outputs = function(places)
        writes = STATE.trace.writes
    finally:
        STATE.trace, STATE.grad = outer, grad
    body = Planner(places, stops=True).make(outputs)
    if len(body.inputs) != len(places) or writes:
        raise CompilerError("a function recorded as one node is not pure", expected="operands only")
    entry = Entry(CheckpointOp, tuple(v.aval for v in operands), {}, [v.aval for v in outputs], body)
    entry.floats = tuple(v.tracked for v in outputs)
    if len(_uids) >= _MAX_CALLS:
        _uids.clear()
    entry.uid = _uids.setdefault(body.key, entry.uid)  # equal bodies are equal programs, whatever their numbers
    return entry
