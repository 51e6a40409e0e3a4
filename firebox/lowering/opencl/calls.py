"""Helper functions: OpenCL C 1.2 has no pointers to any memory, so there is one for each use of address spaces."""

from collections.abc import Sequence

from xdsl.dialects import func

from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import FunctionText, Memory, Value

_LETTERS = {"__global": "g", "__local": "l", "": "p"}


def called(f: FunctionText, symbol: str, operands: Sequence[Value]) -> str:
    """The name of the helper for these operands, written at its first use."""
    function = f.unit.functions.get(symbol)
    if function is None:
        raise CompilerError("a call of a function that is not in the unit", op="func.call", found=f"@{symbol}")
    memories = [f.memories.get(id(v)) for v in operands]
    kinds = "".join(_LETTERS[m.space] + ("c" if m.constant else "") for m in memories if m is not None)
    name = "_".join(part for part in (symbol, kinds, "n" if f.narrow else "") if part)
    return f.unit.helper(name, lambda: _helper(f, function, name, memories))


def _helper(caller: FunctionText, function: func.FuncOp, name: str, memories: "Sequence[Memory | None]") -> str:
    f = FunctionText(caller.unit, caller.narrow)
    parameters = []
    for position, (argument, memory) in enumerate(zip(function.body.block.args, memories, strict=True)):
        parameter = f"p{position}"
        if memory is None:
            f.define_name(argument, parameter)
            parameters.append(f"{f.type(argument)} {parameter}")
        else:
            f.memories[id(argument)] = Memory(text.name(parameter), memory.element, memory.space, memory.constant)
            parameters.append(f"{memory.type(text.UNSIGNED.get(memory.element, memory.element))}{parameter}")
    f.write_block(function.body.block)
    if any("__local" in array for array in f.arrays):
        raise CompilerError("local memory is declared in kernels only", op=f"@{function.sym_name.data}")
    return f"static void {name}({', '.join(parameters)}) {{\n{f.body()}\n}}"
