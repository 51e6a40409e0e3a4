"""Replaces the ops of a partitioned block by `nd.group`s; the second half of the pass `fuse`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from firebox.dialects.nd.aval import Aval, Shape, aval_of, tensor_type
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.ops.movement import Reshape
from firebox.dialects.nd.ops.pieces import View
from firebox.dialects.nd.transform import YieldOp
from firebox.lowering.access import Index, formula_of, is_movement, is_taken_apart, owner_op, part_offset
from firebox.lowering.rewrite import RECOMPUTE

CONTROL = "control"
"""Kind of what is no group: an op with control flow, which stands among the groups as it is."""
MAX_MEMBERS = 64
"""Ops in a group at most."""
MAX_OPERANDS = 40
"""Values that a group reads at most."""


@dataclass(eq=False)
class Group:
    """A group under construction."""

    number: int
    kind: str
    domain: Shape
    axes: tuple[int, ...]
    members: list[NdOp] = field(default_factory=list)
    homes: dict[SSAValue, Index] = field(default_factory=dict)
    ancestors: int = 0
    borders: dict[SSAValue, str] = field(default_factory=dict)

    def is_too_early(self, op: NdOp) -> bool:
        """Whether the op is computed again for a later use, and nothing in the group is: its value would wait."""
        return RECOMPUTE in op.attributes and not any(RECOMPUTE in m.attributes for m in self.members)


@dataclass
class Partition:
    """Which op is in which group.

    Attributes:
        block: the block.
        groups: all groups; merged ones are empty.
        group_of: the group of each member.
        free: ops made of indices and constants only, computed wherever they are read.
        alignment: bytes at whose multiples a part of an array must begin to be read as an array of its own.
    """

    block: Block
    alignment: int = 1
    groups: list[Group] = field(default_factory=list)
    group_of: dict[Operation, Group] = field(default_factory=dict)
    free: set[Operation] = field(default_factory=set)

    def sources(self, value: SSAValue) -> Iterable[SSAValue]:
        """Values in memory (or group members) behind movement and free ops."""
        op = owner_op(value)
        if op is not None and (is_movement(op) or op in self.free):
            for operand in op._operands:
                yield from self.sources(operand)
        else:
            yield value


def regroup(partition: Partition) -> None:
    """Replace the ops of the block by groups, in an order that respects their dependencies."""
    Regrouper(partition).run()


class Regrouper:
    """The state of one rebuild: which value of the old block is which value in memory."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.block = partition.block
        self.groups = partition.groups
        self.group_of = partition.group_of
        self.free = partition.free
        last = self.block.last_op
        assert last is not None
        self.terminator = last
        self.memory: dict[SSAValue, SSAValue] = {a: a for a in self.block.args}

    def run(self) -> None:
        """Rebuild the block."""
        last = self.terminator
        originals = list(self.block.ops)[:-1]
        position = {op: k for k, op in enumerate(originals)}
        for group in self.groups:
            group.members.sort(key=position.__getitem__)
        for group in self._sorted_groups(position):
            self._emit(group)
        for k, value in enumerate(last.operands):
            last.operands[k] = self._in_memory(value)
        for op in reversed(originals):
            self.block.detach_op(op)
        for op in reversed(originals):
            op.erase(safe_erase=False)

    def _sorted_groups(self, position: dict[Operation, int]) -> list[Group]:
        live = [g for g in self.groups if g.members]
        done = 0
        ordered: list[Group] = []
        waiting = sorted(live, key=lambda g: position[g.members[0]])
        while waiting:
            ready = next(g for g in waiting if g.ancestors & ~done & ~(1 << g.number) & self._live_bits(live) == 0)
            waiting.remove(ready)
            ordered.append(ready)
            done |= 1 << ready.number
        return ordered

    @staticmethod
    def _live_bits(live: list[Group]) -> int:
        bits = 0
        for group in live:
            bits |= 1 << group.number
        return bits

    def _emit(self, group: Group) -> None:
        if group.kind == CONTROL:
            self._keep(group.members[0])
            return
        inside = _Region(self, group)
        for member in group.members:
            inside.copy(member)
        outputs: list[SSAValue] = [r for m in group.members for r in m.results if self._used_outside(r, group)]
        op = inside.finish(outputs)
        for value, result in zip(outputs, op.results, strict=True):
            result.name_hint = value.name_hint
            self.memory[value] = result

    def _keep(self, op: NdOp) -> None:
        """An op with control flow, on values in memory."""
        operands = [self._in_memory(v) for v in op._operands]
        new = type(op).create(
            operands=operands,
            result_types=[r.type for r in op.results],
            attributes=op.attributes,
            regions=[op.detach_region(0) for _ in list(op.regions)],
            location=op.location,
        )
        self.block.insert_op_before(new, self.terminator)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.memory[old] = result

    def _used_outside(self, value: SSAValue, group: Group) -> bool:
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
            result = self._insert(op, type(op), op._operands[0], value.type, op.attributes)
        elif self.is_part(op):
            result = self._part(op)
        else:
            result = self._copied(value, op)
        result.name_hint = value.name_hint
        self.memory[value] = result
        return result

    def is_part(self, op: NdOp) -> bool:
        """The op takes a part of an array in memory that may be read as an array of its own.

        So kernels that differ in the part alone, such as those of the steps of a recurrence, are one kernel.
        """
        offset = part_offset(op)
        if offset is None or op in self.free or not self._is_kept(op._operands[0]):
            return False
        itemsize = op.avals[0].dtype.itemsize
        factors = [offset] if isinstance(offset, int) else [factor for _, factor in offset.terms]
        return all(factor * itemsize % self.partition.alignment == 0 for factor in factors)

    def _is_kept(self, value: SSAValue) -> bool:
        """The value is in memory, or a view of one that is."""
        if value in self.memory:
            return True
        owner = owner_op(value)
        if owner is None or owner in self.free:
            return False
        if owner.kind is Kind.RESHAPE:
            return self._is_kept(owner._operands[0])
        return self.is_part(owner) or self._is_moved_whole(owner)

    def _is_moved_whole(self, op: NdOp) -> bool:
        """Something in memory is moved, and taken apart then."""
        sources = self.partition.sources(op.results[0])
        return is_movement(op) and is_taken_apart(op) and all(source in self.memory for source in sources)

    def _part(self, op: NdOp) -> SSAValue:
        source, offset, shape = op.operand_avals[0], part_offset(op), op.avals[0].shape
        flat = tensor_type(Aval(source.dtype, (source.size,)))
        values = {"offset": (offset,), "shape": shape}
        whole = self._insert(op, Reshape, op._operands[0], flat, Reshape.encode({"shape": (source.size,)}))
        self.memory[whole] = whole
        return self._insert(op, View, whole, op.results[0].type, View.encode(values))

    def _insert(
        self, op: NdOp, kind: type[NdOp], source: SSAValue, result: Attribute, attributes: Mapping[str, Attribute]
    ) -> SSAValue:
        """A view of a value in memory, at the location of an op."""
        operand = self._in_memory(source)
        view = kind.create(operands=[operand], result_types=[result], attributes=attributes, location=op.location)
        self.block.insert_op_before(view, self.terminator)
        return view.results[0]

    def _copied(self, value: SSAValue, op: NdOp) -> SSAValue:
        shape = aval_of(value.type).shape
        group = Group(-1, "loops", shape, ())
        inside = _Region(self, group)
        inside.copy(op)
        return inside.finish([value]).results[0]


