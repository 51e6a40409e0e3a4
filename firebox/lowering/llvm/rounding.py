"""Rounding to integers and fused multiply-add, also for machines that lack the instructions.

LLVM would call libm for these on such machines, and generated code may call nothing.
"""

from firebox.lowering.llvm.function import FunctionText
from firebox.lowering.llvm.text import float_literal, splat, vector


def has_fma(f: FunctionText) -> bool:
    """Whether the target has fused multiply-add instructions."""
    return f.target.arch == "aarch64" or f.target.has("fma") or f.target.has("avx512f")


def has_rounding(f: FunctionText) -> bool:
    """Whether the target has instructions that round to integers."""
    return f.target.arch == "aarch64" or f.target.has("sse4.1")


def write(f: FunctionText, name: str, element: str, lanes: int, x: str) -> str:
    """floor, ceil, trunc or roundeven of `x`."""
    if has_rounding(f):
        return f.lanewise(name, element, lanes, x)
    type_, mask = vector(element, lanes), vector("i1", lanes)
    magnitude = f.lanewise("fabs", element, lanes, x)
    edge = splat(element, float_literal(2.0**23 if element == "float" else 2.0**52, element), lanes)
    near = f.op(f"fsub {type_} {f.op(f'fadd {type_} {magnitude}, {edge}')}, {edge}")  # half to even, by the adder
    value = magnitude if name == "trunc" else x
    if name != "trunc":
        near = f.lanewise("copysign", element, lanes, near, x)
    if name != "roundeven":
        one = splat(element, float_literal(1.0, element), lanes)
        beyond = f.op(f"fcmp {'olt' if name == 'ceil' else 'ogt'} {type_} {near}, {value}")
        moved = f.op(f"{'fadd' if name == 'ceil' else 'fsub'} {type_} {near}, {one}")
        near = f.op(f"select {mask} {beyond}, {type_} {moved}, {type_} {near}")
    signed = f.lanewise("copysign", element, lanes, near, x)
    fits = f.op(f"fcmp olt {type_} {magnitude}, {edge}")
    return f.op(f"select {mask} {fits}, {type_} {signed}, {type_} {x}")


def fma(f: FunctionText, element: str, lanes: int, a: str, b: str, c: str) -> str:
    """a * b + c with one rounding.

    Without the instruction f32 goes through f64, where the product is exact (two roundings of the sum differ from one
    only in halfway cases), and f64 through error-free products and sums (Dekker 1971, Knuth's two-sum), which holds to
    one unit in the last place while no part overflows.
    """
    if has_fma(f):
        return f.lanewise("fma", element, lanes, a, b, c)
    if element == "float":
        return _fma_float(f, lanes, a, b, c)
    return _fma_double(f, lanes, a, b, c)


def _fma_float(f: FunctionText, lanes: int, a: str, b: str, c: str) -> str:
    narrow, wide = vector("float", lanes), vector("double", lanes)
    x, y, z = (f.op(f"fpext {narrow} {v} to {wide}") for v in (a, b, c))
    total = f.op(f"fadd {wide} {f.op(f'fmul {wide} {x}, {y}')}, {z}")
    return f.op(f"fptrunc {wide} {total} to {narrow}")


def _fma_double(f: FunctionText, lanes: int, a: str, b: str, c: str) -> str:
    type_ = vector("double", lanes)

    def op(mnemonic: str, x: str, y: str) -> str:
        return f.op(f"{mnemonic} {type_} {x}, {y}")

    def constant(value: float) -> str:
        return splat("double", float_literal(value, "double"), lanes)

    def whole(value: int) -> str:
        return splat("i64", str(value), lanes)

    def split(x: str) -> tuple[str, str]:
        # Rounding to 26 bits leaves a low part of 26 bits and a sign, so that all partial products are exact. The
        # largest numbers are cut, since rounding could overflow; the product allows 27 bits in one of the factors.
        int_ = vector("i64", lanes)
        bits = f.op(f"bitcast {type_} {x} to {int_}")
        huge = f.op(f"fcmp oge {type_} {f.lanewise('fabs', 'double', lanes, x)}, {constant(2.0**1023)}")
        half = f.op(f"select {vector('i1', lanes)} {huge}, {int_} {whole(0)}, {int_} {whole(1 << 26)}")
        kept = f.op(f"and {int_} {f.op(f'add {int_} {bits}, {half}')}, {whole(-(1 << 27))}")
        high = f.op(f"bitcast {int_} {kept} to {type_}")
        return high, op("fsub", x, high)

    product = op("fmul", a, b)
    (ah, al), (bh, bl) = split(a), split(b)
    error = op("fsub", op("fmul", ah, bh), product)
    for x, y in ((ah, bl), (al, bh), (al, bl)):
        error = op("fadd", error, op("fmul", x, y))
    total = op("fadd", product, c)
    back = op("fsub", total, product)
    lost = op("fadd", op("fsub", product, op("fsub", total, back)), op("fsub", c, back))
    exact = op("fadd", total, op("fadd", error, lost))
    # Where a part was infinite the corrections are NaN: the plain sum is right there.
    valid = f.op(f"fcmp ord {type_} {exact}, {exact}")
    return f.op(f"select {vector('i1', lanes)} {valid}, {type_} {exact}, {type_} {total}")
