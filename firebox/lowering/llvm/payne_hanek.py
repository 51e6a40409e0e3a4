"""The exact reduction of large angles (math.payne_hanek says how) as helper functions of the module."""

from typing import TYPE_CHECKING

from firebox.lowering.llvm.function import FunctionText
from firebox.lowering.llvm.text import float_literal
from firebox.lowering.math.payne_hanek import HALF_PI, TWO_OVER_PI

if TYPE_CHECKING:  # it imports this module
    from firebox.lowering.llvm.lanewise import Lanewise

_STRUCT = "{ double, double, i64 }"


def large_angles(v: "Lanewise", x: str) -> tuple[str, str, str]:
    """r in two parts and n for every lane of finite x with |x| >= 2^16 (other lanes: anything)."""
    name = f"fb.reduce.{'f32' if v.element == 'float' else 'f64'}x{v.lanes}"
    v.fn.module.helper(name, lambda: _lanes_helper(v, name))
    type_ = f"{{ {v.type}, {v.type}, {v.int} }}"
    result = v.fn.op(f"call {type_} @{name}({v.type} {x})")
    parts = [v.fn.op(f"extractvalue {type_} {result}, {k}") for k in range(3)]
    return parts[0], parts[1], parts[2]


def _lanes_helper(shape: "Lanewise", name: str) -> str:
    """A function that reduces lane after lane through memory."""
    f = FunctionText(shape.fn.module)
    v = shape.within(f, shape.element, shape.lanes)
    scalar = f.module.helper("fb.reduce", lambda: _scalar_helper(shape))
    places = [f.alloca(type_, 64) for type_ in (v.type, v.type, v.type, v.int)]
    f.line(f"store {v.type} %x, ptr {places[0]}, align 64")
    f.branch("lane")
    f.block("lane")
    lane = f.reserve()
    index = f.fresh()
    elements = (v.element, v.element, v.element, v.int_element)
    spots = [f.op(f"getelementptr inbounds {e}, ptr {p}, i64 {index}") for e, p in zip(elements, places, strict=True)]
    angle = f.op(f"load {v.element}, ptr {spots[0]}")
    angle = angle if v.element == "double" else f.op(f"fpext float {angle} to double")
    reduced = f.op(f"call {_STRUCT} @{scalar}(double {angle})")
    high, low, n = (f.op(f"extractvalue {_STRUCT} {reduced}, {k}") for k in range(3))
    if v.element == "float":
        high, low = (f.op(f"fptrunc double {part} to float") for part in (high, low))
        n = f.op(f"trunc i64 {n} to i32")
    for value, element, spot in zip((high, low, n), elements[1:], spots[1:], strict=True):
        f.line(f"store {element} {value}, ptr {spot}")
    following = f.op(f"add i64 {index}, 1")
    f.branch_if(f.op(f"icmp ult i64 {following}, {v.lanes}"), "lane", "end")
    f.fill(lane, [f"{index} = phi i64 [ 0, %entry ], [ {following}, %lane ]"])
    f.block("end")
    types = (v.type, v.type, v.int)
    struct, result = f"{{ {', '.join(types)} }}", "poison"
    for k, (type_, place) in enumerate(zip(types, places[1:], strict=True)):
        value = f.op(f"load {type_}, ptr {place}, align 64")
        result = f.op(f"insertvalue {struct} {result}, {type_} {value}, {k}")
    f.line(f"ret {struct} {result}")
    head = f"define internal {struct} @{name}({v.type} %x) nounwind noinline {{"
    return "\n".join([head, "entry:", *f.allocas, f.body(), "}"])


def _scalar_helper(shape: "Lanewise") -> str:
    """The reduction of one finite double with |x| >= 2^16: {r, its rounding error, n}."""
    f = FunctionText(shape.fn.module)
    f.module.helper("fb.two_over_pi", _table)
    v = shape.within(f, "double", 1)
    bits = v.bits("%x")
    field = v.and_(v.lshr(bits, 52), v.i(0x7FF))
    mantissa = v.or_(v.and_(bits, v.i((1 << 52) - 1)), v.i(1 << 52))
    position = f.lanewise("smax", "i64", 1, v.iadd(field, v.i(64 - 2 - 1075)), "0")  # in the table for any x
    words = _window(f, position)
    quadrant, fraction = _fraction(f, v, mantissa, words)
    below = f.op(f"icmp slt i128 {fraction}, 0")
    quadrant = v.iadd(quadrant, f.op(f"zext i1 {below} to i64"))
    negative = v.icmp("slt", bits, v.i(0))
    high, low = _to_radians(f, v, fraction)
    flip = f.op(f"xor i1 {below}, {negative}")
    parts = [v.select(flip, v.neg(part), part) for part in (high, low)]
    n = v.iselect(negative, v.isub(v.i(0), quadrant), quadrant)
    result = "poison"
    for k, (type_, value) in enumerate((("double", parts[0]), ("double", parts[1]), ("i64", n))):
        result = f.op(f"insertvalue {_STRUCT} {result}, {type_} {value}, {k}")
    f.line(f"ret {_STRUCT} {result}")
    head = f"define internal {_STRUCT} @fb.reduce(double %x) nounwind noinline {{"
    return "\n".join([head, "entry:", f.body(), "}"])


