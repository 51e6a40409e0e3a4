"""Which expansion writes which math op."""

from collections.abc import Callable
from typing import Any

from xdsl.dialects import math, vector
from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.function import LOWERINGS, FunctionText
from firebox.lowering.llvm.lanewise import Lanewise
from firebox.lowering.llvm.math_rem import remainder
from firebox.lowering.math.erf import erf
from firebox.lowering.math.exp import exp, exp2, expm1, sigmoid, tanh
from firebox.lowering.math.log import log, log1p, log2
from firebox.lowering.math.pow import pow_
from firebox.lowering.math.trig import cos, sin, tan

Expansion = Callable[..., str]

EXPANSIONS: dict[type[Operation], Expansion] = {
    math.ExpOp: exp,
    math.Exp2Op: exp2,
    math.ExpM1Op: expm1,
    math.LogOp: log,
    math.Log2Op: log2,
    math.Log1pOp: log1p,
    math.TanhOp: tanh,
    math.ErfOp: erf,
    math.SinOp: sin,
    math.CosOp: cos,
    math.TanOp: tan,
    math.PowFOp: pow_,
    kernel.SigmoidOp: sigmoid,
    kernel.RemfOp: remainder,
    math.FmaOp: Lanewise.fma,
    vector.FMAOp: Lanewise.fma,
}
"""By op: writes the op on f32 or f64, scalar or vector, given the operand texts."""


def _expand(expansion: Expansion) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        element, lanes = f.shape(op.results[0])
        if element not in ("float", "double"):
            raise CompilerError("math is on f32 and f64", op=op.name, found=str(op.results[0].type))
        wide = Lanewise(f, "float" if element == "float" else "double", lanes)
        f.define(op.results[0], expansion(wide, *(f.value(v) for v in operands_of(op))))

    return write


for _class, _expansion in EXPANSIONS.items():
    LOWERINGS[_class] = _expand(_expansion)
