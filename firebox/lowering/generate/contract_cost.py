"""Estimated cycles of a contraction for one shape of register tile and its blocks, on a core with one multiply-add a cycle."""

from firebox.lowering.generate.contract_blocks import Blocks, Shape
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.frame import estimate

LATENCY = 4.0
"""Cycles until a sum can be added to again."""

SQUARE = 100.0
"""Cycles to transpose a square of vectors."""


def is_packable(operand: Operand) -> bool:
    """Its reads are of a form that can be copied to scratch."""
    return operand.positions is not None and len(operand.positions) > 0


def along(shape: Shape, number: int) -> str:
    """How an operand meets the lanes: ``none``, ``vector``, ``across`` (another step than 1) or ``odd`` (not even affine)."""
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
    if how == "none":
        return count * (0.5 if operand.direct or number in shape.pack else 4.0)
    good = how == "vector" and operand.direct or how != "odd" and number in shape.pack
    guarded = how == "vector" and not operand.direct
    return count * shape.vectors * (1.0 if good else 4.0 if guarded else 2.5 * shape.lanes)


def tile_cost(shape: Shape) -> float:
    """Cycles of one turn of a register tile."""
    sums = shape.vectors
    for rows in shape.rows.values():
        sums *= rows
    return max(float(sums), load_cost(shape, 0) + load_cost(shape, 1), LATENCY) + 0.75


def total_cost(shape: Shape, blocks: Blocks) -> float:
    """Cycles of the whole contraction on one core."""
    problem = shape.problem
    turns = 1.0
    for loop in (*problem.out, *problem.reduced):
        turns *= _tiles(estimate(loop.extent), shape.grid(loop))
    outputs = 1.0
    for loop in problem.out:
        outputs *= estimate(loop.extent)
    cost = turns * tile_cost(shape) + outputs * _store_cost(shape, blocks)
    return cost + sum(fill_cost(shape, blocks, number) * _fills(blocks, number) for number in shape.pack)


def _tiles(extent: int, grid: int) -> float:
    """Tiles along a loop; a smaller one at the end costs at least half a full one."""
    full, rest = divmod(extent, grid)
    return full + (max(rest / grid, 0.5) if rest else 0.0)


def _store_cost(shape: Shape, blocks: Blocks) -> float:
    """Cycles for one element of the result, after its sum is known."""
    lanes, last = shape.lanes, shape.problem.out[-1] if shape.problem.out else None
    if shape.lane.reduced:
        return 10.0
    if last == shape.lane:
        return (6.0 if blocks.scratch else 2.0) / lanes
    return (SQUARE / lanes + 6.0) / lanes if blocks.scratch else 3.0


def fill_cost(shape: Shape, blocks: Blocks, number: int) -> float:
    """Cycles to copy an operand's part of one block."""
    operand, lanes = shape.problem.operands[number], shape.lanes
    assert operand.positions is not None
    sizes = [1 + sum(abs(c) * (blocks.sizes[n] - 1) for n, c in p.terms) for p in operand.positions]
    lines = 1.0
    for size in sizes[:-1]:
        lines *= size
    vectors = -(-sizes[-1] // lanes)
    if along(shape, number) != "across":
        return lines * (6.0 + 2.0 * vectors)
    lane = next(k for k, p in enumerate(operand.positions) if p.coefficient(shape.lane.name))
    if lane == len(sizes) - 1:
        return lines * (6.0 + 2.0 * vectors)
    return lines / sizes[lane] * -(-sizes[lane] // lanes) * vectors * SQUARE


def _fills(blocks: Blocks, number: int) -> float:
    """How often an operand's part changes; what never does is copied by every thread."""
    operand = blocks.problem.operands[number]
    times = 1.0
    for loop in (*blocks.problem.out, *blocks.problem.reduced):
        if loop.name in operand.names:
            times *= -(-estimate(loop.extent) // blocks.sizes[loop.name])
    return max(times, 2.0)
