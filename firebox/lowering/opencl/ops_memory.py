"""OpenCL C of memory: loads, stores, masks, gathers, arrays, views, faults.

Vectors are read and written in pieces of up to 16 bytes, at addresses that the generators keep aligned to the piece.
"""

from xdsl.dialects import memref, vector
from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import is_used, operands_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import FunctionText, Memory, Value, lowers
from firebox.lowering.opencl.text import UNSIGNED, Expr

_PIECE = 16
"""Bytes of the widest access to memory."""


def c_type(element: str) -> str:
    """The type of C of one element in memory."""
    return UNSIGNED.get(element, element)


def place(memory: Memory, index: Expr) -> str:
    """One element as an lvalue."""
    return f"{memory.pointer.at_least(text.ATOM)}[{index.text}]"


def address(memory: Memory, index: Expr, further: int = 0) -> Expr:
    """The pointer to an element, or to one so many after it."""
    pointer = memory.pointer
    if index.text != "0":
        pointer = text.binary("+", pointer, index)
    return text.binary("+", pointer, Expr(str(further))) if further else pointer


def _one_index(op: Operation, found: int, others: int) -> None:
    if found != others + 1:
        raise CompilerError("memory in a kernel is flat", op=op.name, expected="one index", found=found - others)


def _pieces(memory: Memory, lanes: int) -> tuple[int, str]:
    """How many lanes one access takes, and the type of a pointer for it."""
    piece = min(lanes, _PIECE // text.BYTES[memory.element])
    return piece, memory.type(text.width(c_type(memory.element), piece))


@lowers(memref.LoadOp, vector.LoadOp)
def _load(f: FunctionText, op: Operation) -> None:
    operands, result = operands_of(op), op.results[0]
    _one_index(op, len(operands), 1)
    if not is_used(result):
        return
    memory, lanes = f.memory(operands[0]), f.shape(result)[1]
    if lanes == 1:
        f.define_now(result, Expr(place(memory, f.value(operands[1]))))
        return
    piece, type_ = _pieces(memory, lanes)
    at = f.value(operands[1]) if piece == lanes else f.atom(operands[1])
    parts = [_through(type_, address(memory, at, k)) for k in range(0, lanes, piece)]
    f.define_now(result, parts[0] if len(parts) == 1 else text.vector_of(f.type(result), parts))


def _through(type_: str, pointer: Expr) -> Expr:
    return Expr(f"*({type_}){pointer.at_least(text.UNARY)}", text.UNARY)


@lowers(memref.StoreOp, vector.StoreOp)
def _store(f: FunctionText, op: Operation) -> None:
    operands = operands_of(op)
    _one_index(op, len(operands), 2)
    value = operands[0]
    memory, lanes = f.memory(operands[1]), f.shape(value)[1]
    if lanes == 1:
        f.line(f"{place(memory, f.value(operands[2]))} = {f.value(value).text};")
        return
    piece, type_ = _pieces(memory, lanes)
    if piece == lanes:
        f.line(f"{_through(type_, address(memory, f.value(operands[2]))).text} = {f.value(value).text};")
        return
    whole, at = f.vector(value), f.atom(operands[2])
    for k in range(0, lanes, piece):
        part = text.lanes_of(whole, list(range(k, k + piece)))
        f.line(f"{_through(type_, address(memory, at, k)).text} = {part.text};")


@lowers(vector.MaskedLoadOp)
def _masked_load(f: FunctionText, op: vector.MaskedLoadOp) -> None:
    source, index, mask, other = operands_of(op)
    memory, at, lanes = f.memory(source), f.atom(index), f.shape(other)[1]
    places = [place(memory, text.binary("+", at, Expr(str(k))) if k else at) for k in range(lanes)]
    _chosen(f, op.results[0], mask, other, places)


@lowers(kernel.GatherOp)
def _gather(f: FunctionText, op: kernel.GatherOp) -> None:
    source, indices, mask, other = operands_of(op)
    memory, lanes = f.memory(source), f.shape(other)[1]
    _chosen(f, op.results[0], mask, other, [place(memory, _lane_index(f, indices, k)) for k in range(lanes)])


def _lane_index(f: FunctionText, indices: Value, k: int) -> Expr:
    return f.as_signed(f.lane(indices, k), f.shape(indices)[0], 1)


def _chosen(f: FunctionText, result: Value, mask: Value, other: Value, places: "list[str]") -> None:
    """The elements where the mask is true, which alone are read."""
    if f.constants.get(id(mask)):
        parts = [Expr(p) for p in places]
    else:
        parts = [text.choice(f.lane(mask, k), Expr(p), f.lane(other, k)) for k, p in enumerate(places)]
    f.define_now(result, text.vector_of(f.type(result), parts))


@lowers(vector.MaskedStoreOp)
def _masked_store(f: FunctionText, op: vector.MaskedStoreOp) -> None:
    target, index, mask, value = operands_of(op)
    memory, at, lanes = f.memory(target), f.atom(index), f.shape(value)[1]
    _store_lanes(f, mask, value, [place(memory, text.binary("+", at, Expr(str(k))) if k else at) for k in range(lanes)])


@lowers(kernel.ScatterOp)
def _scatter(f: FunctionText, op: kernel.ScatterOp) -> None:
    target, indices, mask, value = operands_of(op)
    memory, lanes = f.memory(target), f.shape(value)[1]
    _store_lanes(f, mask, value, [place(memory, _lane_index(f, indices, k)) for k in range(lanes)])


def _store_lanes(f: FunctionText, mask: Value, value: Value, places: "list[str]") -> None:
    always = bool(f.constants.get(id(mask)))
    for k, target in enumerate(places):
        condition = "" if always else f"if ({f.lane(mask, k).text}) "
        f.line(f"{condition}{target} = {f.lane(value, k).text};")


@lowers(kernel.PrefetchOp)
def _prefetch(f: FunctionText, op: kernel.PrefetchOp) -> None:
    """Only global memory is worth it; OpenCL has no levels of caches to choose from."""
    source, index = operands_of(op)
    memory = f.memory(source)
    if memory.space == "__global":
        f.line(f"prefetch({address(memory, f.value(index)).text}, 1);")


@lowers(kernel.AllocOp)
def _alloc(f: FunctionText, op: kernel.AllocOp) -> None:
    """At the head of the function, where OpenCL wants local memory."""
    element, _ = f.shape(op.results[0])
    size = op.result.type.get_shape()[0]
    local = op.space.data == "local"
    name = f.fresh("shared" if local else "array")
    f.arrays.append(f"{'__local ' if local else ''}{c_type(element)} {name}[{size}] __attribute__((aligned(16)));")
    f.memories[id(op.results[0])] = Memory(text.name(name), element, "__local" if local else "")


@lowers(kernel.ViewOp)
def _view(f: FunctionText, op: kernel.ViewOp) -> None:
    source, offset = operands_of(op)
    memory, result = f.memory(source), op.results[0]
    element, _ = f.shape(result)
    type_ = memory.type(c_type(element))
    name = f.fresh("p")
    f.line(f"{type_}const {name} = ({type_}){address(memory, f.value(offset)).at_least(text.UNARY)};")
    f.memories[id(result)] = Memory(text.name(name), element, memory.space, memory.constant)


@lowers(kernel.OpaqueOp)
def _opaque(f: FunctionText, op: kernel.OpaqueOp) -> None:
    """The same pointer: OpenCL C cannot hide where one comes from, and the op only asks for speed."""
    f.memories[id(op.results[0])] = f.memory(operands_of(op)[0])


@lowers(kernel.FailOp)
def _fail(f: FunctionText, op: kernel.FailOp) -> None:
    """Whoever changes the low half of the code from 0 writes the details."""
    status, d0, d1 = operands_of(op)
    words = f.memory(status)
    pointer = words.pointer.text
    f.open(f"if (atomic_cmpxchg((volatile {words.space} int *){pointer}, 0, {op.code.value.data}) == 0)")
    for position, word in enumerate((str(op.op_id.value.data), f.value(d0).text, f.value(d1).text), start=1):
        f.line(f"{pointer}[{position}] = {word};")
    f.close()
