"""Which expansion writes which math op."""

from typing import Any

from xdsl.dialects import math, vector
from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.math.erf import erf
from firebox.lowering.math.exp import exp, exp2, expm1, sigmoid, tanh
from firebox.lowering.math.log import log, log1p, log2
from firebox.lowering.math.pow import pow_
from firebox.lowering.math.trig import cos, sin, tan
from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import LOWERINGS, FunctionText, lowers
from firebox.lowering.opencl.lanewise import Expansion, expanded
from firebox.lowering.opencl.narrow import per_lane

EXPANSIONS: dict[type[Operation], tuple[str, Expansion]] = {
    math.ExpOp: ("exp", exp),
    math.Exp2Op: ("exp2", exp2),
    math.ExpM1Op: ("expm1", expm1),
    math.LogOp: ("log", log),
    math.Log2Op: ("log2", log2),
    math.Log1pOp: ("log1p", log1p),
    math.TanhOp: ("tanh", tanh),
    math.ErfOp: ("erf", erf),
    math.SinOp: ("sin", sin),
    math.CosOp: ("cos", cos),
    math.TanOp: ("tan", tan),
    math.PowFOp: ("pow", pow_),
    kernel.SigmoidOp: ("sigmoid", sigmoid),
}
"""By op: the name of its function, and what writes it on f32 or f64."""


def _expand(function: str, expansion: Expansion) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        element, lanes = f.shape(op.results[0])
        if element not in text.FLOATS:
            raise CompilerError("math is on f32 and f64", op=op.name, found=str(op.results[0].type))
        operands = operands_of(op)
        name = expanded(f.unit, function, "float" if element == "float" else "double", "xy"[: len(operands)], expansion)
        values = [f.value(v) if lanes == 1 else f.vector(v) for v in operands]
        f.define(op.results[0], per_lane(name, f.type(op.results[0]), lanes, *values))

    return write


for _class, (_function, _expansion) in EXPANSIONS.items():
    LOWERINGS[_class] = _expand(_function, _expansion)


@lowers(math.FmaOp, vector.FMAOp)
def _fma(f: FunctionText, op: Operation) -> None:
    f.define(op.results[0], text.call("fma", *(f.value(v) for v in operands_of(op))))
