"""The kernel of `nd.scatter_add`: out = x, then the updates are added in the order of the indices.

With x: [P, S, Q] (or one number), indices: [J], updates: [P, J, Q], a unit of work owns the rows ``first <= s < last``
of one p and a block of columns: it copies them, looks at all indices and adds the updates of its own rows. No two units
write the same element, so the sums are the same for any number of threads. f16 and bf16 add up in f32 scratch and are
rounded once, at the end. Rows are divided where copying them is most of the work, since every part has to look at all
indices (eight at a time if there are none of its own among them); else columns are.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Ref, Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.dtypes import i64
from firebox.lowering.generate.body import INDEX_FAULT
from firebox.lowering.generate.frame import Frame, estimate, grain_of, three
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.lowering.ranges import is_checked
from firebox.runtime.target import Target

MIN_COLUMNS = 64
MAX_COLUMNS = 2048
COLUMN_BLOCKS = 16
"""Into how many blocks the columns are divided, within these bounds."""
ROW_PARTS = 64
"""Into how many parts the rows are divided at most."""
MIN_PART = 4096
"""Elements of the result that are worth a part of their own."""
SCRATCH_ELEMENTS = 65536
SCALAR_BELOW = 4
"""Rows of fewer elements are added one by one."""
PROBE = 8
"""Indices that are looked at together."""


def schedule_scatter(group: GroupOp, target: Target) -> Schedule:
    """The schedule: tile is (parts that the rows are divided into, columns of a block)."""
    op = group.members[-1]
    x, indices, _ = op.operand_avals
    outer, size, inner = three(x.shape, op.values["axis"])
    lanes = target.lanes(x.dtype.compute.itemsize)
    if lanes < 2 or (isinstance(inner, int) and inner < SCALAR_BELOW):
        lanes = 1
    rows, count = estimate(size), estimate(indices.size)
    copies = count * 4 <= rows
    columns = _columns(inner, 1 if copies else COLUMN_BLOCKS)
    blocks = estimate(outer) * -(-estimate(inner) // columns)
    parts = max(1, min(ROW_PARTS // max(blocks, 1), rows * columns // MIN_PART)) if copies else 1
    return Schedule("scatter", lanes=lanes, grain=grain_of((rows // parts + count) * columns), tile=(parts, columns))


def _columns(inner: DimLike, blocks: int) -> int:
    """Columns of a block: full vectors, or all there are."""
    if not isinstance(inner, int):
        return MAX_COLUMNS
    wanted = -(-inner // (blocks * MIN_COLUMNS)) * MIN_COLUMNS
    return max(1, min(inner, wanted, MAX_COLUMNS))


def launch_scatter(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Parts of rows times blocks of columns, for each outer index; scratch for the sums of f16 and bf16."""
    op = group.members[-1]
    x = op.operand_avals[0]
    outer, _, inner = three(x.shape, op.values["axis"])
    parts, columns = schedule.tile
    if x.size == 0:
        return (Launch(0, 1),)
    scratch = 0 if x.dtype is x.dtype.compute else _scratch_rows(columns) * columns * x.dtype.compute.itemsize
    return (Launch(dims.product((outer, parts, dims.ceildiv(inner, columns))), schedule.grain, scratch),)


