"""One function on its way from kernel ops to OpenCL C: values, types, names, the table of op lowerings.

Integers are signless in the IR, and wrap. In C only unsigned ones wrap, so a value of N bits is an unsigned integer
here, which ops that read a sign convert; an `index` is signed, as it never overflows: `int` in a kernel whose indices
fit, else `long`. f16 and bf16 are their bits as ushort: nothing computes in them. i1 is `bool`, a vector of i1 is a
vector of int with 0 and -1.

A value that is used once, by an op of the same block, is written where it is used.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    LocationAttr,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from firebox.dialects.xdsl_compat import is_used, location_text, ops_of
from firebox.errors import CompilerError
from firebox.lowering.opencl import text
from firebox.lowering.opencl.text import SIGNED, UNSIGNED, Expr, width
from firebox.runtime.opencl_target import OpenClTarget

OpT = TypeVar("OpT", bound=Operation)
Lowering = Callable[["FunctionText", Any], None]
_Typed = Callable[["FunctionText", OpT], None]
Value = SSAValue[Attribute]

LOWERINGS: dict[type[Operation], Lowering] = {}
"""How each op is written; filled by the `ops_*` modules and by `tables`, open to more."""

_LONGEST_INLINE = 64
"""Characters of an expression that may still become part of another one."""
_COUNTERS = "ijklmn"
_WHOLE = ("i32", "i64")
"""Integers in whose own type C computes."""


def lowers(*ops: type[OpT]) -> Callable[["_Typed[OpT]"], "_Typed[OpT]"]:
    """Decorator: the function writes ops of these classes."""

    def register(function: "_Typed[OpT]") -> "_Typed[OpT]":
        for op in ops:
            LOWERINGS[op] = function
        return function

    return register


class UnitText:
    """What the functions of one translation unit share.

    Attributes:
        target: the device the text is for.
        functions: all functions of the unit, by symbol.
        helpers: by name, text of functions and constants that lowerings needed, each after what it uses itself.
        extensions: of OpenCL that the text needs.
    """

    def __init__(self, target: OpenClTarget, functions: Sequence[func.FuncOp]) -> None:
        self.target = target
        self.functions = {f.sym_name.data: f for f in functions}
        self.helpers: dict[str, str] = {}
        self.extensions: set[str] = set()

    def helper(self, name: str, write: Callable[[], str]) -> str:
        """The name of a helper, written at its first use."""
        if name not in self.helpers:
            self.helpers[name] = write()
        return name

    def need_double(self, op: str) -> None:
        """Say that the text computes in f64.

        Raises:
            CompilerError: the device has no f64.
        """
        if not self.target.has("fp64"):
            raise CompilerError(
                "the device has no 64-bit floats", op=op, found=self.target.label, hint="compute in f32 on this device"
            )
        self.extensions.add("cl_khr_fp64")

    def text(self, functions: Iterable[str]) -> str:
        """The whole unit."""
        bodies = list(functions)
        pragmas = [f"#pragma OPENCL EXTENSION {name} : enable" for name in sorted(self.extensions)]
        pragmas.append("#pragma OPENCL FP_CONTRACT OFF")
        return "\n\n".join(["\n".join(pragmas), *self.helpers.values(), *bodies]) + "\n"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memref as a pointer.

    Attributes:
        pointer: an expression of C.
        element: as in `FunctionText.shape`.
        space: `__global`, `__local`, or nothing for private memory.
        constant: the pointer is to const.
    """

    pointer: Expr
    element: str
    space: str
    constant: bool = False

    def type(self, element: str) -> str:
        """The type of a pointer into this memory to elements of a type of C."""
        return " ".join(part for part in ("const" if self.constant else "", self.space, element, "*") if part)


