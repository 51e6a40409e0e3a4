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
from firebox.dtypes import DType
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
        """Start the kernel of a group on a CPU."""
        numbers = dim_numbers(group, dim_order)
        k = KernelBuilder.kernel(group.label, buffer_types(group), len(numbers), numbers, location=location_of(group))
        body = Body(k, dict(zip(group.block.args, k.buffers, strict=False)), op_ids)
        return cls.started(group, body, [dim_order[n] for n in numbers])

    @classmethod
    def started(cls, group: GroupOp, body: Body, names: Sequence[str]) -> "Frame":
        """The frame of a kernel whose buffers are those of a group and whose dims have these names."""
        k = body.k
        body.env.update(zip(names, k.dims, strict=True))
        return cls(group.members[-1], k, body, dict(zip(group.yielded, k.buffers[len(group.operands) :], strict=True)))

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


def dim_numbers(group: GroupOp, dim_order: Sequence[str]) -> list[int]:
    """Which of the program's dims the kernel gets."""
    used = group.dim_names
    return [number for number, name in enumerate(dim_order) if name in used]


def buffer_types(group: GroupOp) -> list[DType]:
    """Element types of operands, then results."""
    return [aval_of(v.type).dtype for v in (*group.operands, *group.results)]


def location_of(group: GroupOp) -> tuple[str, int] | None:
    """File and line of the op that gives the group its kind."""
    where = group.members[-1].location
    return (where.filename.data, where.line.data) if isinstance(where, FileLineColLoc) else None


def three(shape: Shape, axis: int) -> tuple[DimLike, DimLike, DimLike]:
    """A shape as (outer, size of the axis, inner)."""
    return dims.product(shape[:axis]), shape[axis], dims.product(shape[axis + 1 :])


def estimate(extent: DimLike) -> int:
    """An extent as a number, for estimates."""
    return extent if isinstance(extent, int) else UNKNOWN_EXTENT


def grain_of(cost: int) -> int:
    """Units of this cost that make up a worthwhile piece of work."""
    return max(1, UNIT_COST // max(cost, 1))
