"""Derivatives and batches of functions whose values go from device to device.

A region op runs on one device. So a recorded region with transfers in it is cut into segments, each the ops of one
device between transfers, and the transform is applied segment by segment: forward in the order of evaluation, backward
against it. What goes from one segment to another is transferred as the values were.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.transform import GradOp, JvpOp, VmapOp
from firebox.dims import DimLike
from firebox.frontend.graph import Node, Region, RegionNode, Var, scalar_var
from firebox.frontend.plan import is_cut
from firebox.frontend.trace import record, record_region
from firebox.frontend.transfers import TransferNode, transfer
from firebox.runtime.device import Device

Key = Var | tuple[Node, int]
"""One value of a region: an argument, or a result of a node, whatever it is called by."""


def crosses(region: Region) -> bool:
    """Whether values inside go from one device to another."""
    return any(isinstance(node, TransferNode) for node in region.nodes)


class _Cut:
    """A region cut at its transfers.

    Attributes:
        stages: for each number of transfers before them, the nodes of each device in order of evaluation.
        transfers: for each number of transfers before them, those that follow.
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        self._args = set(region.args)
        self._levels: dict[Node, int] = {}
        self.stages: list[dict[Device, list[Node]]] = []
        self.transfers: list[list[TransferNode]] = []
        for node in region.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        level = 0
        for var in self._inner(node.inputs()):
            if var not in self._args and var.node is not None:
                level = max(level, self._levels[var.node] + isinstance(var.node, TransferNode))
        self._levels[node] = level
        while len(self.stages) <= level:
            self.stages.append({})
            self.transfers.append([])
        if isinstance(node, TransferNode):
            self.transfers[level].append(node)
        else:
            device = next(v.device for v in node.inputs() if v.device is not None)
            self.stages[level].setdefault(device, []).append(node)

    def _inner(self, values: Sequence[Var]) -> Iterator[Var]:
        """Those of the values that depend on the region's arguments."""
        return (v for v in values if v in self._args or v.node in self._levels)

    def key(self, var: Var) -> Key:
        if var in self._args or var.node is None:
            return var
        return var.node, var.index

    def entering(self, nodes: Sequence[Node]) -> list[Var]:
        """What the nodes use of the region's arguments and of other segments."""
        own = set(nodes)
        used = (v for n in nodes for v in self._inner(n.inputs()))
        return list(dict.fromkeys(v for v in used if v in self._args or v.node not in own))

    def leaving(self, nodes: Sequence[Node]) -> list[Var]:
        """What others use of the nodes' results, each once."""
        own = set(nodes)
        others = (v for n in self.region.nodes if n not in own for v in n.inputs())
        used = (v for v in (*others, *self.region.outputs) if v not in self._args and v.node in own)
        return list({self.key(v): v for v in used}.values())


# ---- backward ----------------------------------------------------------------------------------------------------


class Pull:
    """Cotangents of a region's arguments.

    Args:
        region: of values that the surrounding trace knows.
        seeds: cotangents of its first outputs.
        tracked: whether derivatives of the cotangents are recorded.

    Attributes:
        results: for each argument.
        parts: the gradient ops, and the part of the region that each holds.
    """

    def __init__(self, region: Region, seeds: Sequence[Var], tracked: bool) -> None:
        self._cut = _Cut(region)
        self._found: dict[Key, list[Var]] = {}
        self._names: dict[Key, Var] = {}
        self._tracked = tracked
        self.parts: list[tuple[RegionNode, Region]] = []
        for output, seed in zip(region.outputs, seeds, strict=False):
            self._give(output, seed)
        for stage, transfers in zip(reversed(self._cut.stages), reversed(self._cut.transfers), strict=True):
            for node in transfers:
                found = self._sum((node, 0))
                if found is not None:
                    self._give(node.source, transfer(found, node.source.device))
            for device, nodes in stage.items():
                self._segment(device, nodes)
        self.results = [self._sum(arg) or _zeros(arg) for arg in region.args]

    def _give(self, var: Var, cotangent: Var) -> None:
        if is_cut(var) or not var.aval.dtype.is_float:
            return
        key = self._cut.key(var)
        self._names[key] = var
        self._found.setdefault(key, []).append(cotangent)

    def _sum(self, key: Key) -> Var | None:
        found = self._found.get(key)
        if found is None:
            return None
        total = found[0]
        for other in found[1:]:
            total = record(lookup("nd.add"), (total, other), {})[0]
        return total

    def _segment(self, device: Device, nodes: Sequence[Node]) -> None:
        own = set(nodes)
        keys = [k for k in self._found if isinstance(k, tuple) and k[0] in own]
        if not keys:
            return
        args = [v for v in self._cut.entering(nodes) if v.aval.dtype.is_float and v.tracked and not is_cut(v)]
        outputs = [self._names[k] for k in keys]
        seeds = [s for k in keys if (s := self._sum(k)) is not None]
        part = Region(args, outputs, within=own)
        avals = [v.aval for v in (*args, *outputs)]
        params = {"wrt": len(args), "seeds": len(seeds)}
        node = RegionNode(GradOp, (*args, *seeds), params, avals, (part,), self._tracked)
        self.parts.append((node, part))
        for arg, cotangent in zip(args, record_region(node, device), strict=False):
            self._give(arg, cotangent)


