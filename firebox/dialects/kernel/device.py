"""The kernel builder's work-groups: kernels of the OpenCL calling convention, and where a work-item is in them."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block

from firebox.dialects.kernel import group_ops
from firebox.dialects.kernel.tiles import Tiles
from firebox.dialects.kernel.values import INDEX, Ref, Val
from firebox.dialects.xdsl_compat import (
    I64,
    INDEX_TYPE,
    int_array,
    integer_attr,
    is_used,
    memref_type,
    scalar_type,
    set_name,
)
from firebox.dtypes import DType, i64, u8
from firebox.errors import CompilerError


class WorkGroups(Tiles):
    """Kernels that run as groups of work-items.

    Attributes:
        buffers: memory arguments, in order; each starts at a 16-byte boundary.
        dims: the symbolic extents, in the order of the `dim_indices`.
        workspace: bytes that all launches of a group of ops share.
        status: the status words.
        group: work-items of a work-group.
        narrow: index values fit in 32 bits.
    """

    buffers: list[Ref]
    dims: list[Val]
    workspace: Ref
    status: Ref
    group: int
    narrow: bool = False

    def __init__(self, name: str, types: Sequence[Attribute]) -> None:
        self._block = Block(arg_types=types)
        super().__init__(self._block)
        self.name = name
        self.attributes: dict[str, Attribute] = {}

    @classmethod
    def device_kernel(
        cls,
        name: str,
        buffers: Sequence[DType],
        n_dims: int = 0,
        dim_indices: Sequence[int] | None = None,
        *,
        group: int,
        narrow: bool,
        location: tuple[str, int] | None = None,
    ) -> Self:
        """Start a kernel of the OpenCL calling convention.

        Args:
            name: symbol of the kernel, an identifier of C.
            buffers: storage type of each buffer argument.
            n_dims: how many symbolic extents it reads.
            dim_indices: which of the program's extents they are; the first `n_dims` by default.
            group: work-items of a work-group.
            narrow: no index value exceeds 31 bits.
            location: file and line of the ops, until `location` is set anew.
        """
        chosen = tuple(range(n_dims) if dim_indices is None else dim_indices)
        if len(chosen) != n_dims:
            raise CompilerError("one index for each dim", op=f"kernel {name}", expected=n_dims, found=len(chosen))
        types: list[Attribute] = [memref_type(scalar_type(d)) for d in buffers]
        types += [INDEX_TYPE] * n_dims + [memref_type(scalar_type(u8)), memref_type(I64)]
        self = cls(name, types)
        self.location = location
        self.group, self.narrow = group, narrow
        self.attributes = {
            "kernel.abi": StringAttr("opencl"),
            "kernel.dims": int_array(chosen),
            "kernel.group": integer_attr(group, I64),
        }
        if narrow:
            self.attributes["kernel.narrow"] = UnitAttr()
        self._name_device_arguments(list(buffers), n_dims)
        return self

    def _name_device_arguments(self, buffers: list[DType], n_dims: int) -> None:
        args = self._block.args
        count = len(buffers)
        names = [f"a{i}" for i in range(count)] + [f"d{i}" for i in range(n_dims)] + ["workspace", "status"]
        for arg, name in zip(args, names, strict=True):
            set_name(arg, name)
        self.buffers = [Ref(a, d, 0) for a, d in zip(args, buffers, strict=False)]
        self.dims = [Val(a, INDEX, 1, 0, None, True) for a in args[count : count + n_dims]]
        self.workspace, self.status = Ref(args[-2], u8, 0), Ref(args[-1], i64, 0)

    def _note_used(self) -> None:
        """Say whether the host has to pass the workspace and the status words."""
        for ref, name in ((self.workspace, "workspace"), (self.status, "status")):
            if is_used(ref.ssa):
                self.attributes[f"kernel.{name}"] = UnitAttr()

    def group_id(self) -> Val:
        """The number of this work-group."""
        return self._id("group")

    def group_count(self) -> Val:
        """How many work-groups were launched."""
        return self._id("groups")

    def local_id(self) -> Val:
        """The number of this work-item in its group."""
        return self._id("item")

    def _id(self, kind: str) -> Val:
        value = self._pure(group_ops.IdOp, (), INDEX, 1, {"kind": StringAttr(kind)}, kind)
        value.nonneg = True
        return value

    def barrier(self) -> None:
        """Wait for the other work-items of the group, and see what they wrote to local memory; all must come here."""
        self._effect(group_ops.BarrierOp, (), (), {})
