"""`nd.scatter_add` on a GPU: out = x, then the updates are added, always in the same order.

With x: [P, S, Q] (or one number), indices: [J], updates: [P, J, Q]. Integers of 32 bits, and of 64 where the device
can, are added by atomics, as their sums do not depend on the order: a kernel copies x and a second one adds. For all
other types the pairs of index and position are sorted; what belongs to a row of the result then lies together, in the
order of the indices. A work-item takes some columns of a row, starts from x and adds the updates one after the other,
as the CPU does: sums are the same to the last bit. f16 and bf16 add up in f32 and are rounded once.
"""

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import DType, bool_, i32, i64, u32, u64
from firebox.lowering.generate.body import INDEX_FAULT
from firebox.lowering.generate.frame import Frame, three
from firebox.lowering.generate.gpu.frame import device_frame
from firebox.lowering.generate.gpu.merge import Merger, Plan, Word, Words, items_for, power
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.lowering.ranges import is_checked
from firebox.runtime.opencl_target import OpenClTarget

ITEMS = 256
ROWS_EACH = 4
"""Rows of a work-item, where a row has columns for several."""
TOGETHER = (16, 4, 1)
"""Updates that are read before the first of them is added, as long as there are so many."""


def schedule_scatter(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule: ``lanes`` columns of a work-item, ``rows_per_group`` rows, ``block`` work-items for sorting, or 0
    where atomics add."""
    op = group.members[-1]
    x, indices, _ = op.operand_avals
    _, _, inner = three(x.shape, op.values["axis"])
    lanes = _lanes(x.dtype, inner)
    items = min(ITEMS, target.max_group)
    across = _across(inner, lanes, items)
    rows = items // across * (ROWS_EACH if across > 1 else 1)
    sorting = 0 if _is_atomic(x.dtype, target) else items_for(indices.size, 1, target)
    return Schedule("gpu-scatter", lanes=lanes, block=sorting, group=items, rows_per_group=rows)


def _lanes(dtype: DType, inner: DimLike) -> int:
    """Columns of a vector: rows start at multiples of it."""
    lanes = min(4, 16 // dtype.itemsize)
    while lanes > 1 and not (isinstance(inner, int) and inner % lanes == 0):
        lanes //= 2
    return lanes


def _across(inner: DimLike, lanes: int, items: int) -> int:
    """Work-items side by side in a row."""
    return min(items, power(inner // lanes)) if isinstance(inner, int) else items


def _is_atomic(dtype: DType, target: OpenClTarget) -> bool:
    return dtype in (i32, u32) or (dtype in (i64, u64) and target.has("int64_atomics"))


def _plan(group: GroupOp, schedule: Schedule) -> Plan:
    return Plan(1, group.members[-1].operand_avals[1].size, 1, schedule.block)


def _workspace(plan: Plan) -> DimLike:
    """Bytes for the sorted words, at least one."""
    return dims.multiply(plan.half, 2) + plan.tile


def launch_scatter(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Copy and add; or sort tiles, merge them, sum."""
    op = group.members[-1]
    x, _, updates = op.operand_avals
    if not schedule.block:
        counts = [dims.ceildiv(a.size, schedule.lanes * schedule.group) for a in (x, updates)]
        return tuple(Launch(count, schedule.group) for count in counts)
    plan = _plan(group, schedule)
    workspace = _workspace(plan)
    sorting = [plan.tiles, *(plan.groups(width) for width in plan.widths)]
    outer, size, inner = three(x.shape, op.values["axis"])
    rows, columns = dims.ceildiv(size, schedule.rows_per_group), dims.ceildiv(inner, _columns(inner, schedule))
    count = dims.product((outer, rows, columns))
    return (*(Launch(n, plan.items, workspace) for n in sorting), Launch(count, schedule.group, workspace))


def _columns(inner: DimLike, schedule: Schedule) -> int:
    """Columns of a group."""
    return schedule.lanes * _across(inner, schedule.lanes, schedule.group)


def generate_scatter(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernels of a scheduled scatter_add."""
    if not schedule.block:
        frames = [device_frame(group, dim_order, op_ids, schedule.group, number) for number in (0, 1)]
        return Kernels((AtomicScatter(frames[0], schedule).copy(), AtomicScatter(frames[1], schedule).add()))
    plan = _plan(group, schedule)
    sorting = 1 + len(plan.widths)

    def start(number: int, items: int) -> Frame:
        return device_frame(group, dim_order, op_ids, items, number, _workspace(plan))

    mains = [SortIndices(start(number, plan.items), plan).build(number) for number in range(sorting)]
    return Kernels((*mains, RowSums(start(sorting, schedule.group), schedule, plan).build()))


GPU_SCATTER = Template("gpu-scatter", schedule_scatter, generate_scatter, launch_scatter)


class Scatter:
    """What the kernels of a scatter_add have in common."""

    def __init__(self, frame: Frame, schedule: Schedule) -> None:
        self.frame, self.k, self.body = frame, frame.k, frame.body
        self.lanes = schedule.lanes
        x, indices, _ = frame.op.operand_avals
        self.outer, self.size, self.inner = three(x.shape, frame.op.values["axis"])
        self.total, self.count = x.size, indices.size
        self.updates = frame.operand(2)
        self.out = frame.outputs[frame.op.results[0]]

    def start(self, at: Val) -> Val:
        """Elements of x."""
        fill = self.frame.number(0)
        if fill is not None:
            return self.k.broadcast(fill, self.lanes)
        return self.k.load(self.frame.operand(0), at, self.lanes)


def checked_index(frame: Frame, position: Val) -> tuple[Val, Val]:
    """An index (i64), and whether it is a row of x; notes a fault where it is not."""
    k = frame.k
    size = frame.body.expression(frame.op.operand_avals[0].shape[frame.op.values["axis"]])
    index = k.cast(k.load(frame.operand(1), position), i64)
    inside = k.and_(k.ge(index, 0), k.lt(index, size))
    op_id = frame.body.op_id(frame.op)
    if is_checked(frame.op):
        k.if_(k.not_(inside), lambda: k.fail(INDEX_FAULT, op_id, index, size))
    return index, inside


class AtomicScatter(Scatter):
    """The kernels for integers."""

    def copy(self) -> FuncOp:
        """x to the result."""
        self._each(self.total, lambda at: self.k.store(self.out, at, self.start(at)))
        return self.k.finish()

    def add(self) -> FuncOp:
        """Every update to its row."""
        self._each(dims.product((self.outer, self.count, self.inner)), self._add)
        return self.k.finish()

    def _each(self, count: DimLike, work: Callable[[Val], None]) -> None:
        k = self.k
        at = k.mul(k.add(k.mul(k.group_id(), k.group), k.local_id()), self.lanes)
        k.if_(k.lt(at, self.body.expression(count)), lambda: work(at))

    def _add(self, at: Val) -> None:
        k = self.k
        outer, position, column = self.frame.split(at, self.outer, self.count, self.inner)
        index, inside = checked_index(self.frame, position)
        row = k.add(k.mul(outer, self.body.expression(self.size)), k.index(index))
        place = k.add(k.mul(row, self.body.expression(self.inner)), column)

        def add() -> None:
            values = k.load(self.updates, at, self.lanes)
            for lane in range(self.lanes):
                k.atomic("add", self.out, k.add(place, lane), k.extract(values, lane))

        k.if_(inside, add)


class SortIndices(Merger):
    """One of the kernels that sort pairs of index and position; they stay in the workspace."""

    def word(self, row: Val, column: Val) -> Word:
        """An index that is out of range comes last, and belongs to no row."""
        k = self.k
        index, inside = checked_index(self.frame, column)
        key = k.select(inside, k.cast(index, u64), 0xFFFFFFFF)
        return [k.or_(k.shl(key, 32), k.cast(column, u64))]

    def is_last(self, width: int) -> Val:
        return self.k.const(False, bool_)


class RowSums(Scatter):
    """The kernel that sums what belongs to each row of the result."""

    def __init__(self, frame: Frame, schedule: Schedule, plan: Plan) -> None:
        super().__init__(frame, schedule)
        k = self.k
        self.rows = schedule.rows_per_group
        self.across = _across(self.inner, self.lanes, schedule.group)
        self.down = schedule.group // self.across
        self.words = self._sorted(plan)
        self.starts = k.alloc_local(u32, self.rows + 1)
        self.length = self.body.expression(self.count)

    def _sorted(self, plan: Plan) -> Words:
        """The half of the workspace that the last merging kernel wrote."""
        k, size = self.k, self.body.expression(self.count)
        offset, half = k.index(0), self.body.expression(plan.half)
        for number, width in enumerate(plan.widths):
            offset = k.select(k.gt(size, width), k.mul(half, (number + 1) % 2), offset)
        return Words(k, [k.view(k.workspace, offset, u64)], False)

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        blocks = dims.ceildiv(self.size, self.rows), dims.ceildiv(self.inner, self.across * self.lanes)
        outer, block, strip = self.frame.split(k.group_id(), self.outer, *blocks)
        first = k.mul(block, self.rows)
        size, inner = self.body.expression(self.size), self.body.expression(self.inner)
        k.loop(k.local_id(), self.rows + 1, k.group, [], lambda n, _: k.store(
            self.starts, n, k.cast(self._first_word(k.min(k.add(first, n), size)), u32)
        ))  # fmt: skip
        k.barrier()
        column = k.mul(k.add(k.mul(strip, self.across), k.mod(k.local_id(), self.across)), self.lanes)
        rank = k.floordiv(k.local_id(), self.across)
        for number in range(self.rows // self.down):
            row = k.add(rank, number * self.down)
            inside = k.and_(k.lt(k.add(first, row), size), k.lt(column, inner))
            k.if_(inside, lambda row=row: self._sum(outer, first, row, column))  # type: ignore[misc]
        return k.finish()

    def _first_word(self, row: Val) -> Val:
        """How many sorted words belong to rows before this one."""
        k = self.k
        bound = k.shl(k.cast(row, u64), 32)

        def halve(bounds: list[Val]) -> list[Val]:
            low, high = bounds
            low.nonneg = high.nonneg = True
            middle = k.floordiv(k.add(low, high), 2)
            before = k.lt(self.words.get(middle)[0], bound)
            return [k.select(before, k.add(middle, 1), low), k.select(before, high, middle)]

        return k.while_([k.index(0), self.length], lambda bounds: k.lt(bounds[0], bounds[1]), halve)[0]

    def _sum(self, outer: Val, first: Val, row: Val, column: Val) -> None:
        """Some columns of a row: x, then the updates in the order of their positions."""
        k, number = self.k, self.body.expression
        inner = number(self.inner)
        place = k.add(k.mul(k.add(k.mul(outer, number(self.size)), k.add(first, row)), inner), column)
        start, stop = (k.index(k.load(self.starts, k.add(row, n))) for n in (0, 1))
        base = k.mul(outer, self.length)

        def add(count: int, at: Val, carried: list[Val]) -> list[Val]:
            words = [self.words.get(k.add(at, n))[0] for n in range(count)]
            positions = [k.index(k.cast(k.and_(word, 0xFFFFFFFF), i64)) for word in words]
            places = [k.add(k.mul(k.add(base, position), inner), column) for position in positions]
            (total,) = carried
            for value in [k.load(self.updates, p, self.lanes) for p in places]:
                total = k.add(total, value)
            return [total]

        total = [self.start(place)]
        for count in TOGETHER:
            full = k.add(start, k.mul(k.floordiv(k.sub(stop, start), count), count))
            total = k.loop(start, full, count, total, partial(add, count))
            start = full
        k.store(self.out, place, total[0])
