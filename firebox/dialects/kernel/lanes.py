"""The kernel builder's work across lanes: numbering, masks, shuffles, reductions."""

from collections.abc import Callable, Sequence

from xdsl.dialects import vector

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.arithmetic import Arithmetic
from firebox.dialects.kernel.core import FASTMATH_NONE
from firebox.dialects.kernel.values import Operand, Val
from firebox.dialects.xdsl_compat import DYNAMIC, int_array
from firebox.dtypes import DType, Kind, bool_, i32
from firebox.errors import CompilerError

_KINDS: dict[str, tuple[str, str, str]] = {  # by reduction: float, signed, unsigned
    "add": ("add", "add", "add"),
    "mul": ("mul", "mul", "mul"),
    "min": ("minimumf", "minsi", "minui"),
    "max": ("maximumf", "maxsi", "maxui"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
}
_BOOL_KINDS = {"add": "or", "mul": "and", "min": "and", "max": "or", "and": "and", "or": "or", "xor": "xor"}


class Lanes(Arithmetic):
    """Vectors as a whole."""

    def iota(self, lanes: int, dtype: DType = i32) -> Val:
        """0, 1, 2, ... as i32 or i64; the scalar 0 for one lane."""
        if lanes == 1:
            return self.const(0, dtype)
        return self._pure(ops.IotaOp, (), dtype, lanes, {})

    def mask(self, n: Operand, lanes: int) -> Val:
        """Lane l is true where l < n."""
        n = self.index(n)
        if lanes == 1:
            return self.gt(n, 0)
        if n.const is not None and n.const >= lanes:
            return self.broadcast(True, lanes, bool_)
        return self._pure(ops.MaskOp, (n,), bool_, lanes, {})

    def shuffle(self, x: Val, y: Val, lanes: Sequence[int]) -> Val:
        """A vector of chosen lanes; numbers count through `x` and then `y`."""
        if x.lanes == 1 or y.lanes == 1:
            raise CompilerError("a shuffle takes vectors", op="kernel builder shuffle", found=(x.lanes, y.lanes))
        chosen = tuple(lanes)
        if len(chosen) == 1:
            return self.extract(x, chosen[0]) if chosen[0] < x.lanes else self.extract(y, chosen[0] - x.lanes)
        return self._pure(vector.ShuffleOp, (x, y), x.dtype, len(chosen), {"mask": int_array(chosen)}, chosen)

    def extract(self, x: Val, lane: int | Val) -> Val:
        """One lane as a scalar."""
        if x.lanes == 1:
            return x
        position, dynamic = self._lane(lane)
        properties = {"static_position": int_array((position,))}
        return self._pure(vector.ExtractOp, (x, *dynamic), x.dtype, 1, properties, position)

    def insert(self, x: Val, value: Operand, lane: int | Val) -> Val:
        """`x` with one lane replaced."""
        if x.lanes == 1:
            return self._as_val(value, x.dtype)
        position, dynamic = self._lane(lane)
        properties = {"static_position": int_array((position,))}
        source = self._as_val(value, x.dtype)
        return self._pure(vector.InsertOp, (source, x, *dynamic), x.dtype, x.lanes, properties, position)

    def _lane(self, lane: int | Val) -> tuple[int, tuple[Val, ...]]:
        if isinstance(lane, Val) and lane.const is None:
            return DYNAMIC, (self.index(lane),)
        return int(lane.const or 0) if isinstance(lane, Val) else lane, ()

    def reduce(self, combine: str, x: Val) -> Val:
        """All lanes combined by add, mul, min, max, and, or, xor: a tree of halves, the same for every target."""
        if x.lanes == 1:
            return x
        kind = self._kind(combine, x.dtype)
        flag = vector.CombiningKindAttr(vector.CombiningKindFlag(kind))
        return self._pure(vector.ReductionOp, (x,), x.dtype, 1, {"kind": flag, "fastmath": FASTMATH_NONE}, kind)

    def _kind(self, combine: str, dtype: DType) -> str:
        if dtype is bool_:
            kind = _BOOL_KINDS.get(combine, "")
        else:
            column = 0 if dtype.kind is Kind.FLOAT else 1 if dtype.kind is Kind.INT else 2
            kind = _KINDS.get(combine, ("", "", ""))[column]
        if not kind:
            raise CompilerError(
                "no such reduction",
                op="kernel builder reduce",
                expected=", ".join(_KINDS),
                found=f"{combine} of {dtype.name}",
            )
        return kind

    def fold_lanes(
        self, values: Sequence[Val], combine: Callable[[Sequence[Val], Sequence[Val]], Sequence[Val]]
    ) -> list[Val]:
        """Combine all lanes of a tuple of vectors by halves: the lower half is the first argument of `combine`."""
        current = list(values)
        while (lanes := current[0].lanes) > 1:
            if lanes % 2:
                raise CompilerError("lanes must be a power of two", op="kernel builder fold_lanes", found=lanes)
            half = lanes // 2
            low = [self.shuffle(v, v, range(half)) for v in current]
            high = [self.shuffle(v, v, range(half, lanes)) for v in current]
            current = list(combine(low, high))
        return current
