"""Pass `fuse`: partition the ops of @main into `nd.group`s, one kernel each.

Before::

    %1 = nd.mul %x, %y          %2 = nd.reduce_sum %1 {axes = [1]}          %3 = nd.exp %2

After::

    %3 = nd.group %x, %y {group = "loops", domain = <4, 8>, axes = [1]} { ...the three ops... }

Ops are taken in program order. A map or reduction joins the group of one of its producers when it can be computed at
the same point of the same loops (every read of a member is at the member's *home*), when no cycle arises, and when it
does not cost parallelism; groups that it connects are merged. Pure movement (views, slices, transposes, pads), values
made of indices and constants, and cheap values that are larger than what they are made of are never computed on their
own: each reader computes them in place. A reshape of a value in memory is a view. Where a reader could not join, the
group notes the reason at that border, one of `REASONS`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.xdsl_compat import location_text
from firebox.errors import UserError
from firebox.lowering.access import (
    Index,
    formula_of,
    is_join,
    is_movement,
    is_taken_apart,
    loops,
    owner_op,
    reads_at,
    reduction_of,
    substitute,
    through_movement,
)
from firebox.lowering.module import main_function
from firebox.lowering.ranges import prove_indices
from firebox.lowering.regroup import CONTROL, MAX_MEMBERS, MAX_OPERANDS, Group, Partition, regroup
from firebox.lowering.share import share_kernels

REASONS = {
    "kind": "the producer is a kernel of another kind that takes no such op into its loops",
    "domain": "the loops have other extents",
    "alignment": "the element that is read is not the one that the producer has at that point",
    "cycle": "a third kernel would have to run both before and after",
    "parallelism": "too few independent rows would be left",
    "benefit": "only results of reductions would be combined, and one kernel would have to wait for the other",
    "size": "the kernel would become too large",
    "recompute": "the op is computed again so that its value need not wait, as it would after the producer",
}
MAX_FREE_CHAIN = 4
SMALL_INPUT = 1 << 16
_MIN_ROWS = 32
_OWN_KINDS = {Kind.CONTRACT: "contract", Kind.SCAN: "scan", Kind.REGION: CONTROL}
_SMALL = 1 << 15
_UNKNOWN_EXTENT = 256


def fuse(module: ModuleOp, splits: bool = False, alignment: int = 1) -> None:
    """Group every op of @main; in place.

    Args:
        splits: kernels of the target split reductions, so that those to few results cost no parallelism.
        alignment: bytes at whose multiples a buffer of a kernel must begin.
    """
    block = main_function(module).body.block
    prove_indices(block)
    _fuse_block(block, splits, alignment)


def _fuse_block(block: Block, splits: bool, alignment: int) -> None:
    """Group the ops of a block, and those of the blocks of control flow in it."""
    for op in block.ops:
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                _fuse_block(inner, splits, alignment)
    partition = _Fuser(block, splits, alignment)
    partition.run()
    regroup(partition)
    share_kernels(block, alignment)


class _Fuser(Partition):
    """The state of one run."""

    def __init__(self, block: Block, splits: bool, alignment: int) -> None:
        super().__init__(block, alignment)
        self.splits = splits

    # ---- partition -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Put every op that is computed on its own into a group."""
        for op in list(self.block.ops)[:-1]:
            if not isinstance(op, NdOp) or isinstance(op, GroupOp):
                error = UserError("cannot be grouped", op=op.name, expected="ops of the nd dialect without groups")
                raise error.at(location_text(op.location))
            if self._is_free(op):
                self.free.add(op)
            elif not is_movement(op):
                self._place(op)

    def _is_free(self, op: NdOp) -> bool:
        """Cheap, and made of indices, constants and less memory than the result takes: recomputed where it is read.

        A mask or a broadcast product is read by its small parts rather than written and read in full.
        """
        if op.kind not in (Kind.MAP, Kind.RESHAPE) or op.transcendental:
            return False
        operands = [owner_op(o) for o in op._operands]
        if all(owner is not None and owner in self.free for owner in operands) and not self._reads(op):
            return True
        if is_movement(op) or is_join(op) or is_taken_apart(op) or self._chain(op) > MAX_FREE_CHAIN:
            return False
        return self._shrinks(op)

    def _reads(self, op: NdOp) -> set[SSAValue]:
        """Values in memory that computing the op would read."""
        return {s for operand in op._operands for s in self.sources(operand)}

    def _chain(self, op: NdOp) -> int:
        """Free ops that would be computed along with the op."""
        owners = (owner_op(o) for o in op._operands)
        return 1 + sum(self._chain(o) for o in owners if o is not None and o in self.free)

    def _shrinks(self, op: NdOp) -> bool:
        """The parts are fewer elements and no more bytes than the result, or they are small inputs such as labels."""
        parts = self._reads(op)
        read = sum(_estimate(aval_of(v.type).nbytes) for v in parts)
        written = sum(_estimate(a.nbytes) for a in op.avals)
        grows = all(_estimate(aval_of(v.type).size) < _estimate(op.avals[0].size) for v in parts)
        return (grows and read <= written) or (read <= SMALL_INPUT and all(owner_op(v) is None for v in parts))

    def _place(self, op: NdOp) -> None:
        if op.kind not in (Kind.MAP, Kind.REDUCE):
            self._start(op, _OWN_KINDS.get(op.kind, "opaque"))
            return
        producers = self._producers(op)
        borders: dict[Group, str] = {}
        for target in sorted(producers, key=_preference):
            reason = self._why_not(op, target, producers)
            if reason is None:
                self._join(op, target, producers, borders)
                return
            borders[target] = reason
        self._start(op, "loops", borders)

    def _producers(self, op: NdOp) -> dict[Group, list[SSAValue]]:
        """Groups whose members the op reads, directly or through movement."""
        found: dict[Group, list[SSAValue]] = {}
        for operand in op._operands:
            for source in self.sources(operand):
                owner = owner_op(source)
                if owner is not None and owner in self.group_of:
                    found.setdefault(self.group_of[owner], []).append(source)
        return found

    def _start(self, op: NdOp, kind: str, borders: dict[Group, str] | None = None) -> None:
        if op.kind is Kind.REDUCE:
            reduction = reduction_of(formula_of(op))
            domain, axes, home = reduction.domain, reduction.axes, reduction.home
        else:
            domain, axes = op.avals[0].shape if op.results else (), ()
            home = loops(domain)
        group = Group(len(self.groups), kind, domain, axes)
        self.groups.append(group)
        producers = self._producers(op)
        self._add(op, group, home, producers)
        self._note(group, producers, borders or {})

    def _note(self, group: Group, producers: dict[Group, list[SSAValue]], borders: dict[Group, str]) -> None:
        for producer, values in producers.items():
            if producer is not group:
                reason = borders.get(producer, "kind")
                for value in values:
                    group.borders.setdefault(value, reason)

    def _add(self, op: NdOp, group: Group, home: Index, producers: Iterable[Group]) -> None:
        group.members.append(op)
        self.group_of[op] = group
        for result in op.results:
            group.homes[result] = home
        before = 0
        for producer in producers:
            if producer is not group:
                before |= producer.ancestors | (1 << producer.number)
        self._extend_ancestors(group, before)

    def _extend_ancestors(self, group: Group, before: int) -> None:
        if before | group.ancestors == group.ancestors:
            return
        group.ancestors |= before
        bit = 1 << group.number
        for other in self.groups:
            if other.ancestors & bit:
                other.ancestors |= group.ancestors

    # ---- joining -------------------------------------------------------------------------------------------------

    def _why_not(self, op: NdOp, target: Group, producers: dict[Group, list[SSAValue]]) -> str | None:
        """The reason why the op cannot join, or None."""
        if target.kind not in ("loops", "contract") or (target.kind == "contract" and op.kind is Kind.REDUCE):
            return "kind"
        if target.is_too_early(op):
            return "recompute"
        homes = self._homes(op, target)
        if not homes:
            return "domain"
        if not any(self._aligned(op, home, target) for home in homes):
            return "alignment"
        bit = 1 << target.number
        if any(p is not target and p.ancestors & bit for p in producers):
            return "cycle"
        if loops(target.domain) not in homes and any(_would_wait(target, p) for p in producers):
            return "benefit"
        if op.kind is Kind.REDUCE and not target.axes and not (self.splits or _parallel_enough(op)):
            return "parallelism"
        return "size" if len(target.members) >= MAX_MEMBERS or self._operand_count(target) >= MAX_OPERANDS else None

    def _operand_count(self, group: Group) -> int:
        return len({o for m in group.members for o in m._operands if self.group_of.get(o.owner) is not group})  # type: ignore[arg-type]

    def _homes(self, op: NdOp, target: Group) -> list[Index]:
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

    def _aligned(self, op: NdOp, home: Index, target: Group) -> bool:
        """Every read of a member of the target is at the member's home, or can be recomputed where it is.

        Recomputing is for row values only: one element of a full value per row, such as the picked one of a loss.
        """
        check = _Check(self, target, target.homes, home != loops(target.domain))
        return all(check.readable(value, index, bool(read.guards)) for value, index, read in reads_at(op, home))

    def _join(self, op: NdOp, target: Group, producers: dict[Group, list[SSAValue]], borders: dict[Group, str]) -> None:
        if op.kind is Kind.REDUCE:
            target.axes = reduction_of(formula_of(op)).axes
        home = next(h for h in self._homes(op, target) if self._aligned(op, h, target))
        for other in producers:
            if other is not target:
                reason = self._why_no_merge(op, home, other, target, producers)
                if reason is None:
                    self._merge(other, target)
                else:
                    borders.setdefault(other, reason)
        kept = {self.group_of[o] for v in producers.values() for s in v if (o := owner_op(s)) is not None}
        self._add(op, target, home, kept)
        self._note(target, producers, borders)

    def _why_no_merge(
        self, op: NdOp, home: Index, other: Group, target: Group, producers: Iterable[Group]
    ) -> str | None:
        if other.kind != "loops" or (target.kind == "contract" and other.axes):
            return "kind"
        if _renamed(other, target) is None:
            return "domain"
        if other.axes and home != loops(target.domain):
            return "benefit"
        if other.ancestors >> target.number & 1 or target.ancestors >> other.number & 1:
            return "cycle"
        if any(p.ancestors >> other.number & 1 for p in producers if p is not other and p is not target):
            return "cycle"  # the op, in the target, reads what needs the other group
        if len(other.members) + len(target.members) > MAX_MEMBERS:
            return "size"
        names = _renamed(other, target) or {}
        homes = {value: substitute(at, names) for value, at in other.homes.items()}
        check = _Check(self, other, homes, False)
        reads = reads_at(op, home)
        return None if all(check.readable(v, i, bool(r.guards)) for v, i, r in reads) else "alignment"

    def _merge(self, other: Group, target: Group) -> None:
        """Move the members of an independent group into the target."""
        names = _renamed(other, target)
        assert names is not None
        for member in other.members:
            self.group_of[member] = target
        target.axes = target.axes or other.axes
        target.members += other.members
        target.homes |= {value: substitute(home, names) for value, home in other.homes.items()}
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


