"""`Aval`, what is known of a tensor before it is computed: element type and shape; and its spelling as an MLIR type."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from firebox import dims, dtypes
from firebox.dims import Dim, DimLike
from firebox.dtypes import DType, Kind
from firebox.errors import FireboxError

Shape = tuple[DimLike, ...]


@dataclass(frozen=True, slots=True)
class Aval:
    """Element type and shape; dims may be symbolic."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> DimLike:
        return dims.product(self.shape)

    @property
    def nbytes(self) -> DimLike:
        return dims.multiply(self.size, self.dtype.itemsize)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@irdl_attr_definition
class DimsAttr(Data[Shape]):
    """``#nd.dims<"b, 8*n + 1">``: a list of dims; as a tensor's encoding it names the dynamic ones."""

    name = "nd.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Shape:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            return tuple(dims.parse(part) for part in split_dims(text))
        except FireboxError as error:
            raise VerifyException(str(error)) from error

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(", ".join(map(str, self.data)))


def split_dims(text: str) -> list[str]:
    """Split at the commas outside parentheses; an empty text has no parts."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


_SCALARS: dict[str, Attribute] = {
    "bool": IntegerType(1),
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
}
for _dtype in dtypes.INTS:
    _sign = Signedness.UNSIGNED if _dtype.kind is Kind.UINT else Signedness.SIGNLESS
    _SCALARS[_dtype.name] = IntegerType(8 * _dtype.itemsize, _sign)
_NAMES: dict[Attribute, str] = {attribute: name for name, attribute in _SCALARS.items()}


def element_type(dtype: DType) -> Attribute:
    """The MLIR element type: signed integers are signless (``i32``), unsigned are ``ui32``, bool is ``i1``."""
    return _SCALARS[dtype.name]


def dtype_of(element: Attribute) -> DType:
    """The inverse of `element_type`.

    Raises:
        VerifyException: not an element type of tensors.
    """
    if element not in _NAMES:
        raise VerifyException(f"{element} is not an element type of nd tensors")
    return dtypes.as_dtype(_NAMES[element])


@lru_cache(maxsize=65536)
def tensor_type(aval: Aval) -> TensorType[Attribute]:
    """``tensor<4x8xf32>``; with symbolic dims ``tensor<?x8xf32, #nd.dims<"b, 8">>``."""
    shape = [d if isinstance(d, int) else DYNAMIC_INDEX for d in aval.shape]
    element = element_type(aval.dtype)
    if dims.is_static(aval.shape):
        return TensorType(element, shape)
    return TensorType(element, shape, DimsAttr(aval.shape))


_AVALS: dict[Attribute, Aval] = {}


def aval_of(type_: Attribute) -> Aval:
    """The aval of a tensor type.

    Raises:
        VerifyException: not a tensor type, or a dynamic dim without a name.
    """
    aval = _AVALS.get(type_)
    if aval is None:
        if len(_AVALS) > 65536:
            _AVALS.clear()
        aval = _AVALS[type_] = _decode(type_)
    return aval


def _decode(type_: Attribute) -> Aval:
    if not isinstance(type_, TensorType):
        raise VerifyException(f"expected a tensor type, found {type_}")
    shape: Sequence[DimLike] = type_.get_shape()
    if isinstance(type_.encoding, DimsAttr):
        named = type_.encoding.data
        _check_encoding(shape, named, type_)
        shape = named
    elif DYNAMIC_INDEX in shape:
        raise VerifyException(f'dynamic dims of {type_} have no names: write tensor<?x..., #nd.dims<"b, ...">>')
    return Aval(dtype_of(type_.get_element_type()), tuple(shape))


def _check_encoding(shape: Sequence[DimLike], named: Shape, type_: Attribute) -> None:
    expected = [d if isinstance(d, int) else DYNAMIC_INDEX for d in named]
    if list(shape) != expected or not any(isinstance(d, Dim) for d in named):
        raise VerifyException(f"the dims in the encoding of {type_} do not fit its shape")
