"""`LoopFrame`: what the kernels of a group of loops on a GPU have in common: arguments, body, outputs."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.body import linear
from firebox.lowering.generate.gpu.device_body import DeviceBody
from firebox.lowering.generate.gpu.space import Space
from firebox.lowering.generate.nest import Nest
from firebox.lowering.generate.stages import needs_wide_indices
from firebox.lowering.generate.templates import kernel_name

Output = tuple[SSAValue, Ref]

_NARROW_LIMIT = (1 << 31) - (1 << 23)
"""Elements up to which 32-bit indices do; work-items of the last group may stand a little past the end."""


class LoopFrame:
    """A kernel under construction.

    Attributes:
        group: what it computes.
        schedule: how.
        nest: the loops.
        k: the builder.
        body: evaluates values.
        outputs: what it stores, and where.
        parallel: the loops that are not reduced.
    """

    def __init__(
        self, group: GroupOp, schedule: Schedule, dim_order: Sequence[str], op_ids: dict[str, int], number: int = 0
    ) -> None:
        self.group = group
        self.schedule = schedule
        self.nest = Nest.of(group)
        used = group.dim_names
        names = [n for n in dim_order if n in used]
        dtypes = [aval_of(v.type).dtype for v in (*group.operands, *group.results)]
        narrow = not needs_wide_indices(group, _NARROW_LIMIT)
        self.k = k = KernelBuilder.device_kernel(
            kernel_name(group.label, number),
            dtypes,
            len(names),
            [dim_order.index(n) for n in names],
            group=schedule.group,
            narrow=narrow,
        )
        count = len(group.operands)
        self.body = DeviceBody(k, dict(zip(group.block.args, k.buffers[:count], strict=True)), op_ids)
        self.body.env.update(zip(names, k.dims, strict=True))
        self.body.collapse = dict(self.nest.collapse)
        self.body.wide_indices = not narrow
        self.outputs: list[Output] = list(zip(group.yielded, k.buffers[count:], strict=True))
        self.parallel = Space.of(self.nest, schedule, False)

    def values(self, outputs: Sequence[Output]) -> list[Val]:
        """Outputs at the present point."""
        return [self.body.value(value, self.nest.homes[value]) for value, _ in outputs]

    def store(self, outputs: Sequence[Output], values: Sequence[Val]) -> None:
        """Write outputs of the present point."""
        for (value, ref), computed in zip(outputs, values, strict=True):
            offset = linear(self.nest.homes[value], aval_of(value.type).shape)
            self.body.store(ref, offset, computed)