@dataclass(frozen=True)
class _Check:
    """Whether reads of a group's members are where the members are computed.

    Attributes:
        fuser: the partition.
        group: the group.
        homes: of its members, in the loops of the reader.
        recompute: members may be computed once more at another point.
    """

    fuser: _Fuser
    group: Group
    homes: Mapping[SSAValue, Index]
    recompute: bool

    def readable(self, value: SSAValue, index: Index, guarded: bool) -> bool:
        source, at, met_guard = through_movement(value, index)
        owner = owner_op(source)
        if owner is None:
            return True
        if owner in self.fuser.free:
            return all(self.readable(v, i, bool(r.guards)) for v, i, r in reads_at(owner, at))
        if self.fuser.group_of.get(owner) is not self.group:
            return True
        if at == self.homes[source] and not (guarded or met_guard):
            return True
        if not self.recompute or owner.kind is not Kind.MAP:
            return False
        return all(self.readable(v, i, False) for v, i, _ in reads_at(owner, at))


def _preference(group: Group) -> tuple[bool, bool, int, int]:
    """Which producer an op joins if it can: contractions, then reductions, large before small, late before early."""
    return group.kind != "contract", not group.axes, -_estimate(dims.product(group.domain)), -group.number


def _would_wait(target: Group, producer: Group) -> bool:
    """Reading the producer makes the target, and all that read the target, wait for kernels it did not need before."""
    known = target.ancestors | 1 << target.number
    return bool(producer.axes) and not known >> producer.number & 1 and producer.ancestors & ~known != 0


