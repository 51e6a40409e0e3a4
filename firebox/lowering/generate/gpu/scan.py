"""Scans on a GPU: a work-group walks along some lines block by block, and carries what came before to the next block.

The work-items of a group are ``across`` x ``along``: so many neighbouring lines, and so many that share a line. In each
turn a work-item combines ``each`` elements in sequence, a tree in local memory combines the totals of the work-items of
a line, and what came before is put in front. Where the axis is the last one there is one line (the elements of a
work-item follow each other in memory: they are read as vectors, or through local memory where rows are not aligned);
where it is not, neighbouring lines are neighbours in memory. Short lines have one work-item each. Few and long lines
are divided into parts that different groups scan: a first kernel finds the total of each part, and a second one
combines the totals before its own part and scans. The order depends on shape, type and target only.
"""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import DType, bool_
from firebox.lowering.generate.frame import Frame, estimate, three
from firebox.lowering.generate.gpu.frame import device_frame
from firebox.lowering.generate.gpu.local import padded, padded_size
from firebox.lowering.generate.scan_point import ScanPoint, State, monoid_of
from firebox.lowering.generate.templates import Kernels, Launch, Template
from firebox.runtime.opencl_target import OpenClTarget

SERIAL = 32
"""Up to this length a work-item scans a line alone."""
ACROSS = 32
"""Neighbouring lines of a group, where they are neighbours in memory."""
ROW_ITEMS = 256
"""Work-items that share a row at most."""
ROW_EACH, COLUMN_EACH = 4, 8
MIN_TURNS = 4
"""Turns that a part of a divided line has at least."""
MAX_PARTS = 1024
WIDEST_STATE = 8
"""Bytes kept for a component of a total."""


