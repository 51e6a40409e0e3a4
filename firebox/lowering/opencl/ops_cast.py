"""OpenCL C of conversions: between numeric types, from and to the 16-bit floats, and of bits."""

from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, VectorType
from xdsl.ir import Attribute, Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import narrow, text
from firebox.lowering.opencl.function import LOWERINGS, FunctionText, Value, lowers
from firebox.lowering.opencl.ops_arith import as_mask
from firebox.lowering.opencl.text import FLOATS, Expr


@lowers(kernel.CastOp)
def _cast(f: FunctionText, op: kernel.CastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    signed = "signed" in op.properties
    narrow_in, narrow_out = _narrow(source._type), _narrow(result._type)
    if narrow_in or narrow_out:
        _cast_narrow(f, source, result, narrow_in, narrow_out)
        return
    f.define(result, convert(f, source, f.shape(result)[0], signed))


def _cast_narrow(f: FunctionText, source: Value, result: Value, narrow_in: str, narrow_out: str) -> None:
    """From or to bf16 and f16: through f32, except f64 to f16, which must round once."""
    element, lanes = f.shape(source)
    if not narrow_in and element not in FLOATS:
        raise CompilerError("integers convert to 16-bit floats by f32", op="kernel.cast", found=str(source.type))
    if narrow_in and not narrow_out and f.shape(result)[0] not in FLOATS:
        raise CompilerError("16-bit floats convert to integers by f32", op="kernel.cast", found=str(result.type))
    x = f.vector(source) if lanes > 1 else f.value(source)
    if narrow_in:
        x, element = narrow.to_float(f.unit, narrow_in, lanes, x), "float"
    if narrow_out:
        if narrow_in and lanes > 1:
            x = f.named(f.type_of("float", lanes), x)
        x = narrow.from_float(f.unit, narrow_out, element, lanes, x)
    elif f.shape(result)[0] == "double":
        x = _numeric(f, "double", lanes, x)
    f.define(result, x)


def _narrow(type_: Attribute) -> str:
    """`bf16`, `f16` or nothing."""
    element = type_.element_type if isinstance(type_, VectorType) else type_
    if isinstance(element, BFloat16Type):
        return "bf16"
    return "f16" if isinstance(element, Float16Type) else ""


def convert(f: FunctionText, source: Value, goal: str, signed: bool) -> Expr:
    """A value as one of another element."""
    element, lanes = f.shape(source)
    if element == goal:
        return f.value(source)
    if goal == "i1":
        nonzero = text.binary("!=", f.value(source), f.literal(0, element, lanes))
        return as_mask(nonzero, element, lanes)
    if element == "i1":
        return _from_bool(f, source, goal, lanes)
    if element in FLOATS:
        return _numeric(f, goal, lanes, f.value(source)) if goal in FLOATS else _saturate(f, source, goal, signed)
    x = f.signed(source) if signed else f.unsigned(source)
    if goal in FLOATS:
        return _numeric(f, goal, lanes, x)
    return _resize(f, source, element, goal, lanes, signed)


def _numeric(f: FunctionText, goal: str, lanes: int, x: Expr) -> Expr:
    """By value: C's conversion, half to even where it rounds."""
    type_ = f.type_of(goal, lanes)
    return text.cast(type_, x) if lanes == 1 else text.call(f"convert_{type_}", x)


def _from_bool(f: FunctionText, source: Value, goal: str, lanes: int) -> Expr:
    if lanes == 1:
        return text.choice(f.value(source), f.literal(1, goal), f.literal(0, goal))
    ones = text.binary("&", f.value(source), Expr("1"))
    return text.call(f"convert_{f.type_of(goal, lanes)}", ones)


def _saturate(f: FunctionText, source: Value, goal: str, signed: bool) -> Expr:
    """A float as an integer: toward zero, to the nearest end beyond the range, NaN as 0 (OpenCL only recommends it)."""
    lanes = f.shape(source)[1]
    x = f.atom(source)
    type_ = f.type_of(goal, lanes, signed)
    number = text.call(f"convert_{type_}_sat", x)
    if goal == "index":
        return text.choice(text.binary("==", x, x), number, Expr("0"))
    if lanes == 1:
        bits = f.as_bits(number, goal, 1) if signed else number
        return text.choice(text.binary("==", x, x), bits, f.literal(0, goal))
    # A vector condition has to be as wide as the values: the NaN goes before the conversion.
    ordered = text.choice(text.binary("==", x, x), x, f.literal(0.0, *f.shape(source)))
    number = text.call(f"convert_{type_}_sat", ordered)
    return f.as_bits(number, goal, lanes) if signed else number


def _resize(f: FunctionText, source: Value, element: str, goal: str, lanes: int, signed: bool) -> Expr:
    """Integers of another width: only a longer one needs the sign."""
    type_ = f.index_type if goal == "index" else f.type_of(goal, lanes)
    if goal != "index" and element != "index" and text.BYTES[goal] < text.BYTES[element]:
        x = f.value(source)
    else:
        x = f.signed(source) if signed else f.unsigned(source)
    return text.cast(type_, x) if lanes == 1 else text.call(f"convert_{type_}", x)


# Bits


def _bitcast(f: FunctionText, op: Operation) -> None:
    source, result = operands_of(op)[0], op.results[0]
    a, b = f.type(source), f.type(result)
    x = f.value(source)
    f.define(result, x if a == b else text.call(f"as_{b}", x))


LOWERINGS[arith.BitcastOp] = _bitcast
LOWERINGS[vector.BitcastOp] = _bitcast


@lowers(arith.IndexCastOp)
def _index_cast(f: FunctionText, op: arith.IndexCastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    f.define(result, convert(f, source, f.shape(result)[0], True))


def _standard(signed: bool) -> Any:
    """The arith cast ops; fptosi and fptoui saturate as kernel.cast does."""

    def write(f: FunctionText, op: Operation) -> None:
        source, result = operands_of(op)[0], op.results[0]
        if _narrow(source._type) or _narrow(result._type):
            raise CompilerError("16-bit floats convert by kernel.cast", op=op.name, found=str(source.type))
        f.define(result, convert(f, source, f.shape(result)[0], signed))

    return write


_SIGNED: tuple[type[Operation], ...] = (arith.ExtSIOp, arith.SIToFPOp, arith.FPToSIOp)
_UNSIGNED: tuple[type[Operation], ...] = (arith.ExtUIOp, arith.UIToFPOp, arith.FPToUIOp)
_SIGNLESS: tuple[type[Operation], ...] = (arith.ExtFOp, arith.TruncFOp, arith.TruncIOp)
for _class in (*_SIGNED, *_UNSIGNED, *_SIGNLESS):
    LOWERINGS[_class] = _standard(_class in _SIGNED)
