"""Contractions with few rows: work-items share the depth of one element of the wide side, and a tree adds their sums.

Each work-item keeps one sum for every turn of the few-turned side, so that the large factor is read once. Vectors run
along the depth or along the wide side, whichever the large factor has next to each other in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.gpu.contract_feed import Layout
from firebox.lowering.generate.gpu.contract_frame import Frame
from firebox.lowering.generate.gpu.contract_plan import Env, Plan, Side, estimate, vector_lanes
from firebox.lowering.generate.gpu.contract_reads import Reader
from firebox.lowering.generate.gpu.device_body import is_multiple

MAX_FEW = 8
"""Turns of the side of which a work-item keeps all sums."""

_IN_FLIGHT = 4
_ANY = 1 << 20


@dataclass(frozen=True)
class Dot:
    """The sides of such a contraction.

    Attributes:
        few: number of turns of the side whose sums a work-item keeps.
        narrow: that side.
        outputs: the other loops of the result.
        large: the factor that varies along the wide side.
        small: the other one.
        layout: how the large factor is read.
    """

    few: int
    narrow: Side
    outputs: Side
    large: Operand
    small: Operand
    layout: Layout

    @classmethod
    def of(cls, plan: Plan) -> "Dot | None":
        """None where both sides have many turns."""
        first, second = plan.factors
        few_rows = estimate(plan.rows.extent) <= estimate(plan.columns.extent)
        narrow, wide = (plan.rows, plan.columns) if few_rows else (plan.columns, plan.rows)
        small, large = (first, second) if few_rows else (second, first)
        few = narrow.extent
        if not isinstance(few, int) or few > MAX_FEW or not plan.affine:
            return None
        outputs = Side(tuple(loop for loop in plan.problem.out if loop not in narrow.loops))
        last = Side(tuple(loop for loop in wide.loops[-1:] if outputs.last == loop.name))
        return cls(few, narrow, outputs, large, small, Layout.of(large, last, plan.depth, _ANY, _ANY))

    @property
    def along(self) -> str:
        """The loop of the result that fills the lanes; empty if none does."""
        return "" if self.layout.along_depth else self.outputs.last

    @property
    def wide_lanes(self) -> int:
        """Elements of the wide side that a work-item sums."""
        return 1 if self.layout.along_depth else self.layout.lanes

    def count(self, per_group: int) -> DimLike:
        """Work-groups for one part of the depth."""
        return dims.ceildiv(self.outputs.extent, per_group * self.wide_lanes)


class DotKernel(Frame):
    """Builds the kernel of one group."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids)
        dot = Dot.of(self.plan)
        assert dot is not None
        self.dot = dot
        self.large, self.small = Reader(self.body, dot.large), Reader(self.body, dot.small)
        self.lanes = dot.layout.lanes
        self.shares = schedule.group // schedule.rows_per_group

    def write(self) -> None:
        """The sums, and their end."""
        k, dot, split = self.k, self.dot, self.schedule.split
        item, per_group = k.local_id(), self.schedule.rows_per_group
        if dot.layout.along_depth:
            self.share, own = k.mod(item, self.shares), k.floordiv(item, self.shares)
        else:
            own, self.share = k.mod(item, per_group), k.floordiv(item, per_group)
        block, self.part = k.floordiv(k.group_id(), split), k.mod(k.group_id(), split)
        at = k.mul(k.add(k.mul(block, per_group), own), dot.wide_lanes)
        extent = self.body.expression(dot.outputs.extent)
        self.ours = None if is_multiple(dot.outputs.extent, per_group * dot.wide_lanes) else k.lt(at, extent)
        if self.ours is not None:
            at = k.min(at, k.sub(extent, dot.wide_lanes))
            at.nonneg = True
        self.env: Env = dot.outputs.decode(self.body, at)
        self.envs: list[Env] = [{**self.env, **dot.narrow.decode(self.body, k.index(n))} for n in range(dot.few)]
        self._end_all(self._sums())

    # ---- sums ----------------------------------------------------------------------------------------------------

    def _sums(self) -> list[Val]:
        """The work-item's share of each sum."""
        k, split = self.k, self.schedule.split
        step = self.lanes if self.dot.layout.along_depth else 1
        sums = [k.broadcast(k.const(0, self.problem.dtype), self.lanes)] * self.dot.few
        extent = self.plan.depth.extent
        if extent == 0:
            return sums
        last = self.body.expression(extent)
        stride = self.shares * split * step
        first = k.mul(k.add(k.mul(self.part, self.shares), self.share), step)
        if not isinstance(extent, int) or extent >= 2 * _IN_FLIGHT * stride:
            first, *sums = self._several(first, k.sub(last, (_IN_FLIGHT - 1) * stride), stride, sums)
        return k.loop(first, last, stride, sums, self._turn)

    def _several(self, first: Val, last: Val, stride: int, sums: list[Val]) -> list[Val]:
        """Turns in groups, so that several loads are in flight; gives the next turn, and the sums."""
        k = self.k

        def turn(at: Val, carried: list[Val]) -> list[Val]:
            some = carried[1:]
            loaded = [self._load(k.add(at, number * stride)) for number in range(_IN_FLIGHT)]
            for large, small in loaded:
                some = [k.fma(s, large, total) for s, total in zip(small, some, strict=True)]
            return [k.add(at, _IN_FLIGHT * stride), *some]

        return k.loop(first, last, _IN_FLIGHT * stride, [first, *sums], turn)

    def _turn(self, at: Val, sums: list[Val]) -> list[Val]:
        large, small = self._load(at)
        return [self.k.fma(s, large, total) for s, total in zip(small, sums, strict=True)]

    def _load(self, at: Val) -> tuple[Val, list[Val]]:
        """The large factor, and the small one for each of the few turns, from a turn of the depth on."""
        k, depth, lanes = self.k, self.plan.depth, self.lanes
        at.nonneg = True
        here = depth.decode(self.body, at)
        large = self.large.load({**self.env, **here}, None, lanes)
        if not self.dot.layout.along_depth:
            return large, [k.broadcast(self.small.load({**env, **here}), lanes) for env in self.envs]
        if vector_lanes(self.dot.small, depth, lanes) == lanes:
            return large, [self.small.load({**env, **here}, None, lanes) for env in self.envs]
        turns = [depth.decode(self.body, k.add(at, lane)) for lane in range(lanes)]
        return large, [assembled(self.k, [self.small.load({**env, **t}) for t in turns]) for env in self.envs]

    # ---- the tree ------------------------------------------------------------------------------------------------

    def _end_all(self, sums: list[Val]) -> None:
        k, lanes = self.k, self.dot.wide_lanes
        if self.dot.layout.along_depth:
            sums = [k.reduce("add", total) for total in sums]
        if self.shares == 1:
            for env, total in zip(self.envs, sums, strict=True):
                self._end_one(env, total)
            return
        memory = k.alloc_local(self.problem.dtype, k.group * lanes)
        mine = k.mul(k.local_id(), lanes)
        apart = lanes * (1 if self.dot.layout.along_depth else self.schedule.rows_per_group)
        for number, (env, total) in enumerate(zip(self.envs, sums, strict=True)):
            if number:
                k.barrier()
            k.store(memory, mine, total)
            self._tree(memory, mine, apart)
            k.if_(k.eq(self.share, 0), lambda env=env: self._end_one(env, k.load(memory, mine, lanes)))  # type: ignore[misc]

    def _tree(self, memory: Ref, mine: Val, apart: int) -> None:
        """Add the shares by halves; the sum is where the first share was."""
        k, lanes, half = self.k, self.dot.wide_lanes, self.shares // 2

        def add(half: int) -> None:
            other = k.load(memory, k.add(mine, half * apart), lanes)
            k.store(memory, mine, k.add(k.load(memory, mine, lanes), other))

        while half:
            k.barrier()
            k.if_(k.lt(self.share, half), lambda half=half: add(half))  # type: ignore[misc]
            half //= 2

    def _end_one(self, env: Env, total: Val) -> None:
        part = self.part if self.schedule.split > 1 else None
        if self.ours is None:
            self.end(env, total, self.dot.along, part)
        else:
            self.k.if_(self.ours, lambda: self.end(env, total, self.dot.along, part))


def assembled(k: KernelBuilder, values: Sequence[Val]) -> Val:
    """Scalars as one vector."""
    if len(values) == 1:
        return values[0]
    result = k.broadcast(values[0], len(values))
    for lane, value in enumerate(values[1:], 1):
        result = k.insert(result, value, lane)
    return result
