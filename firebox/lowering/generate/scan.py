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
from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.formula import Monoid, Read
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike, dim
from firebox.lowering.access import Index, formula_of, substitute
from firebox.lowering.generate.body import Lane, Scalars, linear
from firebox.lowering.generate.frame import Frame, estimate, grain_of, three
from firebox.lowering.generate.templates import Kernels, Launch
from firebox.runtime.target import Target

State = list[Val]
MAX_STRIP = 4
"""Vectors of columns that are scanned together."""


def schedule_scan(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a group of kind ``scan``."""
    op = group.members[-1]
    axis: int = op.values["axis"]
    _, size, inner = three(group.domain, axis)
    lanes = target.lanes(max(d.itemsize for d in _monoid(op).dtypes))
    if inner != 1:
        strip = max(1, min(MAX_STRIP, estimate(inner) // lanes))
        cost = estimate(size) * lanes * strip
        return Schedule("scan", _last(group.domain), lanes, lanes * strip, strip, grain_of(cost))
    if estimate(size) < lanes // 2 or lanes < 2:
        return Schedule("scan", grain=grain_of(estimate(size)))
    return Schedule("scan", f"d{axis}", lanes, grain=grain_of(estimate(size)))


def launch_scan(group: GroupOp, schedule: Schedule) -> Launch:
    """Rows or strips of columns."""
    op = group.members[-1]
    outer, size, inner = three(group.domain, op.values["axis"])
    if 0 in (outer, size, inner):
        return Launch(0, 1)
    return Launch(dims.multiply(outer, dims.ceildiv(inner, schedule.block or 1)), schedule.grain)


def generate_scan(
    group: GroupOp, schedule: Schedule, target: Target, dim_order: Sequence[str], op_ids: dict[str, int]
) -> Kernels:
    """The kernel of a scheduled scan."""
    return Kernels(ScanKernel(group, schedule, dim_order, op_ids).build())


class ScanKernel:
    """Builds the kernel of one scan, an op with the parameters ``axis`` and ``reverse``."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        self.frame = Frame.of(group, dim_order, op_ids)
        self.op, self.k, self.body = self.frame.op, self.frame.k, self.frame.body
        self.schedule = schedule
        self.reverse: bool = self.op.values["reverse"]
        axis: int = self.op.values["axis"]
        self.in_rows = schedule.lane == f"d{axis}"
        self.outer, self.size, self.inner = three(group.domain, axis)
        self.home = _home(group.domain, axis)
        self.env = {f"i{k}": e for k, e in enumerate(self.home)} | {"r0": self.home[axis]}
        self.monoid = _monoid(self.op)

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
                self._enter("inner", position, lanes, mask)
                state = self._combine(carried[column * parts : (column + 1) * parts], self._element(lanes))
                self._store(state)
                result += state
            return result

        k.loop(0, size, 1, self._identity(lanes) * len(positions), turn)

    # ---- along the lanes: the axis itself ------------------------------------------------------------------------

    def _row(self) -> None:
        """Scan a row vector by vector; the carried vectors hold what came before, in every lane."""
        k, lanes = self.k, self.schedule.lanes
        size = self.body.expression(self.size)
        vectors = k.floordiv(size, lanes)

        def turn(number: Val, carried: list[Val]) -> list[Val]:
            number = k.add(number, 1) if self.reverse else number
            start = k.mul(number, lanes)
            self._enter("at", k.sub(size, start) if self.reverse else start, lanes, None)
            return self._vector(carried, None)

        carried = k.loop(0, vectors, 1, self._identity(lanes), turn)
        if isinstance(self.size, int) and self.size % lanes == 0:
            return
        done = k.mul(vectors, lanes)
        k.if_(k.lt(done, size), lambda: self._rest(k.index(0) if self.reverse else done, k.sub(size, done), carried))

    def _rest(self, start: Val, count: Val, carried: State) -> None:
        mask = self.k.mask(count, self.schedule.lanes)
        self._enter("at", start, self.schedule.lanes, mask)
        self._vector(carried, mask)

    def _vector(self, carried: State, mask: Val | None) -> State:
        """Scan one vector and store it; what the next one starts from."""
        k, lanes = self.k, self.schedule.lanes
        state, neutral = self._element(lanes), self._identity(lanes)
        if mask is not None:
            state = [k.select(mask, s, n) for s, n in zip(state, neutral, strict=True)]
        distance = 1
        while distance < lanes:
            state = self._combine([self._shifted(s, n, distance) for s, n in zip(state, neutral, strict=True)], state)
            distance *= 2
        last = 0 if self.reverse else lanes - 1
        total = [k.shuffle(s, s, [last] * lanes) for s in state]
        self._store(self._combine(carried, state))
        return self._combine(carried, total)

    def _shifted(self, x: Val, neutral: Val, distance: int) -> Val:
        """Every lane as it was that many lanes earlier in the order of the scan; ``neutral`` before the first."""
        lanes = x.lanes
        step = distance if self.reverse else -distance
        sources = [lane + step for lane in range(lanes)]
        return self.k.shuffle(x, neutral, [s if 0 <= s < lanes else lanes for s in sources])

    # ---- elements ------------------------------------------------------------------------------------------------

    def _enter(self, name: str, position: Val, lanes: int, mask: Val | None) -> None:
        self.body.env[name] = position
        self.body.lane = Lane(name, lanes, mask) if lanes > 1 else None
        self.body.at_point()

    def _element(self, lanes: int) -> State:
        """The state that the element at the present point stands for. The formula's guard always holds there."""
        formula = formula_of(self.op)
        values = [self._read(read) for read in formula.reads]
        result = formula.scalar(Scalars(self.body, self.env), *values)
        lifted = self.monoid.lift(self.k, *(result if isinstance(result, tuple) else (result,)))
        return [self.k.broadcast(v, lanes) for v in lifted]

    def _read(self, read: Read) -> Val:
        shape = self.op.operand_avals[read.operand].shape
        index = substitute(read.index, self.env)
        index = tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))
        return self.body.value(self.op._operands[read.operand], index)

    def _identity(self, lanes: int) -> State:
        pairs = zip(self.monoid.init, self.monoid.dtypes, strict=True)
        return [self.k.broadcast(self.k.const(value, dtype), lanes) for value, dtype in pairs]

    def _combine(self, before: Sequence[Val], after: Sequence[Val]) -> State:
        """Two states, the one scanned first before the other; the monoid gets them by ascending index."""
        low, high = (after, before) if self.reverse else (before, after)
        return list(self.monoid.combine(self.k, tuple(low), tuple(high)))

    def _store(self, state: State) -> None:
        results = self.monoid.finish(self.k, tuple(state))
        for result, value in zip(self.op.results, results, strict=True):
            if result in self.frame.outputs:
                offset = linear(self.home, aval_of(result.type).shape)
                self.body.store(self.frame.outputs[result], offset, value)


def _monoid(op: NdOp) -> Monoid:
    found = formula_of(op).monoid
    assert found is not None
    return found


def _last(shape: Shape) -> str:
    return f"d{len(shape) - 1}"


def _home(shape: Shape, axis: int) -> Index:
    """The loops ``outer``, ``at`` and ``inner`` as an index: one dim stands for its neighbours, as memory is dense."""
    index: list[DimLike] = [0] * len(shape)
    for name, group in (("outer", range(axis)), ("at", (axis,)), ("inner", range(axis + 1, len(shape)))):
        carrier = next((k for k in reversed(group) if shape[k] != 1), None)
        if carrier is not None:
            index[carrier] = dim(name)
    return tuple(index)
