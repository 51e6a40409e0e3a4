"""Element types as the array API standard asks about them: limits, kinds, promotion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from firebox import dtypes
from firebox.dialects.nd.ops.monoids import dtype_limits
from firebox.dtypes import DType, as_dtype
from firebox.errors import DTypeError
from firebox.frontend.devices import current_device
from firebox.frontend.tensor import Tensor

_KINDS: Mapping[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64),
    "unsigned integer": (dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64),
    "integral": dtypes.INTS,
    "real floating": dtypes.FLOATS,
    "complex floating": (),
    "numeric": (*dtypes.INTS, *dtypes.FLOATS),
}


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a float type.

    Attributes:
        bits: of an element.
        eps: from 1 to the next number.
        max, min: the largest and the least finite number.
        smallest_normal: the least positive number with a full mantissa; smaller ones, denormals, are kept, too.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """Limits of the float type, which may be given by an array.

    Raises:
        DTypeError: not a float type.
    """
    dtype = _dtype_of(type)
    if not dtype.is_float:
        raise DTypeError("not a float type", op="finfo", expected="a float type", found=dtype.name)
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    least, most, step, normal = (float(v) for v in (info.min, info.max, info.eps, info.smallest_normal))
    return FloatInfo(8 * dtype.itemsize, step, most, least, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of the integer type, which may be given by an array.

    Raises:
        DTypeError: not an integer type.
    """
    dtype = _dtype_of(type)
    if not dtype.is_int:
        raise DTypeError("not an integer type", op="iinfo", expected="an int type", found=dtype.name)
    least, most = dtype_limits(dtype)
    return IntegerInfo(8 * dtype.itemsize, most, least, dtype)


def _dtype_of(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else as_dtype(value)


def astype(x: Tensor, dtype: object, /, *, copy: bool = True, device: object = None) -> Tensor:
    """Cast. Values never change, so that nothing has to be copied."""
    found = x.astype(dtype)
    return found if device is None else found.to(device=device)


def can_cast(from_: Any, to: object, /) -> bool:
    """Whether promotion leads from one type to the other within a kind: the standard has none from int to float."""
    source, to = _dtype_of(from_), as_dtype(to)
    same_kind = source.kind is to.kind or (source.is_int and to.is_int) or source.is_bool
    return same_kind and dtypes.result_type(source, to) is to


def isdtype(dtype: object, kind: Any) -> bool:
    """Whether a type is another one, of a kind, or one of several.

    Raises:
        DTypeError: no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise DTypeError("no such kind", op="isdtype", expected=", ".join(_KINDS), found=repr(kind))
        return as_dtype(dtype) in _KINDS[kind]
    return as_dtype(dtype) is as_dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type in which arrays, types and Python numbers meet; a number counts by its kind only.

    Raises:
        DTypeError: no arguments, or numbers alone.
    """
    numbers = [v for v in arrays_and_dtypes if isinstance(v, bool | int | float) and not isinstance(v, np.generic)]
    typed = [_dtype_of(v) for v in arrays_and_dtypes if not any(v is n for n in numbers)]
    if not typed:
        raise DTypeError("no type is given", op="result_type", expected="an array or a type", found=arrays_and_dtypes)
    found = typed[0]
    for dtype in typed[1:]:
        found = dtypes.result_type(found, dtype)
    settings = next((v.device for v in arrays_and_dtypes if isinstance(v, Tensor)), current_device()).settings
    if any(isinstance(n, float) for n in numbers) and not found.is_float:
        return settings.float_dtype
    integers = any(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    return settings.int_dtype if integers and found.is_bool else found


def of_kinds(kind: Any) -> dict[str, DType]:
    """The types of a kind (None: all) that the standard knows, by name."""
    known = [d for d in dtypes.ALL if d not in (dtypes.f16, dtypes.bf16)]
    return {d.long: d for d in known if kind is None or isdtype(d, kind)}
