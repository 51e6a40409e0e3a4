"""Conditions on the symbolic dims of a program: where one does not hold, an op would leave its operands."""

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.nd.base import NdOp
from firebox.dialects.xdsl_compat import location_text
from firebox.dims import DimLike
from firebox.runtime.program import Guard


def collect_guards(function: FuncOp, op_ids: dict[str, int], found: dict[DimLike, Guard]) -> None:
    """Add what the ops of a function need of the dims and no rule proves; the first op that needs it is named.

    Args:
        op_ids: the program's table of ops; ops that need something are entered.
        found: guards by the expression that must not be negative.
    """
    for op in function.walk():
        if isinstance(op, NdOp):
            for expression in op.unproven(op.operand_avals, op.avals, op.values):
                if expression not in found:
                    found[expression] = _guard(expression, op_id(op, op_ids))


def op_id(op: NdOp, op_ids: dict[str, int]) -> int:
    """The number of an op in the program's table; ops of one name and source line share it."""
    return op_ids.setdefault(f"{op.name.partition('.')[2]} {location_text(op.location)}", len(op_ids))


def op_table(op_ids: dict[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and source lines by number."""
    rows = [key.partition(" ") for key in op_ids]
    return tuple(name for name, _, _ in rows), tuple(line for _, _, line in rows)


def _guard(expression: DimLike, op: int) -> Guard:
    left, right = dims.by_sign(expression)
    return Guard(left, right, op)
