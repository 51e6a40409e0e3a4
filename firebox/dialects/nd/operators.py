"""`Operators`: what arrays compute with Python's operators, and the ways in which functions append ops."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dialects.nd.base import lookup
from firebox.dialects.nd.params import Literal
from firebox.dims import Dim, DimLike
from firebox.dtypes import DType, as_dtype, result_type
from firebox.errors import DTypeError

if TYPE_CHECKING:
    from firebox.dialects.nd.base import NdOp

Scalar = bool | int | float


class Operators:
    """An array value known by its `aval`. Subclasses implement `apply`."""

    __slots__ = ()
    __array_priority__ = 1000  # numpy_array * tensor asks the tensor

    @property
    def aval(self) -> Aval:
        raise NotImplementedError

    def apply(self, op: "type[NdOp]", operands: Sequence["Operators"], params: dict[str, Any]) -> tuple[Self, ...]:
        """Append one op; operands are of the same implementation as ``self``."""
        raise NotImplementedError

    def as_one(self, function: Callable[..., Self], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Self:
        """``function(*args, **kwargs)``, a pure function; implementations may record the call in place of its ops."""
        return function(*args, **kwargs)

    # ---- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def rank(self) -> int:
        return len(self.aval.shape)

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> DimLike:
        return self.aval.size

    # ---- plumbing ------------------------------------------------------------------------------------------------

    def one(self, name: str, *operands: "Operators", **params: Any) -> Self:
        """Apply the op of that name (without ``nd.``) and return its single result."""
        return self.apply(lookup(f"nd.{name}"), operands, params)[0]

    def literal(self, value: Scalar | np.generic, dtype: DType | None = None) -> Self:
        """A 0-d constant of ``dtype`` (default: the array's)."""
        array = np.asarray(value).astype((dtype or self.dtype).numpy)
        return self.one("constant", value=Literal.of(array))

    def lift(self, value: Any) -> "Operators":
        """Another operand of a binary op as an array: Python scalars are weak and take this array's type by kind."""
        if isinstance(value, Operators):
            return value
        if isinstance(value, bool | np.bool_):
            return self.literal(bool(value), dtypes.bool_ if self.dtype.is_bool else self.dtype)
        if isinstance(value, int):
            return self.literal(value, dtypes.i64 if self.dtype.is_bool else self.dtype)
        if isinstance(value, float):
            return self.literal(value, self.dtype if self.dtype.is_float else dtypes.f32)
        if isinstance(value, Dim):
            return self.size_of(value)
        raise DTypeError("not an operand", expected="an array or a number", found=type(value).__name__)

    def size_of(self, value: DimLike) -> Self:
        """A dim expression as a 0-d array of this array's type."""
        return self.one("dim_size", size=(value,), dtype=self.dtype)

    def _binary(self, name: str, other: Any, swap: bool = False) -> Self:
        right = self.lift(other)
        dtype = result_type(self.dtype, right.dtype)
        a, b = self.astype(dtype), right.astype(dtype)
        return self.one(name, b, a) if swap else self.one(name, a, b)

    def _float(self) -> Self:
        return self if self.dtype.is_float else self.astype(dtypes.f32)

    # ---- arithmetic ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Self:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Self:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Any) -> Self:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Self:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Any) -> Self:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Self:
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: Any) -> Self:
        return self._float()._binary("div", other if isinstance(other, float) else self._float().lift(other)._float())

    def __rtruediv__(self, other: Any) -> Self:
        return self._float()._binary("div", other, swap=True)

    def __floordiv__(self, other: Any) -> Self:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._binary("floordiv", other, swap=True)

    def __mod__(self, other: Any) -> Self:
        return self._binary("mod", other)

    def __rmod__(self, other: Any) -> Self:
        return self._binary("mod", other, swap=True)

    def __pow__(self, other: Any) -> Self:
        if isinstance(other, int | float) and not isinstance(other, bool):
            return self._power(other)
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Self:
        return self._binary("pow", other, swap=True)

    def _power(self, exponent: int | float) -> Self:
        """Small constant exponents are products and roots: exact, and differentiable at 0."""
        if exponent == 2:
            return self * self
        if exponent == 1:
            return self
        if exponent == 0.5:
            return self._float().sqrt()
        if exponent == 3:
            return self * self * self
        if exponent == -1 and self.dtype.is_float:
            return 1.0 / self
        return self._binary("pow", exponent)

    def __neg__(self) -> Self:
        return self.one("neg", self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.one("abs", self)

    def __invert__(self) -> Self:
        return self.one("logical_not" if self.dtype.is_bool else "bitwise_not", self)

    def __and__(self, other: Any) -> Self:
        return self._binary("bitwise_and", other)

    def __or__(self, other: Any) -> Self:
        return self._binary("bitwise_or", other)

    def __xor__(self, other: Any) -> Self:
        return self._binary("bitwise_xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Self:
        return self._binary("shift_left", other)

    def __rshift__(self, other: Any) -> Self:
        return self._binary("shift_right", other)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return self._binary("ne", other)

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> Self:
        return self._binary("lt", other)

    def __le__(self, other: Any) -> Self:
        return self._binary("le", other)

    def __gt__(self, other: Any) -> Self:
        return self._binary("gt", other)

    def __ge__(self, other: Any) -> Self:
        return self._binary("ge", other)

    def maximum(self, other: Any) -> Self:
        """Element-wise maximum; NaN wins, as in NumPy."""
        return self._binary("max", other)

    def minimum(self, other: Any) -> Self:
        """Element-wise minimum; NaN wins, as in NumPy."""
        return self._binary("min", other)

    def clip(self, low: Any = None, high: Any = None) -> Self:
        """Values held between the bounds; None is no bound."""
        result = self if low is None else self.maximum(low)
        return result if high is None else result.minimum(high)

    def where(self, a: Any, b: Any) -> Self:
        """``a`` where this (bool) is true, else ``b``; all three broadcast."""
        if not isinstance(a, Operators) and not isinstance(b, Operators):
            a = self.literal(a, dtypes.f32 if isinstance(a, float) or isinstance(b, float) else dtypes.i64)
        first, second = (a, a.lift(b)) if isinstance(a, Operators) else (b.lift(a), b)
        dtype = result_type(first.dtype, second.dtype)
        return self.one("select", self.astype(dtypes.bool_), first.astype(dtype), second.astype(dtype))

    def astype(self, dtype: object) -> Self:
        """Cast; float to integer truncates and saturates, NaN becomes 0."""
        target = as_dtype(dtype)
        return self if target is self.dtype else self.one("cast", self, dtype=target)

    def sqrt(self) -> Self:
        return self.one("sqrt", self)