def _zeros(like: Var) -> Var:
    return record(
        lookup("nd.broadcast_to"), (scalar_var(0.0, like.aval.dtype),), {"shape": like.aval.shape}, like.device
    )[0]


# ---- forward -----------------------------------------------------------------------------------------------------


def push(region: Region, tangents: Sequence[Var], tracked: bool) -> list[Var | None]:
    """The derivative of each output in the direction ``tangents`` of the arguments; None where there is none."""
    cut = _Cut(region)
    found: dict[Key, Var] = dict(zip(region.args, tangents, strict=True))
    for stage, transfers in zip(cut.stages, cut.transfers, strict=True):
        for device, nodes in stage.items():
            args = [v for v in cut.entering(nodes) if cut.key(v) in found and not is_cut(v)]
            outputs = [v for v in cut.leaving(nodes) if v.aval.dtype.is_float]
            if not args or not outputs:
                continue
            avals = [v.aval for v in outputs]
            operands = (*args, *(found[cut.key(v)] for v in args))
            params = {"wrt": len(args), "seeds": len(outputs)}
            part = Region(args, outputs, within=set(nodes))
            op = RegionNode(JvpOp, operands, params, (*avals, *avals), (part,), tracked)
            moved = record_region(op, device)[len(outputs) :]
            found.update(zip(map(cut.key, outputs), moved, strict=True))
        for node in transfers:
            tangent = found.get(cut.key(node.source))
            if tangent is not None and not is_cut(node.source):
                found[node, 0] = transfer(tangent, node.target)
    return [None if is_cut(v) else found.get(cut.key(v)) for v in region.outputs]


# ---- batches -----------------------------------------------------------------------------------------------------


def batch(region: Region, operands: Sequence[Var], axes: Sequence[int], size: DimLike, tracked: bool) -> list[Var]:
    """The outputs for every slice of the operands, mapped along axis 0.

    Args:
        operands: in place of the region's arguments.
        axes: the mapped axis of each.
        size: of the mapped axes.
    """
    cut = _Cut(region)
    found: dict[Key, tuple[Var, int]] = dict(zip(region.args, zip(operands, axes, strict=True), strict=True))
    for stage, transfers in zip(cut.stages, cut.transfers, strict=True):
        for device, nodes in stage.items():
            args = cut.entering(nodes)
            given = [found[cut.key(v)] for v in args]
            outputs = cut.leaving(nodes)
            results = _mapped(Region(args, outputs, within=set(nodes)), given, size, device, tracked)
            found.update(zip(map(cut.key, outputs), [(v, 0) for v in results], strict=True))
        for node in transfers:
            value, axis = found[cut.key(node.source)]
            found[node, 0] = transfer(value, node.target), axis
    places = [Var(v.aval, v.device) for v in region.outputs]
    return [
        _mapped(Region([place], [place]), [found[cut.key(v)]], size, v.device, tracked)[0]
        if cut.key(v) in found
        else _mapped(Region([], [v]), [], size, v.device, tracked)[0]
        for place, v in zip(places, region.outputs, strict=True)
    ]


def _mapped(
    region: Region, given: Sequence[tuple[Var, int]], size: DimLike, device: Device, tracked: bool
) -> list[Var]:
    avals = [Aval(v.aval.dtype, (size, *v.aval.shape)) for v in region.outputs]
    params: dict[str, Any] = {
        "in_axes": tuple([axis for _, axis in given]), "out_axes": (0,) * len(avals), "size": (size,)
    }  # fmt: skip
    operands = tuple([value for value, _ in given])
    return record_region(RegionNode(VmapOp, operands, params, avals, (region,), tracked), device)
