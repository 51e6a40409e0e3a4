"""Pass `fuse`: partition the ops of @main into `nd.group`s, one kernel each.

Before::

    %1 = nd.mul %x, %y          %2 = nd.reduce_sum %1 {axes = [1]}          %3 = nd.exp %2

After::

    %3 = nd.group %x, %y {group = "loops", domain = <4, 8>, axes = [1]} { ...the three ops... }

Ops are taken in program order. A map or reduction joins the group of one of its producers when it can be computed at the
same point of the same loops (every read of a member is at the member's *home*), when no cycle arises, and when it does not
cost parallelism; groups that it connects are merged. Pure movement (views, slices, transposes, pads) and values made of
indices and constants are never computed on their own: each reader computes them in place. A reshape of a value in memory is a
view. Where a reader could not join, the group notes the reason at that border, one of `REASONS`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox import dims
from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.transform import YieldOp
from firebox.lowering.access import (
    Index,
    formula_of,
    is_movement,
    loops,
    owner_op,
    reads_at,
    reduction_of,
    through_movement,
)
from firebox.lowering.module import main_function

REASONS = {
    "kind": "the producer is a kernel of another kind that takes no such op into its loops",
    "domain": "the loops have other extents",
    "alignment": "the element that is read is not the one that the producer has at that point",
    "cycle": "a third kernel would have to run both before and after",
    "parallelism": "too few independent rows would be left",
    "size": "the kernel would become too large",
}
MAX_MEMBERS = 64
MAX_OPERANDS = 40
_MIN_ROWS = 32
_SMALL = 1 << 15


@dataclass(eq=False)
class _Group:
    """A group under construction."""

    number: int
    kind: str
    domain: Shape
    axes: tuple[int, ...]
    members: list[NdOp] = field(default_factory=list)
    homes: dict[SSAValue, Index] = field(default_factory=dict)
    ancestors: int = 0
    borders: dict[SSAValue, str] = field(default_factory=dict)


def fuse(module: ModuleOp) -> None:
    """Group every op of @main; in place."""
    function = main_function(module)
    builder = _Fuser(function.body.block)
    builder.partition()
    builder.rebuild()


class _Fuser:
    """The state of one run."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.groups: list[_Group] = []
        self.group_of: dict[Operation, _Group] = {}
        self.free: set[Operation] = set()

    # ---- partition -----------------------------------------------------------------------------------------------

    def partition(self) -> None:
        for op in list(self.block.ops):
            if isinstance(op, ReturnOp):
                continue
            assert isinstance(op, NdOp)
            if self._is_free(op):
                self.free.add(op)
            elif not is_movement(op):
                self._place(op)

    def _is_free(self, op: NdOp) -> bool:
        """Made of indices and constants only, and cheap: recomputed wherever it is read."""
        if op.kind not in (Kind.MAP, Kind.RESHAPE) or op.transcendental:
            return False
        return all((owner := owner_op(o)) is not None and owner in self.free for o in op._operands)

    def _place(self, op: NdOp) -> None:
        if op.kind not in (Kind.MAP, Kind.REDUCE):
            self._start(op, {Kind.CONTRACT: "contract", Kind.SCAN: "scan"}.get(op.kind, "opaque"))
            return
        producers = self._producers(op)
        borders: dict[_Group, str] = {}
        for target in sorted(producers, key=lambda g: -g.number):
            reason = self._why_not(op, target, producers)
            if reason is None:
                self._join(op, target, producers, borders)
                return
            borders[target] = reason
        self._start(op, "loops", borders)

    def _producers(self, op: NdOp) -> dict[_Group, list[SSAValue]]:
        """Groups whose members the op reads, directly or through movement."""
        found: dict[_Group, list[SSAValue]] = {}
        for operand in op._operands:
            for source in self._sources(operand):
                owner = owner_op(source)
                if owner is not None and owner in self.group_of:
                    found.setdefault(self.group_of[owner], []).append(source)
        return found

    def _sources(self, value: SSAValue) -> Iterable[SSAValue]:
        """Values in memory (or group members) behind movement and free ops."""
        op = owner_op(value)
        if op is not None and (is_movement(op) or op in self.free):
            for operand in op._operands:
                yield from self._sources(operand)
        else:
            yield value

    def _start(self, op: NdOp, kind: str, borders: dict[_Group, str] | None = None) -> None:
        if op.kind is Kind.REDUCE:
            reduction = reduction_of(formula_of(op))
            domain, axes, home = reduction.domain, reduction.axes, reduction.home
        else:
            domain, axes = op.avals[0].shape if op.results else (), ()
            home = loops(domain)
        group = _Group(len(self.groups), kind, domain, axes)
        self.groups.append(group)
        producers = self._producers(op)
        self._add(op, group, home, producers)
        self._note(group, producers, borders or {})

    def _note(self, group: _Group, producers: dict[_Group, list[SSAValue]], borders: dict[_Group, str]) -> None:
        for producer, values in producers.items():
            if producer is not group:
                reason = borders.get(producer, "kind")
                for value in values:
                    group.borders.setdefault(value, reason)

    def _add(self, op: NdOp, group: _Group, home: Index, producers: Iterable[_Group]) -> None:
        group.members.append(op)
        self.group_of[op] = group
        for result in op.results:
            group.homes[result] = home
        before = 0
        for producer in producers:
            if producer is not group:
                before |= producer.ancestors | (1 << producer.number)
        self._extend_ancestors(group, before)

    def _extend_ancestors(self, group: _Group, before: int) -> None:
        if before | group.ancestors == group.ancestors:
            return
        group.ancestors |= before
        bit = 1 << group.number
        for other in self.groups:
            if other.ancestors & bit:
                other.ancestors |= group.ancestors

    # ---- joining -------------------------------------------------------------------------------------------------

    def _why_not(self, op: NdOp, target: _Group, producers: dict[_Group, list[SSAValue]]) -> str | None:
        """The reason why the op cannot join, or None."""
        if target.kind not in ("loops", "contract") or (target.kind == "contract" and op.kind is Kind.REDUCE):
            return "kind"
        homes = self._homes(op, target)
        if not homes:
            return "domain"
        if not any(self._aligned(op, home, target) for home in homes):
            return "alignment"
        bit = 1 << target.number
        if any(p is not target and p.ancestors & bit for p in producers):
            return "cycle"
        if op.kind is Kind.REDUCE and not target.axes and not _parallel_enough(op):
            return "parallelism"
        return "size" if len(target.members) >= MAX_MEMBERS or self._operand_count(target) >= MAX_OPERANDS else None

    def _operand_count(self, group: _Group) -> int:
        return len({o for m in group.members for o in m._operands if self.group_of.get(o.owner) is not group})  # type: ignore[arg-type]

    def _homes(self, op: NdOp, target: _Group) -> list[Index]:
        """Points of the target's loops at which the op's results may be computed."""
        if op.kind is Kind.REDUCE:
            reduction = reduction_of(formula_of(op))
            fits = reduction.domain == target.domain and target.axes in ((), reduction.axes)
            return [reduction.home] if fits else []
        variables = loops(target.domain)
        shape = op.avals[0].shape
        found = [variables] if shape == target.domain else []
        if target.axes:
            kept = tuple(1 if k in target.axes else e for k, e in enumerate(target.domain))
            if shape == kept:
                found.append(tuple(0 if k in target.axes else v for k, v in enumerate(variables)))
            if shape == tuple(e for k, e in enumerate(target.domain) if k not in target.axes):
                found.append(tuple(v for k, v in enumerate(variables) if k not in target.axes))
        return found

    def _aligned(self, op: NdOp, home: Index, target: _Group) -> bool:
        """Every read of a member of the target is at the member's home."""
        reads = list(reads_at(op, home))
        while reads:
            value, index, read = reads.pop()
            if any(isinstance(e, dims.Dim) and "v" in {n[0] for n in dims.names(e)} for e in index):
                if any(self._is_member(s, target) for s in self._sources(value)):
                    return False
                continue
            source, at, guarded = through_movement(value, index)
            owner = owner_op(source)
            if owner is not None and owner in self.free:
                reads.extend(reads_at(owner, at))
                continue
            if self._is_member(source, target) and (guarded or read.guards or at != target.homes[source]):
                return False
        return True

    def _is_member(self, value: SSAValue, target: _Group) -> bool:
        owner = owner_op(value)
        return owner is not None and self.group_of.get(owner) is target

    def _join(
        self, op: NdOp, target: _Group, producers: dict[_Group, list[SSAValue]], borders: dict[_Group, str]
    ) -> None:
        if op.kind is Kind.REDUCE:
            target.axes = reduction_of(formula_of(op)).axes
        home = next(h for h in self._homes(op, target) if self._aligned(op, h, target))
        for other in producers:
            if other is not target:
                reason = self._why_no_merge(op, home, other, target)
                if reason is None:
                    self._merge(other, target)
                else:
                    borders.setdefault(other, reason)
        kept = {self.group_of[o] for v in producers.values() for s in v if (o := owner_op(s)) is not None}
        self._add(op, target, home, kept)
        self._note(target, producers, borders)

    def _why_no_merge(self, op: NdOp, home: Index, other: _Group, target: _Group) -> str | None:
        if other.kind != "loops" or other.domain != target.domain:
            return "domain" if other.kind == "loops" else "kind"
        if other.axes and other.axes != target.axes:
            return "domain"
        if other.ancestors >> target.number & 1 or target.ancestors >> other.number & 1:
            return "cycle"
        if len(other.members) + len(target.members) > MAX_MEMBERS:
            return "size"
        return None if self._aligned(op, home, other) else "alignment"

    def _merge(self, other: _Group, target: _Group) -> None:
        """Move the members of an independent group into the target."""
        for member in other.members:
            self.group_of[member] = target
        target.members += other.members
        target.homes |= other.homes
        target.borders |= other.borders
        old, new = 1 << other.number, 1 << target.number
        for group in self.groups:
            if group.ancestors & old:
                group.ancestors = (group.ancestors & ~old) | new
        other.members = []
        self._extend_ancestors(target, other.ancestors)
        for group in self.groups:
            if group.ancestors & new:
                group.ancestors |= target.ancestors

    # ---- rebuilding ----------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Replace the ops by groups, in an order that respects their dependencies."""
        last = self.block.last_op
        assert last is not None
        originals = list(self.block.ops)[:-1]
        position = {op: k for k, op in enumerate(originals)}
        for group in self.groups:
            group.members.sort(key=position.__getitem__)
        self.memory: dict[SSAValue, SSAValue] = {a: a for a in self.block.args}
        self.terminator = last
        for group in self._sorted_groups(position):
            self._emit(group)
        for k, value in enumerate(last.operands):
            last.operands[k] = self._in_memory(value)
        for op in reversed(originals):
            op.detach()
        for op in reversed(originals):
            op.erase(safe_erase=False)

    def _sorted_groups(self, position: dict[NdOp, int]) -> list[_Group]:
        live = [g for g in self.groups if g.members]
        done = 0
        ordered: list[_Group] = []
        waiting = sorted(live, key=lambda g: position[g.members[0]])
        while waiting:
            ready = next(g for g in waiting if g.ancestors & ~done & ~(1 << g.number) & self._live_bits(live) == 0)
            waiting.remove(ready)
            ordered.append(ready)
            done |= 1 << ready.number
        return ordered

    @staticmethod
    def _live_bits(live: list[_Group]) -> int:
        bits = 0
        for group in live:
            bits |= 1 << group.number
        return bits

    def _emit(self, group: _Group) -> None:
        inside = _Region(self, group)
        for member in group.members:
            inside.copy(member)
        outputs = [r for m in group.members for r in m.results if self._used_outside(r, group)]
        op = inside.finish(outputs)
        for value, result in zip(outputs, op.results, strict=True):
            result.name_hint = value.name_hint
            self.memory[value] = result

    def _used_outside(self, value: SSAValue, group: _Group) -> bool:
        """Some use, through movement or free ops, is not in the group."""
        for use in value.uses:
            user = use.operation
            if isinstance(user, NdOp) and (is_movement(user) or user in self.free):
                if any(self._used_outside(r, group) for r in user.results):
                    return True
            elif self.group_of.get(user) is not group:
                return True
        return False

    def _in_memory(self, value: SSAValue) -> SSAValue:
        """The value in memory: as it is, as a view, or computed by a copying group of its own."""
        found = self.memory.get(value)
        if found is not None:
            return found
        op = owner_op(value)
        assert op is not None
        if op.kind is Kind.RESHAPE and op not in self.free:
            source = self._in_memory(op._operands[0])
            view = type(op).create(
                operands=[source], result_types=[value.type], attributes=op.attributes, location=op.location
            )
            self.block.insert_op_before(view, self.terminator)
            result: SSAValue = view.results[0]
        else:
            result = self._copied(value, op)
        result.name_hint = value.name_hint
        self.memory[value] = result
        return result

    def _copied(self, value: SSAValue, op: NdOp) -> SSAValue:
        shape = aval_of(value.type).shape
        group = _Group(-1, "loops", shape, ())
        inside = _Region(self, group)
        inside.copy(op)
        return inside.finish([value]).results[0]


