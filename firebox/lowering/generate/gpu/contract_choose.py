"""Chooses the form of a contraction on a GPU, and its tile: enough work-groups for all compute units comes first."""

from collections.abc import Sequence
from dataclasses import dataclass

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.contract_dot import Dot
from firebox.lowering.generate.gpu.contract_feed import PAD
from firebox.lowering.generate.gpu.contract_frame import vector_fits
from firebox.lowering.generate.gpu.contract_plan import MAX_LANES, Plan, estimate
from firebox.lowering.generate.gpu.contract_tiled import Tile, tile_count
from firebox.lowering.generate.gpu.mma import mma_items, mma_local_bytes, runs_on_tensor_cores
from firebox.runtime.opencl_target import OpenClTarget

TILE, DOT, WINDOW, MMA = "gpu-contract", "gpu-dot", "gpu-window", "gpu-mma"
"""Names of the templates."""

MAX_SHORT = 4
"""Turns of the depth up to which a work-item computes elements on its own."""

MAX_WINDOW = 64
"""Likewise where one side has few turns, so that tiles would be nearly empty."""

_ITEMS = 256
_FULL_GROUPS = 4
"""Work-groups per compute unit that keep it busy when each reads much and computes little."""

_LEAST_TURNS = 8
"""Turns of a work-item worth a part of the depth of their own."""

MAX_PARTS = 64


@dataclass(frozen=True)
class Rated:
    """A tile, and the share of a compute unit's peak that one work-group of it reaches when two are resident."""

    tile: Tile
    speed: float


TILES = (
    Rated(Tile(128, 128, 16, 8, 8), 1.0),
    Rated(Tile(128, 64, 16, 8, 8), 0.85),
    Rated(Tile(64, 128, 16, 8, 8), 0.85),
    Rated(Tile(64, 64, 16, 8, 4), 0.7),
    Rated(Tile(32, 128, 16, 4, 4), 0.55),
    Rated(Tile(64, 32, 16, 4, 4), 0.5),
    Rated(Tile(32, 64, 16, 4, 4), 0.5),
    Rated(Tile(32, 32, 16, 4, 4), 0.35),
    Rated(Tile(16, 64, 16, 2, 4), 0.3),
    Rated(Tile(64, 16, 16, 4, 2), 0.25),
    Rated(Tile(16, 16, 32, 2, 2), 0.12),
)
"""From 128 x 128, where each element of local memory is used 8 times from a register, down to where all is latency."""


MMA_TILES = (
    Rated(Tile(128, 256, 64, 64, 64), 1.0),
    Rated(Tile(128, 128, 64, 64, 64), 0.95),
    Rated(Tile(128, 64, 64, 64, 32), 0.7),
    Rated(Tile(64, 128, 64, 32, 64), 0.7),
    Rated(Tile(64, 64, 64, 32, 32), 0.5),
    Rated(Tile(32, 128, 64, 32, 32), 0.4),
)
"""Tiles of work-groups and of warps on tensor cores: 64 x 64 sums are the most that the registers of a warp hold."""

_STAGES = 3


def contract_schedule(group: GroupOp, target: OpenClTarget) -> Schedule:
    """The schedule of a group of kind ``contract``."""
    plan = Plan.of(group)
    depth = estimate(plan.depth.extent)
    if not plan.affine or depth <= MAX_SHORT:
        return _window(plan, target)
    dot = Dot.of(plan)
    if dot is None:
        return _tiled(plan, target)
    enough = estimate(plan.out.extent) >= target.compute_units * _ITEMS
    return _window(plan, target) if depth <= MAX_WINDOW and enough else _dot(plan, dot, target)


def _window(plan: Plan, target: OpenClTarget) -> Schedule:
    lanes = MAX_LANES if plan.affine and vector_fits(plan, plan.out.last, MAX_LANES) else 1
    return Schedule(WINDOW, lanes=lanes, group=min(_ITEMS, target.max_group))


