"""One function on its way from kernel ops to LLVM IR text: values, types, intrinsics, the table of op lowerings."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

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

from firebox.dialects.xdsl_compat import location_text, ops_of
from firebox.errors import CompilerError
from firebox.lowering.llvm.text import Text, splat, suffix, vector
from firebox.runtime.target import Target

OpT = TypeVar("OpT", bound=Operation)
Lowering = Callable[["FunctionText", Any], None]
_Typed = Callable[["FunctionText", OpT], None]

LOWERINGS: dict[type[Operation], Lowering] = {}
"""How each op is written; filled by the `ops_*` modules and by `tables`, open to more."""

ELEMENT_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}


def lowers(*ops: type[OpT]) -> Callable[["_Typed[OpT]"], "_Typed[OpT]"]:
    """Decorator: the function writes ops of these classes."""

    def register(function: "_Typed[OpT]") -> "_Typed[OpT]":
        for op in ops:
            LOWERINGS[op] = function
        return function

    return register


class ModuleText:
    """What functions of one module share: declarations of intrinsics, helper functions, constants.

    Attributes:
        target: the machine the text is for.
        declarations: by name of the intrinsic.
        helpers: by name, functions and constants that lowerings needed, in order of first need.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self._metadata: list[str] = []

    def metadata(self, node: str) -> str:
        """The number of a metadata node, such as `{i32 1}`; equal nodes have one."""
        if node not in self._metadata:
            self._metadata.append(node)
        return f"!{self._metadata.index(node)}"

    def helper(self, name: str, write: Callable[[], str]) -> str:
        """The name of a helper, written at its first use."""
        if name not in self.helpers:
            self.helpers[name] = ""  # keeps its place before what `write` itself needs
            self.helpers[name] = write()
        return name

    def text(self, functions: Iterable[str]) -> str:
        """The whole module."""
        parts = [f'target triple = "{self.target.triple}"', *functions, *self.helpers.values()]
        parts.append("\n".join(self.declarations[name] for name in sorted(self.declarations)))
        parts.append("\n".join(f"!{number} = !{node}" for number, node in enumerate(self._metadata)))
        return "\n\n".join(part for part in parts if part) + "\n"


class FunctionText(Text):
    """The text of one function, with the values of its ops.

    Types in LLVM: index is i64, a memref is ptr, and f16 and bf16 are their bits as i16: nothing computes in them.
    """

    def __init__(self, module: ModuleText) -> None:
        super().__init__()
        self.module = module
        self.target = module.target
        self.values: dict[int, str] = {}
        self.allocas: list[str] = []
        self._types: dict[int, tuple[Attribute, str, int]] = {}
        self._location: LocationAttr = UNKNOWN_LOC

    # Values and types

    def value(self, ssa: "SSAValue[Attribute]") -> str:
        """The operand text of a value."""
        return self.values[id(ssa)]

    def define(self, ssa: "SSAValue[Attribute]", text: str) -> None:
        """Say what operand text a value has."""
        self.values[id(ssa)] = text

    def shape(self, ssa: "SSAValue[Attribute]") -> tuple[str, int]:
        """Element type in LLVM and lanes of a value (or of the elements of a memref, with 0 lanes)."""
        type_ = ssa._type
        found = self._types.get(id(type_))
        if found is None:
            element, lanes = _shape(type_)
            found = self._types[id(type_)] = (type_, element, lanes)  # holding the type keeps its id taken
        return found[1], found[2]

    def type(self, ssa: "SSAValue[Attribute]") -> str:
        """The LLVM type of a value."""
        element, lanes = self.shape(ssa)
        if lanes == 0:
            return "ptr"
        return element if lanes == 1 else f"<{lanes} x {element}>"

    def literal(self, text: str, ssa: "SSAValue[Attribute]") -> str:
        """A literal in every lane of a value's type."""
        return splat(self.shape(ssa)[0], text, self.shape(ssa)[1])

    # Instructions

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic; arguments are (type, value), where the type may carry attributes for the call."""
        text = self._call(name, result, arguments)
        if result != "void":
            return self.op(text)
        self.line(text)
        return ""

    def _call(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        pairs = list(arguments)
        declared = self.module.declarations
        if name not in declared:
            types = ", ".join(type_.partition(" align")[0] for type_, _ in pairs)
            declared[name] = f"declare {result} @{name}({types})"
        return f"call {result} @{name}(" + ", ".join(f"{type_} {value}" for type_, value in pairs) + ")"

    def lanewise(self, name: str, element: str, lanes: int, *arguments: str) -> str:
        """Call an intrinsic whose arguments and result all have one type."""
        type_ = vector(element, lanes)
        return self.intrinsic(f"llvm.{name}.{suffix(element, lanes)}", type_, [(type_, a) for a in arguments])

    def broadcast(self, element: str, value: str, lanes: int) -> str:
        """A scalar in every lane."""
        if lanes == 1 or not value.startswith("%"):
            return splat(element, value, lanes)
        type_ = vector(element, lanes)
        first = self.op(f"insertelement {type_} poison, {element} {value}, i64 0")
        return self.op(f"shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer")

    def alloca(self, type_: str, align: int) -> str:
        """Stack memory for the whole function; one place even inside a loop."""
        name = self.fresh()
        self.allocas.append(f"  {name} = alloca {type_}, align {align}")
        return name

    # Ops

    def write_block(self, block: Block) -> None:
        """Write the ops of a block, up to and without its terminator's transfer of values."""
        for op in ops_of(block):
            lowering = LOWERINGS.get(type(op))
            if lowering is None:
                raise CompilerError("no LLVM text for this op", op=op.name, found=location_text(op.location) or None)
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
        text = location_text(location).rpartition("/")[2]  # without the folder: the same text wherever it is built
        if text.isprintable() and text and self.lines[place] and "\n" not in self.lines[place]:
            self.lines[place] += f"  ; {text}"


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
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"
    for cls, name in _ELEMENTS:
        if isinstance(type_, cls):
            return name
    raise CompilerError("no LLVM type", op="emit", found=str(type_))


_ELEMENTS: tuple[tuple[type[Attribute], str], ...] = (
    (IndexType, "i64"),
    (Float32Type, "float"),
    (Float64Type, "double"),
    (BFloat16Type, "i16"),
    (Float16Type, "i16"),
)
