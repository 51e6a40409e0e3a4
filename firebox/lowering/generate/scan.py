"""Kernels of scans: every element combined with all before it along an axis.

Three forms, after what lies next to each other in memory. Where the axis is not the last one, the lanes run over what
follows it, and a strip of columns is a unit of work whose accumulators are vectors. Where it is the last one, rows are
units: the elements of a vector are combined with their neighbours 1, 2, 4, ... lanes away and then with all vectors
before. Rows shorter than half a vector run in scalars. The order depends on the shape and the target only.
"""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.aval import Shape
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.frame import Frame, estimate, grain_of, three
from firebox.lowering.generate.scan_point import ScanPoint, State, monoid_of
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

MAX_STRIP = 4
"""Vectors of columns that are scanned together."""


def schedule_scan(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a group of kind ``scan``."""
    op = group.members[-1]
    axis: int = op.values["axis"]
    _, size, inner = three(group.domain, axis)
    lanes = target.lanes(max(d.itemsize for d in monoid_of(op).dtypes))
    if inner != 1:
        strip = max(1, min(MAX_STRIP, estimate(inner) // lanes))
        cost = estimate(size) * lanes * strip
        return Schedule("scan", _last(group.domain), lanes, lanes * strip, strip, grain_of(cost))
    if estimate(size) < lanes // 2 or lanes < 2:
        return Schedule("scan", grain=grain_of(estimate(size)))
    return Schedule("scan", f"d{axis}", lanes, grain=grain_of(estimate(size)))


def launch_scan(group: GroupOp, schedule: Schedule) -> tuple[Launch, ...]:
    """Rows or strips of columns."""
    op = group.members[-1]
    outer, size, inner = three(group.domain, op.values["axis"])
    if 0 in (outer, size, inner):
        return (Launch(0, 1),)
    return (Launch(dims.multiply(outer, dims.ceildiv(inner, schedule.block or 1)), schedule.grain),)


def generate_scan(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled scan."""
    return Kernels((ScanKernel(group, schedule, dim_order, op_ids).build(),))


class ScanKernel(ScanPoint):
    """Builds the kernel of one scan, an op with the parameters ``axis`` and ``reverse``."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(Frame.of(group, dim_order, op_ids), group.domain)
        self.schedule = schedule
        self.in_rows = schedule.lane == f"d{self.op.values['axis']}"

    def build(self) -> FuncOp:
        """The finished kernel."""
        k = self.k
        k.loop(k.begin, k.end, 1, [], lambda unit, _: self._unit(unit))
        return k.finish()

    def _unit(self, unit: Val) -> None:
        env, block = self.body.env, self.schedule.block
        env["outer"], strip = self.frame.split(unit, self.outer, dims.ceildiv(self.inner, block or 1))
        if block:
            self._strip(self.k.mul(strip, block))
        elif self.in_rows:
            self._row()
        else:
            self._columns([self.k.index(0)], None, 1)

    # ---- along the lanes: what follows the axis ------------------------------------------------------------------

    def _strip(self, first: Val) -> None:
        """Full strips at once, what is left of a strip vector by vector, and the rest under a mask."""
        k, lanes, block = self.k, self.schedule.lanes, self.schedule.block
        inner = self.body.expression(self.inner)
        last = k.min(k.add(first, block), inner)
        vectors = k.floordiv(k.sub(last, first), lanes)
        if self.schedule.unroll > 1:
            whole = k.eq(k.sub(last, first), block)
            together = [k.add(first, part * lanes) for part in range(self.schedule.unroll)]
            k.if_(whole, lambda: self._columns(together, None, lanes))
            vectors = k.select(whole, 0, vectors)
            first = k.select(whole, last, first)
        full = k.add(first, k.mul(vectors, lanes))
        k.loop(first, full, lanes, [], lambda p, _: self._columns([p], None, lanes))
        if not (isinstance(self.inner, int) and self.inner % lanes == 0):
            k.if_(k.lt(full, last), lambda: self._columns([full], k.mask(k.sub(last, full), lanes), lanes))

    def _columns(self, positions: list[Val], mask: Val | None, lanes: int) -> None:
        """Scan columns from end to end, each with its accumulators."""
        k = self.k
        size = self.body.expression(self.size)

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            self.body.env["at"] = k.sub(k.sub(size, 1), number) if self.reverse else number
            parts = len(self.monoid.dtypes)
            result: list[Val] = []
            for column, position in enumerate(positions):
                self.enter("inner", position, lanes, mask)
                state = self.combine(carried[column * parts : (column + 1) * parts], self.element(lanes))
                self.store(state)
                result += state
            return result

        k.loop(0, size, 1, self.identity(lanes) * len(positions), turn)

    # ---- along the lanes: the axis itself ------------------------------------------------------------------------

    def _row(self) -> None:
        """Scan a row vector by vector; the carried vectors hold what came before, in every lane."""
        k, lanes = self.k, self.schedule.lanes
        size = self.body.expression(self.size)
        vectors = k.floordiv(size, lanes)

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            number = k.add(number, 1) if self.reverse else number
            start = k.mul(number, lanes)
            self.enter("at", k.sub(size, start) if self.reverse else start, lanes, None)
            return self._vector(carried, None)

        carried = k.loop(0, vectors, 1, self.identity(lanes), turn)
        if isinstance(self.size, int) and self.size % lanes == 0:
            return
        done = k.mul(vectors, lanes)
        k.if_(k.lt(done, size), lambda: self._rest(k.index(0) if self.reverse else done, k.sub(size, done), carried))

    def _rest(self, start: Val, count: Val, carried: State) -> None:
        mask = self.k.mask(count, self.schedule.lanes)
        self.enter("at", start, self.schedule.lanes, mask)
        self._vector(carried, mask)

    def _vector(self, carried: State, mask: Val | None) -> State:
        """Scan one vector and store it; what the next one starts from."""
        k, lanes = self.k, self.schedule.lanes
        state, neutral = self.element(lanes), self.identity(lanes)
        if mask is not None:
            state = [k.select(mask, s, n) for s, n in zip(state, neutral, strict=True)]
        distance = 1
        while distance < lanes:
            state = self.combine([self._shifted(s, n, distance) for s, n in zip(state, neutral, strict=True)], state)
            distance *= 2
        last = 0 if self.reverse else lanes - 1
        total = [k.shuffle(s, s, [last] * lanes) for s in state]
        self.store(self.combine(carried, state))
        return self.combine(carried, total)

    def _shifted(self, x: Val, neutral: Val, distance: int) -> Val:
        """Every lane as it was that many lanes earlier in the order of the scan; ``neutral`` before the first."""
        lanes = x.lanes
        step = distance if self.reverse else -distance
        sources = [lane + step for lane in range(lanes)]
        return self.k.shuffle(x, neutral, [s if 0 <= s < lanes else lanes for s in sources])


def _last(shape: Shape) -> str:
    return f"d{len(shape) - 1}"
