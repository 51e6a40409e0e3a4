"""LLVM text of memory: loads, stores, masks, gathers, atomics, stack arrays, views, faults, inline assembly."""

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.function import ELEMENT_BYTES, FunctionText, lowers
from firebox.lowering.llvm.text import suffix
from firebox.lowering.llvm.text import vector as vec

_Value = SSAValue[Attribute]


def _address(f: FunctionText, memory: _Value, index: _Value) -> tuple[str, str]:
    """Element type, and the pointer to an element."""
    element, _ = f.shape(memory)
    base, at = f.value(memory), f.value(index)
    return element, base if at == "0" else f.op(f"getelementptr inbounds {element}, ptr {base}, i64 {at}")


def _one_index(op: Operation, found: int, others: int) -> None:
    if found != others + 1:
        raise CompilerError("memory in a kernel is flat", op=op.name, expected="one index", found=found - others)


@lowers(memref.LoadOp, vector.LoadOp)
def _load(f: FunctionText, op: Operation) -> None:
    operands = operands_of(op)
    _one_index(op, len(operands), 1)
    element, pointer = _address(f, operands[0], operands[1])
    f.define(op.results[0], f.op(f"load {f.type(op.results[0])}, ptr {pointer}, align {ELEMENT_BYTES[element]}"))


@lowers(memref.StoreOp, vector.StoreOp)
def _store(f: FunctionText, op: Operation) -> None:
    operands = operands_of(op)
    _one_index(op, len(operands), 2)
    value = operands[0]
    element, pointer = _address(f, operands[1], operands[2])
    align, hint = ELEMENT_BYTES[element], ""
    nontemporal = op.properties.get("nontemporal")
    if isinstance(nontemporal, IntegerAttr) and nontemporal.value.data:
        align, hint = align * f.shape(value)[1], f", !nontemporal {f.module.metadata('{i32 1}')}"
    f.line(f"store {f.type(value)} {f.value(value)}, ptr {pointer}, align {align}{hint}")


@lowers(vector.MaskedLoadOp)
def _masked_load(f: FunctionText, op: vector.MaskedLoadOp) -> None:
    memory, index, mask, passthru = operands_of(op)
    element, pointer = _address(f, memory, index)
    type_ = f.type(passthru)
    lanes = f.shape(passthru)[1]
    arguments = [
        (f"ptr align {ELEMENT_BYTES[element]}", pointer),
        (f.type(mask), f.value(mask)),
        (type_, f.value(passthru)),
    ]
    f.define(op.results[0], f.intrinsic(f"llvm.masked.load.{suffix(element, lanes)}.p0", type_, arguments))


@lowers(vector.MaskedStoreOp)
def _masked_store(f: FunctionText, op: vector.MaskedStoreOp) -> None:
    memory, index, mask, value = operands_of(op)
    element, pointer = _address(f, memory, index)
    arguments = [
        (f.type(value), f.value(value)),
        (f"ptr align {ELEMENT_BYTES[element]}", pointer),
        (f.type(mask), f.value(mask)),
    ]
    f.intrinsic(f"llvm.masked.store.{suffix(element, f.shape(value)[1])}.p0", "void", arguments)


def _addresses(f: FunctionText, memory: _Value, indices: _Value) -> tuple[str, str, str]:
    """Element type, type of the pointers, and one pointer for each lane."""
    element, _ = f.shape(memory)
    lanes = f.shape(indices)[1]
    text = f"getelementptr inbounds {element}, ptr {f.value(memory)}, {f.type(indices)} {f.value(indices)}"
    return element, vec("ptr", lanes), f.op(text)


@lowers(kernel.GatherOp)
def _gather(f: FunctionText, op: kernel.GatherOp) -> None:
    memory, indices, mask, passthru = operands_of(op)
    element, pointers, addresses = _addresses(f, memory, indices)
    lanes, type_ = f.shape(passthru)[1], f.type(passthru)
    arguments = [
        (f"{pointers} align {ELEMENT_BYTES[element]}", addresses),
        (f.type(mask), f.value(mask)),
        (type_, f.value(passthru)),
    ]
    name = f"llvm.masked.gather.{suffix(element, lanes)}.{suffix('ptr', lanes)}"
    f.define(op.results[0], f.intrinsic(name, type_, arguments))


