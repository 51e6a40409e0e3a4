"""A rewrite pattern for `special.hypot`, tried whenever programs are simplified."""

from firebox.dialects.nd import NdOp
from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.patterns import Replacement, Rewriter, defined_by, pattern
from plugin_op.hypot import Hypot


@pattern(Hypot)
def drop_signs(op: NdOp, rw: Rewriter) -> Replacement:
    """hypot(-a, b) and hypot(|a|, b) are hypot(a, b), and so for the other operand."""
    operands = operands_of(op)
    inner = [defined_by(v, "nd.neg") or defined_by(v, "nd.abs") for v in operands]
    if inner == [None, None]:
        return None
    values = [rw.value(v if i is None else operands_of(i)[0]) for v, i in zip(operands, inner, strict=True)]
    return values[0].apply(Hypot, values, {})[0]
