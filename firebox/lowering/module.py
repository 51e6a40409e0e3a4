"""Access to the one function of a program module."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from firebox.errors import UserError


def main_function(module: ModuleOp) -> FuncOp:
    """The function ``@main`` of an nd module.

    Raises:
        UserError: there is none, or it is not one block of ops.
    """
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            if len(op.body.blocks) != 1:
                raise UserError("no straight line", op="@main", expected="one block", found=f"{len(op.body.blocks)}")
            return op
    raise UserError("the module has no function @main", op="module")