@lowers(kernel.ScatterOp)
def _scatter(f: FunctionText, op: kernel.ScatterOp) -> None:
    memory, indices, mask, value = operands_of(op)
    element, pointers, addresses = _addresses(f, memory, indices)
    lanes = f.shape(value)[1]
    arguments = [
        (f.type(value), f.value(value)),
        (f"{pointers} align {ELEMENT_BYTES[element]}", addresses),
        (f.type(mask), f.value(mask)),
    ]
    f.intrinsic(f"llvm.masked.scatter.{suffix(element, lanes)}.{suffix('ptr', lanes)}", "void", arguments)


_ATOMIC = {"exchange": "xchg", "and": "and", "or": "or", "xor": "xor"}


@lowers(kernel.AtomicOp)
def _atomic(f: FunctionText, op: kernel.AtomicOp) -> None:
    memory, index, value = operands_of(op)
    element, pointer = _address(f, memory, index)
    kind = op.kind.data
    if element in ("float", "double"):
        kind = {"exchange": "xchg", "add": "fadd", "max": "fmaximum", "min": "fminimum"}.get(kind, "")
        if not kind:
            raise CompilerError("no such atomic operation on floats", op=op.name, found=op.kind.data)
    elif kind in ("max", "min"):
        kind = kind if "signed" in op.properties else "u" + kind
    kind = _ATOMIC.get(kind, kind)
    f.define(op.results[0], f.op(f"atomicrmw {kind} ptr {pointer}, {element} {f.value(value)} monotonic"))


@lowers(kernel.PrefetchOp)
def _prefetch(f: FunctionText, op: kernel.PrefetchOp) -> None:
    memory, index = operands_of(op)
    element, _ = f.shape(memory)
    # Without `inbounds`: prefetching past the end is allowed.
    pointer = f.op(f"getelementptr {element}, ptr {f.value(memory)}, i64 {f.value(index)}")
    write = "1" if "write" in op.properties else "0"
    locality = str(op.locality.value.data)
    arguments = [("ptr", pointer), ("i32", write), ("i32", locality), ("i32", "1")]
    f.intrinsic("llvm.prefetch.p0", "void", arguments)


@lowers(kernel.AllocOp)
def _alloc(f: FunctionText, op: kernel.AllocOp) -> None:
    if op.space.data != "stack":
        raise CompilerError("a CPU kernel has only stack memory", op=op.name, found=op.space.data)
    result = op.results[0]
    element, _ = f.shape(result)
    size = op.result.type.get_shape()[0]
    f.define(result, f.alloca(f"[{size} x {element}]", 64))


@lowers(kernel.ViewOp)
def _view(f: FunctionText, op: kernel.ViewOp) -> None:
    memory, offset = operands_of(op)
    f.define(op.results[0], _address(f, memory, offset)[1])


@lowers(kernel.OpaqueOp)
def _opaque(f: FunctionText, op: kernel.OpaqueOp) -> None:
    f.define(op.results[0], f.op(f'call ptr asm "", "=r,0"(ptr {f.value(operands_of(op)[0])})'))


@lowers(kernel.FailOp)
def _fail(f: FunctionText, op: kernel.FailOp) -> None:
    """The code word goes last: whoever sees it sees the details of some fault."""
    status, d0, d1 = (f.value(v) for v in operands_of(op))
    first, done = f.new_label("fault"), f.new_label("after")
    code = f.op(f"load i64, ptr {status}, align 8")
    f.branch_if(f.op(f"icmp eq i64 {code}, 0"), first, done)
    f.block(first)
    words = (str(op.op_id.value.data), d0, d1)
    for position, word in enumerate(words, start=1):
        pointer = f.op(f"getelementptr inbounds i64, ptr {status}, i64 {position}")
        f.line(f"store i64 {word}, ptr {pointer}, align 8")
    f.line(f"store i64 {op.code.value.data}, ptr {status}, align 8")
    f.branch(done)
    f.block(done)


@lowers(kernel.AsmOp)
def _asm(f: FunctionText, op: kernel.AsmOp) -> None:
    if len(op.results) > 1:
        raise CompilerError("several results of assembly have no LLVM text yet", op=op.name, found=len(op.results))
    result = f.type(op.results[0]) if op.results else "void"
    arguments = ", ".join(f"{f.type(v)} {f.value(v)}" for v in operands_of(op))
    call = f"call {result} asm sideeffect {_quoted(op.text.data)}, {_quoted(op.constraints.data)}({arguments})"
    if op.results:
        f.define(op.results[0], f.op(call))
    else:
        f.line(call)


def _quoted(text: str) -> str:
    r"""A string of LLVM IR: quotes, backslashes and what is not printable as \hex."""
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in text.encode())
    return f'"{escaped}"'
