"""Tracing a function for `jit`: arguments, cells that it reads and random streams that it draws from are inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.errors import DeviceError, TraceError, UserError
from firebox.frontend import execute, tree
from firebox.frontend.entries import intern
from firebox.frontend.graph import Region, Var
from firebox.frontend.plan import Plan, Planner
from firebox.frontend.slots import Slot
from firebox.frontend.stats import COUNTERS
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import STATE, Trace, mixed_devices
from firebox.frontend.tree import TreeDef
from firebox.frontend.weak import weak
from firebox.runtime.device import Device

RANDOM_KEY = intern(Aval(dtypes.u64, (2,)))


class JitTrace(Trace):
    """The trace of one function, with nothing around it.

    Attributes:
        hidden: the cells read, in order; their placeholders are in ``reads``.
        absent: cells that held nothing when they were read (gradients).
        keys: for each random stream drawn from its placeholder, and the blocks drawn.
        modes: attributes that the function's course depends on, with their values: (object, name, value).
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.hidden: list[Slot] = []
        self.absent: list[Slot] = []
        self.keys: dict[Any, Var] = {}
        self.drawn: dict[Any, int] = {}
        self.modes: list[tuple[Any, str, Any]] = []

    def enter(self, slot: Slot) -> Var | None:
        storage = slot.storage
        if storage is not None:
            if storage.is_dirty:
                self._outside(storage.sync)
            return storage.part(slot)
        value = slot.own()
        if value is None:
            self.absent.append(slot)
            return None
        place = slot.as_leaf(Var(value.aval, value.device))
        assert place is not None
        self.hidden.append(slot)
        self.reads[slot] = place
        return place

    def _outside(self, function: Callable[[], None]) -> None:
        STATE.trace = None
        try:
            function()
        finally:
            STATE.trace = self

    def draw(self, generator: Any, blocks: int, device: Device) -> tuple[Var, int]:
        key = self.keys.get(generator)
        if key is None:
            key = self.keys[generator] = Var(RANDOM_KEY, device)
            self.drawn[generator] = 0
        offset = self.drawn[generator]
        self.drawn[generator] += blocks
        return key, offset

    def check_transfer(self, source: Device, target: Device) -> None:
        raise DeviceError(
            "a compiled function is one program, which runs on one device",
            op="to",
            expected=f"values on {source.name} only",
            found=f"a transfer to {target.name}",
            hint="move the arguments before the call, or leave this part out of the compiled function",
        )

    def note_mode(self, owner: Any, name: str, value: Any) -> None:
        self.modes.append((owner, name, value))


@dataclass(frozen=True)
class Scalar:
    """A Python number that is an argument: ``value`` is compiled in, or None when it is an input."""

    kind: type
    value: bool | int | float | None


@dataclass
class TracedFunction:
    """What tracing found.

    Attributes:
        plan: the program; its first inputs are `arguments`, hidden cells and keys, then captured constants.
        region: from the placeholders to the outputs.
        structure: of the results.
        results: for each leaf of the results the number of an output, or (as a tuple) the value itself.
        outputs: Vars of the results, then of the written cells.
        arguments: placeholders of the arguments.
        hidden, absent, keys, drawn, modes: as in `JitTrace`.
        written: the cells written, in the order of their outputs.
        emptied: cells that hold nothing afterwards.
    """

    plan: Plan
    region: Region
    structure: TreeDef
    results: list[int | tuple[Any]]
    outputs: list[Var]
    arguments: list[Var]
    trace: JitTrace
    written: list[Slot]
    emptied: list[Slot] = field(default_factory=list)

    @property
    def constants(self) -> list[Var]:
        """Tensors that the function uses without being given them."""
        return self.plan.inputs[len(self.region.args) :]


def trace_function(
    function: Callable[..., Any],
    structure: TreeDef,
    leaves: Sequence[Any],
    device: Device,
    tracked: Sequence[bool] = (),
) -> TracedFunction:
    """Call a function on placeholders.

    Args:
        structure: of (args, kwargs).
        leaves: an `Aval` for each tensor, a `Scalar` for each Python number, anything else as it is.
        tracked: for each leaf, whether derivatives flow through it.

    Raises:
        TraceError: the function needs a value that is known only when the program runs.
    """
    execute.run([])  # what the function uses from outside has to be computed
    trace = JitTrace()
    flags = tracked or [False] * len(leaves)
    places = [_placeholder(leaf, device, flag) for leaf, flag in zip(leaves, flags, strict=True)]
    grad = STATE.grad
    STATE.trace = trace
    try:
        args, kwargs = tree.unflatten(
            structure, [_value(leaf, place) for leaf, place in zip(leaves, places, strict=True)]
        )
        result_leaves, result_structure = tree.flatten(function(*args, **kwargs))
        outputs: list[Var] = []
        results = [_result(leaf, outputs) for leaf in result_leaves]
    finally:
        STATE.trace, STATE.grad = None, grad
    COUNTERS.jit_traces += 1
    written = [(s, v) for s, v in trace.writes.items() if v is not None and v is not trace.reads.get(s)]
    emptied = [s for s, v in trace.writes.items() if v is None]
    outputs.extend(value for _, value in written)
    arguments = [p for p in places if p is not None]
    inputs = [*arguments, *(trace.reads[s] for s in trace.hidden), *trace.keys.values()]
    plan = Planner(inputs).make(outputs)
    _check_device(plan, device)
    region = Region(inputs, outputs)
    return TracedFunction(
        plan, region, result_structure, results, outputs, arguments, trace, [s for s, _ in written], emptied
    )


def _check_device(plan: Plan, device: Device) -> None:
    """Raises DeviceError when the function uses cells or tensors of another device than its arguments'."""
    others = [(str(v.aval), v.device) for v in plan.inputs if v.device is not device]
    if others:
        raise mixed_devices("a compiled function", [("the arguments", device), *others])


def _placeholder(leaf: Any, device: Device, tracked: bool) -> Var | None:
    if isinstance(leaf, Aval):
        return Var(intern(leaf), device, tracked=tracked)
    if isinstance(leaf, Scalar) and leaf.value is None:
        kind = {bool: dtypes.bool_, int: dtypes.i64, float: dtypes.f64}[leaf.kind]
        return Var(intern(Aval(kind, ())), device)
    return None


def _value(leaf: Any, place: Var | None) -> Any:
    if place is None:
        return leaf.value if isinstance(leaf, Scalar) else leaf
    return weak(wrap(place)) if isinstance(leaf, Scalar) else wrap(place)


def _result(leaf: Any, outputs: list[Var]) -> int | tuple[Any]:
    if not isinstance(leaf, Tensor):
        return (leaf,)
    outputs.append(as_tensor(leaf)._var)
    return len(outputs) - 1


def forbid_writes(traced: TracedFunction, op: str) -> None:
    """Raises UserError when the function writes cells."""
    if traced.written:
        hint = "call model.eval() first, or return the new state"
        raise UserError("the function updates state", op=op, found=f"{len(traced.written)} writes", hint=hint)


def forbid_draws(traced: TracedFunction, op: str) -> None:
    """Raises TraceError when the function draws random numbers."""
    if traced.trace.keys:
        hint = "call model.eval() first, or pass the random numbers in"
        raise TraceError("the function draws random numbers", op=op, hint=hint)
