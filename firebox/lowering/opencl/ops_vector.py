"""OpenCL C of work across lanes: broadcast, extract, insert, shuffle, iota, masks, reductions."""

from xdsl.dialects import vector

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.extremes import extreme
from firebox.lowering.opencl.function import FunctionText, lowers
from firebox.lowering.opencl.text import FLOATS, Expr


@lowers(vector.BroadcastOp)
def _broadcast(f: FunctionText, op: vector.BroadcastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    if f.shape(source)[1] != 1:
        raise CompilerError("only scalars are broadcast", op=op.name, found=str(source.type))
    known = f.constants.get(id(source))
    if known is not None:
        f.constants[id(result)] = known
        f.define(result, f.literal(known, *f.shape(result)))
        return
    f.define(result, text.vector_of(f.type(result), [_in_lane(f.value(source), f.shape(source)[0])]))


def _in_lane(x: Expr, element: str) -> Expr:
    """A scalar as the lane of a vector: true is -1 there."""
    return text.choice(x, Expr("-1"), Expr("0")) if element == "i1" else x


def _out_of_lane(x: Expr, element: str) -> Expr:
    return text.binary("!=", x, Expr("0")) if element == "i1" else x


@lowers(vector.ExtractOp)
def _extract(f: FunctionText, op: vector.ExtractOp) -> None:
    source, *dynamic = operands_of(op)
    element, lanes = f.shape(source)
    if not dynamic:
        at = op.static_position.get_values()[0]
        f.define(op.results[0], _out_of_lane(f.lane(source, at), element))
        return
    index = f.atom(dynamic[0])
    expr = f.lane(source, lanes - 1)
    for k in reversed(range(lanes - 1)):
        expr = Expr(f"{index.text} == {k} ? {f.lane(source, k).text} : {expr.text}", text.CHOICE)
    f.define(op.results[0], _out_of_lane(expr, element))


@lowers(vector.InsertOp)
def _insert(f: FunctionText, op: vector.InsertOp) -> None:
    value, dest, *dynamic = operands_of(op)
    element, lanes = f.shape(dest)
    new = _in_lane(f.value(value), element)
    if dynamic:
        index, new = f.atom(dynamic[0]), _in_lane(f.atom(value), element)
        parts = [text.choice(Expr(f"{index.text} == {k}", text.EQUALITY), new, f.lane(dest, k)) for k in range(lanes)]
    else:
        at = op.static_position.get_values()[0]
        parts = [new if k == at else f.lane(dest, k) for k in range(lanes)]
    f.define(op.results[0], text.vector_of(f.type(op.results[0]), parts))


@lowers(vector.ShuffleOp)
def _shuffle(f: FunctionText, op: vector.ShuffleOp) -> None:
    """A lane that does not matter (-1) is the first one."""
    x, y = operands_of(op)
    result, (element, m) = op.results[0], f.shape(x)
    chosen = [max(lane, 0) for lane in op.mask.get_values()]
    if x is y or max(chosen) < m:
        f.define(result, text.lanes_of(f.vector(x), [lane % m for lane in chosen]))
        return
    text.width(f.type_of(element, 1), len(chosen))
    parts = [f.lane(x, lane) if lane < m else f.lane(y, lane - m) for lane in chosen]
    f.define(result, text.vector_of(f.type(result), parts))


def _numbers(type_: str, lanes: int) -> Expr:
    return text.vector_of(type_, [text.name(str(k)) for k in range(lanes)])


@lowers(kernel.IotaOp)
def _iota(f: FunctionText, op: kernel.IotaOp) -> None:
    f.define(op.results[0], _numbers(f.type(op.results[0]), f.shape(op.results[0])[1]))


@lowers(kernel.MaskOp)
def _mask(f: FunctionText, op: kernel.MaskOp) -> None:
    result, count = op.results[0], f.value(operands_of(op)[0])
    lanes = f.shape(result)[1]
    if not f.narrow:
        count = text.cast("int", text.call("clamp", count, Expr("0L"), Expr(f"{lanes}L")))
    type_ = f.type(result)
    f.define(result, text.binary(">", text.vector_of(type_, [count]), _numbers(type_, lanes)))


_OPERATORS = {"add": "+", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_EXTREMES = {"minimumf": "min", "maximumf": "max"}
_INTEGER_EXTREMES = {"minsi": ("min", True), "maxsi": ("max", True), "minui": ("min", False), "maxui": ("max", False)}


@lowers(vector.ReductionOp)
def _reduction(f: FunctionText, op: vector.ReductionOp) -> None:
    """By halves, so that the order is ours and the same for every target."""
    operands = operands_of(op)
    if len(operands) != 1:
        raise CompilerError("a reduction takes no start value", op=op.name)
    source, kind = operands[0], op.kind.data.value
    element, lanes = f.shape(source)
    if element == "i1" and kind in ("or", "and"):
        test = text.call("any" if kind == "or" else "all", f.value(source))
        f.define(op.results[0], text.binary("!=", test, Expr("0")))
        return
    x = f.vector(source)
    while lanes > 1:
        lanes //= 2
        halves = [_half(x, first, lanes) for first in (0, lanes)]
        combined = _combined(f, op, kind, element, lanes, *halves)
        x = combined if lanes == 1 else f.named(_type(f, element, lanes), combined)
    f.define(op.results[0], _out_of_lane(x, element))


def _type(f: FunctionText, element: str, lanes: int) -> str:
    return "int" if element == "i1" and lanes == 1 else f.type_of(element, lanes)


def _half(x: Expr, first: int, lanes: int) -> Expr:
    return text.lane(x, first) if lanes == 1 else Expr(f"{x.text}.{'lo' if first == 0 else 'hi'}")


def _combined(
    f: FunctionText, op: vector.ReductionOp, kind: str, element: str, lanes: int, low: Expr, high: Expr
) -> Expr:
    if kind in _EXTREMES:
        return extreme(f.unit, _EXTREMES[kind], element, lanes, low, high)
    if kind in _OPERATORS and not (element in FLOATS and kind not in ("add", "mul")):
        combined = text.binary(_OPERATORS[kind], low, high)
    elif kind in _INTEGER_EXTREMES:
        name, signed = _INTEGER_EXTREMES[kind]
        sides = [f.as_signed(v, element, lanes) if signed else v for v in (low, high)]
        combined = text.call(name, *sides)
        combined = f.as_bits(combined, element, lanes) if signed else combined
    else:
        raise CompilerError("no such reduction", op=op.name, found=f"{kind} of {element}")
    small = lanes == 1 and element in ("i8", "i16")
    return text.cast(f.type_of(element, 1), combined) if small else combined
