"""Access to the one function of a program module."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from firebox.errors import CompilerError


def main_function(module: ModuleOp) -> FuncOp:
    """The function ``@main`` of an nd module.

    Raises:
        CompilerError: there is none.
    """
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise CompilerError("the module has no function @main", op="module")
