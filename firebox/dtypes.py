"""Element types: one object per type, with its NumPy type, kind, size and the names used in text."""

from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np

from firebox.errors import DTypeError


class Kind(Enum):
    """What arithmetic an element type takes part in."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. Instances are singletons: compare with ``is``.

    Attributes:
        name: short name used in IR text and signatures, e.g. ``f32``.
        long: array-API name, e.g. ``float32``.
        kind: arithmetic kind.
        itemsize: bytes of one element in memory (bool is one byte).
        numpy: the NumPy dtype.
    """

    name: str
    long: str
    kind: Kind
    itemsize: int
    numpy: "np.dtype[np.generic]"

    def __repr__(self) -> str:
        return f"firebox.{self.long}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_signed(self) -> bool:
        return self.kind in (Kind.INT, Kind.FLOAT)

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    @property
    def compute(self) -> "DType":
        """The type arithmetic runs in: f16 and bf16 compute in f32, all others in themselves."""
        return f32 if self is f16 or self is bf16 else self


def _make(name: str, long: str, kind: Kind, numpy: object) -> DType:
    dtype = np.dtype(numpy)  # type: ignore[call-overload]
    return DType(name, long, kind, dtype.itemsize, dtype)


bool_ = _make("bool", "bool", Kind.BOOL, np.bool_)
i8 = _make("i8", "int8", Kind.INT, np.int8)
i16 = _make("i16", "int16", Kind.INT, np.int16)
i32 = _make("i32", "int32", Kind.INT, np.int32)
i64 = _make("i64", "int64", Kind.INT, np.int64)
u8 = _make("u8", "uint8", Kind.UINT, np.uint8)
u16 = _make("u16", "uint16", Kind.UINT, np.uint16)
u32 = _make("u32", "uint32", Kind.UINT, np.uint32)
u64 = _make("u64", "uint64", Kind.UINT, np.uint64)
f16 = _make("f16", "float16", Kind.FLOAT, np.float16)
bf16 = _make("bf16", "bfloat16", Kind.FLOAT, ml_dtypes.bfloat16)
f32 = _make("f32", "float32", Kind.FLOAT, np.float32)
f64 = _make("f64", "float64", Kind.FLOAT, np.float64)

ALL: tuple[DType, ...] = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
FLOATS: tuple[DType, ...] = (f16, bf16, f32, f64)
INTS: tuple[DType, ...] = (i8, i16, i32, i64, u8, u16, u32, u64)

_BY_NAME: dict[str, DType] = {n: d for d in ALL for n in (d.name, d.long)}
_BY_PYTHON: dict[type, DType] = {bool: bool_, int: i64, float: f32}
_BY_NUMPY: dict[object, DType] = {d.numpy: d for d in ALL}


def as_dtype(value: object) -> DType:
    """Return the `DType` for a DType, name, Python type (bool, int, float) or anything NumPy takes as a dtype.

    Raises:
        DTypeError: no element type of that name.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    try:
        return _BY_NUMPY[np.dtype(value)]  # type: ignore[call-overload]
    except (KeyError, TypeError):
        names = ", ".join(d.name for d in ALL)
        raise DTypeError("no such element type", expected=f"one of {names}", found=value) from None


def result_type(a: DType, b: DType) -> DType:
    """Promotion of two array types.

    Kinds follow the array API standard; across kinds, integers take the float's type (so f16 + i64 is f16), and
    f16 with bf16 gives f32, as in PyTorch. u64 with a signed integer gives i64 (NumPy would leave the integers).
    """
    if a is b:
        return a
    rank = {Kind.BOOL: 0, Kind.UINT: 1, Kind.INT: 1, Kind.FLOAT: 2}
    if rank[a.kind] != rank[b.kind]:
        return a if rank[a.kind] > rank[b.kind] else b
    if a.kind is not b.kind:
        return _mixed_sign(a, b)
    if a.itemsize == b.itemsize:  # f16 with bf16: neither holds the other
        return f32
    return a if a.itemsize > b.itemsize else b


def _mixed_sign(a: DType, b: DType) -> DType:
    signed, unsigned = (a, b) if a.kind is Kind.INT else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return {1: i16, 2: i32, 4: i64, 8: i64}[unsigned.itemsize]


@dataclass(frozen=True)
class ElementFormat:
    """How elements of a type are stored and computed; quantised formats will add side operands such as scales."""

    storage: DType
    compute: DType
    elements_per_byte: int = 1
    side_operands: tuple[str, ...] = ()


def element_format(dtype: DType) -> ElementFormat:
    """The storage format of an element type."""
    return ElementFormat(dtype, dtype.compute)
