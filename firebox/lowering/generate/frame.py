"""`Frame`: what the generator of a single op starts from: its kernel with buffers and symbolic dims, and a `Body`."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.lowering.generate.body import Body

UNKNOWN_EXTENT = 256
"""What a symbolic extent is taken for in estimates."""

UNIT_COST = 16384
"""Elementary steps of work worth handing to another thread: some 10 us."""


@dataclass
class Frame:
    """The kernel of a group made of one op and numbers that it takes.

    Attributes:
        op: the op.
        k: the builder.
        body: evaluates index expressions and reads operands.
        outputs: memory of those results that the group yields.
    """

    op: NdOp
    k: KernelBuilder
    body: Body
    outputs: dict[SSAValue, Ref]

    @classmethod
    def of(cls, group: GroupOp, dim_order: Sequence[str], op_ids: dict[str, int]) -> "Frame":
        """Start the kernel of a group."""
        op = group.members[-1]
        used = group.dim_names
        names = [name for name in dim_order if name in used]
        dtypes = [aval_of(v.type).dtype for v in (*group.operands, *group.results)]
        where = op.location
        location = (where.filename.data, where.line.data) if isinstance(where, FileLineColLoc) else None
        indices = [dim_order.index(name) for name in names]
        k = KernelBuilder.kernel(group.label, dtypes, len(indices), indices, location=location)
        count = len(group.operands)
        body = Body(k, dict(zip(group.block.args, k.buffers[:count], strict=True)), op_ids)
        body.env.update(zip(names, k.dims, strict=True))
        return cls(op, k, body, dict(zip(group.yielded, k.buffers[count:], strict=True)))

    def operand(self, number: int) -> Ref:
        """Memory of an operand of the op."""
        return self.body.buffers[self.op._operands[number]]

    def number(self, number: int) -> Val | None:
        """The number that every element of an operand is, where it is not in memory."""
        value = self.op._operands[number]
        if value in self.body.buffers:
            return None
        return self.body.value(value, (0,) * aval_of(value.type).rank)

    def split(self, unit: Val, *extents: DimLike) -> list[Val]:
        """The number of a unit as one number per extent, row-major."""
        found: list[Val] = []
        for extent in reversed(extents[1:]):
            size = self.body.expression(extent)
            found.append(self.k.mod(unit, size))
            unit = self.k.floordiv(unit, size)
        return [unit, *reversed(found)]


def three(shape: Shape, axis: int) -> tuple[DimLike, DimLike, DimLike]:
    """A shape as (outer, size of the axis, inner)."""
    return dims.product(shape[:axis]), shape[axis], dims.product(shape[axis + 1 :])


def estimate(extent: DimLike) -> int:
    """An extent as a number, for estimates."""
    return extent if isinstance(extent, int) else UNKNOWN_EXTENT


def grain_of(cost: int) -> int:
    """Units of this cost that make up a worthwhile piece of work."""
    return max(1, UNIT_COST // max(cost, 1))
