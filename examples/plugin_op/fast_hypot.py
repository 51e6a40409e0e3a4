"""A pass that trades the safety of `special.hypot` for speed, and what makes xDSL's tools find it."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from firebox.lowering.patterns import Rewriter
from firebox.lowering.rewrite import replace_op
from plugin_op.hypot import SPECIAL, Hypot


@dataclass(frozen=True)
class FastHypot(ModulePass):
    """Compute special.hypot as sqrt(a*a + b*b): fewer instructions, but squares of large numbers overflow."""

    name = "special-fast-hypot"
    only: str = ""
    """Element type of the ops that are replaced; empty for all."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, Hypot) and self.only in ("", inner.avals[0].dtype.name):
                rewriter = Rewriter(inner)
                a, b = rewriter.operand(0), rewriter.operand(1)
                replace_op(inner, [(a * a + b * b).sqrt().ssa])


UNIVERSE = Universe(
    all_dialects={SPECIAL.name: lambda: SPECIAL},
    all_passes={FastHypot.name: lambda: FastHypot},
)
