"""OpenCL C of arith, of kernel.cmp and kernel.select, and of the math ops that OpenCL's own functions give exactly."""

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.extremes import extreme
from firebox.lowering.opencl.function import LOWERINGS, FunctionText, Value, lowers
from firebox.lowering.opencl.text import FLOATS, Expr

_SMALL = ("i8", "i16")


@lowers(arith.ConstantOp)
def _constant(f: FunctionText, op: arith.ConstantOp) -> None:
    value = op.properties["value"]
    result = op.results[0]
    element, _ = f.shape(result)
    if isinstance(value, IntegerAttr):
        number: int | float = value.value.data
    elif isinstance(value, FloatAttr) and element in FLOATS:
        number = value.value.data
    else:
        raise CompilerError("no OpenCL text for a constant of this type", op=op.name, found=str(result.type))
    f.constants[id(result)] = number
    f.define(result, f.literal(number, element))


# Binary operators

_FLOAT: dict[type[Operation], str] = {arith.AddfOp: "+", arith.SubfOp: "-", arith.MulfOp: "*", arith.DivfOp: "/"}
_WRAPPING: dict[type[Operation], str] = {arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*"}
_BITWISE: dict[type[Operation], str] = {arith.AndIOp: "&", arith.OrIOp: "|", arith.XOrIOp: "^"}
_OF_BOOLS = {"&": "&&", "|": "||", "^": "!="}


def _float(operator: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        a, b = (f.value(v) for v in operands_of(op))
        f.define(op.results[0], text.binary(operator, a, b))

    return write


def _integer(operator: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        lhs, rhs = operands_of(op)
        element, lanes = f.shape(lhs)
        a, b = f.value(lhs), f.value(rhs)
        if element == "i1" and lanes == 1:
            f.define(op.results[0], text.binary(_OF_BOOLS[operator], a, b))
            return
        if element == "i16" and lanes == 1 and operator == "*":
            a = text.cast("uint", a)  # as int the product could overflow
        f.define(op.results[0], _kept(f, op.results[0], text.binary(operator, a, b)))

    return write


def _kept(f: FunctionText, ssa: Value, expr: Expr) -> Expr:
    """An expression cut to the value's width: C computes in int where the type is smaller."""
    element, lanes = f.shape(ssa)
    return text.cast(f.type(ssa), expr) if lanes == 1 and element in _SMALL else expr


for _class, _operator in _FLOAT.items():
    LOWERINGS[_class] = _float(_operator)
for _class, _operator in (*_WRAPPING.items(), *_BITWISE.items()):
    LOWERINGS[_class] = _integer(_operator)


def _shift(operator: str, signed: bool) -> Any:
    """OpenCL takes the amount modulo the width; the builder gives no meaning to larger ones."""

    def write(f: FunctionText, op: Operation) -> None:
        value, amount = operands_of(op)
        result = op.results[0]
        a = f.signed(value) if signed else f.unsigned(value) if operator == ">>" else f.value(value)
        shifted = text.binary(operator, a, f.value(amount))
        element, lanes = f.shape(result)
        if signed:
            shifted = f.as_bits(shifted, element, lanes)
        elif element == "index" and operator == ">>":
            shifted = text.cast(f.index_type, shifted)
        f.define(result, _kept(f, result, shifted))

    return write


LOWERINGS[arith.ShLIOp] = _shift("<<", False)
LOWERINGS[arith.ShRUIOp] = _shift(">>", False)
LOWERINGS[arith.ShRSIOp] = _shift(">>", True)


def _read(f: FunctionText, ssa: Value, signed: bool) -> Expr:
    return f.signed(ssa) if signed else f.unsigned(ssa)


def _written(f: FunctionText, ssa: Value, expr: Expr, signed: bool) -> Expr:
    """An expression of the signed or unsigned type as the value's own type."""
    element, lanes = f.shape(ssa)
    if element == "index":
        return expr if signed else text.cast(f.index_type, expr)
    return f.as_bits(expr, element, lanes) if signed else _kept(f, ssa, expr)


def _min_max(name: str, signed: bool) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        result = op.results[0]
        read = [_read(f, operand, signed) for operand in operands_of(op)]
        if not signed:  # a small constant is an int, and C would not know which function is meant
            read = [_kept(f, result, expr) for expr in read]
        f.define(result, _written(f, result, text.call(name, *read), signed))

    return write


LOWERINGS[arith.MinSIOp] = _min_max("min", True)
LOWERINGS[arith.MaxSIOp] = _min_max("max", True)
LOWERINGS[arith.MinUIOp] = _min_max("min", False)
LOWERINGS[arith.MaxUIOp] = _min_max("max", False)


def _extreme(name: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        a, b = (f.value(v) for v in operands_of(op))
        f.define(op.results[0], extreme(f.unit, name, *f.shape(op.results[0]), a, b))

    return write


LOWERINGS[arith.MaximumfOp] = _extreme("max")
LOWERINGS[arith.MinimumfOp] = _extreme("min")


def _native(function: str) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        f.define(op.results[0], text.call(function, *(f.value(v) for v in operands_of(op))))

    return write


LOWERINGS[arith.MaxnumfOp] = _native("fmax")
LOWERINGS[arith.MinnumfOp] = _native("fmin")
LOWERINGS[math.SqrtOp] = _native("sqrt")
LOWERINGS[math.AbsFOp] = _native("fabs")
LOWERINGS[math.CopySignOp] = _native("copysign")
LOWERINGS[math.FloorOp] = _native("floor")
LOWERINGS[math.CeilOp] = _native("ceil")
LOWERINGS[math.TruncOp] = _native("trunc")
LOWERINGS[math.RoundEvenOp] = _native("rint")
LOWERINGS[kernel.RemfOp] = _native("fmod")


@lowers(arith.NegfOp)
def _negf(f: FunctionText, op: arith.NegfOp) -> None:
    f.define(op.results[0], text.unary("-", f.value(operands_of(op)[0])))


@lowers(math.RsqrtOp)
def _rsqrt(f: FunctionText, op: math.RsqrtOp) -> None:
    element, lanes = f.shape(op.results[0])
    root = text.call("sqrt", f.value(operands_of(op)[0]))
    f.define(op.results[0], text.binary("/", f.literal(1.0, element, lanes), root))


@lowers(math.AbsIOp)
def _absi(f: FunctionText, op: math.AbsIOp) -> None:
    """OpenCL's abs gives the unsigned type, which the smallest number fits."""
    result = op.results[0]
    absolute = text.call("abs", f.signed(operands_of(op)[0]))
    f.define(result, text.cast(f.index_type, absolute) if f.shape(result)[0] == "index" else absolute)


# Division: the builder keeps 0 and INT_MIN / -1 out


def _division(operator: str, signed: bool) -> Any:
    def write(f: FunctionText, op: Operation) -> None:
        lhs, rhs = operands_of(op)
        result = op.results[0]
        shift = None if signed else _power_of_two(f, rhs)
        if shift is not None and f.shape(result) == ("index", 1):  # not negative, so a signed shift does as well
            mask = f.literal((1 << shift) - 1, "index")
            by = (">>", f.literal(shift, "index")) if operator == "/" else ("&", mask)
            f.define(result, text.binary(by[0], f.value(lhs), by[1]))
            return
        exact = text.binary(operator, _read(f, lhs, signed), _read(f, rhs, signed))
        f.define(result, _written(f, result, exact, signed))

    return write


LOWERINGS[arith.DivSIOp] = _division("/", True)
LOWERINGS[arith.DivUIOp] = _division("/", False)
LOWERINGS[arith.RemSIOp] = _division("%", True)
LOWERINGS[arith.RemUIOp] = _division("%", False)


def _power_of_two(f: FunctionText, ssa: Value) -> int | None:
    """The shift that divides by a known number, if there is one."""
    value = f.constants.get(id(ssa))
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1


def _rounded_division(up: bool) -> Any:
    """Towards one end: the quotient that C cuts, corrected by one where there is a rest of the right sign."""

    def write(f: FunctionText, op: Operation) -> None:
        lhs, rhs = operands_of(op)
        result = op.results[0]
        element, lanes = f.shape(result)
        shift = None if up else _power_of_two(f, rhs)
        if shift is not None:
            by = f.literal(shift, element, lanes)
            f.define(result, f.as_bits(text.binary(">>", f.signed(lhs), by), element, lanes))
            return
        type_ = f.type_of(element, lanes, signed=True)
        a, b = (f.named(type_, f.signed(v)) for v in (lhs, rhs))
        quotient = f.named(type_, text.binary("/", a, b))
        rest = f.named(type_, text.binary("-", a, text.binary("*", quotient, b)))
        zero = Expr("0") if lanes == 1 else text.vector_of(type_, [Expr("0")])
        inexact = text.binary("!=", rest, zero)
        sign = text.binary(">=" if up else "<", text.binary("^", rest, b), zero)
        exact = text.binary("&&" if lanes == 1 else "&", inexact, sign)
        operator = "+" if up == (lanes == 1) else "-"  # a vector comparison gives -1, a scalar one 1
        corrected = text.binary(operator, quotient, exact)
        f.define(result, f.as_bits(corrected, element, lanes))

    return write


LOWERINGS[arith.FloorDivSIOp] = _rounded_division(False)
LOWERINGS[arith.CeilDivSIOp] = _rounded_division(True)


# Comparison and selection

_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


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
    element, lanes = f.shape(lhs)
    if element in FLOATS:
        compared = _compare_floats(f, predicate, lhs, rhs)
    elif predicate in ("eq", "ne"):
        compared = text.binary(_ORDERS[predicate], f.value(lhs), f.value(rhs))
    elif element == "i1" and lanes > 1:  # true is -1 in a vector: the order is the other way round
        compared = text.binary(_ORDERS[predicate[1:]], f.value(rhs), f.value(lhs))
    else:
        signed = predicate.startswith("s")
        compared = text.binary(_ORDERS[predicate[1:]], _read(f, lhs, signed), _read(f, rhs, signed))
    f.define(op.results[0], as_mask(compared, element, lanes))


def _compare_floats(f: FunctionText, predicate: str, lhs: Value, rhs: Value) -> Expr:
    lanes = f.shape(lhs)[1]
    if predicate in ("ord", "uno"):
        tests = [
            text.binary("==" if predicate == "ord" else "!=", f.atom(v), f.atom(v)) for v in dict.fromkeys((lhs, rhs))
        ]
        joined = tests[0]
        for test in tests[1:]:
            joined = text.binary(_joint(predicate == "ord", lanes), joined, test)
        return joined
    ordered, order = predicate.startswith("o"), predicate[1:]
    if order == "ne" and ordered:
        a, b = f.atom(lhs), f.atom(rhs)
        return text.binary(_joint(False, lanes), text.binary("<", a, b), text.binary(">", a, b))
    if predicate in ("false", "true") or predicate == "ueq":
        raise CompilerError("no such comparison of floats in a kernel", op="emit", found=predicate)
    if ordered or order == "ne":
        return text.binary(_ORDERS[order], f.value(lhs), f.value(rhs))
    opposite = {"gt": "<=", "ge": "<", "lt": ">=", "le": ">"}[order]
    return text.unary("!" if lanes == 1 else "~", text.binary(opposite, f.value(lhs), f.value(rhs)))


def _joint(both: bool, lanes: int) -> str:
    if lanes == 1:
        return "&&" if both else "||"
    return "&" if both else "|"


def as_mask(compared: Expr, element: str, lanes: int) -> Expr:
    """What a comparison gives, as i1: OpenCL's vectors of it are as wide as what was compared."""
    if lanes == 1 or element == "i1" or text.BYTES[element] == 4:
        return compared
    return text.call(f"convert_int{lanes}", compared)


@lowers(kernel.SelectOp, arith.SelectOp)
def _select(f: FunctionText, op: Operation) -> None:
    cond, a, b = operands_of(op)
    element, lanes = f.shape(a)
    chosen = f.value(cond)
    if f.shape(cond)[1] > 1 and element != "i1" and text.BYTES[element] != 4:
        bits = f"i{8 * text.BYTES[element]}"
        chosen = text.call(f"convert_{f.type_of(bits, lanes, signed=True)}", chosen)
    f.define(op.results[0], text.choice(chosen, f.value(a), f.value(b)))
