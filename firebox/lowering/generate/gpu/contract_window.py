"""Contractions with a short depth: each work-item sums some elements of the result on its own, as a map would.

This serves depthwise convolutions, outer products and products element by element, where a tile of a matrix product
would be nearly empty; and factors that are read at positions which are not affine in the loops.
"""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.access import loops, point
from firebox.lowering.generate.contract_problem import Operand
from firebox.lowering.generate.gpu.contract_dot import assembled
from firebox.lowering.generate.gpu.contract_frame import Frame
from firebox.lowering.generate.gpu.contract_plan import Env, Plan, Side, vector_lanes
from firebox.lowering.generate.gpu.contract_reads import Reader
from firebox.lowering.generate.gpu.device_body import is_multiple
from firebox.lowering.generate.nest import Loop


def window_count(plan: Plan, schedule: Schedule) -> DimLike:
    """Work-groups."""
    return dims.ceildiv(plan.out.extent, schedule.group * schedule.lanes)


class WindowKernel(Frame):
    """Builds the kernel of one group; the lanes of the schedule follow the innermost loop of the result."""

    def __init__(self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int]) -> None:
        super().__init__(group, schedule, dim_order, op_ids)
        self.lanes = schedule.lanes
        self.readers = [Reader(self.body, o) for o in self.problem.operands] if self.plan.affine else []

    def write(self) -> None:
        """The sums, and their end."""
        k, plan = self.k, self.plan
        at = k.mul(k.add(k.mul(k.group_id(), k.group), k.local_id()), self.lanes)
        if is_multiple(plan.out.extent, k.group * self.lanes):
            self._at(at)
        else:
            k.if_(k.lt(at, self.body.expression(plan.out.extent)), lambda: self._at(at))

    def _at(self, at: Val) -> None:
        k, plan = self.k, self.plan
        env = plan.out.decode(self.body, at)
        zero = k.broadcast(k.const(0, self.problem.dtype), self.lanes)
        total = zero
        if not any(loop.extent == 0 for loop in plan.depth.loops):
            total = self._reduce(list(plan.depth.loops), env, zero)
        self.body.at_point()
        self.end(env, total, plan.out.last)

    def _reduce(self, rest: list[Loop], env: Env, total: Val) -> Val:
        k = self.k
        if not rest:
            left, right = (self._factor(side, env) for side in (0, 1))
            return k.fma(left, right, total)
        loop, *inner = rest

        def turn(position: Val, carried: list[Val]) -> list[Val]:
            return [self._reduce(inner, {**env, loop.name: position}, carried[0])]

        return k.loop(0, self.body.expression(loop.extent), 1, [total], turn)[0]

    def _factor(self, side: int, env: Env) -> Val:
        """One factor at the lanes' elements of the result."""
        if not self.readers:
            return self._computed(side, env)
        k, reader, lanes, last = self.k, self.readers[side], self.lanes, self.plan.out.last
        if lanes == 1 or last not in reader.operand.names:
            return k.broadcast(reader.load(env), lanes)
        if vector_lanes(reader.operand, Side(self.plan.out.loops[-1:]), lanes) == lanes:
            return reader.load(env, None, lanes)
        return assembled(k, [reader.load({**env, last: k.add(env[last], lane)}) for lane in range(lanes)])

    def _computed(self, side: int, env: Env) -> Val:
        """Read as the formula has it."""
        problem, operand = self.problem, self.problem.operands[side]
        self.body.at_point()
        self.body.env.update(env)
        names = point(loops(problem.op.avals[0].shape)) | problem.reduced_env
        return self.body.read(problem.op, operand.read, names)


def is_read_well(operand: Operand, plan: Plan, lanes: int) -> bool:
    """Whether vectors of the result need no more loads of a factor than single elements do."""
    last = plan.out.last
    return last not in operand.names or vector_lanes(operand, Side(plan.out.loops[-1:]), lanes) == lanes
