"""LLVM text of work across lanes: broadcast, extract, insert, shuffle, iota, masks, reductions."""

from xdsl.dialects import vector
from xdsl.ir import Attribute, SSAValue

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import DYNAMIC, operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.function import FunctionText, lowers
from firebox.lowering.llvm.ops_arith import extreme
from firebox.lowering.llvm.text import suffix
from firebox.lowering.llvm.text import vector as vec


@lowers(vector.BroadcastOp)
def _broadcast(f: FunctionText, op: vector.BroadcastOp) -> None:
    source, result = operands_of(op)[0], op.results[0]
    element, lanes = f.shape(result)
    if f.shape(source)[1] != 1:
        raise CompilerError("only scalars are broadcast", op=op.name, found=str(source.type))
    f.define(result, f.broadcast(element, f.value(source), lanes))


def _position(f: FunctionText, static: int, dynamic: "tuple[SSAValue[Attribute], ...]") -> str:
    return f.value(dynamic[0]) if static == DYNAMIC else str(static)


@lowers(vector.ExtractOp)
def _extract(f: FunctionText, op: vector.ExtractOp) -> None:
    source, *dynamic = operands_of(op)
    at = _position(f, op.static_position.get_values()[0], tuple(dynamic))
    f.define(op.results[0], f.op(f"extractelement {f.type(source)} {f.value(source)}, i64 {at}"))


@lowers(vector.InsertOp)
def _insert(f: FunctionText, op: vector.InsertOp) -> None:
    value, dest, *dynamic = operands_of(op)
    at = _position(f, op.static_position.get_values()[0], tuple(dynamic))
    text = f"insertelement {f.type(dest)} {f.value(dest)}, {f.type(value)} {f.value(value)}, i64 {at}"
    f.define(op.results[0], f.op(text))


@lowers(vector.ShuffleOp)
def _shuffle(f: FunctionText, op: vector.ShuffleOp) -> None:
    x, y = operands_of(op)
    (element, m), (_, n) = f.shape(x), f.shape(y)
    chosen = list(op.mask.get_values())
    left, right = f.value(x), f.value(y)
    if m != n:  # LLVM wants equal lengths: widen the shorter with lanes that nobody chooses
        width = max(m, n)
        left, right = (_widen(f, element, v, k, width) for v, k in ((left, m), (right, n)))
        chosen = [lane + width - m if lane >= m else lane for lane in chosen]
        m = width
    type_ = vec(element, m)
    f.define(op.results[0], f.op(f"shufflevector {type_} {left}, {type_} {right}, {_lane_list(chosen)}"))


def _widen(f: FunctionText, element: str, x: str, lanes: int, width: int) -> str:
    if lanes == width:
        return x
    type_ = vec(element, lanes)
    return f.op(f"shufflevector {type_} {x}, {type_} poison, {_lane_list([*range(lanes), *[-1] * (width - lanes)])}")


def _lane_list(lanes: list[int]) -> str:
    """The mask operand of a shufflevector; -1 is a lane that does not matter."""
    return f"<{len(lanes)} x i32> <" + ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in lanes) + ">"


def iota_literal(element: str, lanes: int) -> str:
    """The constant vector 0, 1, 2, ..."""
    return "<" + ", ".join(f"{element} {k}" for k in range(lanes)) + ">"


@lowers(kernel.IotaOp)
def _iota(f: FunctionText, op: kernel.IotaOp) -> None:
    f.define(op.results[0], iota_literal(*f.shape(op.results[0])))


@lowers(kernel.MaskOp)
def _mask(f: FunctionText, op: kernel.MaskOp) -> None:
    """Compare the lane numbers with the count, in the integer width at which the lanes fill one register."""
    _, lanes = f.shape(op.results[0])
    count = f.value(operands_of(op)[0])
    bits = min(64, max(8, f.target.vector_bits // lanes))
    element = f"i{bits}"
    if bits < 64:
        count = f.lanewise("smin", "i64", 1, f.lanewise("smax", "i64", 1, count, "0"), str(lanes))
        count = f.op(f"trunc i64 {count} to {element}")
    every = f.broadcast(element, count, lanes)
    predicate = "sgt" if bits == 64 else "ugt"
    f.define(op.results[0], f.op(f"icmp {predicate} {vec(element, lanes)} {every}, {iota_literal(element, lanes)}"))


_TREES = {"add": "fadd", "mul": "fmul"}
_EXTREMES = {"minimumf": "olt", "maximumf": "ogt"}
_NATIVE = {"minsi": "smin", "maxsi": "smax", "minui": "umin", "maxui": "umax"}


@lowers(vector.ReductionOp)
def _reduction(f: FunctionText, op: vector.ReductionOp) -> None:
    """Floats by halves, so that the order is ours and the same for every target; integers as LLVM likes."""
    operands = operands_of(op)
    if len(operands) != 1:
        raise CompilerError("a reduction takes no start value", op=op.name)
    element, lanes = f.shape(operands[0])
    kind = op.kind.data.value
    x = f.value(operands[0])
    if element not in ("float", "double"):
        name = f"llvm.vector.reduce.{_NATIVE.get(kind, kind)}.{suffix(element, lanes)}"
        f.define(op.results[0], f.intrinsic(name, element, [(vec(element, lanes), x)]))
        return
    if kind not in _TREES and kind not in _EXTREMES:
        raise CompilerError(
            "no such reduction of floats", op=op.name, expected="add, mul, minimumf, maximumf", found=kind
        )
    if lanes & (lanes - 1):
        raise CompilerError("floats reduce over a power of two of lanes", op=op.name, found=lanes)
    while lanes > 1:
        half = lanes // 2
        low, high = (_half(f, element, x, lanes, first) for first in (0, half))
        if kind in _TREES:
            x = f.op(f"{_TREES[kind]} {vec(element, half)} {low}, {high}")
        else:
            x = extreme(f, _EXTREMES[kind], element, half, low, high)
        lanes = half
    f.define(op.results[0], x)


def _half(f: FunctionText, element: str, x: str, lanes: int, first: int) -> str:
    if lanes == 2:
        return f.op(f"extractelement {vec(element, 2)} {x}, i64 {first}")
    type_ = vec(element, lanes)
    return f.op(f"shufflevector {type_} {x}, {type_} poison, {_lane_list(list(range(first, first + lanes // 2)))}")
