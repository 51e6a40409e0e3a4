"""LLVM text of conversions: between numeric types, from and to the 16-bit floats, and of bits."""

from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, VectorType
from xdsl.ir import Attribute, Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.function import LOWERINGS, FunctionText, lowers
from firebox.lowering.llvm.lanewise import Lanewise
from firebox.lowering.llvm.text import splat
from firebox.lowering.llvm.text import vector as vec
from firebox.lowering.math import narrow_floats

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@lowers(kernel.CastOp)
def _cast(f: FunctionText, op: kernel.CastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    element, lanes = f.shape(source)
    x = f.value(source)
    narrow_in, narrow_out = _narrow(source._type), _narrow(result._type)
    if narrow_in:
        x = (bf16_to_float if narrow_in == "bf16" else f16_to_float)(f, lanes, x)
        element = "float"
    goal = "float" if narrow_out else f.shape(result)[0]
    if narrow_out == "f16" and element == "double":
        x = narrow_floats.double_to_float_odd(Lanewise(f, "float", lanes), x)
    else:
        x = convert(f, element, goal, lanes, x, "signed" in op.properties)
    if narrow_out:
        x = (float_to_bf16 if narrow_out == "bf16" else float_to_f16)(f, lanes, x)
    f.define(result, x)


def _narrow(type_: Attribute) -> str:
    """`bf16`, `f16` or nothing."""
    element = type_.element_type if isinstance(type_, VectorType) else type_
    if isinstance(element, BFloat16Type):
        return "bf16"
    return "f16" if isinstance(element, Float16Type) else ""


def convert(f: FunctionText, source: str, goal: str, lanes: int, x: str, signed: bool) -> str:
    """A value of one LLVM element type as another."""
    if source == goal:
        return x
    a, b = vec(source, lanes), vec(goal, lanes)
    from_real, to_real = source in ("float", "double"), goal in ("float", "double")
    if from_real and to_real:
        return f.op(f"{'fpext' if goal == 'double' else 'fptrunc'} {a} {x} to {b}")
    if to_real:
        return f.op(f"{'sitofp' if signed and source != 'i1' else 'uitofp'} {a} {x} to {b}")
    if goal == "i1":
        zero = "zeroinitializer" if lanes > 1 else "0.0" if from_real else "0"
        return f.op(f"{'fcmp une' if from_real else 'icmp ne'} {a} {x}, {zero}")
    if from_real:
        return saturate(f, source, goal, lanes, x, signed)
    if _BITS[goal] < _BITS[source]:
        return f.op(f"trunc {a} {x} to {b}")
    return f.op(f"{'sext' if signed and source != 'i1' else 'zext'} {a} {x} to {b}")


def saturate(f: FunctionText, source: str, goal: str, lanes: int, x: str, signed: bool) -> str:
    """A float as an integer: toward zero, to the nearest end beyond the range, NaN as 0.

    llvm.fptosi.sat means the same, but LLVM 22 takes its vectors apart on x86.
    """
    v = Lanewise(f, "float" if source == "float" else "double", lanes)
    bits = _BITS[goal] - int(signed)
    beyond = 2.0**bits
    exact = bits <= v.mantissa_bits + 1
    largest = beyond - 1 if exact else beyond - 2.0 ** (bits - v.mantissa_bits - 1)
    low, high = v.f(-beyond if signed else 0.0), v.f(largest)
    inside = v.select(v.cmp("ogt", x, low), x, low)  # a NaN becomes `low`, since converting it would be undefined
    inside = v.select(v.cmp("olt", inside, high), inside, high)
    middle = goal if _BITS[goal] >= 32 else "i32"
    convert_signed = signed or middle != goal
    wide = vec(middle, lanes)
    number = f.op(f"fpto{'s' if convert_signed else 'u'}i {v.type} {inside} to {wide}")
    if not exact:
        end = splat(middle, str((1 << bits) - 1), lanes)
        number = f.op(f"select {v.mask} {v.cmp('oge', x, v.f(beyond))}, {wide} {end}, {wide} {number}")
    number = f.op(f"select {v.mask} {v.cmp('ord', x, x)}, {wide} {number}, {wide} {splat(middle, '0', lanes)}")
    return number if middle == goal else f.op(f"trunc {wide} {number} to {vec(goal, lanes)}")


# 16-bit floats, held as their bits in i16


def bf16_to_float(f: FunctionText, lanes: int, x: str) -> str:
    v = Lanewise(f, "float", lanes)
    return narrow_floats.bf16_to_float(v, f.op(f"zext {vec('i16', lanes)} {x} to {v.int}"))


def float_to_bf16(f: FunctionText, lanes: int, x: str) -> str:
    v = Lanewise(f, "float", lanes)
    return f.op(f"trunc {v.int} {narrow_floats.float_to_bf16(v, x)} to {vec('i16', lanes)}")


def _has_half(f: FunctionText) -> bool:
    return f.target.arch == "aarch64" or f.target.has("f16c") or f.target.has("avx512f")


def f16_to_float(f: FunctionText, lanes: int, x: str) -> str:
    if _has_half(f):
        half = f.op(f"bitcast {vec('i16', lanes)} {x} to {vec('half', lanes)}")
        return f.op(f"fpext {vec('half', lanes)} {half} to {vec('float', lanes)}")
    v = Lanewise(f, "float", lanes)
    return narrow_floats.f16_to_float(v, f.op(f"zext {vec('i16', lanes)} {x} to {v.int}"))


def float_to_f16(f: FunctionText, lanes: int, x: str) -> str:
    if _has_half(f):
        half = f.op(f"fptrunc {vec('float', lanes)} {x} to {vec('half', lanes)}")
        return f.op(f"bitcast {vec('half', lanes)} {half} to {vec('i16', lanes)}")
    v = Lanewise(f, "float", lanes)
    return f.op(f"trunc {v.int} {narrow_floats.float_to_f16(v, x)} to {vec('i16', lanes)}")


# Bits


def _bitcast(f: FunctionText, op: Operation) -> None:
    source, result = operands_of(op)[0], op.results[0]
    a, b = f.type(source), f.type(result)
    f.define(result, f.value(source) if a == b else f.op(f"bitcast {a} {f.value(source)} to {b}"))


LOWERINGS[arith.BitcastOp] = _bitcast
LOWERINGS[vector.BitcastOp] = _bitcast


@lowers(arith.IndexCastOp)
def _index_cast(f: FunctionText, op: arith.IndexCastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    element, lanes = f.shape(source)
    f.define(result, convert(f, element, f.shape(result)[0], lanes, f.value(source), True))


def _standard(kind: str) -> Any:
    """The arith cast ops, scalar only; fptosi and fptoui saturate as kernel.cast does."""

    def write(f: FunctionText, op: Operation) -> None:
        source, result = operands_of(op)[0], op.results[0]
        if _narrow(source._type) or _narrow(result._type):
            raise CompilerError("16-bit floats convert by kernel.cast", op=op.name, found=str(source.type))
        element, lanes = f.shape(source)
        f.define(result, convert(f, element, f.shape(result)[0], lanes, f.value(source), kind == "signed"))

    return write


_SIGNED: tuple[type[Operation], ...] = (arith.ExtSIOp, arith.SIToFPOp, arith.FPToSIOp)
_UNSIGNED: tuple[type[Operation], ...] = (arith.ExtUIOp, arith.UIToFPOp, arith.FPToUIOp)
_SIGNLESS: tuple[type[Operation], ...] = (arith.ExtFOp, arith.TruncFOp, arith.TruncIOp)
for _class in (*_SIGNED, *_UNSIGNED, *_SIGNLESS):
    LOWERINGS[_class] = _standard("signed" if _class in _SIGNED else "unsigned")