class FunctionText:
    """The text of one function, with the values of its ops.

    Attributes:
        unit: what it shares with others.
        narrow: an index is an int.
        lines: written so far.
        arrays: declarations of memory at the head of the function.
        memories: pointers of memrefs.
        constants: numbers of integer and float values that are known, by value.
        depth: loops around the place that lines go to.
    """

    def __init__(self, unit: UnitText, narrow: bool) -> None:
        self.unit = unit
        self.target = unit.target
        self.narrow = narrow
        self.lines: list[str] = []
        self.arrays: list[str] = []
        self.memories: dict[int, Memory] = {}
        self.constants: dict[int, int | float] = {}
        self.depth = 0
        self._indent = 1
        self._values: dict[int, Expr] = {}
        self._names: dict[str, int] = {}
        self._types: dict[int, tuple[Attribute, str, int]] = {}
        self._location: LocationAttr = UNKNOWN_LOC

    # Types

    def shape(self, ssa: Value) -> tuple[str, int]:
        """Element and lanes of a value (or of the elements of a memref, with 0 lanes).

        Elements are i1, i8, ..., index, float and double.
        """
        type_ = ssa._type
        found = self._types.get(id(type_))
        if found is None:
            element, lanes = _shape(type_)
            if element == "double":
                self.unit.need_double("emit")
            found = self._types[id(type_)] = (type_, element, lanes)  # holding the type keeps its id taken
        return found[1], found[2]

    def type(self, ssa: Value) -> str:
        """The type of a value in C."""
        return self.type_of(*self.shape(ssa))

    def type_of(self, element: str, lanes: int, signed: bool = False) -> str:
        """The type of values in C; of integers of N bits the one with or without a sign."""
        if element == "i1":
            return "bool" if lanes == 1 else width("int", lanes)
        if element == "index":
            return self.index_type
        return width((SIGNED if signed else UNSIGNED).get(element, element), lanes)

    @property
    def index_type(self) -> str:
        return "int" if self.narrow else "long"

    # Values

    def value(self, ssa: Value) -> Expr:
        """The expression of a value, to be written once."""
        return self._values[id(ssa)]

    def atom(self, ssa: Value) -> Expr:
        """The value as a name or constant, to be written any number of times."""
        expr = self._values[id(ssa)]
        if not expr.simple:
            expr = self._values[id(ssa)] = self.named(self.type(ssa), expr)
        return expr

    def vector(self, ssa: Value) -> Expr:
        """The value as a name, so that its lanes can be named."""
        expr = self._values[id(ssa)]
        if expr.is_name:
            return expr
        name = self.named(self.type(ssa), expr)
        if not expr.simple:  # of a simple one other uses may stand in other blocks, where this name is not known
            self._values[id(ssa)] = name
        return name

    def lane(self, ssa: Value, position: int) -> Expr:
        """One lane of a vector; an i1 as int."""
        known = self.constants.get(id(ssa))
        element, lanes = self.shape(ssa)
        if known is not None:
            return self.literal(known, element)
        return self.atom(ssa) if lanes == 1 else text.lane(self.vector(ssa), position)

    def signed(self, ssa: Value) -> Expr:
        """An integer as the signed type of C."""
        element, lanes = self.shape(ssa)
        known = self.constants.get(id(ssa))
        if known is not None and lanes == 1 and element in SIGNED:
            return text.signed_literal(int(known), element)
        return self.as_signed(self.value(ssa), element, lanes)

    def as_signed(self, x: Expr, element: str, lanes: int) -> Expr:
        """The expression of an integer value as the signed type of C."""
        if element not in SIGNED:
            return x
        if x.signed is not None:
            return x.signed
        type_ = self.type_of(element, lanes, signed=True)
        return text.cast(type_, x) if lanes == 1 else text.call(f"as_{type_}", x)

    def unsigned(self, ssa: Value) -> Expr:
        """An integer as the unsigned type of C."""
        if self.shape(ssa)[0] != "index":
            return self.value(ssa)
        known = self.constants.get(id(ssa))
        if known is not None:
            return text.unsigned_literal(int(known), "i32" if self.narrow else "i64")
        return text.cast(f"u{self.index_type}", self.value(ssa))

    def as_bits(self, x: Expr, element: str, lanes: int) -> Expr:
        """An expression of the signed type of C as the value's own type."""
        if element not in UNSIGNED:
            return x
        type_ = self.type_of(element, lanes)
        bits = text.cast(type_, x) if lanes == 1 else text.call(f"as_{type_}", x)
        return replace(bits, signed=x if lanes > 1 or element in _WHOLE else None)

    def literal(self, value: int | float, element: str, lanes: int = 1) -> Expr:
        """A constant of a value's own type, in every lane."""
        if element in text.FLOATS:
            one = text.float_literal(value, element)
        elif element == "i1":
            one = text.name(("true" if value else "false") if lanes == 1 else "-1" if value else "0")
        elif element == "index":
            one = text.signed_literal(int(value), "i32" if self.narrow else "i64")
        else:
            one = text.unsigned_literal(int(value), element)
        return one if lanes == 1 else text.vector_of(self.type_of(element, lanes), [one])

    def define(self, ssa: Value, expr: Expr) -> None:
        """Say what a pure op gives: nothing is written if nobody asks, or one op of this block does."""
        if not is_used(ssa):
            return
        if not expr.simple and not (len(expr.text) <= _LONGEST_INLINE and _used_once_here(ssa)):
            expr = self.named(self.type(ssa), expr)
        self._values[id(ssa)] = expr

    def define_now(self, ssa: Value, expr: Expr) -> None:
        """Say what an op gives that depends on when it runs."""
        self._values[id(ssa)] = self.named(self.type(ssa), expr)

    def define_name(self, ssa: Value, name: str) -> None:
        """Say which variable holds a value."""
        self._values[id(ssa)] = text.name(name)

    def keep(self, ssa: Value) -> None:
        """Put the value into a constant of its own, as a variable in its expression is about to change."""
        self._values[id(ssa)] = self.named(self.type(ssa), self._values[id(ssa)])

    def named(self, type_: str, expr: Expr) -> Expr:
        """A new variable with the value of an expression."""
        name = self.fresh()
        self.line(f"const {type_} {name} = {expr.text};")
        return text.name(name)

    def fresh(self, hint: str = "v") -> str:
        """A new name: v1, v2, ...; of another hint the first has no number."""
        count = self._names[hint] = self._names.get(hint, 0) + 1
        return hint if count == 1 and hint != "v" else f"{hint}{count}"

    def counter(self) -> str:
        """The name of a loop's counter at this depth."""
        return _COUNTERS[self.depth] if self.depth < len(_COUNTERS) else f"n{self.depth}"

    # Memory

    def memory(self, ssa: Value) -> Memory:
        """The pointer of a memref."""
        return self.memories[id(ssa)]

    def argument(self, ssa: Value) -> Expr:
        """A value or memref as an argument of a call."""
        found = self.memories.get(id(ssa))
        return self.value(ssa) if found is None else found.pointer

    # Lines

    def line(self, content: str) -> None:
        """A statement."""
        self.lines.append("    " * self._indent + content)

    def open(self, head: str) -> None:
        """Start a block of C."""
        self.line(head + " {")
        self._indent += 1

    def close(self, tail: str = "") -> None:
        """End a block of C."""
        self._indent -= 1
        self.line("}" + tail)

    def again(self, head: str) -> None:
        """End a block of C and start another, as `else` does."""
        self._indent -= 1
        self.open("} " + head)

    def body(self) -> str:
        """All lines, with the arrays first."""
        return "\n".join([*(f"    {array}" for array in self.arrays), *self.lines])

    # Ops

    def write_block(self, block: Block) -> None:
        """Write the ops of a block, up to and without its terminator's transfer of values."""
        for op in ops_of(block):
            lowering = LOWERINGS.get(type(op))
            if lowering is None:
                raise CompilerError("no OpenCL text for this op", op=op.name, found=location_text(op.location) or None)
            if op.location is self._location or op.location is UNKNOWN_LOC:
                lowering(self, op)
                continue
            start, before = len(self.lines), self._location
            self._location = op.location
            lowering(self, op)
            if len(self.lines) > start:
                self._comment(start, op.location)
            else:
                self._location = before

    def _comment(self, place: int, location: LocationAttr) -> None:
        """Append the source line to the first line of what comes from it."""
        source = location_text(location).rpartition("/")[2]  # without the folder: the same text wherever it is built
        if source and text.is_comment(source):
            self.lines[place] += f"  // {source}"


def _used_once_here(ssa: Value) -> bool:
    user = ssa.get_user_of_unique_use()
    return user is not None and user.parent is ssa.owner.parent


def _shape(type_: Attribute) -> tuple[str, int]:
    if isinstance(type_, VectorType):
        dims = cast("VectorType[Attribute]", type_).get_shape()
        if len(dims) != 1:
            raise CompilerError("vectors have one dimension", op="emit", found=str(type_))
        return _element(cast("VectorType[Attribute]", type_).element_type), dims[0]
    if isinstance(type_, MemRefType):
        return _element(cast("MemRefType[Attribute]", type_).element_type), 0
    return _element(type_), 1


def _element(type_: Attribute) -> str:
    if isinstance(type_, IntegerType) and type_.width.data in (1, 8, 16, 32, 64):
        return f"i{type_.width.data}"
    for cls, name in _ELEMENTS:
        if isinstance(type_, cls):
            return name
    raise CompilerError("no type of OpenCL C", op="emit", found=str(type_))


_ELEMENTS: tuple[tuple[type[Attribute], str], ...] = (
    (IndexType, "index"),
    (Float32Type, "float"),
    (Float64Type, "double"),
    (BFloat16Type, "i16"),
    (Float16Type, "i16"),
)
