"""Access to the one function of a program module, and to its groups."""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.group import GroupOp
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


def groups_in(block: Block) -> Iterator[GroupOp]:
    """The groups of a block and of the blocks of control flow in it, in order."""
    for op in block.ops:
        if isinstance(op, GroupOp):
            yield op
        elif isinstance(op, ControlOp):
            for inner in op.blocks:
                yield from groups_in(inner)
