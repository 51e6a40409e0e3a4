"""Kernels of groups with reductions on a GPU: rows and columns, and what maps and reductions make of them together.

A *row* is a unit of the parallel loops: one element, or a vector along a parallel lane loop (a column). The work-items
of a group are `rows_per_group` rows times the items that share a row. Items of a row lie next to each other when the
lanes run along a reduced loop, and rows do when they run along a parallel one, so that accesses coalesce either way.
Every item takes units of the reduced loops in steps of the items of a row (and of the `split` groups that share it).
Where it takes few, the code is written out, and what one stage computed is in registers for the next one, so that a
row is read from memory once. Otherwise the stages are loops that read again. Items beyond the end are moved to the
last unit or row and compute it once more; they add nothing and store nothing. A group whose rows are split has one
kernel for each stage; each starts by combining what the groups of the stages before left in the workspace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.errors import CompilerError
from firebox.lowering.generate.body import linear
from firebox.lowering.generate.gpu.device_body import Memo
from firebox.lowering.generate.gpu.loop_frame import LoopFrame, Output
from firebox.lowering.generate.gpu.partials import Partials
from firebox.lowering.generate.gpu.space import Space, stores_full
from firebox.lowering.generate.gpu.tree import GroupTree
from firebox.lowering.generate.stages import (
    State,
    combine,
    combine_all,
    finish,
    flatten,
    flatten_all,
    fold_lanes,
    group_all,
    group_like,
    identity,
    lifted,
    same_storage,
)

_STORED_TOGETHER = 4
"""Units that are computed before the first of them is stored."""


@dataclass
class _Unit:
    """A unit of the reduced loops that an item holds in registers.

    Attributes:
        number: which one.
        inside: whether it is the item's own; None if it always is.
        memo: what is known there.
    """

    number: Val
    inside: Val | None
    memo: Memo = field(default_factory=dict)


@dataclass(frozen=True)
class _Work:
    """What one stage does at each point: the reductions that it feeds, the values that it stores."""

    reductions: list[NdOp]
    full: list[Output]


class RowKernel:
    """Builds one kernel: all stages of a group, or one of them if the rows are split."""

    def __init__(
        self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int], number: int = 0
    ) -> None:
        self.frame = LoopFrame(group, schedule, dim_order, op_ids, number)
        self.schedule = schedule
        self.nest = self.frame.nest
        self.k = self.frame.k
        self.body = self.frame.body
        self.rows = self.frame.parallel
        self.space = Space.of(self.nest, schedule, True)
        self.items = schedule.group // schedule.rows_per_group
        self.number = number
        self.split = schedule.split if number < self.nest.depth or stores_full(self.nest, number) else 1
        self.partials = Partials.of(group, schedule) if schedule.split > 1 else None
        self.row_memo: Memo = {}
        self._check()

    def build(self) -> FuncOp:
        """The finished kernel."""
        if self.rows.size != 0:
            self._place()
            if self.partials is None:
                for level in range(self.nest.depth + 1):
                    self._stage(level)
            else:
                self._combine_partials(self.partials)
                self._stage(self.number)
            if self.partials is None or self.number == self.nest.depth:
                self._store_rows()
        return self.k.finish()

    def _check(self) -> None:
        """A schedule may have been written by hand.

        Raises:
            CompilerError: some elements would not be met.
        """
        units, held = self.space.units, self.schedule.block * self.items * self.split
        covered = not self.schedule.block or (not self.space.ragged and isinstance(units, int) and units <= held)
        if self.rows.ragged or not covered:
            expected = "lanes that divide the loop, and registers for whole rows (block), or block=0"
            label, found = self.frame.group.label, str(self.schedule)
            raise CompilerError("the schedule does not fit", op=label, expected=expected, found=found)

    # ---- places --------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Where the work-item stands: its row, its number in it, and the part of the row that its group has."""
        k, per_group = self.k, self.schedule.rows_per_group
        count = self.body.expression(self.rows.units)
        block, self.part = k.group_id(), k.index(0)
        if self.split > 1:
            block, self.part = k.floordiv(block, self.split), k.mod(block, self.split)
        within = self._in_group()
        row = k.add(k.mul(block, per_group), within)
        self.active: Val | None = None
        if not _divides(self.rows.units, per_group):
            self.active = k.lt(row, count)
            row = k.min(row, k.sub(count, 1))
            row.nonneg = True  # there is a row wherever a group runs
        self.row = row
        self.rows.enter(self.body, row)
        self.width = self.space.lanes if self.space.lanes > 1 else self.rows.lanes
        self.first = k.add(k.mul(self.part, self.items), self.item)
        self.step = self.items * self.split
        self.units = self._registers()
        self._at_row()

    def _in_group(self) -> Val:
        """The row's number in the group; neighbouring work-items follow the row, or the rows if they are vectors."""
        k, me, rows = self.k, self.k.local_id(), self.schedule.rows_per_group
        if rows == 1:
            within, self.item, first, apart = k.index(0), me, k.index(0), 1
        elif self.items == 1:
            within, self.item, first, apart = me, k.index(0), me, 1
        elif self.rows.lane is None:
            within, self.item = k.floordiv(me, self.items), k.mod(me, self.items)
            first, apart = k.mul(within, self.items), 1
        else:
            within, self.item = k.mod(me, rows), k.floordiv(me, rows)
            first, apart = within, rows
        self.tree = GroupTree(k, self.items, self.item, first, apart)
        return within

    def _registers(self) -> list[_Unit]:
        """The units that the item holds, if it holds its whole share."""
        k, total = self.k, self.space.units
        units: list[_Unit] = []
        for turn in range(self.schedule.block):
            assert isinstance(total, int)
            number = k.add(self.first, turn * self.step)
            inside = None
            if (turn + 1) * self.step > total:
                inside = k.lt(number, total)
                number = k.min(number, total - 1)
                number.nonneg = True
            units.append(_Unit(number, inside))
        return units

    def _at_row(self) -> None:
        self.body.lane = self.rows.vector
        self.body.resume(self.row_memo)

    def _at_unit(self, number: Val, memo: Memo) -> None:
        self.space.enter(self.body, number)
        self.body.lane = self.space.vector or self.rows.vector
        self.body.resume(memo)

    # ---- stages --------------------------------------------------------------------------------------------------

    def _full(self, level: int) -> list[Output]:
        """Full values that are stored in a stage."""
        nest = self.nest
        return [(v, r) for v, r in self.frame.outputs if not nest.is_row(v) and nest.levels[v] == level]

    def _stage(self, level: int) -> None:
        work = _Work(self.nest.reductions(level), self._full(level))
        if not work.reductions and not work.full:
            return
        states = self._in_registers(work) if self.units else self._in_loops(work)
        self._at_row()
        states = self.tree.combined(work.reductions, states)
        for op, state in zip(work.reductions, states, strict=True):
            self._end(op, state)
        self._keep(work.full)

    def _end(self, op: NdOp, state: State) -> None:
        """The result of a reduction, or a part of it for the next kernel."""
        if self.partials is None:
            finish(self.body, op, state)
            return
        partials = self.partials
        self._if(self._first_item(), lambda: partials.store(self.body, op, state, self.part, self.row))

    def _keep(self, full: list[Output]) -> None:
        """What was stored is loaded again in later stages, where registers do not hold it."""
        if self.units:
            return
        for value, ref in full:
            if same_storage(value):
                home = self.nest.homes[value]
                self.body.stored[value] = (ref, linear(home, aval_of(value.type).shape), home)

    def _combine_partials(self, partials: Partials) -> None:
        """Every group combines the parts of all earlier stages."""
        for level in range(self.number):
            ops = self.nest.reductions(level)
            states = self.tree.combined(ops, combine_all(self.k, ops, self._parts(partials, ops)))
            for op, state in zip(ops, states, strict=True):
                finish(self.body, op, state)
            self._keep(self._full(level))

    def _parts(self, partials: Partials, ops: list[NdOp]) -> list[list[State]]:
        """The parts that the item combines."""
        k = self.k
        found = []
        for start in range(0, partials.split, self.items):
            part = k.add(self.item, start)
            inside = None
            if start + self.items > partials.split:
                inside = k.lt(part, partials.split)
                part = k.min(part, partials.split - 1)
            states = [partials.load(self.body, op, part, self.row) for op in ops]
            found.append([self._only_if(inside, op, state) for op, state in zip(ops, states, strict=True)])
        return found

    def _only_if(self, inside: Val | None, op: NdOp, state: State) -> State:
        """The state, or that of no elements."""
        if inside is None:
            return state
        nothing = identity(self.k, op, state[0].lanes)
        return [self.k.select(inside, value, none) for value, none in zip(state, nothing, strict=True)]

    # ---- in registers --------------------------------------------------------------------------------------------

    def _in_registers(self, work: _Work) -> list[State]:
        copies = []
        for unit in self.units:
            if not work.reductions:
                break
            self._at_unit(unit.number, unit.memo)
            states = [(op, lifted(self.body, op, self.width)) for op in work.reductions]
            copies.append([self._only_if(unit.inside, op, state) for op, state in states])
        if work.full:
            for start in range(0, len(self.units), _STORED_TOGETHER):
                self._store_units(self.units[start : start + _STORED_TOGETHER], work.full)
        if not copies:
            return []
        return self._folded(work.reductions, combine_all(self.k, work.reductions, copies))

    def _store_units(self, units: list[_Unit], full: list[Output]) -> None:
        computed = []
        for unit in units:
            self._at_unit(unit.number, unit.memo)
            computed.append(self.frame.values(full))
        for unit, values in zip(units, computed, strict=True):
            self._at_unit(unit.number, unit.memo)
            self._if(self._both(unit.inside, self.active), partial(self.frame.store, full, values))

    def _folded(self, ops: list[NdOp], states: list[State]) -> list[State]:
        """The lanes combined, if they lie along the row."""
        if self.space.lanes == 1:
            return states
        return [fold_lanes(self.k, op, state) for op, state in zip(ops, states, strict=True)]

    # ---- in loops ------------------------------------------------------------------------------------------------

    def _in_loops(self, work: _Work) -> list[State]:
        k, ops, unroll = self.k, work.reductions, self.schedule.unroll
        states = [identity(k, op, self.width) for op in ops]
        if self.space.size == 0:
            return self._folded(ops, states)
        total = self.body.expression(self.space.units)
        start = self.first
        if unroll > 1:
            wide = self.step * unroll
            middle = k.mul(k.floordiv(total, wide), wide)
            copies = [states] + [[identity(k, op, self.width) for op in ops] for _ in range(unroll - 1)]
            end = k.loop(0, middle, wide, flatten_all(copies), lambda p, c: self._wide_turn(p, c, copies, work))
            states = combine_all(k, ops, group_all(end, copies))
            start = k.add(start, middle)
        if unroll == 1 or not _divides(self.space.units, self.step * unroll):
            end = k.loop(start, total, self.step, flatten(states), lambda p, c: self._turn(p, c, states, work))
            states = group_like(end, states)
        states = self._folded(ops, states)
        return self._with_rest(states, work) if self.space.ragged else states

    def _wide_turn(self, base: Val, carried: list[Val], copies: list[list[State]], work: _Work) -> Sequence[Val]:
        """Units that are in flight together."""
        mine = self.k.add(self.first, base)
        units = [_Unit(self.k.add(mine, number * self.step), None) for number in range(len(copies))]
        result = []
        for unit, states in zip(units, group_all(carried, copies), strict=True):
            self._at_unit(unit.number, unit.memo)
            result.append(self._added(states, work.reductions))
        if work.full:
            self._store_units(units, work.full)
        return flatten_all(result)

    def _turn(self, number: Val, carried: list[Val], like: list[State], work: _Work) -> Sequence[Val]:
        unit = _Unit(number, None)
        self._at_unit(number, unit.memo)
        result = self._added(group_like(carried, like), work.reductions)
        if work.full:
            self._store_units([unit], work.full)
        return flatten(result)

    def _added(self, states: list[State], ops: list[NdOp]) -> list[State]:
        """The states with the element at the present point."""
        return [
            combine(self.k, op, state, lifted(self.body, op, state[0].lanes))
            for op, state in zip(ops, states, strict=True)
        ]

    def _with_rest(self, states: list[State], work: _Work) -> list[State]:
        """Elements after the last whole vector: one for each of the first items."""
        left = self.body.expression(dims.mod(self.space.size, self.space.lanes))

        def element() -> Sequence[Val]:
            self.space.enter_element(self.body, self.first)
            self.body.lane = None
            self.body.resume({})
            result = flatten(self._added(states, work.reductions))
            values = self.frame.values(work.full)
            self._if(self.active, lambda: self.frame.store(work.full, values))
            return result

        return group_like(self.k.if_(self.k.lt(self.first, left), element, lambda: flatten(states)), states)

    # ---- the end of a row ----------------------------------------------------------------------------------------

    def _store_rows(self) -> None:
        rows = [(value, ref) for value, ref in self.frame.outputs if self.nest.is_row(value)]
        if not rows:
            return
        self._at_row()
        values = self.frame.values(rows)
        first = self._first_item()
        if self.split > 1:
            first = self._both(first, self.k.eq(self.part, 0))
        self._if(first, lambda: self.frame.store(rows, values))

    def _first_item(self) -> Val | None:
        """Whether the item speaks for its row; None if every item does."""
        return self._both(None if self.items == 1 else self.k.eq(self.item, 0), self.active)

    def _both(self, a: Val | None, b: Val | None) -> Val | None:
        if a is None or b is None:
            return b if a is None else a
        return self.k.and_(a, b)

    def _if(self, condition: Val | None, action: Callable[[], None]) -> None:
        if condition is None:
            action()
        else:
            self.k.if_(condition, action)


def _divides(extent: dims.DimLike, count: int) -> bool:
    return isinstance(extent, int) and extent % count == 0
