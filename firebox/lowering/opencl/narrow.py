"""f16 and bf16, held as their bits in ushort, from and to f32: helper functions of scalars, called lane by lane.

NVIDIA's processors have instructions for it; elsewhere it is integer operations, as cl_khr_fp16 is optional and
OpenCL's vload_half works on memory only.
"""

from firebox.lowering.math import narrow_floats
from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import UnitText
from firebox.lowering.opencl.lanewise import HelperText, Lanewise
from firebox.lowering.opencl.text import Expr

_TO_BITS = {"f16": narrow_floats.float_to_f16, "bf16": narrow_floats.float_to_bf16}

_ROUNDING = {"f16": "ptx", "bf16": "mma_bf16"}
"""Features of devices with an instruction that rounds f32 to the type: for bf16 those with tensor cores for it."""


def to_float(unit: UnitText, kind: str, lanes: int, x: Expr) -> Expr:
    """The f32 values of `f16` or `bf16` bits; a vector must have a name."""
    if kind == "bf16":
        type_ = text.width("uint", lanes)
        wide = text.cast("uint", x) if lanes == 1 else text.call(f"convert_{type_}", x)
        return text.call(f"as_{text.width('float', lanes)}", text.binary("<<", wide, Expr("16")))
    name = unit.helper("fb_f16_to_f32", lambda: _from_f16(unit))
    return per_lane(name, text.width("float", lanes), lanes, x)


def from_float(unit: UnitText, kind: str, element: str, lanes: int, x: Expr) -> Expr:
    """The bits of `f16` or `bf16` nearest to f32 or f64, half to even; a vector must have a name."""
    if kind == "bf16" and element == "double":  # by f32, as on the CPU
        x = text.cast("float", x) if lanes == 1 else text.call(f"convert_float{lanes}", x)
        element = "float"
    name = f"fb_{'f32' if element == 'float' else 'f64'}_to_{kind}"
    unit.helper(name, lambda: _to_narrow(unit, name, kind, element))
    return per_lane(name, text.width("ushort", lanes), lanes, x)


def per_lane(function: str, type_: str, lanes: int, *operands: Expr) -> Expr:
    """A function of scalars for every lane of named vectors."""
    if lanes == 1:
        return text.call(function, *operands)
    return text.vector_of(type_, [text.call(function, *(text.lane(x, k) for x in operands)) for k in range(lanes)])


def _from_f16(unit: UnitText) -> str:
    if unit.target.has("ptx"):
        return _instruction("float", "fb_f16_to_f32", "ushort", 'cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)')
    v = Lanewise(HelperText(unit), "float")
    bits = v.helper.node("uint", lambda x: text.cast("uint", x), v.helper.constant(text.name("x")))
    body = v.helper.statements(narrow_floats.f16_to_float(v, bits))
    return "\n".join(["static float fb_f16_to_f32(ushort x) {", *("    " + line for line in body), "}"])


def _to_narrow(unit: UnitText, name: str, kind: str, element: str) -> str:
    if unit.target.has(_ROUNDING[kind]):
        short, constraint = ("f32", "f") if element == "float" else ("f64", "d")
        return _instruction("ushort", name, element, f'cvt.rn.{kind}.{short} %0, %1;" : "=h"(y) : "{constraint}"(x)')
    v = Lanewise(HelperText(unit), "float")
    x = v.helper.constant(text.name("x"))
    if element == "double":
        unit.need_double(name)
        x = narrow_floats.double_to_float_odd(v, x)
    bits = v.helper.node("ushort", lambda x: text.cast("ushort", x), _TO_BITS[kind](v, x))
    body = v.helper.statements(bits)
    return "\n".join([f"static ushort {name}({element} x) {{", *("    " + line for line in body), "}"])


def _instruction(result: str, name: str, argument: str, assembly: str) -> str:
    lines = [
        f"static {result} {name}({argument} x) {{",
        f"    {result} y;",
        f'    asm("{assembly});',
        "    return y;",
        "}",
    ]
    return "\n".join(lines)
