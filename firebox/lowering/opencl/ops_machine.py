"""OpenCL C of atomic operations and of inline assembly."""

import re

from xdsl.ir import Operation

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import is_used, operands_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import FunctionText, Value, lowers
from firebox.lowering.opencl.ops_memory import address
from firebox.lowering.opencl.text import Expr

_ATOMIC = {"add": "add", "exchange": "xchg", "and": "and", "or": "or", "xor": "xor", "max": "max", "min": "min"}
_WIDE = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")


@lowers(kernel.AtomicOp)
def _atomic(f: FunctionText, op: kernel.AtomicOp) -> None:
    target, index, value = operands_of(op)
    memory, kind = f.memory(target), op.kind.data
    element = memory.element
    prefix = _prefix(f, op, element, kind)
    signed = "signed" in op.properties and kind in ("max", "min")
    type_ = f.type_of(element, 1, signed)
    pointer = address(memory, f.value(index)).at_least(text.UNARY)
    operand = f.signed(value) if signed else f.value(value)
    call = f"{prefix}_{_ATOMIC[kind]}((volatile {memory.space} {type_} *){pointer}, {operand.text})"
    result = op.results[0]
    if not is_used(result):
        f.line(f"{call};")
        return
    f.define_now(result, f.as_bits(Expr(call), element, 1) if signed else Expr(call))


def _prefix(f: FunctionText, op: Operation, element: str, kind: str) -> str:
    """Which family of functions does it.

    Raises:
        CompilerError: OpenCL 1.2 has no atomics for this type, or the device none of 64 bits.
    """
    if element == "i32" or (element == "float" and kind == "exchange"):
        return "atomic"
    if element != "i64":
        expected = "32-bit or 64-bit integers, or an exchange of f32"
        raise CompilerError(
            "no atomic operation for this type", op=op.name, expected=expected, found=f"{kind} {element}"
        )
    if not f.target.has("int64_atomics"):
        raise CompilerError("the device has no 64-bit atomics", op=op.name, found=f.target.label)
    f.unit.extensions.update(_WIDE)
    return "atom"


# Assembly

_PLACE = re.compile(r"\$\$|\$(\d+)|\$|%")


@lowers(kernel.AsmOp)
def _asm(f: FunctionText, op: kernel.AsmOp) -> None:
    """LLVM's constraint string as the lists of an asm statement: results, operands, clobbers."""
    constraints = [c for c in op.constraints.data.split(",") if c]
    outputs = [c for c in constraints if c.startswith("=")]
    clobbers = [c[2:-1] for c in constraints if c.startswith("~{")]
    inputs = [c for c in constraints if not c.startswith(("=", "~{"))]
    operands = operands_of(op)
    if len(outputs) != len(op.results) or len(inputs) != len(operands):
        found = f"{len(op.results)} results and {len(operands)} operands for {op.constraints.data!r}"
        raise CompilerError("one constraint for each result and operand", op=op.name, found=found)
    names = []
    for result in op.results:
        name = f.fresh()
        f.line(f"{f.type(result)} {name};")
        f.define_name(result, name)
        names.append(name)
    sections = [
        ", ".join(f'"{c}"({name})' for c, name in zip(outputs, names, strict=True)),
        ", ".join(f'"{c}"({_operand(f, v)})' for c, v in zip(inputs, operands, strict=True)),
        ", ".join(f'"{c}"' for c in clobbers),
    ]
    while sections and not sections[-1]:
        sections.pop()
    tail = "".join(f" : {section}" if section else " :" for section in sections)
    f.line(f"asm volatile({_quoted(op.text.data)}{tail});")


def _operand(f: FunctionText, ssa: Value) -> str:
    memory = f.memories.get(id(ssa))
    return f.value(ssa).text if memory is None else text.cast("ulong", memory.pointer).text


def _quoted(assembly: str) -> str:
    """LLVM's text as a string of C: `$0` becomes `%0`, and a plain `%` is doubled.

    Raises:
        CompilerError: a modifier as in `${0:h}`, which GCC's syntax spells differently.
    """
    if "${" in assembly:
        raise CompilerError("operand modifiers have no OpenCL text", op="kernel.asm", found=assembly)

    def replaced(match: "re.Match[str]") -> str:
        if match[1] is not None:
            return f"%{match[1]}"
        return "$" if match[0].startswith("$") else "%%"

    escaped = _PLACE.sub(replaced, assembly).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'
