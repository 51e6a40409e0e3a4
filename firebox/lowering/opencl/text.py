"""Text of OpenCL C: expressions with just the parentheses that they need, literals, names of types."""

import math
import re
from dataclasses import dataclass

import numpy as np

from firebox.errors import CompilerError

# How tightly an expression binds.
ATOM, UNARY, FACTOR, SUM, SHIFT, ORDER, EQUALITY, AND, XOR, OR, BOTH, EITHER, CHOICE = range(13, 0, -1)

_LEVELS = {
    "*": FACTOR, "/": FACTOR, "%": FACTOR, "+": SUM, "-": SUM, "<<": SHIFT, ">>": SHIFT,
    "<": ORDER, "<=": ORDER, ">": ORDER, ">=": ORDER, "==": EQUALITY, "!=": EQUALITY,
    "&": AND, "^": XOR, "|": OR, "&&": BOTH, "||": EITHER,
}  # fmt: skip
_CHAINS = ("&", "^", "|", "&&", "||")
"""Operators whose left operand may be the same operator without parentheses."""

UNSIGNED = {"i8": "uchar", "i16": "ushort", "i32": "uint", "i64": "ulong"}
SIGNED = {"i8": "char", "i16": "short", "i32": "int", "i64": "long"}
BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
FLOATS = ("float", "double")
WIDTHS = (1, 2, 4, 8, 16)
"""Lanes that a value can have."""

_LARGEST_DECIMAL = 99999
"""Larger unsigned constants are mostly patterns of bits, and written in hexadecimal."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)?")


def is_comment(line: str) -> bool:
    """Whether a line may stand behind ``//``: a backslash could join it with the next."""
    return line.isprintable() and "\\" not in line


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression without side effects.

    Attributes:
        text: as it stands alone.
        level: how tightly its outermost operator binds.
        simple: a name or a constant, which may be written any number of times.
        signed: of a signed integer's bits, that integer.
    """

    text: str
    level: int = ATOM
    simple: bool = False
    signed: "Expr | None" = None

    @property
    def is_name(self) -> bool:
        return _NAME.fullmatch(self.text) is not None

    def at_least(self, level: int) -> str:
        """The text, in parentheses if it binds less tightly."""
        return self.text if self.level >= level else f"({self.text})"


def name(text: str) -> Expr:
    return Expr(text, ATOM, True)


def call(function: str, *arguments: Expr) -> Expr:
    return Expr(f"{function}({', '.join(a.text for a in arguments)})")


def cast(type_: str, x: Expr) -> Expr:
    """A scalar as another scalar type."""
    return Expr(f"({type_}){x.at_least(UNARY)}", UNARY)


def unary(operator: str, x: Expr) -> Expr:
    text = x.at_least(UNARY)
    return Expr(f"{operator}({text})" if text.startswith(operator) else operator + text, UNARY)


def binary(operator: str, a: Expr, b: Expr) -> Expr:
    """Arithmetic by C's rules; operators that people mix up get parentheses where C would need none."""
    level = _LEVELS[operator]
    if level >= SUM:
        left, right = level, level + 1
    elif level >= EQUALITY and level != SHIFT:
        left = right = SUM
    elif operator in ("&&", "||"):
        left = right = EQUALITY
    else:
        left = right = UNARY
    if operator in _CHAINS and a.level == level:
        left = level
    return Expr(f"{a.at_least(left)} {operator} {b.at_least(right)}", level)


def choice(cond: Expr, a: Expr, b: Expr) -> Expr:
    """`cond ? a : b`."""
    test = cond.text if cond.level in (BOTH, EITHER) else cond.at_least(EQUALITY)
    return Expr(f"{test} ? {a.at_least(EITHER)} : {b.at_least(EITHER)}", CHOICE)


def vector_of(type_: str, parts: "list[Expr]") -> Expr:
    """A vector from scalars (or one scalar in every lane, or shorter vectors)."""
    return Expr(f"({type_})({', '.join(p.text for p in parts)})", ATOM, all(p.simple for p in parts))


def lane(x: Expr, position: int) -> Expr:
    """One lane of a named vector."""
    return Expr(f"{x.text}.s{position:x}", ATOM, True)


def lanes_of(x: Expr, positions: "list[int]") -> Expr:
    """Chosen lanes of a named vector."""
    return Expr(f"{x.text}.s{''.join(f'{p:x}' for p in positions)}", ATOM, True)


def width(type_: str, lanes: int) -> str:
    """The type of so many lanes."""
    if lanes not in WIDTHS:
        raise CompilerError("OpenCL has no vectors of this length", op="emit", expected=WIDTHS, found=lanes)
    return type_ if lanes == 1 else f"{type_}{lanes}"


def float_literal(value: float, type_: str) -> Expr:
    """A constant, rounded to the type, in the fewest digits that mean it."""
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY" if value > 0 else "-INFINITY"
    elif type_ == "float":
        text = str(np.float32(value)) + "f"
    else:
        text = repr(float(value))
    level = UNARY if text.startswith("-") else ATOM
    if type_ == "double" and not math.isfinite(value):
        return Expr(f"(double){text}", UNARY, True)
    return Expr(text, level, True)


def unsigned_literal(value: int, element: str) -> Expr:
    """The bits of an integer as a constant of the unsigned type."""
    bits = 8 * BYTES[element]
    value &= (1 << bits) - 1
    digits = hex(value) if value > _LARGEST_DECIMAL else str(value)
    if bits < 32:
        return Expr(f"({UNSIGNED[element]}){digits}", UNARY, True)
    return Expr(f"{digits}{'u' if bits == 32 else 'ul'}", ATOM, True)


def signed_literal(value: int, element: str) -> Expr:
    """An integer as a constant of the signed type."""
    bits = 8 * BYTES[element]
    value = ((value + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))
    if bits < 32:
        return Expr(f"({SIGNED[element]}){value}", UNARY, True)
    if value == -(1 << (bits - 1)):  # C has no negative literals, and the positive number does not fit
        return Expr("INT_MIN" if bits == 32 else "LONG_MIN", ATOM, True)
    return Expr(f"{value}{'' if bits == 32 else 'L'}", UNARY if value < 0 else ATOM, True)