def _renamed(other: Group, target: Group) -> dict[str, dims.DimLike] | None:
    """The loops of a group in terms of those of the group it is merged into; None when it does not fit there.

    It fits with the same loops, and as a map over the rows of a group that reduces.
    """
    if other.domain == target.domain:
        return {} if not (other.axes and target.axes) or other.axes == target.axes else None
    if other.axes or not target.axes:
        return None
    kept = tuple(1 if k in target.axes else e for k, e in enumerate(target.domain))
    if other.domain == kept:
        return {}
    rows = [v for k, v in enumerate(loops(target.domain)) if k not in target.axes]
    if other.domain == tuple(e for k, e in enumerate(target.domain) if k not in target.axes):
        return {f"d{k}": v for k, v in enumerate(rows)}
    return None


def _estimate(size: dims.DimLike) -> int:
    """A size as a number; symbolic dims are taken for `_UNKNOWN_EXTENT`."""
    return dims.evaluate(size, dict.fromkeys(dims.names(size), _UNKNOWN_EXTENT))


def _parallel_enough(op: NdOp) -> bool:
    """Rows left after a reduction joins a map: enough to share among threads, or the whole is small, or unknown."""
    reduction = reduction_of(formula_of(op))
    rows = dims.product(e for k, e in enumerate(reduction.domain) if k not in reduction.axes)
    total = dims.product(reduction.domain)
    if not isinstance(rows, int) or not isinstance(total, int):
        return True
    trailing = reduction.axes == tuple(range(len(reduction.domain) - len(reduction.axes), len(reduction.domain)))
    return total <= _SMALL or (trailing and rows >= _MIN_ROWS)


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Group ops that run as one kernel."""

    name = "nd-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse(op)
