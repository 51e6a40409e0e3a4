"""The light graph that operators record: `Var`, `Node`, `Region`. No IR object is built before a program runs.

A `Var` is one value: computed (it has a buffer), pending (it has a node), or a placeholder (neither). A `Node` is one
op on Vars. Nodes do not know the Vars of their results, so a value that nobody holds disappears with its node.
"""

import itertools
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.transform import CheckpointOp
from firebox.dtypes import DType
from firebox.errors import DTypeError
from firebox.frontend import locations
from firebox.frontend.entries import Entry, intern, region_entry
from firebox.frontend.locations import Location
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer

if TYPE_CHECKING:
    from firebox.frontend.slots import Slot

_numbers = itertools.count()


def next_number() -> int:
    """A number above those of all nodes recorded so far."""
    return next(_numbers)


class Var:
    """One value.

    Attributes:
        aval: element type and shape.
        node, index: what computes it; None when it is computed already or a placeholder.
        buffer: its memory, once computed.
        tracked: whether a derivative may flow through it.
        device: where it lives.
    """

    __slots__ = ("__weakref__", "aval", "buffer", "device", "index", "node", "tracked")

    def __init__(
        self,
        aval: Aval,
        device: Device,
        node: "Node | None" = None,
        index: int = 0,
        tracked: bool = False,
        buffer: "Buffer | Failure | None" = None,
    ) -> None:
        self.aval = aval
        self.device = device
        self.node = node
        self.index = index
        self.tracked = tracked
        self.buffer = buffer


class ScalarVar(Var):
    """A Python number as an operand: a slot of the program, compiled in at first. Each use is a slot of its own."""

    __slots__ = ("data",)

    def __init__(self, aval: Aval, data: bytes, device: Device | None = None) -> None:
        self.aval = aval
        self.device = device  # type: ignore[assignment]  # one without a device takes that of the other operands
        self.node = None
        self.index = 0
        self.tracked = False
        self.buffer = None
        self.data = data


_scalars: dict[tuple[Any, DType], ScalarVar] = {}
_MAX_SCALARS = 4096
_NUMBERS = "biufV"
"""NumPy's kinds of bools, integers, floats, and of what ml_dtypes adds."""


def scalar_var(value: Any, dtype: DType) -> ScalarVar:
    """A number as a 0-d operand of an element type.

    Raises:
        DTypeError: an integer that the type does not hold.
    """
    key = (type(value), value or repr(value), dtype)  # 0.0 and -0.0 are equal, and not the same
    known = _scalars.get(key)  # type: ignore[arg-type]
    if known is not None:
        return known
    if isinstance(value, int) and dtype.is_int and not isinstance(value, bool):
        limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
        if not limits.min <= value <= limits.max:
            expected = f"{limits.min} to {limits.max}"
            raise DTypeError(f"the number is not in the range of {dtype.name}", expected=expected, found=value)
    if len(_scalars) >= _MAX_SCALARS:
        _scalars.clear()
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(float(value) if dtype.is_float and isinstance(value, int) else value)
            data = array.astype(dtype.numpy, casting="unsafe" if array.dtype.kind in _NUMBERS else "safe").tobytes()
    except (TypeError, ValueError, OverflowError):
        found = f"{type(value).__name__}: {str(value)[:40]}"
        raise DTypeError(f"not a number of type {dtype.name}", expected="a bool, int or float", found=found) from None
    var = _scalars[key] = ScalarVar(intern(Aval(dtype, ())), data)  # type: ignore[index]
    return var


class LeafVar(Var):
    """A value that gradients are taken by; they land in `grad`."""

    __slots__ = ("grad",)

    def __init__(self, source: Var, grad: "Slot") -> None:
        super().__init__(source.aval, source.device, source.node, source.index, True, source.buffer)
        self.grad = grad


class CutVar(Var):
    """Another name of a pending value through which no derivative flows."""

    __slots__ = ()