def schedule_scan(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule: ``rows_per_group`` lines side by side, ``unroll`` elements of a work-item, ``split`` parts."""
    op = group.members[-1]
    axis: int = op.values["axis"]
    outer, size, inner = three(group.domain, axis)
    lines, length = estimate(outer) * estimate(inner), estimate(size)
    lanes = _lanes(op.operand_avals[0].dtype, size, inner)
    each = ROW_EACH if inner == 1 else COLUMN_EACH
    across, along = _items(lines, length, inner, each, target)
    split = _parts(-(-lines // across), -(-length // (along * each)), target)
    return Schedule(
        "gpu-scan", f"d{axis}", lanes, unroll=each, group=across * along, rows_per_group=across, split=split
    )


def _lanes(dtype: DType, size: DimLike, inner: DimLike) -> int:
    """Elements of a vector along the axis: where rows start at multiples of it."""
    lanes = min(ROW_EACH, 16 // dtype.itemsize)
    aligned = isinstance(size, int) and size % lanes == 0
    return lanes if inner == 1 and aligned and not dtype.is_bool else 1


def _items(lines: int, length: int, inner: DimLike, each: int, target: OpenClTarget) -> tuple[int, int]:
    """Lines of a group, and work-items that share one."""
    most = min(ROW_ITEMS, target.max_group)
    if length <= SERIAL:
        return min(most, _power(lines)), 1
    useful = _power(-(-length // each))
    if inner == 1:
        return 1, max(min(useful, most), min(target.warp, most))
    across = min(ACROSS, _power(estimate(inner)), most)
    few = lines // across < 8 * target.compute_units
    return across, max(1, min(useful, (target.max_group if few else most) // across))


def _power(number: int) -> int:
    """The power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def _parts(groups: int, turns: int, target: OpenClTarget) -> int:
    """Into how many parts a line is divided: none where there are groups for half of the device."""
    if 2 * groups > target.compute_units:
        return 1
    return max(1, min(MAX_PARTS, turns // MIN_TURNS, 4 * target.compute_units // max(groups, 1)))


def launch_scan(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """One launch, or two where lines are divided."""
    outer, size, inner = three(group.domain, group.members[-1].values["axis"])
    kernels = 2 if schedule.split > 1 else 1
    lines = dims.multiply(outer, inner)
    count = dims.multiply(dims.ceildiv(lines, schedule.rows_per_group), schedule.split)
    if 0 in (outer, size, inner):
        count = 0
    return (Launch(count, schedule.group, _workspace(group, schedule)),) * kernels


def _workspace(group: GroupOp, schedule: Schedule) -> DimLike:
    """Bytes of the totals of the parts of divided lines."""
    if schedule.split == 1:
        return 0
    outer, _, inner = three(group.domain, group.members[-1].values["axis"])
    states = len(monoid_of(group.members[-1]).dtypes)
    return dims.product((outer, inner, schedule.split * states * WIDEST_STATE))


def generate_scan(
    group: GroupOp, schedule: Schedule, target: OpenClTarget, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernels of a scheduled scan."""
    workspace = _workspace(group, schedule)

    def kernel(number: int) -> "ScanLines":
        frame = device_frame(group, dim_order, op_ids, schedule.group, number, workspace)
        return ScanLines(frame, group, schedule)

    if schedule.split == 1:
        return Kernels((kernel(0).whole(),))
    return Kernels((kernel(0).totals(), kernel(1).parts()))


GPU_SCAN = Template("gpu-scan", schedule_scan, generate_scan, launch_scan)


class ScanLines(ScanPoint):
    """Builds one of the kernels of a scan. Positions count in the order of the scan."""

    def __init__(self, frame: Frame, group: GroupOp, schedule: Schedule) -> None:
        super().__init__(frame, group.domain)
        k = self.k
        self.across, self.lanes, self.each = schedule.rows_per_group, schedule.lanes, schedule.unroll
        self.along = schedule.group // self.across
        self.block = self.along * self.each
        self.split = schedule.split
        self.staged = self.inner == 1 and self.lanes == 1 and self.along > 1
        self.item = k.local_id()
        self.column, self.rank = k.mod(self.item, self.across), k.floordiv(self.item, self.across)
        self.length = self.body.expression(self.size)
        self.lines = self.body.expression(dims.multiply(self.outer, self.inner))
        self.part = k.mod(k.group_id(), self.split)
        line = k.add(k.mul(k.floordiv(k.group_id(), self.split), self.across), self.column)
        self.is_line = k.lt(line, self.lines) if not self._whole_lines() else k.const(True, bool_)
        self.line = k.min(line, k.sub(self.lines, 1))
        self.body.env["outer"], self.body.env["inner"] = frame.split(self.line, self.outer, self.inner)
        kinds = self.monoid.dtypes
        self.trees = [[k.alloc_local(d, schedule.group) for d in kinds] for _ in (0, 1)] if self.along > 1 else []
        self.stage = [k.alloc_local(d, padded_size(self.block, self._width())) for d in kinds] if self.staged else []

    def _whole_lines(self) -> bool:
        lines = dims.multiply(self.outer, self.inner)
        return isinstance(lines, int) and lines % self.across == 0

    # ---- kernels -------------------------------------------------------------------------------------------------

    def whole(self) -> FuncOp:
        """Lines from end to end."""
        self.k.loop(0, self.length, self.block, self.identity(1), self._scan)
        return self.k.finish()

    def totals(self) -> FuncOp:
        """The total of each part."""
        k = self.k

        def turn(start: Val, carried: State) -> State:
            k.barrier()
            return self.combine(carried, self._among_items(self._serial(start)[-1])[1])

        total = k.loop(*self._bounds(), self.block, self.identity(1), turn)
        place = k.add(k.mul(self.part, self.lines), self.line)
        k.if_(
            k.and_(k.eq(self.rank, 0), self.is_line),
            lambda: self._put(self._totals(), place, total),
        )
        return k.finish()

    def parts(self) -> FuncOp:
        """Each part, after the totals of those before it."""
        self.k.loop(*self._bounds(), self.block, self._before_part(), self._scan)
        return self.k.finish()

    def _bounds(self) -> tuple[Val, Val]:
        """Where the group's part starts and ends."""
        k = self.k
        turns = dims.ceildiv(dims.ceildiv(self.size, self.block), self.split)
        extent = self.body.expression(dims.multiply(turns, self.block))
        start = k.mul(self.part, extent)
        return start, k.min(k.add(start, extent), self.length)

    def _before_part(self) -> State:
        k = self.k
        share = -(-self.split // self.along)

        def turn(number: Val, carried: State) -> State:
            part = k.add(k.mul(self.rank, share), number)
            found = self._get(self._totals(), k.add(k.mul(k.min(part, self.split - 1), self.lines), self.line))
            return self._choose(k.lt(part, self.part), self.combine(carried, found), carried)

        return self._among_items(k.loop(0, share, 1, self.identity(1), turn))[1]

    def _totals(self) -> list[Ref]:
        k = self.k
        size = self.body.expression(dims.product((self.outer, self.inner, self.split * WIDEST_STATE)))
        return [k.view(k.workspace, k.mul(size, n), dtype) for n, dtype in enumerate(self.monoid.dtypes)]

    def _scan(self, start: Val, carried: State) -> State:
        """One block: what the next one starts from."""
        if self.along > 1:
            self.k.barrier()
        own = self._serial(start)
        before, total = self._among_items(own[-1])
        before = self.combine(carried, before)
        self._write(start, [self.combine(before, state) for state in own])
        return self.combine(carried, total)

    def _serial(self, start: Val) -> list[State]:
        """The elements of this work-item, each combined with those before it in the same work-item."""
        found: list[State] = []
        for state in self._read_block(start):
            found.append(self.combine(found[-1], state) if found else state)
        return found

    # ---- work-items of a line ------------------------------------------------------------------------------------

    def _among_items(self, total: State) -> tuple[State, State]:
        """From the total of each work-item: that of those before it, and that of all. By doubling distances, from one
        buffer to the other, so that one barrier a step suffices."""
        if self.along == 1:
            return self.identity(1), total
        k, which, distance = self.k, 0, 1
        self._put(self.trees[0], self.item, total)
        while distance < self.along:
            k.barrier()
            before = self._get(self.trees[which], self._item_before(distance))
            total = self._choose(k.ge(self.rank, distance), self.combine(before, total), total)
            which, distance = 1 - which, 2 * distance
            self._put(self.trees[which], self.item, total)
        k.barrier()
        last = k.add(self.column, (self.along - 1) * self.across)
        before = self._get(self.trees[which], self._item_before(1))
        return self._choose(k.ge(self.rank, 1), before, self.identity(1)), self._get(self.trees[which], last)

    def _item_before(self, distance: int) -> Val:
        k = self.k
        return k.add(k.mul(k.max(k.sub(self.rank, distance), 0), self.across), self.column)

    def _get(self, memory: Sequence[Ref], place: Val) -> State:
        return [self.k.load(ref, place) for ref in memory]

    def _put(self, memory: Sequence[Ref], place: Val, state: State) -> None:
        for ref, value in zip(memory, state, strict=True):
            self.k.store(ref, place, value)

    def _choose(self, condition: Val, a: State, b: State) -> State:
        return [self.k.select(condition, x, y) for x, y in zip(a, b, strict=True)]

    # ---- elements of a block -------------------------------------------------------------------------------------

    def _read_block(self, start: Val) -> list[State]:
        """The elements of this work-item; the identity beyond the end of the line."""
        if not self.staged:
            first = self.k.add(start, self.k.mul(self.rank, self.each))
            return [s for n in range(0, self.each, self.lanes) for s in self._vector(self.k.add(first, n))]
        for number in range(self.each):
            place = self._side_by_side(number)
            self._put(self.stage, self._staged(place), self._vector(self.k.add(start, place))[0])
        self.k.barrier()
        return [self._get(self.stage, self._own(number)) for number in range(self.each)]

    def _write(self, start: Val, states: list[State]) -> None:
        k = self.k
        if not self.staged:
            first = k.add(start, k.mul(self.rank, self.each))
            for number in range(0, self.each, self.lanes):
                self._write_vector(k.add(first, number), states[number : number + self.lanes])
            return
        for number, state in enumerate(states):
            self._put(self.stage, self._own(number), state)
        k.barrier()
        for number in range(self.each):
            place = self._side_by_side(number)
            self._write_vector(k.add(start, place), [self._get(self.stage, self._staged(place))])

    def _side_by_side(self, number: int) -> Val:
        """A place in the block such that neighbouring work-items have neighbouring places."""
        return self.k.add(self.rank, number * self.along)

    def _own(self, number: int) -> Val:
        """Where an element of this work-item is in local memory."""
        return self._staged(self.k.add(self.k.mul(self.rank, self.each), number))

    def _staged(self, place: Val) -> Val:
        return padded(self.k, place, self._width())

    def _width(self) -> int:
        return max(dtype.itemsize for dtype in self.monoid.dtypes)

    def _vector(self, position: Val) -> list[State]:
        """The elements of a vector in the order of the scan."""
        k, lanes = self.k, self.lanes
        inside = self._inside(position)
        self._go_to(k.min(position, k.sub(self.length, lanes)))
        state, neutral = self.element(lanes), self.identity(1)
        order = reversed(range(lanes)) if self.reverse else range(lanes)
        return [self._choose(inside, [k.extract(v, lane) for v in state], neutral) for lane in order]

    def _write_vector(self, position: Val, states: list[State]) -> None:
        k = self.k
        order = states[::-1] if self.reverse else states
        parts = [self._joined([state[n] for state in order]) for n in range(len(order[0]))]

        def write() -> None:
            self._go_to(position)
            self.store(parts)

        k.if_(self._both(self._inside(position), self.is_line), write)
        self.body.at_point()

    def _both(self, a: Val, b: Val) -> Val:
        if a.const is True:
            return b
        return a if b.const is True else self.k.and_(a, b)

    def _joined(self, values: list[Val]) -> Val:
        found = self.k.broadcast(values[0], len(values))
        for lane, value in enumerate(values[1:], 1):
            found = self.k.insert(found, value, lane)
        return found

    def _go_to(self, position: Val) -> None:
        k = self.k
        at = k.sub(k.sub(self.length, self.lanes), position) if self.reverse else position
        self.enter("at", at, self.lanes, None)

    def _inside(self, position: Val) -> Val:
        """The position is on the line; where blocks fit the line there is nothing to ask."""
        whole = isinstance(self.size, int) and self.size % self.block == 0
        return self.k.const(True, bool_) if whole else self.k.lt(position, self.length)
