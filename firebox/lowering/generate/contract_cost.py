"""Estimated cycles of a contraction, given its register tile and blocks, on a core with one multiply-add a cycle."""

import math

from firebox.lowering.generate.contract_blocks import Blocks, Shape, turns_of
from firebox.lowering.generate.contract_problem import Operand, Position

LATENCY = 4.0
"""Cycles until a sum can be added to again."""

WIDENED = 2.5
"""Cycles to load an f16 or bf16 and make it an f32."""

NEAR = 24 * 1024
"""Bytes that stay in the nearest cache."""

FAR = 2.5
"""Cycles to load a vector from the next one, in sequence."""

FAR_APART = 10.0
"""Cycles where the address jumps, so that nothing is fetched ahead."""

PAGE = 4096

STAGE = 300.0
"""Cycles to start copying an operand, or finishing sums; also for the code it takes."""


def square_cost(lanes: int, end: bool = False) -> float:
    """Cycles to load, transpose and store a square of vectors; without the stores where they are the result's."""
    return lanes * (math.log2(lanes) + (0.7 if end else 3.0))


def is_packable(operand: Operand) -> bool:
    """Its reads are of a form that can be copied to scratch."""
    return operand.positions is not None and len(operand.positions) > 0


def along(shape: Shape, number: int) -> str:
    """How an operand meets the lanes: ``none``, ``vector``, ``across`` (with another step), or ``odd`` (all else)."""
    operand = shape.problem.operands[number]
    if operand.positions is None:
        return "odd"
    steps = [(p, p.coefficient(shape.lane.name)) for p in operand.positions]
    met = [p for p, c in steps if c]
    if not met:
        return "none"
    last = operand.positions[-1]
    if len(met) == 1 and met[0] is last and last.coefficient(shape.lane.name) == 1:
        return "vector" if last.base == 1 else "across"
    alone = len(met) == 1 and met[0].terms == ((shape.lane.name, 1),) and met[0].base == 1
    return "across" if alone else "odd"


def load_cost(shape: Shape, number: int) -> float:
    """Cycles to load an operand for one turn of a register tile."""
    operand = shape.problem.operands[number]
    how = along(shape, number)
    count = 1
    for name, rows in shape.rows.items():
        if name in operand.names or how == "odd":
            count *= rows
    short = operand.dtype.compute is not operand.dtype and number not in shape.pack
    if how == "none":
        return count * (WIDENED if short else 0.5 if operand.direct or number in shape.pack else 4.0)
    good = (how == "vector" and operand.direct) or (how != "odd" and number in shape.pack)
    guarded = how == "vector" and not operand.direct
    return (
        count * shape.vectors * (WIDENED if good and short else 1.0 if good else 4.0 if guarded else 2.5 * shape.lanes)
    )


def tile_cost(shape: Shape, blocks: Blocks) -> float:
    """Cycles of one turn of a register tile."""
    loads = sum(load_cost(shape, n) * _distance(shape, blocks, n) for n in (0, 1))
    return max(float(shape.sums), loads, LATENCY) + 0.75


