"""The larger and the smaller of floats, NaN if either is NaN."""

from firebox.lowering.opencl import text
from firebox.lowering.opencl.function import UnitText
from firebox.lowering.opencl.text import Expr

_SHORT = {"float": "f32", "double": "f64"}


def extreme(unit: UnitText, which: str, element: str, lanes: int, a: Expr, b: Expr) -> Expr:
    """`max` or `min` of two values; of equal zeros either one.

    OpenCL's fmax drops NaN. NVIDIA's processors have one instruction for f32 from sm_80 on.
    """
    name = f"fb_{which}_{_SHORT[element]}{'' if lanes == 1 else f'x{lanes}'}"
    native = element == "float" and unit.target.arch.startswith("sm_") and unit.target.has("ptx")
    write = _by_instruction if native and int(unit.target.arch[3:].rstrip("af")) >= 80 else _by_comparison
    return text.call(unit.helper(name, lambda: write(name, which, element, lanes)), a, b)


def _by_comparison(name: str, which: str, element: str, lanes: int) -> str:
    type_, order = text.width(element, lanes), ">" if which == "max" else "<"
    test = f"a {order} b || a != a" if lanes == 1 else f"((a {order} b) | (a != a))"
    return f"static {type_} {name}({type_} a, {type_} b) {{\n    return {test} ? a : b;\n}}"


def _by_instruction(name: str, which: str, element: str, lanes: int) -> str:
    type_ = text.width(element, lanes)
    lines = [f"static {type_} {name}({type_} a, {type_} b) {{", f"    {type_} c;"]
    for k in range(lanes):
        c, x, y = (v if lanes == 1 else f"{v}.s{k:x}" for v in "cab")
        lines.append(f'    asm("{which}.NaN.f32 %0, %1, %2;" : "=f"({c}) : "f"({x}), "f"({y}));')
    return "\n".join([*lines, "    return c;", "}"])
