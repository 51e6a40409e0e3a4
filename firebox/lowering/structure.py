"""What makes two groups one kernel."""

from collections.abc import Callable

from xdsl.ir import SSAValue

from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp


def structure(group: GroupOp, masked: Callable[[NdOp], bool] = lambda op: False) -> tuple[object, ...]:
    """The key of a kernel: types, ops, parameters and wiring, not names or source lines.

    Args:
        masked: ops whose parameters do not count.
    """
    numbers: dict[SSAValue, int] = {v: k for k, v in enumerate(group.block.args)}
    ops: list[object] = []
    for op in group.block.ops:
        counted = () if isinstance(op, NdOp) and masked(op) else op.attributes.items()
        attributes = tuple(sorted(((n, a) for n, a in counted if n != "recompute"), key=lambda p: p[0]))
        ops.append((op.name, tuple(numbers[o] for o in op._operands), attributes, tuple(r.type for r in op.results)))
        for result in op.results:
            numbers[result] = len(numbers)
    schedule = group.attributes.get("schedule")
    return (group.group, group.domain, group.axes, schedule, tuple(a.type for a in group.block.args), *ops)
