"""Chooses the schedule of a contraction: what fills lanes and rows of the register tile, what is copied, blocks.

Every loop of the result is tried for the lanes and for the rows, and a reduced loop for the lanes where both factors
follow it in memory; the candidate with the fewest estimated cycles wins.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.contract_amx_choose import tile_choice
from firebox.lowering.generate.contract_blocks import UNIT, Blocks, Shape, turns_of
from firebox.lowering.generate.contract_cost import along, fill_cost, is_packable, least_cost, tile_cost, total_cost
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.generate.contract_tiling import RESULT, blocks_text
from firebox.lowering.generate.nest import Loop
from firebox.runtime.target import Target

VECTORS = (1, 2, 3, 4, 6, 8)
MAX_ROWS = 14
MAX_SUMS = 18
LARGE = 1 << 18
"""Bytes of an operand from which on it may pay to copy it although it is read well in place."""

MAX_UNROLLED = 16
"""Turns up to which a second loop of rows is written out whole."""


def contract_schedule(group: GroupOp, target: Target) -> Schedule:
    """The schedule of a group of kind ``contract``."""
    problem = Problem.of(group)
    lanes = target.lanes(max(problem.dtype.itemsize, 4))
    if lanes < 2 or not (problem.out or problem.reduced):
        return Schedule("contract")
    best: _Candidate | None = None
    for bound, shape in sorted(((least_cost(s), s) for s in _shapes(problem, lanes, target)), key=lambda pair: pair[0]):
        if best is not None and bound >= best.cost:
            break
        candidate = _Candidate.of(shape, target)
        if best is None or candidate.cost < best.cost:
            best = candidate
    if best is None:
        return Schedule("contract")
    tiles = tile_choice(problem, target)
    return tiles.schedule if tiles is not None and tiles.cost < best.cost else best.schedule()


@dataclass(frozen=True)
class _Candidate:
    shape: Shape
    blocks: Blocks
    cost: float

    @classmethod
    def of(cls, shape: Shape, target: Target) -> "_Candidate":
        blocks = Blocks(shape, target.l2_bytes)
        return cls(shape, blocks, total_cost(shape, blocks))

    def schedule(self) -> Schedule:
        shape, blocks = self.shape, self.blocks
        pack = sorted(shape.pack) + [RESULT] * blocks.scratch
        tile = (*shape.rows.values(), shape.columns)
        return Schedule(
            "contract",
            shape.lane.name,
            shape.lanes,
            grain=self._grain(),
            tile=tile,
            rows=",".join(shape.rows),
            blocks=blocks_text(blocks.result()),
            pack=tuple(pack),
        )

    def _grain(self) -> int:
        """Units worth handing to another thread; what each thread copies anew should be small beside its work."""
        shape, blocks = self.shape, self.blocks
        unit = max(1.0, blocks.work() * tile_cost(shape, blocks) / shape.sums)
        units = UNIT / unit
        for number in shape.pack:
            shared = blocks.shared_units(number)
            copies = shared * unit / (fill_cost(shape, blocks, number) * blocks.parts_of(number))
            units = max(units, shared / max(1.0, min(4.0, copies / 4), copies / 16))
        total = blocks.units()
        return -(-total // max(1, round(total / units)))


# ---- candidates --------------------------------------------------------------------------------------------------


def _shapes(problem: Problem, lanes: int, target: Target) -> Iterator[Shape]:
    registers = 32 if target.vector_bits == 512 or target.arch == "aarch64" else 16
    loops = [loop for loop in problem.out if turns_of(loop) > 1]
    wide = [loop for loop in loops if turns_of(loop) >= lanes // 2] or loops[-1:]
    for lane in wide:
        for vectors in VECTORS:
            if (vectors - 1) * lanes >= turns_of(lane):
                break
            room = min(MAX_SUMS, registers - vectors - 1) // vectors
            for rows in _rows([loop for loop in problem.out if loop != lane], room):
                yield from _packed(problem, lane, lanes, vectors, rows)
    for lane in problem.reduced:
        if all(o.direct and _follows(o.stride(lane.name)) for o in problem.operands):
            yield from _dots(problem, lane, lanes, min(MAX_SUMS, registers - 4))


def _follows(step: object) -> bool:
    return step in (0, 1)


def _rows(loops: list[Loop], room: int) -> Iterator[Mapping[str, int]]:
    """Rows of a tile along one loop, or along one and the whole of another short one."""
    yield {}
    for loop in loops:
        for count in _counts(loop, room):
            yield {loop.name: count}
    for outer in loops:
        for inner in loops:
            if outer is inner or not isinstance(inner.extent, int) or not 1 < inner.extent <= MAX_UNROLLED:
                continue
            for count in _counts(outer, room // inner.extent):
                if count > 1:
                    yield {outer.name: count, inner.name: inner.extent}


def _counts(loop: Loop, room: int) -> list[int]:
    """Numbers of rows that divide a loop well."""
    room = min(room, MAX_ROWS, turns_of(loop))
    if room < 1:
        return []
    if not isinstance(loop.extent, int):
        return [min(8, room)]
    divisor = next(c for c in range(min(room, max(loop.extent, 1)), 0, -1) if loop.extent % c == 0)
    tiles = -(-loop.extent // room)
    return sorted({divisor, -(-loop.extent // max(tiles, 1)), min(8, room)} - {0})


def _packed(problem: Problem, lane: Loop, lanes: int, vectors: int, rows: Mapping[str, int]) -> Iterator[Shape]:
    """With those operands in scratch that are not read well in place; and with those that may gain from it."""
    plain = Shape(problem, lane, lanes, vectors, rows, frozenset(), False)
    pack = frozenset(n for n in (0, 1) if _wants_pack(plain, n))
    scratch = bool(problem.out) and lane != problem.out[-1]
    yield Shape(problem, lane, lanes, vectors, rows, pack, scratch)
    more = {n for n in (0, 1) if n not in pack and _may_gain(plain, n)}
    if more:
        yield Shape(problem, lane, lanes, vectors, rows, pack | more, scratch)


def _may_gain(shape: Shape, number: int) -> bool:
    """Large and along the lanes, or of a type that is widened at every load."""
    operand = shape.problem.operands[number]
    how = along(shape, number)
    if how == "odd" or not is_packable(operand):
        return False
    size = aval_of(operand.value.type).nbytes
    large = not isinstance(size, int) or size >= LARGE
    return (how == "vector" and large) or operand.dtype.compute is not operand.dtype


def _wants_pack(shape: Shape, number: int) -> bool:
    operand = shape.problem.operands[number]
    how = along(shape, number)
    if not is_packable(operand) or how == "odd":
        return False
    windows = {n for p in operand.positions or () if len(p.terms) > 1 for n, _ in p.terms}
    if any(not isinstance(shape.problem.loop(name).extent, int) for name in windows):
        return False
    return not operand.direct or how == "across"


def _dots(problem: Problem, lane: Loop, lanes: int, room: int) -> Iterator[Shape]:
    """The lanes along a reduced loop: as many rows as there is room for, or several sums a row where there are few."""
    for rows in _rows(list(problem.out), room):
        count = 1
        for number in rows.values():
            count *= number
        for vectors in (1, 2, 4):
            if count * vectors <= room:
                yield Shape(problem, lane, lanes, vectors, rows, frozenset(), False)
