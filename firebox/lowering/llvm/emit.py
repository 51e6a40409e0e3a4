"""Kernels to the text of one LLVM IR module."""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, StringAttr

from firebox.dialects.xdsl_compat import is_used
from firebox.errors import CompilerError
from firebox.lowering.llvm import ops_arith, ops_cast, ops_control, ops_memory, ops_tile, ops_vector, tables
from firebox.lowering.llvm.function import FunctionText, ModuleText
from firebox.lowering.llvm.text import Text
from firebox.runtime.target import Target

__all__ = ["FunctionText", "ModuleText", "Text", "emit_kernels"]

LOWERED_BY = (ops_arith, ops_cast, ops_control, ops_memory, ops_tile, ops_vector, tables)
"""The modules that fill the table of lowerings."""

KERNEL_PARAMETERS = "ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status"


def emit_kernels(functions: Sequence[func.FuncOp], target: Target) -> str:
    """The text of a module with the given functions: kernels of the CPU calling convention, and their helpers.

    The same functions and target give the same text. Nothing in it refers to a symbol outside of it.

    Raises:
        CompilerError: an op, type or constant that has no LLVM text.
    """
    module = ModuleText(target)
    return module.text([emit_function(module, function) for function in functions])


def emit_function(module: ModuleText, function: func.FuncOp) -> str:
    """The text of one kernel or helper, for a module that may hold more."""
    abi = function.attributes.get("kernel.abi")
    if abi is None:
        return _plain(module, function, "")
    if not isinstance(abi, StringAttr) or abi.data != "cpu":
        raise CompilerError("not a CPU kernel", op=f"@{function.sym_name.data}", expected='"cpu"', found=str(abi))
    if "kernel.noalias" in function.attributes:
        return _through_wrapper(module, function)
    return _kernel(module, function)


def _kernel(module: ModuleText, function: func.FuncOp) -> str:
    f = FunctionText(module)
    _unpack(f, function)
    f.write_block(function.body.block)
    return _define(f, f"void @{function.sym_name.data}({KERNEL_PARAMETERS})")


def _unpack(f: FunctionText, function: func.FuncOp) -> list[str]:
    """Load buffer pointers and extents that are used; gives (type, value) texts of all arguments."""
    args = function.body.block.args
    chosen = function.attributes.get("kernel.dims")
    dims = list(chosen.get_values()) if isinstance(chosen, DenseArrayBase) else []
    buffers = len(args) - len(dims) - 4
    if buffers < 0:
        raise CompilerError("a kernel ends in begin, end, scratch, status", op=f"@{function.sym_name.data}")
    sources = [("ptr", "%args", k) for k in range(buffers)] + [("i64", "%dims", int(d)) for d in dims]
    texts = []
    for arg, (type_, table, position) in zip(args, sources, strict=False):
        if not is_used(arg):
            texts.append(f"{type_} {'null' if type_ == 'ptr' else '0'}")
            continue
        place = f.op(f"getelementptr inbounds i64, ptr {table}, i64 {position}") if position else table
        f.define(arg, f.op(f"load {type_}, ptr {place}, align 8"))
        texts.append(f"{type_} {f.value(arg)}")
    for arg, name in zip(args[len(sources) :], ("%begin", "%end", "%scratch", "%status"), strict=True):
        f.define(arg, name)
        texts.append(f"{f.type(arg)} {name}")
    return texts


def _through_wrapper(module: ModuleText, function: func.FuncOp) -> str:
    """Only a parameter can be `noalias`: the kernel unpacks its arguments and calls a function that has them."""
    name = function.sym_name.data
    inner = _plain(module, function, f"{name}.body")
    f = FunctionText(module)
    f.line(f"call void @{name}.body({', '.join(_unpack(f, function))})")
    return inner + "\n\n" + _define(f, f"void @{name}({KERNEL_PARAMETERS})")


def _plain(module: ModuleText, function: func.FuncOp, name: str) -> str:
    f = FunctionText(module)
    noalias = " noalias" if "kernel.noalias" in function.attributes else ""
    parameters = []
    for position, arg in enumerate(function.body.block.args):
        f.define(arg, f"%p{position}")
        type_ = f.type(arg)
        parameters.append(f"{type_}{noalias if type_ == 'ptr' else ''} %p{position}")
    f.write_block(function.body.block)
    return _define(f, f"internal void @{name or function.sym_name.data}({', '.join(parameters)})")


def _define(f: FunctionText, head: str) -> str:
    f.line("ret void")
    return "\n".join([f"define {head} nounwind {{", "entry:", *f.allocas, f.body(), "}"])