def _distance(shape: Shape, blocks: Blocks, number: int) -> float:
    """How much dearer vector loads are when the part of one register tile does not stay in the nearest cache."""
    if shape.lane.name not in shape.problem.operands[number].names or shape.lane.reduced:
        return 1.0
    tiles = -(-blocks.sizes[shape.lane.name] // shape.columns)
    if blocks.footprint(number) <= NEAR * tiles:
        return 1.0
    operand = shape.problem.operands[number]
    windows = any(len(p.terms) > 1 for p in operand.positions or ())
    if windows:
        return FAR_APART
    return FAR + FAR_APART / shape.vectors if number not in shape.pack and _jumps(shape, operand) else FAR


def _jumps(shape: Shape, operand: Operand) -> bool:
    """Each turn of the innermost reduced loop reads another page."""
    if not operand.direct or not shape.problem.reduced:
        return False
    step = operand.stride(shape.problem.reduced[-1].name)
    return not isinstance(step, int) or step * operand.dtype.itemsize >= PAGE


def least_cost(shape: Shape) -> float:
    """A bound of the cost from below, whatever the blocks."""
    loads = load_cost(shape, 0) + load_cost(shape, 1)
    return _turns(shape) * max(float(shape.sums), loads, LATENCY)


def _turns(shape: Shape) -> float:
    """Turns of the register tile."""
    loops = (*shape.problem.out, *shape.problem.reduced)
    return math.prod(_tiles(turns_of(loop), shape.grid(loop), loop == shape.lane) for loop in loops)


def total_cost(shape: Shape, blocks: Blocks) -> float:
    """Cycles of the whole contraction on one core."""
    outputs = math.prod(turns_of(loop) for loop in shape.problem.out)
    cost = _turns(shape) * tile_cost(shape, blocks) + outputs * _store_cost(shape, blocks)
    cost += sum(fill_cost(shape, blocks, number) * _fills(blocks, number) for number in shape.pack)
    return cost * _length(shape) + STAGE * (len(shape.pack) + blocks.scratch)


def _length(shape: Shape) -> float:
    """Between equals, less code."""
    uneven = sum(turns_of(shape.problem.loop(name)) % rows != 0 for name, rows in shape.rows.items())
    return 1.0 + 0.001 * len(shape.rows) + 0.02 * uneven


def _tiles(turns: int, grid: int, masked: bool) -> float:
    """Tiles along a loop. What is left over at the end costs a full one if masked, and else at least half a one."""
    full, rest = divmod(turns, grid)
    return full + (0.0 if not rest else 1.0 if masked else max(rest / grid, 0.5))


def _store_cost(shape: Shape, blocks: Blocks) -> float:
    """Cycles for one element of the result, after its sum is known."""
    lanes, last = shape.lanes, shape.problem.out[-1] if shape.problem.out else None
    if shape.lane.reduced:
        return 2.0 * math.log2(lanes) + 2.0
    if not blocks.scratch:
        return 2.0 / lanes if last == shape.lane else 3.0
    far = 8.0 if blocks.sums() > NEAR else 0.0
    return (far + (6.0 if last == shape.lane else square_cost(lanes, end=True) / lanes)) / lanes


def fill_cost(shape: Shape, blocks: Blocks, number: int) -> float:
    """Cycles to copy an operand's part of one block."""
    operand, lanes = shape.problem.operands[number], shape.lanes
    assert operand.positions is not None
    sizes = [blocks.span(p) for p in operand.positions]
    last = len(sizes) - 1
    lane = next((k for k, p in enumerate(operand.positions) if p.coefficient(shape.lane.name)), last)
    across = along(shape, number) == "across" and lane < last
    while last > lane + across and _is_whole(operand.positions[last], sizes[last]):  # lines that are copied as one
        sizes[last - 1] *= sizes[last]
        last -= 1
    vectors = -(-sizes[last] // lanes)
    lines = math.prod(sizes[:last])
    if across:
        return lines / sizes[lane] * -(-sizes[lane] // lanes) * vectors * square_cost(lanes)
    return lines * (6.0 + 2.0 * vectors)


def _is_whole(position: Position, size: int) -> bool:
    return not position.guarded and position.base == 1 and position.size == size


def _fills(blocks: Blocks, number: int) -> float:
    """How often an operand's part changes; what never does is copied by every thread."""
    names = blocks.problem.operands[number].names
    inside = any(loop.name in names and loop.name in blocks.cut for loop in blocks.problem.reduced)
    times = 1
    for loop in (*blocks.problem.out, *blocks.problem.reduced):
        if loop.name in names or (inside and not loop.reduced and not blocks.spanning):
            times *= -(-turns_of(loop) // blocks.sizes[loop.name])
    return max(times, min(2, blocks.units()))
