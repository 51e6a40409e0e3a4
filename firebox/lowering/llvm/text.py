"""Text of LLVM IR: a line buffer with fresh names, literals and type names."""

import math
import struct
from collections.abc import Iterable
from functools import lru_cache


class Text:
    """The body of one function as it is written, line by line.

    Attributes:
        lines: what is written so far; a line that is filled in later holds a placeholder.
        label: name of the basic block that lines go to.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self._names = 0
        self._labels = 0

    def fresh(self) -> str:
        """A new value name, `%1`-like but never clashing with unnamed values."""
        self._names += 1
        return f"%v{self._names}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """An instruction; gives the name of its result."""
        self._names += 1
        name = f"%v{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def new_label(self, hint: str) -> str:
        """A label name for later use with `block`."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, label: str) -> None:
        """Jump."""
        self.lines.append(f"  br label %{label}")

    def branch_if(self, cond: str, on_true: str, on_false: str) -> None:
        """Jump by an i1."""
        self.lines.append(f"  br i1 {cond}, label %{on_true}, label %{on_false}")

    def phi(self, type_: str, incoming: Iterable[tuple[str, str]]) -> str:
        """A phi of (value, label) pairs."""
        return self.op(f"phi {type_} " + ", ".join(f"[ {value}, %{label} ]" for value, label in incoming))

    def reserve(self) -> int:
        """A place whose lines are known only later; fill it with `fill`."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, lines: Iterable[str]) -> None:
        """Write the lines of a reserved place."""
        self.lines[place] = "\n".join("  " + line for line in lines)

    def body(self) -> str:
        """All lines, without places that stayed empty."""
        return "\n".join(line for line in self.lines if line)


def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; the element type for one."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(element: str, lanes: int) -> str:
    """How intrinsic names spell a type: `f32`, `v16f32`."""
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"


def splat(element: str, literal: str, lanes: int) -> str:
    """A literal in every lane, as an operand."""
    return literal if lanes == 1 else f"splat ({element} {literal})"


def float_literal(value: float, element: str) -> str:
    """A `float` or `double` constant by its bits; values are rounded to the type."""
    if value == 0.0:  # 0.0 and -0.0 are one key
        return "0x8000000000000000" if math.copysign(1.0, value) < 0 else "0x0000000000000000"
    return _float_bits(value, element)


@lru_cache(maxsize=8192)
def _float_bits(value: float, element: str) -> str:
    if element == "float" and value == value and abs(value) != float("inf"):
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