def _dot(plan: Plan, dot: Dot, target: OpenClTarget) -> Schedule:
    depth, items = estimate(plan.depth.extent), min(_ITEMS, target.max_group)
    turns = depth // dot.layout.lanes if dot.layout.along_depth else depth
    outputs = -(-estimate(dot.outputs.extent) // dot.wide_lanes)
    if dot.layout.along_depth:
        shares = 32 if outputs * 32 >= target.compute_units * items else items
        shares = min(shares, _power(turns))
        per_group = min(items // shares, _power(outputs))
    else:
        per_group = min(32, _power(outputs))
        shares = min(items // per_group, _power(turns))
    groups = -(-outputs // per_group)
    wanted = -(-target.compute_units * _FULL_GROUPS // groups)
    split = max(1, min(wanted, turns // (shares * _LEAST_TURNS), MAX_PARTS))
    return Schedule(DOT, group=per_group * shares, rows_per_group=per_group, split=split)


def _power(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(0, number - 1).bit_length()


# ---- tiles -------------------------------------------------------------------------------------------------------


def _tiled(plan: Plan, target: OpenClTarget) -> Schedule:
    if _has_tensor_cores(plan, target):
        tile, split = _best(plan, [r for r in MMA_TILES if _fits_mma(r.tile, target)], target, _MMA_RATE)
        return Schedule(MMA, tile=tile.text(), group=mma_items(tile), split=split, stages=_STAGES)
    tile, split = _best(plan, [r for r in TILES if _fits(plan, r.tile, target)], target, _SIMT_RATE)
    return Schedule(TILE, tile=tile.text(), group=tile.items, split=split)


def _best(plan: Plan, rated: Sequence[Rated], target: OpenClTarget, rate: int) -> tuple[Tile, int]:
    """The tile and the number of parts of the depth with the least estimated time."""
    ways = [(r, split) for r in rated for split in _splits(plan, r.tile)]
    best, split = min(ways, key=lambda way: _time(plan, way[0], way[1], target, rate))
    return best.tile, split


def _has_tensor_cores(plan: Plan, target: OpenClTarget) -> bool:
    dtypes = {operand.dtype.name for operand in plan.factors}
    known = dtypes in ({"f16"}, {"bf16"}) and target.has("cp_async") and target.has(f"mma_{min(dtypes)}")
    return known and runs_on_tensor_cores(plan)


def _fits_mma(tile: Tile, target: OpenClTarget) -> bool:
    return mma_local_bytes(tile, _STAGES) <= target.local_bytes and mma_items(tile) <= target.max_group


def _fits(plan: Plan, tile: Tile, target: OpenClTarget) -> bool:
    itemsize = plan.problem.dtype.itemsize
    local = 2 * tile.deep * (tile.rows + tile.columns + 2 * PAD) * itemsize
    registers = tile.item_rows * tile.item_columns * itemsize
    return local <= target.local_bytes and tile.items <= target.max_group and registers <= 256


def _splits(plan: Plan, tile: Tile) -> list[int]:
    """Numbers of parts of the depth: powers of two, none of them short, none of them empty."""
    turns = -(-estimate(plan.depth.extent) // tile.deep)
    found = [1]
    while found[-1] < MAX_PARTS and turns // (2 * found[-1]) >= 2 * _LEAST_TURNS:
        found.append(2 * found[-1])
    return found


_SIMT_RATE, _MMA_RATE = 128, 1024
"""Multiply-adds of a compute unit in a cycle: of f32, and of f16 or bf16 on tensor cores."""

_LAUNCH_CYCLES = 8000
_BYTES_PER_CYCLE = 20
"""Global memory of a compute unit's share, for partial sums that are written and read."""

_BUSY_ITEMS = 256
"""Work-items that a compute unit needs to come near its peak."""


def _time(plan: Plan, rated: Rated, split: int, target: OpenClTarget, rate: int) -> float:
    """Estimated cycles of the busiest compute unit."""
    tile, units = rated.tile, target.compute_units
    depth = estimate(plan.depth.extent)
    groups = estimate(tile_count(plan, tile.rows, tile.columns)) * split
    items = tile.items if rate == _SIMT_RATE else mma_items(tile)
    speed = rated.speed * min(1.0, max(1.0, groups / units) * items / _BUSY_ITEMS)
    work = tile.rows * tile.columns * (-(-depth // split) + 4 * tile.deep) / (speed * rate)
    total = -(-groups // units) * work
    if split > 1:
        moved = 2 * plan.problem.dtype.itemsize * estimate(plan.out.extent) * split
        total += _LAUNCH_CYCLES + moved / (units * _BYTES_PER_CYCLE)
    return total
