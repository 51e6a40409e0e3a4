"""The kernel builder: how generators write kernels. Its methods are inherited, one file a subject.

Values are typed (`Val`); an op is placed in the deepest scope that one of its operands belongs to, so what does not
depend on a loop is outside of it from the start; equal ops are made once. Ops with effects stay where they are written.
The builder is also what element formulas are written against.
"""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import FlatSymbolRefAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Region

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.device import WorkGroups
from firebox.dialects.kernel.values import INDEX, Operand, Ref, Val, value_type
from firebox.dialects.xdsl_compat import (
    I64,
    INDEX_TYPE,
    append,
    create,
    int_array,
    integer_attr,
    memref_type,
    scalar_type,
    set_name,
)
from firebox.dtypes import DType, i64, u8
from firebox.errors import CompilerError

__all__ = ["INDEX", "KernelBuilder", "Operand", "Ref", "Val"]

Parameter = DType | tuple[DType]
"""A parameter of a helper function: a scalar's type, or a 1-tuple with the element type of memory."""


class KernelBuilder(WorkGroups):
    """Builds one function.

    Attributes:
        buffers: memory arguments of a kernel, in order.
        dims: the symbolic extents of a kernel, in the order of its `dim_indices`.
        begin: first unit to work on.
        end: one past the last unit.
        scratch: the thread's own bytes.
        args: all parameters of a helper function.
    """

    buffers: list[Ref]
    dims: list[Val]
    begin: Val
    end: Val
    scratch: Ref
    args: list[Val | Ref]

    @classmethod
    def kernel(
        cls,
        name: str,
        buffers: Sequence[DType],
        n_dims: int = 0,
        dim_indices: Sequence[int] | None = None,
        noalias: bool = False,
        location: tuple[str, int] | None = None,
    ) -> "KernelBuilder":
        """Start a kernel of the CPU calling convention.

        Args:
            name: symbol of the kernel.
            buffers: storage type of each buffer argument.
            n_dims: how many symbolic extents it reads.
            dim_indices: which of the program's extents they are; the first `n_dims` by default.
            noalias: no buffer overlaps another.
            location: file and line of the ops, until `location` is set anew.
        """
        chosen = tuple(range(n_dims) if dim_indices is None else dim_indices)
        if len(chosen) != n_dims:
            raise CompilerError("one index for each dim", op=f"kernel {name}", expected=n_dims, found=len(chosen))
        types: list[Attribute] = [memref_type(scalar_type(d)) for d in buffers]
        types += [INDEX_TYPE] * (n_dims + 2) + [memref_type(scalar_type(u8)), memref_type(I64)]
        self = cls(name, types)
        self.location = location
        self.attributes = {"kernel.abi": StringAttr("cpu"), "kernel.dims": int_array(chosen)}
        if noalias:
            self.attributes["kernel.noalias"] = UnitAttr()
        self._name_arguments(list(buffers), n_dims)
        return self

    def _name_arguments(self, buffers: list[DType], n_dims: int) -> None:
        args = self._block.args
        count = len(buffers)
        tail = args[count + n_dims :]
        names = (
            [f"a{i}" for i in range(count)] + [f"d{i}" for i in range(n_dims)] + ["begin", "end", "scratch", "status"]
        )
        for arg, name in zip(args, names, strict=True):
            set_name(arg, name)
        self.buffers = [Ref(a, d, 0) for a, d in zip(args, buffers, strict=False)]
        self.dims = [Val(a, INDEX, 1, 0, None, True) for a in args[count : count + n_dims]]
        self.begin, self.end = (Val(a, INDEX, 1, 0, None, True) for a in tail[:2])
        self.scratch, self.status = Ref(tail[2], u8, 0), Ref(tail[3], i64, 0)
        self.args = [*self.buffers, *self.dims, self.begin, self.end, self.scratch, self.status]

    @classmethod
    def function(cls, name: str, parameters: Sequence[Parameter]) -> "KernelBuilder":
        """Start a private helper function with plain parameters (see `Parameter`), for `call`."""
        types = [
            memref_type(scalar_type(p[0])) if isinstance(p, tuple) else value_type(p.compute, 1) for p in parameters
        ]
        self = cls(name, types)
        self.args = [
            Ref(a, p[0], 0) if isinstance(p, tuple) else Val(a, p.compute, 1, 0)
            for a, p in zip(self._block.args, parameters, strict=True)
        ]
        return self

    def call(self, function: func.FuncOp, operands: Sequence[Val | Ref]) -> None:
        """Call a helper function; it goes into the same module."""
        properties: dict[str, Attribute] = {"callee": FlatSymbolRefAttr(function.sym_name)}
        self._effect(func.CallOp, operands, (), properties)

    def fail(self, code: int, op_id: int, d0: Operand = 0, d1: Operand = 0) -> None:
        """Record a fault (1 index out of range, 2 guard unmet, 3 out of memory), unless there is one already."""
        properties: dict[str, Attribute] = {"code": integer_attr(code, I64), "op_id": integer_attr(op_id, I64)}
        self._effect(ops.FailOp, (self.status, self._detail(d0), self._detail(d1)), (), properties)

    def _detail(self, x: Operand) -> Val:
        """A detail of a fault has 64 bits, also where index values have fewer."""
        return self.cast(x, i64) if isinstance(x, Val) else self.const(x, i64)

    def finish(self) -> func.FuncOp:
        """End the function; the builder is used up."""
        append(self._block, create(func.ReturnOp, (), (), {}, self._loc))
        if "kernel.group" in self.attributes:
            self._note_used()
        kernel = "kernel.abi" in self.attributes
        function = func.FuncOp(
            self.name, (self._block.arg_types, ()), Region(self._block), None if kernel else "private"
        )
        function.attributes = self.attributes
        function.location = self._loc
        return function