class _Region:
    """Builds the body of one group: members are copied, movement and free ops come along, the rest are arguments."""

    def __init__(self, fuser: Regrouper, group: Group) -> None:
        self.fuser = fuser
        self.group = group
        self.block = Block()
        self.mapping: dict[SSAValue, SSAValue] = {}
        self.inputs: list[SSAValue] = []
        self.arguments: dict[SSAValue, SSAValue] = {}
        self.borders: list[str] = []

    def copy(self, op: NdOp) -> None:
        new = type(op).create(
            operands=[self._operand(op, number) for number in range(len(op._operands))],
            result_types=[r.type for r in op.results],
            attributes=op.attributes,
            location=op.location,
        )
        self.block.add_op(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.mapping[old] = result

    def _operand(self, op: NdOp, number: int) -> SSAValue:
        """Maps and reductions compute what they read; the other kinds read memory, and numbers where they say so."""
        value = op._operands[number]
        in_place = op.kind in (Kind.MAP, Kind.REDUCE, Kind.RESHAPE)
        return self._inside(value) if in_place or self._takes_number(op, number) else self._argument(value)

    def _takes_number(self, op: NdOp, number: int) -> bool:
        return number in op.splats and self._is_splat(op._operands[number])

    def _is_splat(self, value: SSAValue) -> bool:
        """Every element is the same: a free value without dims, spread out."""
        op = owner_op(value)
        if op is None or op not in self.fuser.free:
            return False
        if aval_of(value.type).rank == 0:
            return True
        unguarded = is_movement(op) and not any(read.guards for read in formula_of(op).reads)
        return unguarded and all(self._is_splat(o) for o in op._operands)

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
            return self.group.kind in ("loops", "contract") or op.kind is Kind.RESHAPE or self._is_splat(op.results[0])
        if not is_movement(op) or self.group.kind == "opaque" or self.fuser.is_part(op):
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
        for origin in self.fuser.partition.sources(value):
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