def generate_scatter(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled scatter_add."""
    return Kernels((ScatterKernel(group, schedule, dim_order, op_ids).build(),))


def _scratch_rows(columns: int) -> int:
    return max(1, SCRATCH_ELEMENTS // columns)


class ScatterKernel:
    """Builds the kernel of one scatter_add."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.frame = frame = Frame.of(group, dim_order, op_ids)
        self.k, self.body = frame.k, frame.body
        self.lanes = schedule.lanes
        self.parts, self.columns = schedule.tile
        x, indices, _ = frame.op.operand_avals
        self.dtype = x.dtype
        self.outer, self.size, self.inner = three(x.shape, frame.op.values["axis"])
        self.count = indices.size
        self.fill = frame.number(0)
        self.x = frame.operand(0) if self.fill is None else None
        self.indices, self.updates = frame.operand(1), frame.operand(2)
        self.out = frame.outputs[frame.op.results[0]]

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        k.loop(k.begin, k.end, 1, [], lambda unit, _: self._unit(unit))
        return k.finish()

    def _unit(self, unit: Val) -> None:
        k, number = self.k, self.body.expression
        if is_checked(self.frame.op):
            k.if_(k.eq(unit, 0), self._check)
        outer, part, block = self.frame.split(unit, self.outer, self.parts, dims.ceildiv(self.inner, self.columns))
        rows = k.floordiv(k.add(number(self.size), self.parts - 1), self.parts)
        first = k.mul(part, rows)
        last = k.min(k.add(first, rows), number(self.size))
        left = k.mul(block, self.columns)
        right = k.min(k.add(left, self.columns), number(self.inner))
        if self.dtype is self.dtype.compute:
            self._rows(outer, first, last, left, right)
        else:
            step = _scratch_rows(self.columns)
            k.loop(first, last, step, [], lambda top, _: self._through_scratch(
                outer, top, k.min(k.add(top, step), last), left, right
            ))  # fmt: skip

    def _rows(self, outer: Val, first: Val, last: Val, left: Val, right: Val) -> None:
        """The sums of some rows, in place."""
        k = self.k
        base = k.mul(outer, self.body.expression(self.size))

        def place(row: Val) -> Val:
            return k.mul(k.add(base, row), self.body.expression(self.inner))

        def copy(row: Val, _: list[Val]) -> None:
            at = place(row)
            self._start(at, self.out, at, left, right)

        k.loop(first, last, 1, [], copy)
        self._each_update(outer, first, last, lambda row, source: self._add(
            source, self.out, place(row), left, right
        ))  # fmt: skip

    def _through_scratch(self, outer: Val, first: Val, last: Val, left: Val, right: Val) -> None:
        """The same with the sums in f32: a copy of the block in scratch, whose rows start at ``left``."""
        k, columns = self.k, self.columns
        sums = k.view(k.scratch, 0, self.dtype.compute)
        inner = self.body.expression(self.inner)
        base = k.mul(outer, self.body.expression(self.size))

        def place(row: Val) -> Val:
            return k.sub(k.mul(k.sub(row, first), columns), left)

        def fill(row: Val, _: list[Val]) -> None:
            self._start(k.mul(k.add(base, row), inner), sums, place(row), left, right)

        def round_(row: Val, _: list[Val]) -> None:
            self._copy(sums, place(row), self.out, k.mul(k.add(base, row), inner), left, right)

        k.loop(first, last, 1, [], fill)
        self._each_update(outer, first, last, lambda row, source: self._add(source, sums, place(row), left, right))
        k.loop(first, last, 1, [], round_)

    # ---- indices -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Note a fault for an index that is out of range; the units pass over it."""
        k = self.k
        size = self.body.expression(self.size)
        op_id = self.body.op_id(self.frame.op)

        def one(position: Val, _: list[Val]) -> None:
            index = k.cast(k.load(self.indices, position), i64)
            k.if_(self._outside(index, k.index(0), size), lambda: k.fail(INDEX_FAULT, op_id, index, size))

        k.loop(0, self.body.expression(self.count), 1, [], one)

    def _outside(self, index: Val, first: Val, last: Val) -> Val:
        return self.k.or_(self.k.lt(index, first), self.k.ge(index, last))

    def _each_update(self, outer: Val, first: Val, last: Val, add: Callable[[Val, Val], None]) -> None:
        """Call ``add(row, offset of the update's row)`` for every index in the rows, in order."""
        k = self.k
        count = self.body.expression(self.count)
        base = k.mul(outer, count)

        def one(position: Val, _: list[Val]) -> None:
            index = k.cast(k.load(self.indices, position), i64)
            source = k.mul(k.add(base, position), self.body.expression(self.inner))
            k.if_(k.not_(self._outside(index, first, last)), lambda: add(k.index(index), source))

        def several(position: Val, _: list[Val]) -> None:
            together = k.cast(k.load(self.indices, position, PROBE), i64)
            outside = self._outside(together, first, last)
            some = k.not_(k.reduce("and", outside))
            k.if_(some, lambda: k.loop(position, k.add(position, PROBE), 1, [], one))

        start = k.index(0)
        if self.parts > 1 or self.dtype is not self.dtype.compute:
            start = k.mul(k.floordiv(count, PROBE), PROBE)
            k.loop(0, start, PROBE, [], several)
        k.loop(start, count, 1, [], one)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _start(self, at: Val, target: Ref, to: Val, left: Val, right: Val) -> None:
        """A row of x, or of the number that all of x is."""
        if self.x is not None:
            self._copy(self.x, at, target, to, left, right)
            return
        fill = self.fill
        assert fill is not None
        self._along(left, right, lambda column, lanes, mask: self.k.store(
            target, self.k.add(to, column), self.k.broadcast(fill, lanes), mask
        ))  # fmt: skip

    def _copy(self, source: Ref, at: Val, target: Ref, to: Val, left: Val, right: Val) -> None:
        """Elements ``left`` to ``right`` of a row, converted to the type of the target."""
        k = self.k

        def move(column: Val, lanes: int, mask: Val | None) -> None:
            value = k.load(source, k.add(at, column), lanes, mask)
            k.store(target, k.add(to, column), value, mask)

        self._along(left, right, move)

    def _add(self, source: Val, target: Ref, to: Val, left: Val, right: Val) -> None:
        k = self.k

        def add(column: Val, lanes: int, mask: Val | None) -> None:
            place = k.add(to, column)
            value = k.load(self.updates, k.add(source, column), lanes, mask)
            k.store(target, place, k.add(k.load(target, place, lanes, mask), value), mask)

        self._along(left, right, add)

    def _along(self, left: Val, right: Val, work: Callable[[Val, int, Val | None], None]) -> None:
        """The columns of a row: full vectors, then the rest under a mask."""
        k, lanes = self.k, self.lanes
        if self.inner == 1:
            work(k.index(0), 1, None)
            return
        full = k.add(left, k.mul(k.floordiv(k.sub(right, left), lanes), lanes))
        k.loop(left, full, lanes, [], lambda column, _: work(column, lanes, None))
        if lanes > 1 and not (isinstance(self.inner, int) and self.inner % lanes == 0):
            k.if_(k.lt(full, right), lambda: work(full, lanes, k.mask(k.sub(right, full), lanes)))
