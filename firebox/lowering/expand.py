"""Pass `expand`: replaces `nd.grad`, `nd.jvp`, `nd.vmap`, `nd.checkpoint` and `nd.custom_vjp` by plain ops.

Before::

    %g, %y = nd.grad %x, %c {wrt = 1, seeds = 1} { ^bb0(%a): %s = nd.sin %a; nd.yield %s }

After::

    %y = nd.sin %x          %0 = nd.cos %x          %g = nd.mul %c, %0

The innermost transform goes first, so that a rule only ever sees straight-line code. Ops of a derivative have the
location of the op they come from; ops that a checkpoint computes again carry ``recompute = id``.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from firebox.lowering.rewrite import functions_of
from firebox.lowering.transforms import expand_in


@dataclass(frozen=True)
class ExpandPass(ModulePass):
    """Replace transforms by plain ops."""

    name = "nd-expand"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand(op)


def expand(module: ModuleOp) -> None:
    """Expand all transforms of a module, in place.

    Raises:
        DTypeError: a derivative by or of something that is not a float. CompilerError: an op lacks the rule needed.
    """
    for function in functions_of(module):
        expand_in(function.body.block)