class _Region:
    """Builds the body of one group: members are copied, movement and free ops come along, the rest are arguments."""

    def __init__(self, fuser: _Fuser, group: _Group) -> None:
        self.fuser = fuser
        self.group = group
        self.block = Block()
        self.mapping: dict[SSAValue, SSAValue] = {}
        self.inputs: list[SSAValue] = []
        self.arguments: dict[SSAValue, SSAValue] = {}
        self.borders: list[str] = []

    def copy(self, op: NdOp) -> None:
        in_place = op.kind in (Kind.MAP, Kind.REDUCE, Kind.RESHAPE)  # the other kinds read memory only
        operands = [self._inside(o) if in_place else self._argument(o) for o in op._operands]
        new = type(op).create(
            operands=operands,
            result_types=[r.type for r in op.results],
            attributes=op.attributes,
            location=op.location,
        )
        self.block.add_op(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.mapping[old] = result

    def _inside(self, value: SSAValue) -> SSAValue:
        found = self.mapping.get(value)
        if found is None:
            op = owner_op(value)
            if op is not None and self._comes_along(op):
                self.copy(op)
                found = self.mapping[value]
            else:
                found = self.mapping[value] = self._argument(value)
        return found

    def _comes_along(self, op: NdOp) -> bool:
        if op in self.fuser.free:
            return self.group.kind in ("loops", "contract") or op.kind is Kind.RESHAPE
        if not is_movement(op) or self.group.kind == "opaque":
            return False
        return op.kind is not Kind.RESHAPE or not self._is_view(op)

    def _is_view(self, op: NdOp) -> bool:
        """The reshaped value is in memory, so the reshape costs nothing there."""
        source = op._operands[0]
        owner = owner_op(source)
        if owner is None:
            return True
        if owner.kind is Kind.RESHAPE and owner not in self.fuser.free:
            return self._is_view(owner)
        if owner in self.fuser.free or is_movement(owner):
            return source in self.fuser.memory
        return self.fuser.group_of.get(owner) is not self.group

    def _argument(self, value: SSAValue) -> SSAValue:
        source = self.fuser._in_memory(value)
        if source in self.arguments:
            return self.arguments[source]
        argument = self.block.insert_arg(source.type, len(self.block.args))
        argument.name_hint = source.name_hint
        self.inputs.append(source)
        self.arguments[source] = argument
        for origin in self.fuser._sources(value):
            if origin in self.group.borders:
                self.borders.append(f"{argument.index}: {self.group.borders[origin]}")
                break
        return argument

    def finish(self, outputs: list[SSAValue]) -> GroupOp:
        self.block.add_op(YieldOp.create(operands=[self.mapping[o] for o in outputs]))
        params = {"group": self.group.kind, "label": "", "domain": self.group.domain, "axes": self.group.axes}
        op = GroupOp.make(self.inputs, [o.type for o in outputs], self.block, params)
        if self.borders:
            op.attributes["borders"] = ArrayAttr([StringAttr(b) for b in self.borders])
        first = self.block.first_op
        if first is not None:
            op.location = first.location
        self.fuser.block.insert_op_before(op, self.fuser.terminator)
        return op


def _parallel_enough(op: NdOp) -> bool:
    """Rows left after a reduction joins a map: enough to share among threads, or the whole is small, or unknown."""
    reduction = reduction_of(formula_of(op))
    rows = dims.product(e for k, e in enumerate(reduction.domain) if k not in reduction.axes)
    total = dims.product(reduction.domain)
    if not isinstance(rows, int) or not isinstance(total, int):
        return True
    trailing = reduction.axes == tuple(range(len(reduction.domain) - len(reduction.axes), len(reduction.domain)))
    return total <= _SMALL or (trailing and rows >= _MIN_ROWS)


class FusePass(ModulePass):
    """Partition @main into `nd.group`s."""

    name = "nd-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse(op)


__all__ = ["REASONS", "FuncOp", "FusePass", "fuse"]
