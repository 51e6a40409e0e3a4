"""LLVM text of arith, of kernel.cmp and kernel.select, and of the math ops that LLVM selects natively."""

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm import rounding
from firebox.lowering.llvm.function import LOWERINGS, FunctionText, lowers
from firebox.lowering.llvm.text import float_literal, vector

_FLOATS = ("float", "double")

_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.ShLIOp: "shl",
    arith.ShRSIOp: "ashr",
    arith.ShRUIOp: "lshr",
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    arith.DivfOp: "fdiv",
}
_NO_WRAP = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
_MIN_MAX: dict[type[Operation], str] = {
    arith.MinSIOp: "smin",
    arith.MaxSIOp: "smax",
    arith.MinUIOp: "umin",
    arith.MaxUIOp: "umax",
}


@lowers(arith.ConstantOp)
def _constant(f: FunctionText, op: arith.ConstantOp) -> None:
    value = op.properties["value"]
    result = op.results[0]
    if isinstance(value, IntegerAttr):
        number = value.value.data
        f.define(result, str(number) if f.shape(result)[0] != "i1" else "true" if number else "false")
    elif isinstance(value, FloatAttr):
        element, _ = f.shape(result)
        if element not in _FLOATS:
            raise CompilerError("a constant of this type has no text; use its bits", op=op.name, found=str(result.type))
        f.define(result, float_literal(value.value.data, element))
    else:
        raise CompilerError("write a vector constant as scalar and vector.broadcast", op=op.name, found=str(value))


def _binary(mnemonic: str, wrap_free: bool) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        lhs, rhs = operands_of(op)
        result = op.results[0]
        no_wrap = " nsw" if wrap_free and isinstance(result._type, IndexType) else ""
        f.define(result, f.op(f"{mnemonic}{no_wrap} {f.type(result)} {f.value(lhs)}, {f.value(rhs)}"))

    return write


for _class, _mnemonic in _BINARY.items():
    LOWERINGS[_class] = _binary(_mnemonic, _class in _NO_WRAP)


