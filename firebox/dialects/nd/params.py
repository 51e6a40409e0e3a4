"""Parameters of nd ops (axes, shapes, dtypes, literals): plain Python values, and their spelling as MLIR attributes."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f64, i1, i64
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from firebox.dialects.nd.aval import DimsAttr, dtype_of, element_type
from firebox.dims import Dim
from firebox.dtypes import DType, as_dtype
from firebox.errors import FireboxError


@dataclass(frozen=True, slots=True)
class Literal:
    """A small constant array, hashable: element type name, shape and little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "Literal":
        array = np.asarray(array)
        return cls(as_dtype(array.dtype).name, array.shape, np.ascontiguousarray(array).tobytes())

    def array(self) -> npt.NDArray[Any]:
        """A read-only array of the value."""
        return np.frombuffer(self.data, as_dtype(self.dtype).numpy).reshape(self.shape)

    def __str__(self) -> str:
        """0-d values as a number where that is exact, everything else as hexadecimal bytes."""
        if self.shape == ():
            value = self.array()[()].item()
            text = repr(value)
            if isinstance(value, bool) or np.isfinite(value):
                return f"{self.dtype} {text}"
        return f"{self.dtype}[{','.join(map(str, self.shape))}] 0x{self.data.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Literal":
        """Read what ``str`` prints.

        Raises:
            FireboxError, ValueError, SyntaxError: malformed text.
        """
        head, _, body = text.partition(" ")
        name, _, shape_text = head.partition("[")
        dtype = as_dtype(name)
        if not shape_text:
            return cls.of(np.asarray(ast.literal_eval(body), dtype.numpy))
        shape = tuple(int(d) for d in shape_text.rstrip("]").split(",") if d)
        literal = cls(dtype.name, shape, bytes.fromhex(body.removeprefix("0x")))
        literal.array()
        return literal


@irdl_attr_definition
class LiteralAttr(Data[Literal]):
    """``#nd.literal<"f32 0.5">`` or ``#nd.literal<"f32[2,3] 0x...">``."""

    name = "nd.literal"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Literal:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            return Literal.parse(text)
        except (FireboxError, ValueError, SyntaxError) as error:
            raise VerifyException(f"malformed literal {text!r}: {error}") from error

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


@dataclass(frozen=True)
class Param:
    """How one kind of parameter is spelled: `encode` to an attribute, `decode` back; `accepts` tells what it may be."""

    description: str
    encode: Callable[[Any], Attribute]
    decode: Callable[[Any], Any]
    attribute: type[Attribute]
    accepts: Callable[[Any], bool]


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _all(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple | list) and all(isinstance(item, kinds) for item in value)


def _encode_dtype(value: Any) -> Attribute:
    return element_type(as_dtype(value))


INT = Param("an integer", lambda v: IntegerAttr(int(v), i64), lambda a: a.value.data, IntegerAttr, _is(int))
BOOL = Param("a bool", lambda v: IntegerAttr(int(v), i1), lambda a: bool(a.value.data), IntegerAttr, _is(bool))
FLOAT = Param("a float", lambda v: FloatAttr(float(v), f64), lambda a: a.value.data, FloatAttr, _is(int, float))
TEXT = Param("a text", StringAttr, lambda a: a.data, StringAttr, _is(str))
INTS = Param(
    "integers",
    lambda v: DenseArrayBase.from_list(i64, list(v)),
    lambda a: tuple(a.get_values()),
    DenseArrayBase,
    _all(int),
)
DIMS = Param("dims", lambda v: DimsAttr(tuple(v)), lambda a: a.data, DimsAttr, _all(int, Dim))
DTYPE = Param("an element type", _encode_dtype, dtype_of, TypeAttribute, _is(DType))
LITERAL = Param("a literal", LiteralAttr, lambda a: a.data, LiteralAttr, _is(Literal))
