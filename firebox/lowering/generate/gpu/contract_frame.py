"""What all kernels of a contraction share: arguments, the end of a piece of the result, partial sums."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dims import DimLike
from firebox.lowering.generate.body import Lane, split
from firebox.lowering.generate.contract_finish import store_outputs
from firebox.lowering.generate.gpu.contract_plan import Env, Plan, weighted
from firebox.lowering.generate.gpu.device_body import DeviceBody, is_multiple
from firebox.lowering.generate.stages import needs_wide_indices
from firebox.lowering.generate.templates import kernel_name

WORKSPACE_ALIGNMENT = 64


class Frame(ABC):
    """A kernel of a contraction while it is written.

    Attributes:
        plan: the sides of the contraction.
        schedule: its schedule.
        k: the builder.
        body: evaluates the maps that follow the contraction.
        outputs: what is stored, and where.
    """

    def __init__(
        self,
        group: GroupOp,
        schedule: Schedule,
        dim_order: Sequence[str],
        op_ids: dict[str, int],
        number: int = 0,
        items: int = 0,
    ) -> None:
        self.plan = plan = Plan.of(group)
        self.problem = problem = plan.problem
        self.schedule = schedule
        used = {*group.dim_names, *dims.names(*(loop.extent for loop in (*problem.reduced, *problem.out)))}
        names = [n for n in dim_order if n in used]
        dtypes = [aval_of(v.type).dtype for v in (*group.operands, *group.results)]
        indices = [dim_order.index(n) for n in names]
        self.k = k = KernelBuilder.device_kernel(
            kernel_name(group.label, number),
            dtypes,
            len(indices),
            indices,
            group=items or schedule.group,
            narrow=plan.narrow(schedule.split),
        )
        count = len(group.operands)
        self.body = DeviceBody(k, dict(zip(group.block.args, k.buffers[:count], strict=True)), op_ids)
        self.body.env.update(zip(names, k.dims, strict=True))
        self.body.collapse = dict(problem.collapse)
        self.body.wide_indices = needs_wide_indices(group)
        self.outputs: list[tuple[SSAValue, Ref]] = list(zip(group.yielded, k.buffers[count:], strict=True))

    def build(self) -> FuncOp:
        """The finished kernel; one for an empty result, which is never started, does nothing."""
        if not any(loop.extent == 0 for loop in self.problem.out):
            self.write()
        return self.k.finish()

    @abstractmethod
    def write(self) -> None:
        """Write the kernel's ops."""

    def length(self) -> int:
        """Ops of the maps that follow the contraction at one place, about."""
        members = [op for op in self.problem.nest.group.members if op is not self.problem.op]
        return sum(24 if op.transcendental else 2 for op in members)

    # ---- partial sums --------------------------------------------------------------------------------------------

    def partial_sums(self) -> Ref:
        """The workspace as sums: one array of the result's loops for each part of the depth."""
        return self.k.view(self.k.workspace, 0, self.problem.dtype)

    def partial_at(self, part: Val, env: Env) -> Val:
        """Where the sum of a part of the depth stands."""
        strides = self.plan.out_strides()
        terms = [(env[name], stride) for name, stride in strides.items()]
        return weighted(self.body, [(part, self.plan.out.extent), *terms])

    # ---- the end of a piece of the result ------------------------------------------------------------------------

    def end(self, env: Env, total: Val, along: str, part: Val | None = None) -> None:
        """Store what follows from sums: the outputs, or the sums themselves as one part of the depth.

        Args:
            env: loop variables of the result, of lane 0.
            total: one sum, or several along a loop.
            along: that loop.
            part: number of the part; None if the sums are complete.
        """
        vector = total.lanes > 1 and self.fits(along, total.lanes, part is not None)
        if total.lanes == 1 or vector:
            self._end(env, total, along, part)
            return
        for lane in range(total.lanes):
            self._end({**env, along: self.k.add(env[along], lane)}, self.k.extract(total, lane), along, part)

    def _end(self, env: Env, total: Val, along: str, part: Val | None) -> None:
        if part is not None:
            self.k.store(self.partial_sums(), self.partial_at(part, env), total)
            return
        body = self.body
        body.env.update(env)
        body.lane = Lane(along, total.lanes) if total.lanes > 1 else None
        store_outputs(body, self.problem, self.outputs, total)
        body.lane, body.known = None, {}

    def fits(self, along: str, lanes: int, partial: bool = False) -> bool:
        """Whether vectors along a loop of the result, from multiples of the lanes on, are aligned wherever met."""
        return vector_fits(self.plan, along, lanes, partial)


def vector_fits(plan: Plan, along: str, lanes: int, partial: bool = False) -> bool:
    """Whether all reads and writes at the end are constant along a loop, or aligned vectors."""
    problem = plan.problem
    if not along or not is_multiple(problem.loop(along).extent, lanes):
        return False
    if partial:
        return problem.out[-1].name == along
    if along in problem.nest.special:
        return False
    return all(_aligned(dims.substitute(a, problem.collapse), along, lanes) for a in problem.nest.accesses)


def _aligned(access: DimLike, along: str, lanes: int) -> bool:
    rest, step = split(access, along)
    if step == 0:
        return True
    return step == 1 and is_multiple(rest, lanes)


def workspace_bytes(plan: Plan, schedule: Schedule) -> DimLike:
    """Bytes of partial sums."""
    if schedule.split == 1:
        return 0
    size = dims.multiply(plan.out.extent, schedule.split * plan.problem.dtype.itemsize)
    return dims.multiply(dims.ceildiv(size, WORKSPACE_ALIGNMENT), WORKSPACE_ALIGNMENT)