class Failure:
    """Stands in place of the buffer of a value whose program failed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Node:
    """One recorded op.

    Attributes:
        entry: op, operand types, parameters and result types.
        operands: values.
        tracked: whether a derivative may flow through it.
        cut: it was recorded under `no_grad` although an operand is tracked, so derivatives end here.
        consumed: a backward has used it up.
        ran: a program has computed it, yet it is kept for a backward.
        location: the user's line.
        number: order of recording.
        owner: the backward whose region holds it, weakly, as the region has the node; the region's extra yields give
            its values to the outside.
    """

    __slots__ = ("consumed", "cut", "entry", "location", "number", "operands", "owner", "ran", "tracked")

    def __init__(self, entry: Entry, operands: tuple[Var, ...], location: Location | None, tracked: bool) -> None:
        self.entry = entry
        self.operands = operands
        self.location = location
        self.tracked = tracked
        self.number = next(_numbers)
        self.cut = False
        self.consumed = False
        self.ran = False
        self.owner: weakref.ref[RegionNode] | None = None

    def inputs(self) -> tuple[Var, ...]:
        """Everything it depends on: operands and what its regions use from outside."""
        return self.operands


class Region:
    """A traced function: the nodes between arguments and outputs.

    Attributes:
        args: placeholders, or the leaves of a backward.
        outputs: values, in or outside the region.
        nodes: the nodes that depend on an argument, in order of recording; of a whole region, all recorded in it.
        captures: values from outside that the nodes or outputs use.
    """

    __slots__ = ("args", "captures", "nodes", "outputs")

    def __init__(
        self,
        args: Sequence[Var],
        outputs: Sequence[Var],
        since: int = 0,
        within: Collection[Node] | None = None,
        whole: bool = False,
    ) -> None:
        """Nodes recorded before number ``since`` are known to depend on no argument; others than ``within`` are left
        outside, whatever they depend on. Those recorded since belong to a ``whole`` region, whatever they depend on."""
        self.args = tuple(args)
        self.outputs = tuple(outputs)
        depends = _dependent_nodes(self.args, self.outputs, since, within)
        inside = _nodes_within(self.args, self.outputs, since, depends) if whole else depends
        self.nodes = sorted((node for node, found in inside.items() if found), key=_recorded)
        self.captures = self._captured()

    def _captured(self) -> tuple[Var, ...]:
        inner = set(self.nodes)
        args = set(self.args)
        found: dict[Var, None] = {}
        for var in itertools.chain(*(n.inputs() for n in self.nodes), self.outputs):
            if var not in args and var.node not in inner and type(var) is not ScalarVar:
                found[var] = None
        return tuple(found)


def _dependent_nodes(
    args: tuple[Var, ...], outputs: tuple[Var, ...], since: int, within: Collection[Node] | None
) -> dict[Node, bool]:
    """For each node behind the outputs whether it lies between args and outputs."""
    ends = set(args)
    depends: dict[Node, bool] = {}
    stack = [v.node for v in outputs if v.node is not None and v not in ends]
    while stack:
        node = stack[-1]
        if node in depends:
            stack.pop()
            continue
        if node.number < since or (within is not None and node not in within):
            depends[node] = False
            continue
        inputs = node.inputs()
        waiting = [v.node for v in inputs if v.node is not None and v.node not in depends and v not in ends]
        if waiting:
            stack.extend(waiting)
            continue
        depends[node] = any(v in ends or (v.node is not None and depends[v.node]) for v in inputs)
        stack.pop()
    return depends


def _nodes_within(
    args: tuple[Var, ...], outputs: tuple[Var, ...], since: int, depends: dict[Node, bool]
) -> dict[Node, bool]:
    """The nodes of a whole region: all behind the outputs that were recorded in it, but for what makes a leaf.

    A parameter that is part of a flat buffer is cut out of it where it is first read; gradients go to it all the same.
    """
    found: dict[Node, bool] = {}
    ends = set(args)
    stack = list(outputs)
    while stack:
        var = stack.pop()
        node = var.node
        if node is None or node in found or node.number < since or var in ends:
            continue
        if type(var) is not LeafVar or depends[node]:
            found[node] = True
            stack.extend(node.inputs())
    return found


def _recorded(node: Node) -> int:
    return node.number


class RegionNode(Node):
    """A region op: a transform of the traced slices in its regions.

    Attributes:
        captures: what its regions use from outside.
        live: its results, as long as somebody holds them.
    """

    __slots__ = ("__weakref__", "captures", "live", "regions")

    def __init__(
        self,
        op: type[NdOp],
        operands: tuple[Var, ...],
        params: dict[str, Any],
        results: Sequence[Aval],
        regions: Sequence[Region],
        tracked: bool,
    ) -> None:
        super().__init__(region_entry(op, operands, params, results), operands, locations.capture(2), tracked)
        self.regions = tuple(regions)
        self.captures = tuple(dict.fromkeys(itertools.chain(*(r.captures for r in regions))))
        self.live: list[weakref.ref[Var]] = []

    def inputs(self) -> tuple[Var, ...]:
        return self.operands + self.captures


class CallNode(RegionNode):
    """A call of a traced function: its region is put in place of it when a program is built."""

    __slots__ = ()

    def __init__(self, operands: Sequence[Var], region: Region, results: Sequence[Aval], tracked: bool) -> None:
        super().__init__(CheckpointOp, tuple(operands), {}, results, (region,), tracked)
