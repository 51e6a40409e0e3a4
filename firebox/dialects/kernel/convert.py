"""The kernel builder's conversions between element types."""

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import UnitAttr

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.compare import Compare
from firebox.dialects.kernel.core import Properties
from firebox.dialects.kernel.values import INDEX, Operand, Val, value_type
from firebox.dtypes import DType, Kind, bf16, bool_, f16, f32, i64
from firebox.errors import CompilerError

SIGNED = UnitAttr()


class Convert(Compare):
    """Casts, and the narrow float types that are stored but not computed in."""

    def cast(self, x: Operand, dtype: DType) -> Val:
        """x as another type: integers wrap, floats truncate toward zero and saturate with NaN as 0, to bool is x != 0.

        A cast to f16 or bf16 rounds to that precision and gives the f32 that holds it.
        """
        x = self._as_val(x, None)
        if dtype is f16 or dtype is bf16:
            return self._widen(self._narrow(x, dtype))
        if x.dtype in (f16, bf16):
            x = self._widen(x)
        if x.dtype is dtype:
            return x
        if x.const is not None and x.lanes == 1 and x.dtype.kind is not Kind.FLOAT:
            return self.const(x.const, dtype)
        if dtype is bool_:
            return self.ne(x, self.const(0, x.dtype))
        if x.dtype is INDEX:
            return self._cast_index(x, dtype)
        if dtype is INDEX:
            return self._to_index(x if x.dtype.is_int else self._cast(x, i64))
        return self._cast(x, dtype)

    def _cast_index(self, x: Val, dtype: DType) -> Val:
        return self._from_index(x, dtype) if dtype.is_int else self._cast(self._from_index(x, i64), dtype)

    def _cast(self, x: Val, dtype: DType) -> Val:
        """One kernel.cast; between integers of one width only the reading changes."""
        if value_type(x.dtype, x.lanes) is value_type(dtype, x.lanes):
            return Val(x.ssa, dtype, x.lanes, x.level)
        reading = x.dtype if x.dtype.kind is not Kind.FLOAT else dtype
        signed = reading.kind is Kind.INT
        properties: Properties = {"signed": SIGNED} if signed else {}
        return self._pure(ops.CastOp, (x,), dtype, x.lanes, properties, signed)

    def _widen(self, x: Val) -> Val:
        """The f32 value of a stored f16 or bf16."""
        return self._pure(ops.CastOp, (x,), f32, x.lanes, {}, False)

    def _narrow(self, x: Val, dtype: DType) -> Val:
        """The stored f16 or bf16 nearest to x."""
        if x.dtype is dtype:
            return x
        if x.dtype.kind is not Kind.FLOAT:
            x = self.cast(x, f32)
        return self._pure(ops.CastOp, (x,), dtype, x.lanes, {}, False)

    def bitcast(self, x: Val, dtype: DType) -> Val:
        """The same bits as another type of the same width."""
        if x.dtype.itemsize != dtype.itemsize or bool_ in (x.dtype, dtype) or INDEX in (x.dtype, dtype):
            raise CompilerError(
                "a bitcast keeps the width", op="kernel builder bitcast", expected=x.dtype.name, found=dtype.name
            )
        if value_type(x.dtype, x.lanes) is value_type(dtype, x.lanes):
            return Val(x.ssa, dtype, x.lanes, x.level)
        cls = arith.BitcastOp if x.lanes == 1 else vector.BitcastOp
        return self._pure(cls, (x,), dtype, x.lanes, {})
