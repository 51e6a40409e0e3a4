"""Tracing a function into a region: for transforms, whose region op it becomes a part of."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from firebox.dialects.nd.aval import Aval
from firebox.errors import DeviceError, DTypeError, TraceError, UserError
from firebox.frontend import tree
from firebox.frontend.crossing import crosses
from firebox.frontend.entries import intern
from firebox.frontend.graph import CallNode, Region, RegionNode, Var, next_number
from firebox.frontend.slots import Slot, detached
from firebox.frontend.tensor import Tensor, as_tensor, wrap
from firebox.frontend.trace import STATE, Trace, record_region
from firebox.frontend.tree import TreeDef


class Traced:
    """A function traced on placeholders.

    Attributes:
        region: from the placeholders to the outputs, then to what was written to cells.
        leaves, structure: the outputs and how they were nested.
        slots: the cells that were written.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        placeholders: Sequence[Var],
        op: str,
        kind: type[Trace] = Trace,
        whole: bool = False,
    ) -> None:
        """``whole``: what is recorded while the function runs belongs to the region, whatever it depends on."""
        trace, grad, since = kind(STATE.trace), STATE.grad, next_number()
        STATE.trace, STATE.grad = trace, True
        try:
            self.leaves, self.structure = tree.flatten(function())
            self.outputs = [as_tensor(v)._var for v in self.leaves]
        finally:
            STATE.trace, STATE.grad = trace.parent, grad
        written = [(slot, value) for slot, value in trace.writes.items() if value is not None]
        self.slots = [slot for slot, _ in written]
        self.emptied = [slot for slot, value in trace.writes.items() if value is None]
        outputs = [*self.outputs, *(value for _, value in written)]
        self.region = Region(placeholders, outputs, since, whole=whole)
        self.op = op
        self._since = since
        self._is_bound = False

    def bind(self, values: Sequence[Var]) -> None:
        """Make the placeholders names of these values, so that what was traced belongs to the surrounding trace.

        For regions that go from device to device, which no region op can hold as a whole.
        """
        if self._is_bound:
            return
        self._is_bound = True
        for place, value in zip(self.region.args, values, strict=True):
            inner = Var(place.aval, place.device)
            node = CallNode([value], Region([inner], [inner]), (place.aval,), value.tracked and STATE.grad)
            node.number = self._since  # before everything that uses the placeholder
            place.node, place.index, place.buffer = node, 0, value.buffer

    def values(self, tracked: bool) -> list[Var]:
        """The region's outputs, once the placeholders are bound."""
        return [v if tracked else detached(v) for v in self.region.outputs]

    def finish(self, results: Sequence[Var]) -> Any:
        """Write the cells, and return the outputs in their structure; results are those of the region's outputs."""
        count = len(self.outputs)
        for slot, value in zip(self.slots, results[count:], strict=True):
            slot.set(value)
        for slot in self.emptied:
            slot.set(None)
        return tree.unflatten(self.structure, [wrap(v) for v in results[:count]])

    def forbid_writes(self) -> None:
        if self.slots or self.emptied:
            hint = "compute the new value outside, or return it"
            raise TraceError("a cell is written inside the function", op=self.op, found="a write", hint=hint)


def placeholder(aval: Aval, like: Var, tracked: bool = True) -> Var:
    """A value that is known only where the traced function is used."""
    return Var(intern(aval), like.device, tracked=tracked and aval.dtype.is_float)


class Arguments:
    """Positional arguments of which some, by number, are traced by: their tensors become placeholders.

    Attributes:
        leaves: the tensors that were given.
        structures: for each traced argument.
    """

    def __init__(self, args: Sequence[Any], argnums: Sequence[int], op: str) -> None:
        self.args = list(args)
        self.argnums = argnums
        self.op = op
        self.structures: list[TreeDef] = []
        self.leaves: list[Tensor] = []
        self.slots: list[Slot | None] = []
        for number in argnums:
            if not -len(args) <= number < len(args):
                raise UserError("no such argument", op=op, expected=f"0 to {len(args) - 1}", found=number)
            self._add(args[number])

    def _add(self, value: Any) -> None:
        if hasattr(value, "named_parameters"):
            value = {name: p for name, p in value.named_parameters() if p.requires_grad}
        leaves, structure = tree.flatten(value)
        self.structures.append(structure)
        for leaf in leaves:
            self.leaves.append(as_tensor(leaf))
            self.slots.append(getattr(leaf, "slot", None))

    def check_floats(self) -> None:
        """Raises DTypeError where a leaf cannot be differentiated by."""
        for leaf in self.leaves:
            if not leaf.dtype.is_float:
                hint = "cast it, or choose other argnums"
                expected = "float tensors"
                raise DTypeError(
                    "derivatives are by floats only", op=self.op, expected=expected, found=leaf.aval, hint=hint
                )

    def call(self, function: Callable[..., Any], placeholders: Sequence[Var], kwargs: dict[str, Any]) -> Any:
        """Call the function with placeholders in place of the leaves; cells hold them, so modules see them."""
        args = list(self.args)
        values = iter(placeholders)
        slots = iter(self.slots)
        for number, structure in zip(self.argnums, self.structures, strict=True):
            vars_ = list(itertools.islice(values, structure.size))
            owners = list(itertools.islice(slots, structure.size))
            for slot, var in zip(owners, vars_, strict=True):
                if slot is not None:
                    assert STATE.trace is not None
                    STATE.trace.reads[slot] = var
            if not hasattr(args[number], "named_parameters"):
                tensors = [wrap(v) for v in vars_]
                args[number] = tree.unflatten(structure, tensors)
        return function(*args, **kwargs)

    def unflatten(self, values: Sequence[Tensor]) -> list[Any]:
        """Values in the structure of each traced argument."""
        position = iter(values)
        return [tree.unflatten(s, list(itertools.islice(position, s.size))) for s in self.structures]


def check_callable(op: str, function: object) -> None:
    """Raises DTypeError unless it can be called."""
    if not callable(function):
        raise DTypeError("not a function", op=op, expected="something to call", found=repr(function)[:80])


def region_results(
    op: Any, operands: Sequence[Var], params: dict[str, Any], results: Sequence[Aval], *traced: Region
) -> list[Var]:
    if any(map(crosses, traced)):
        raise DeviceError(
            "the function is one program, which runs on one device",
            op=op.name.partition(".")[2],
            expected="values of one device",
            found="a transfer inside",
            hint="move the values before the call or after it",
        )
    flows = flows_through(operands, *traced)
    node = RegionNode(op, tuple(operands), params, results, traced, flows and STATE.grad)
    node.cut = flows and not STATE.grad
    return record_region(node, device_of(operands, traced))


def flows_through(operands: Sequence[Var], *regions: Region) -> bool:
    """Whether a derivative may flow through the operands or what the regions use from outside."""
    return any(v.tracked for v in operands) or any(v.tracked for r in regions for v in r.captures)


def device_of(operands: Sequence[Var], regions: Sequence[Region]) -> Any:
    everything = [*operands, *(v for r in regions for v in (*r.captures, *r.outputs))]
    return next(v.device for v in everything if v.device is not None)


def avals_of(values: Sequence[Var]) -> tuple[Aval, ...]:
    return tuple(v.aval for v in values)