def _min_max(name: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        lhs, rhs = operands_of(op)
        element, lanes = f.shape(op.results[0])
        f.define(op.results[0], f.lanewise(name, element, lanes, f.value(lhs), f.value(rhs)))

    return write


for _class, _mnemonic in _MIN_MAX.items():
    LOWERINGS[_class] = _min_max(_mnemonic)


def extreme(f: FunctionText, predicate: str, element: str, lanes: int, a: str, b: str) -> str:
    """The larger (`ogt`) or smaller (`olt`) of floats, NaN if either is NaN; of equal zeros either one.

    The comparison gives b when a NaN is involved (one min/max instruction on x86), so only a NaN `a` needs care.
    """
    if f.target.arch == "aarch64":
        return f.lanewise("maximum" if predicate == "ogt" else "minimum", element, lanes, a, b)
    type_, mask = vector(element, lanes), vector("i1", lanes)
    wins = f.op(f"fcmp {predicate} {type_} {a}, {b}")
    best = f.op(f"select {mask} {wins}, {type_} {a}, {type_} {b}")
    nan = f.op(f"fcmp uno {type_} {a}, {a}")
    return f.op(f"select {mask} {nan}, {type_} {a}, {type_} {best}")


def _extreme(predicate: str, propagate: bool) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        a, b = (f.value(v) for v in operands_of(op))
        element, lanes = f.shape(op.results[0])
        if propagate:
            f.define(op.results[0], extreme(f, predicate, element, lanes, a, b))
            return
        f.define(op.results[0], f.lanewise("maxnum" if predicate == "ogt" else "minnum", element, lanes, a, b))

    return write


LOWERINGS[arith.MaximumfOp] = _extreme("ogt", True)
LOWERINGS[arith.MinimumfOp] = _extreme("olt", True)
LOWERINGS[arith.MaxnumfOp] = _extreme("ogt", False)
LOWERINGS[arith.MinnumfOp] = _extreme("olt", False)


@lowers(arith.NegfOp)
def _negf(f: FunctionText, op: arith.NegfOp) -> None:
    f.define(op.results[0], f.op(f"fneg {f.type(op.results[0])} {f.value(operands_of(op)[0])}"))


# Division


def quotient(f: FunctionText, element: str, lanes: int, a: str, b: str, signed: bool) -> str:
    """a / b rounded toward zero. No machine divides vectors of integers: through floats, where they are exact.

    With |a|, |b| < 2^w and a float of more than w + 1 bits, the rounded quotient is off by less than 1 / b, which is
    the least distance of an inexact quotient to an integer.
    """
    type_ = vector(element, lanes)
    wide = {"i8": "float", "i16": "float", "i32": "double"}.get(element)
    if lanes == 1 or wide is None or not b.startswith("%"):
        return f.op(f"{'s' if signed else 'u'}div {type_} {a}, {b}")
    sign = "s" if signed else "u"
    real = vector(wide, lanes)
    x = f.op(f"{sign}itofp {type_} {a} to {real}")
    y = f.op(f"{sign}itofp {type_} {b} to {real}")
    return f.op(f"fpto{sign}i {real} {f.op(f'fdiv {real} {x}, {y}')} to {type_}")


def _division(signed: bool, remainder: bool) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        a, b = (f.value(v) for v in operands_of(op))
        result = op.results[0]
        element, lanes = f.shape(result)
        if remainder and (lanes == 1 or not b.startswith("%")):
            f.define(result, f.op(f"{'s' if signed else 'u'}rem {vector(element, lanes)} {a}, {b}"))
            return
        q = quotient(f, element, lanes, a, b, signed)
        f.define(result, _rest(f, vector(element, lanes), a, b, q) if remainder else q)

    return write


def _rest(f: FunctionText, type_: str, a: str, b: str, q: str) -> str:
    return f.op(f"sub {type_} {a}, {f.op(f'mul {type_} {q}, {b}')}")


LOWERINGS[arith.DivSIOp] = _division(True, False)
LOWERINGS[arith.DivUIOp] = _division(False, False)
LOWERINGS[arith.RemSIOp] = _division(True, True)
LOWERINGS[arith.RemUIOp] = _division(False, True)


@lowers(arith.FloorDivSIOp)
def _floordiv(f: FunctionText, op: arith.FloorDivSIOp) -> None:
    a, b = (f.value(v) for v in operands_of(op))
    element, lanes = f.shape(op.results[0])
    type_ = vector(element, lanes)
    shift = _power_of_two(b)
    if shift is not None:
        f.define(op.results[0], f.op(f"ashr {type_} {a}, {f.literal(str(shift), op.results[0])}"))
        return
    q = quotient(f, element, lanes, a, b, True)
    rest = _rest(f, type_, a, b, q)
    zero = f.literal("0", op.results[0])
    opposite = f.op(f"icmp slt {type_} {f.op(f'xor {type_} {rest}, {b}')}, {zero}")
    inexact = f.op(f"icmp ne {type_} {rest}, {zero}")
    down = f.op(f"and {vector('i1', lanes)} {opposite}, {inexact}")
    below = f.op(f"sext {vector('i1', lanes)} {down} to {type_}")
    f.define(op.results[0], f.op(f"add {type_} {q}, {below}"))


@lowers(arith.CeilDivSIOp)
def _ceildiv(f: FunctionText, op: arith.CeilDivSIOp) -> None:
    a, b = (f.value(v) for v in operands_of(op))
    element, lanes = f.shape(op.results[0])
    type_ = vector(element, lanes)
    q = quotient(f, element, lanes, a, b, True)
    rest = _rest(f, type_, a, b, q)
    zero = f.literal("0", op.results[0])
    same = f.op(f"icmp sge {type_} {f.op(f'xor {type_} {rest}, {b}')}, {zero}")
    inexact = f.op(f"icmp ne {type_} {rest}, {zero}")
    up = f.op(f"and {vector('i1', lanes)} {same}, {inexact}")
    above = f.op(f"sext {vector('i1', lanes)} {up} to {type_}")
    f.define(op.results[0], f.op(f"sub {type_} {q}, {above}"))


def _power_of_two(literal: str) -> int | None:
    """The shift that divides by a literal (or its splat), if there is one."""
    digits = literal.rpartition(" ")[2].rstrip(")")
    if literal.startswith("%") or not digits.isdigit():
        return None
    value = int(digits)
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


# Comparison and selection

_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


@lowers(kernel.CmpOp)
def _cmp(f: FunctionText, op: kernel.CmpOp) -> None:
    _compare(f, op, op.predicate.data)


@lowers(arith.CmpiOp)
def _cmpi(f: FunctionText, op: arith.CmpiOp) -> None:
    _compare(f, op, _CMPI[op.predicate.value.data])


@lowers(arith.CmpfOp)
def _cmpf(f: FunctionText, op: arith.CmpfOp) -> None:
    _compare(f, op, _CMPF[op.predicate.value.data])


def _compare(f: FunctionText, op: Operation, predicate: str) -> None:
    lhs, rhs = operands_of(op)
    mnemonic = "fcmp" if f.shape(lhs)[0] in _FLOATS else "icmp"
    f.define(op.results[0], f.op(f"{mnemonic} {predicate} {f.type(lhs)} {f.value(lhs)}, {f.value(rhs)}"))


@lowers(kernel.SelectOp, arith.SelectOp)
def _select(f: FunctionText, op: Operation) -> None:
    cond, a, b = operands_of(op)
    type_ = f.type(a)
    f.define(op.results[0], f.op(f"select {f.type(cond)} {f.value(cond)}, {type_} {f.value(a)}, {type_} {f.value(b)}"))


# One operand, natively


@lowers(math.AbsIOp)
def _absi(f: FunctionText, op: math.AbsIOp) -> None:
    element, lanes = f.shape(op.results[0])
    type_ = vector(element, lanes)
    name = f"llvm.abs.{'' if lanes == 1 else f'v{lanes}'}{element}"
    f.define(op.results[0], f.intrinsic(name, type_, [(type_, f.value(operands_of(op)[0])), ("i1", "false")]))


def _native(name: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        element, lanes = f.shape(op.results[0])
        f.define(op.results[0], f.lanewise(name, element, lanes, *(f.value(v) for v in operands_of(op))))

    return write


LOWERINGS[math.SqrtOp] = _native("sqrt")
LOWERINGS[math.AbsFOp] = _native("fabs")
LOWERINGS[math.CopySignOp] = _native("copysign")


def _rounding(name: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        element, lanes = f.shape(op.results[0])
        f.define(op.results[0], rounding.write(f, name, element, lanes, f.value(operands_of(op)[0])))

    return write


LOWERINGS[math.FloorOp] = _rounding("floor")
LOWERINGS[math.CeilOp] = _rounding("ceil")
LOWERINGS[math.TruncOp] = _rounding("trunc")
LOWERINGS[math.RoundEvenOp] = _rounding("roundeven")


@lowers(math.RsqrtOp)
def _rsqrt(f: FunctionText, op: math.RsqrtOp) -> None:
    element, lanes = f.shape(op.results[0])
    root = f.lanewise("sqrt", element, lanes, f.value(operands_of(op)[0]))
    one = f.literal(float_literal(1.0, element), op.results[0])
    f.define(op.results[0], f.op(f"fdiv {vector(element, lanes)} {one}, {root}"))