def _table() -> str:
    words = ", ".join(f"i64 {word - (1 << 64) if word >> 63 else word}" for word in TWO_OVER_PI)
    return f"@fb.two_over_pi = private unnamed_addr constant [{len(TWO_OVER_PI)} x i64] [{words}], align 64"


def _window(f: FunctionText, position: str) -> list[str]:
    """Three words of the table from a bit position on, the most significant first."""
    first, shift = f.op(f"lshr i64 {position}, 6"), f.op(f"and i64 {position}, 63")
    base = f.op(f"getelementptr inbounds i64, ptr @fb.two_over_pi, i64 {first}")
    words = []
    for k in range(4):
        place = f.op(f"getelementptr inbounds i64, ptr {base}, i64 {k}")
        words.append(f.op(f"load i64, ptr {place}, align 8"))
    return [f.lanewise("fshl", "i64", 1, words[k], words[k + 1], shift) for k in range(3)]


def _fraction(f: FunctionText, v: "Lanewise", mantissa: str, words: list[str]) -> tuple[str, str]:
    """The quadrant (0 to 3) and the 128-bit fraction of M times the window."""
    m = f.op(f"zext i64 {mantissa} to i128")
    wide = [f.op(f"zext i64 {word} to i128") for word in words]
    lowest = f.op(f"mul i128 {m}, {wide[2]}")
    middle = f.op(f"add i128 {f.op(f'mul i128 {m}, {wide[1]}')}, {f.op(f'lshr i128 {lowest}, 64')}")
    top = f.op(f"trunc i128 {f.op(f'lshr i128 {middle}, 64')} to i64")
    top = v.iadd(top, f.op(f"mul i64 {mantissa}, {words[0]}"))
    mid = f.op(f"trunc i128 {middle} to i64")
    low = f.op(f"trunc i128 {lowest} to i64")
    high_part = f.op(f"zext i64 {f.lanewise('fshl', 'i64', 1, top, mid, '2')} to i128")
    low_part = f.op(f"zext i64 {f.lanewise('fshl', 'i64', 1, mid, low, '2')} to i128")
    return v.lshr(top, 62), f.op(f"or i128 {f.op(f'shl i128 {high_part}, 64')}, {low_part}")


def _to_radians(f: FunctionText, v: "Lanewise", fraction: str) -> tuple[str, str]:
    """|fraction| / 2^128 * pi/2 as a sum of two doubles, from its 106 leading bits."""
    size = f.intrinsic("llvm.abs.i128", "i128", [("i128", fraction), ("i1", "false")])
    zeros = f.intrinsic("llvm.ctlz.i128", "i128", [("i128", size), ("i1", "false")])
    some = f.op(f"icmp ne i128 {size}, 0")
    shift = f.op(f"select i1 {some}, i128 {zeros}, i128 0")
    leading = f.op(f"shl i128 {size}, {shift}")
    first = f.op(f"trunc i128 {f.op(f'lshr i128 {leading}, 75')} to i64")
    second = v.and_(f.op(f"trunc i128 {f.op(f'lshr i128 {leading}, 22')} to i64"), v.i((1 << 53) - 1))
    exponent = v.isub(v.i(0), f.op(f"trunc i128 {shift} to i64"))
    scale = v.power(exponent)
    a = v.mul(v.mul(f.op(f"uitofp i64 {first} to double"), float_literal(2.0**-53, "double")), scale)
    b = v.mul(v.mul(f.op(f"uitofp i64 {second} to double"), float_literal(2.0**-106, "double")), scale)
    high, low = (v.f(part) for part in HALF_PI)
    product = v.mul(a, high)
    error = v.fma(a, high, v.neg(product))
    error = v.add(error, v.fma(a, low, v.mul(b, high)))
    total = v.add(product, error)
    return total, v.add(v.sub(product, total), error)
