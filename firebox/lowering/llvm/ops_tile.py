"""LLVM text of tile registers and of products of pairs: AMX and AVX512-BF16 intrinsics."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from firebox.dialects.kernel import tile_ops as kernel
from firebox.dialects.xdsl_compat import operands_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.function import ELEMENT_BYTES, FunctionText, lowers

_ROWS, _ROW_BYTES = 16, 64


def _call(f: FunctionText, op: Operation, name: str, arguments: Sequence[tuple[str, str]]) -> None:
    """Call an intrinsic of AMX; tile numbers are immediate."""
    if not f.target.has("amx-bf16"):
        raise CompilerError("the target has no tile registers", op=op.name, expected="amx-bf16", found=f.target.cpu)
    full = f"llvm.x86.{name}"
    types = ", ".join("i8 immarg" if type_ == "i8" else type_ for type_, _ in arguments)
    f.module.declarations[full] = f"declare void @{full}({types})"
    f.line(f"call void @{full}({', '.join(f'{type_} {value}' for type_, value in arguments)})")


def _tile(number: IntegerAttr) -> tuple[str, str]:
    return "i8", str(number.value.data)


@lowers(kernel.TileConfigOp)
def _config(f: FunctionText, op: kernel.TileConfigOp) -> None:
    def constant() -> str:
        # Palette 1, start row 0; from byte 16 on the bytes of a row (16 bits each), from byte 48 on the rows.
        table = bytes([1, *[0] * 15, *[_ROW_BYTES, 0] * kernel.TILES, *[0] * 16, *[_ROWS] * kernel.TILES, *[0] * 8])
        text = "".join(f"\\{b:02X}" for b in table)
        return f'@tile_config = internal constant [{len(table)} x i8] c"{text}", align 64'

    _call(f, op, "ldtilecfg", [("ptr", f"@{f.module.helper('tile_config', constant)}")])


@lowers(kernel.TileReleaseOp)
def _release(f: FunctionText, op: kernel.TileReleaseOp) -> None:
    _call(f, op, "tilerelease", [])


@lowers(kernel.TileZeroOp)
def _zero(f: FunctionText, op: kernel.TileZeroOp) -> None:
    _call(f, op, "tilezero", [_tile(op.tile)])


@lowers(kernel.TileLoadOp)
def _load(f: FunctionText, op: kernel.TileLoadOp) -> None:
    _call(f, op, "tileloadd64", [_tile(op.tile), *_rows(f, op)])


@lowers(kernel.TileStoreOp)
def _store(f: FunctionText, op: kernel.TileStoreOp) -> None:
    _call(f, op, "tilestored64", [_tile(op.tile), *_rows(f, op)])


def _rows(f: FunctionText, op: Operation) -> list[tuple[str, str]]:
    """Pointer to the first row, and bytes from row to row."""
    memory, index, stride = operands_of(op)
    element, _ = f.shape(memory)
    at = f.value(index)
    pointer = f.value(memory)
    if at != "0":
        pointer = f.op(f"getelementptr inbounds {element}, ptr {pointer}, i64 {at}")
    step, nbytes = f.value(stride), ELEMENT_BYTES[element]
    size = f.op(f"mul nsw i64 {step}, {nbytes}") if step.startswith("%") else str(int(step) * nbytes)
    return [("ptr", pointer), ("i64", size)]


@lowers(kernel.TileDotOp)
def _dot(f: FunctionText, op: kernel.TileDotOp) -> None:
    _call(f, op, "tdpbf16ps", [_tile(op.sums), _tile(op.lhs), _tile(op.rhs)])


@lowers(kernel.DotPairsOp)
def _dot_pairs(f: FunctionText, op: kernel.DotPairsOp) -> None:
    sums, lhs, rhs = operands_of(op)
    lanes = f.shape(op.results[0])[1]
    if not f.target.has("avx512bf16") or lanes != 16:
        raise CompilerError("the target has no such product", op=op.name, expected="avx512bf16", found=f.target.cpu)
    pairs = [f.op(f"bitcast {f.type(v)} {f.value(v)} to <{2 * lanes} x bfloat>") for v in (lhs, rhs)]
    type_ = f.type(sums)
    arguments = [(type_, f.value(sums)), *((f"<{2 * lanes} x bfloat>", pair) for pair in pairs)]
    f.define(op.results[0], f.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", type_, arguments))
