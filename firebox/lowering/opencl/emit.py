"""Kernels to the text of one translation unit of OpenCL C 1.2."""

import textwrap
from collections.abc import Sequence

from xdsl.dialects import func, memref, vector
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr

from firebox.dialects.kernel import ops as kernel
from firebox.dialects.xdsl_compat import is_used
from firebox.errors import CompilerError
from firebox.lowering.opencl import (
    ops_arith,
    ops_cast,
    ops_control,
    ops_machine,
    ops_memory,
    ops_vector,
    tables,
    text,
)
from firebox.lowering.opencl.function import FunctionText, Memory, UnitText, Value
from firebox.runtime.opencl_target import OpenClTarget

__all__ = ["emit_source"]

LOWERED_BY = (ops_arith, ops_cast, ops_control, ops_machine, ops_memory, ops_vector, tables)
"""The modules that fill the table of lowerings."""

_READERS = (memref.LoadOp, vector.LoadOp, vector.MaskedLoadOp, kernel.GatherOp, kernel.PrefetchOp)


def emit_source(functions: Sequence[func.FuncOp], target: OpenClTarget) -> str:
    """One unit with the given functions: kernels of the OpenCL calling convention, and the helpers that they call.

    The same functions and target give the same text. It includes nothing and needs no build option but
    ``-cl-fp32-correctly-rounded-divide-sqrt``, where the device has it.

    A kernel's parameters are, in order: for each buffer its memory object and the offset in bytes (ulong), the extents
    (long), then, as the function's attributes say, the workspace with its offset and the status words.

    Raises:
        CompilerError: an op, type or constant that has no OpenCL text.
    """
    unit = UnitText(target, functions)
    return unit.text([_kernel(unit, f) for f in functions if "kernel.abi" in f.attributes])


def _kernel(unit: UnitText, function: func.FuncOp) -> str:
    symbol, attributes = function.sym_name.data, function.attributes
    abi, group = attributes["kernel.abi"], attributes.get("kernel.group")
    if not isinstance(abi, StringAttr) or abi.data != "opencl" or not isinstance(group, IntegerAttr):
        raise CompilerError("not an OpenCL kernel", op=f"@{symbol}", expected='"opencl"', found=str(abi))
    f = FunctionText(unit, "kernel.narrow" in attributes)
    parameters = _parameters(f, function)
    f.write_block(function.body.block)
    size = f"__attribute__((reqd_work_group_size({group.value.data}, 1, 1)))"
    lines = ",\n    ".join(parameters)
    return f"{_comment(function)}__kernel {size}\nvoid {symbol}(\n    {lines}\n) {{\n{f.body()}\n}}"


def _comment(function: func.FuncOp) -> str:
    """What the kernel computes, as lines of comment."""
    about = function.attributes.get("kernel.about")
    texts = [line.data for line in about.data if isinstance(line, StringAttr)] if isinstance(about, ArrayAttr) else []
    lines = [line for said in texts for line in textwrap.wrap(said, 110)]
    return "".join(f"// {line}\n" for line in lines if text.is_comment(line))


def _parameters(f: FunctionText, function: func.FuncOp) -> list[str]:
    """The parameters; the lines that turn them into the arguments are written."""
    *leading, workspace, status = function.body.block.args
    chosen = function.attributes.get("kernel.dims")
    count = len(list(chosen.get_values())) if isinstance(chosen, DenseArrayBase) else 0
    texts: list[str] = []
    for k, buffer in enumerate(leading[: len(leading) - count]):
        texts.append(_buffer(f, buffer, f"a{k}"))
    for k, extent in enumerate(leading[len(leading) - count :]):
        texts.append(_extent(f, extent, f"d{k}"))
    if "kernel.workspace" in function.attributes:
        texts.append(_buffer(f, workspace, "workspace"))
    if "kernel.status" in function.attributes:
        texts.append("__global ulong *status")
        f.memories[id(status)] = Memory(text.name("status"), "i64", "__global")
    return texts


def _buffer(f: FunctionText, argument: Value, name: str) -> str:
    """A memory object and an offset, which make the pointer."""
    element, lanes = f.shape(argument)
    if lanes != 0:
        raise CompilerError("buffers come before extents", op="emit", found=str(argument.type))
    memory = Memory(text.name(name), element, "__global", not _is_written(argument))
    if is_used(argument):
        type_ = memory.type(ops_memory.c_type(element))
        f.line(f"{type_}const {name} = ({type_})({name}_object + {name}_offset);")
        f.memories[id(argument)] = memory
    return f"{memory.type('uchar')}{name}_object, ulong {name}_offset"


def _extent(f: FunctionText, argument: Value, name: str) -> str:
    f.define_name(argument, name)
    if not f.narrow:
        return f"long {name}"
    if is_used(argument):
        f.line(f"const int {name} = (int){name}_long;")
    return f"long {name}_long"


def _is_written(ssa: Value) -> bool:
    """Whether a buffer may be written; a function that is called counts as writing."""
    for use in ssa.uses:
        op = use.operation
        if isinstance(op, (kernel.ViewOp, kernel.OpaqueOp)):
            if _is_written(op.results[0]):
                return True
        elif not isinstance(op, _READERS):
            return True
    return False
