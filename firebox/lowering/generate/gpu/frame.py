"""What the generators of single ops start from on a GPU."""

from collections.abc import Sequence

from firebox.dialects.kernel.builder import KernelBuilder
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.lowering.generate.frame import Frame, buffer_types, dim_numbers, location_of
from firebox.lowering.generate.gpu.device_body import DeviceBody
from firebox.lowering.generate.templates import kernel_name

NARROW_BYTES = 1 << 31
"""Below this size of everything that it touches, a kernel numbers bytes with 32 bits."""


def device_frame(
    group: GroupOp,
    dim_order: Sequence[str],
    op_ids: dict[str, int],
    items: int,
    number: int = 0,
    workspace: DimLike = 0,
) -> Frame:
    """Start one of the kernels of a group.

    Args:
        group: the group.
        dim_order: symbolic dims of the program.
        op_ids: table of source lines.
        items: work-items of a work-group.
        number: which of the group's kernels it is.
        workspace: bytes that the kernels share.
    """
    numbers = dim_numbers(group, dim_order)
    sizes = [workspace, *(aval_of(v.type).nbytes for v in (*group.operands, *group.results))]
    narrow = all(isinstance(size, int) and size < NARROW_BYTES for size in sizes)
    k = KernelBuilder.device_kernel(
        kernel_name(group.label, number),
        buffer_types(group),
        len(numbers),
        numbers,
        group=items,
        narrow=narrow,
        location=location_of(group),
    )
    body = DeviceBody(k, dict(zip(group.block.args, k.buffers, strict=False)), op_ids)
    body.wide_indices = not narrow
    return Frame.started(group, body, [dim_order[n] for n in numbers])
