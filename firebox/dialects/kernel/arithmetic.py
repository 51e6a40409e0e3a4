"""The kernel builder's arithmetic, with NumPy's meaning for every element type."""

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.convert import Convert
from firebox.dialects.kernel.core import FASTMATH_NONE, OVERFLOW_NONE, Properties
from firebox.dialects.kernel.values import INDEX, Operand, Val
from firebox.dtypes import DType, Kind, bf16, bool_, f16
from firebox.errors import CompilerError

_PLAIN = 0
_FASTMATH = 1
_OVERFLOW = 2

_FLOAT: dict[str, type[Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "min": arith.MinimumfOp,
    "max": arith.MaximumfOp,
}
_INTEGER: dict[str, tuple[type[Operation], int]] = {
    "add": (arith.AddiOp, _OVERFLOW),
    "sub": (arith.SubiOp, _OVERFLOW),
    "mul": (arith.MuliOp, _OVERFLOW),
    "and": (arith.AndIOp, _PLAIN),
    "or": (arith.OrIOp, _PLAIN),
    "xor": (arith.XOrIOp, _PLAIN),
}
_SIGNED: dict[str, type[Operation]] = {"min": arith.MinSIOp, "max": arith.MaxSIOp, "shr": arith.ShRSIOp}
_UNSIGNED: dict[str, type[Operation]] = {"min": arith.MinUIOp, "max": arith.MaxUIOp, "shr": arith.ShRUIOp}
_BOOL = {"add": "or", "mul": "and", "max": "or", "min": "and", "and": "and", "or": "or", "xor": "xor"}

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
}


def _properties(kind: int) -> Properties:
    if kind == _PLAIN:
        return {}
    return {"fastmath": FASTMATH_NONE} if kind == _FASTMATH else {"overflowFlags": OVERFLOW_NONE}


def _refuse(name: str, dtype: DType) -> CompilerError:
    return CompilerError("no such operation for this element type", op=f"kernel builder {name}", found=dtype.name)


class Arithmetic(Convert):
    """Element-wise arithmetic and shifts."""

    def add(self, a: Operand, b: Operand) -> Val:
        """a + b; integers wrap; on bool it is `or`."""
        return self._binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Val:
        """a - b; integers wrap."""
        return self._binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Val:
        """a * b; integers wrap; on bool it is `and`."""
        return self._binary("mul", a, b)

    def div(self, a: Operand, b: Operand) -> Val:
        """a / b of floats (integers: cast first, or `floordiv`)."""
        return self._binary("div", a, b)

    def min(self, a: Operand, b: Operand) -> Val:
        """The smaller; NaN if either is NaN."""
        return self._binary("min", a, b)

    def max(self, a: Operand, b: Operand) -> Val:
        """The larger; NaN if either is NaN."""
        return self._binary("max", a, b)

    def and_(self, a: Operand, b: Operand) -> Val:
        """Bitwise and; logical on bool."""
        return self._binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Val:
        """Bitwise or; logical on bool."""
        return self._binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Val:
        """Bitwise exclusive or; logical on bool."""
        return self._binary("xor", a, b)

    def _binary(self, name: str, a: Operand, b: Operand) -> Val:
        a, b = self._pair(a, b)
        dtype = a.dtype
        if dtype.kind is Kind.FLOAT:
            return self._binary_float(name, a, b)
        if dtype is bool_:
            if name not in _BOOL:
                raise _refuse(name, dtype)
            return self._pure(_INTEGER[_BOOL[name]][0], (a, b), dtype, a.lanes, {})
        folded = self._fold_integer(name, a, b)
        if folded is not None:
            return folded
        cls, kind = _INTEGER.get(name, (None, _PLAIN))
        cls = cls or (_SIGNED if dtype.kind is Kind.INT else _UNSIGNED).get(name)
        if cls is None:
            raise _refuse(name, dtype)
        result = self._pure(cls, (a, b), dtype, a.lanes, _properties(kind))
        if dtype is INDEX and a.nonneg and b.nonneg and name != "sub":
            result.nonneg = True
        return result

    def _binary_float(self, name: str, a: Val, b: Val) -> Val:
        if name not in _FLOAT or a.dtype in (f16, bf16):
            raise _refuse(name, a.dtype)
        if b.const == 1.0 and name in ("mul", "div"):
            return a
        if a.const == 1.0 and name == "mul":
            return b
        return self._pure(_FLOAT[name], (a, b), a.dtype, a.lanes, {"fastmath": FASTMATH_NONE})

    def _fold_integer(self, name: str, a: Val, b: Val) -> Val | None:
        """Constants of type INDEX, and the neutral and absorbing elements of all integers."""
        x, y = a.const, b.const
        if x is None and y is None:
            return None
        if a.dtype is INDEX and x is not None and y is not None and name in _FOLDS:
            return self.index(_FOLDS[name](int(x), int(y)))
        if y == 0 and name in ("add", "sub", "or", "xor"):
            return a
        if x == 0 and name in ("add", "or", "xor"):
            return b
        if name == "mul":
            if y == 1 or x == 0:
                return a
            if x == 1 or y == 0:
                return b
        return None

    # Division

    def floordiv(self, a: Operand, b: Operand) -> Val:
        """The quotient rounded down, as np.floor_divide; an integer by 0 gives 0, and never traps.

        An INDEX divisor is taken to be positive.
        """
        a, b = self._pair(a, b)
        if a.dtype.kind is Kind.FLOAT:
            return self._floordiv_float(a, b)
        if a.dtype is bool_:
            raise _refuse("floordiv", a.dtype)
        if b.const == 1:
            return a
        if a.dtype is INDEX:
            return self._index_division("floordiv", arith.DivUIOp, arith.FloorDivSIOp, a, b)
        safe, zero, minus = self._safe_divisor(b)
        cls = arith.FloorDivSIOp if a.dtype.is_signed else arith.DivUIOp
        quotient = self._pure(cls, (a, safe), a.dtype, a.lanes, {}, costly=True)
        if minus is not None:
            quotient = self.select(minus, self.neg(a), quotient)
        return quotient if zero is None else self.select(zero, 0, quotient)

    def mod(self, a: Operand, b: Operand) -> Val:
        """The remainder with the divisor's sign, as np.mod; an integer by 0 gives 0, a float NaN.

        An INDEX divisor is taken to be positive.
        """
        a, b = self._pair(a, b)
        if a.dtype.kind is Kind.FLOAT:
            return self._mod_float(a, b)
        if a.dtype is bool_:
            raise _refuse("mod", a.dtype)
        if b.const == 1:
            return self.const(0, a.dtype) if a.lanes == 1 else self.broadcast(0, a.lanes, a.dtype)
        if a.dtype is INDEX and (a.nonneg or a.const is not None) and (b.nonneg or b.const is not None):
            return self._index_division("mod", arith.RemUIOp, arith.RemSIOp, a, b)
        if a.dtype is INDEX:
            return self.sub(a, self.mul(self.floordiv(a, b), b))
        safe, zero, minus = self._safe_divisor(b)
        cls = arith.RemSIOp if a.dtype.is_signed else arith.RemUIOp
        rest = self._pure(cls, (a, safe), a.dtype, a.lanes, {}, costly=True)
        if a.dtype.is_signed:
            wrong_sign = self.and_(self.ne(rest, 0), self.lt(self.xor(rest, b), 0))
            rest = self.select(wrong_sign, self.add(rest, b), rest)
        for invalid in (zero, minus):
            rest = rest if invalid is None else self.select(invalid, 0, rest)
        return rest

    def _index_division(self, name: str, unsigned: type[Operation], signed: type[Operation], a: Val, b: Val) -> Val:
        if a.const is not None and b.const is not None:
            return self.index(_FOLDS[name](int(a.const), int(b.const)))
        if b.const == 0:  # in code for an empty array, which never runs
            return self.index(0)
        if b.const is None:  # an extent of 0 must not trap, even where the quotient is never used
            b = self.max(b, 1)
            b.nonneg = True
        cls = unsigned if a.nonneg and b.nonneg else signed
        result = self._pure(cls, (a, b), INDEX, 1, {}, costly=True)
        result.nonneg = a.nonneg
        return result

    def _safe_divisor(self, b: Val) -> tuple[Val, Val | None, Val | None]:
        """A divisor that cannot trap, and where the true one is 0 and -1 (INT_MIN / -1 overflows); None for nowhere."""
        if b.const is not None and b.const not in (0, -1):
            return b, None, None
        zero = self.eq(b, 0)
        minus = self.eq(b, -1) if b.dtype.is_signed else None
        return self.select(zero if minus is None else self.or_(zero, minus), 1, b), zero, minus

    def _remf(self, a: Val, b: Val) -> Val:
        return self._pure(ops.RemfOp, (a, b), a.dtype, a.lanes, {}, costly=True)

    def _mod_float(self, a: Val, b: Val) -> Val:
        """fmod moved to the divisor's sign; a zero result takes that sign too."""
        rest = self._remf(a, b)
        differs = self.and_(self.ne(rest, 0.0), self.xor(self.lt(b, 0.0), self.lt(rest, 0.0)))
        return self.select(self.eq(rest, 0.0), self._copysign(rest, b), self.select(differs, self.add(rest, b), rest))

    def _floordiv_float(self, a: Val, b: Val) -> Val:
        """Step by step as NumPy's `npy_floor_divide`: from the exact remainder, then snapped to an integer."""
        rest = self._remf(a, b)
        quotient = self.div(self.sub(a, rest), b)
        differs = self.and_(self.ne(rest, 0.0), self.xor(self.lt(b, 0.0), self.lt(rest, 0.0)))
        quotient = self.select(differs, self.sub(quotient, 1.0), quotient)
        down = self.unary(math.FloorOp, quotient)
        down = self.select(self.gt(self.sub(quotient, down), 0.5), self.add(down, 1.0), down)
        exact = self.div(a, b)
        down = self.select(self.eq(quotient, 0.0), self._copysign(quotient, exact), down)
        return self.select(self.eq(b, 0.0), exact, down)

    def _copysign(self, magnitude: Val, sign: Val) -> Val:
        return self._pure(math.CopySignOp, (magnitude, sign), sign.dtype, sign.lanes, {"fastmath": FASTMATH_NONE})

    # Shifts

    def shl(self, a: Operand, b: Operand) -> Val:
        """a << b; by the width or more it gives 0."""
        a, b = self._shift_pair(a, b)
        return self._shift(arith.ShLIOp, {"overflowFlags": OVERFLOW_NONE}, a, b)

    def shr(self, a: Operand, b: Operand) -> Val:
        """a >> b, arithmetic on signed integers; by the width or more it gives 0, or -1 for negative a."""
        a, b = self._shift_pair(a, b)
        if not a.dtype.is_signed:
            return self._shift(arith.ShRUIOp, {}, a, b)
        bits = a.dtype.itemsize * 8
        within = self._in_width(b, bits)
        amount = b if within is None else self.select(within, b, bits - 1)
        return self._pure(arith.ShRSIOp, (a, amount), a.dtype, a.lanes, {})

    def _shift_pair(self, a: Operand, b: Operand) -> tuple[Val, Val]:
        a, b = self._pair(a, b)
        if not a.dtype.is_int:
            raise _refuse("shift", a.dtype)
        return a, b

    def _shift(self, cls: type[Operation], properties: Properties, a: Val, b: Val) -> Val:
        within = self._in_width(b, a.dtype.itemsize * 8)
        shifted = self._pure(cls, (a, b), a.dtype, a.lanes, properties)
        return shifted if within is None else self.select(within, shifted, 0)

    def _in_width(self, amount: Val, bits: int) -> Val | None:
        """Where a shift amount is in [0, bits); None if it is known to be everywhere."""
        if amount.const is not None and 0 <= amount.const < bits:
            return None
        return self._cmp("ult", *self._pair(amount, bits))

    # One operand

    def neg(self, x: Operand) -> Val:
        """-x; integers wrap."""
        x = self._as_val(x, None)
        if x.dtype.kind is Kind.FLOAT:
            return self.unary(arith.NegfOp, x)
        return self._binary("sub", 0, x)

    def abs(self, x: Operand) -> Val:
        """|x|; the smallest signed integer stays as it is."""
        x = self._as_val(x, None)
        if x.dtype.kind is Kind.FLOAT:
            return self.unary(math.AbsFOp, x)
        return self._pure(math.AbsIOp, (x,), x.dtype, x.lanes, {}) if x.dtype.kind is Kind.INT else x

    def sign(self, x: Operand) -> Val:
        """-1, 0 or 1; NaN stays NaN."""
        x = self._as_val(x, None)
        if x.dtype.kind is Kind.FLOAT:
            small = self.select(self.lt(x, 0.0), -1.0, self.select(self.eq(x, 0.0), 0.0, x))
            return self.select(self.gt(x, 0.0), 1.0, small)
        if not x.dtype.is_signed:
            return self.min(x, 1) if x.dtype.is_int else x
        return self.max(self.min(x, 1), -1)

    def not_(self, x: Operand) -> Val:
        """Logical not of bool, bitwise of integers."""
        x = self._as_val(x, None)
        if x.dtype.kind is Kind.FLOAT:
            raise _refuse("not", x.dtype)
        return self._binary("xor", x, True if x.dtype is bool_ else -1)

    def unary(self, cls: type[Operation], x: Val, costly: bool = False) -> Val:
        """A float op of one operand from arith or math."""
        if x.dtype.kind is not Kind.FLOAT or x.dtype in (f16, bf16):
            raise _refuse(cls.name, x.dtype)
        return self._pure(cls, (x,), x.dtype, x.lanes, {"fastmath": FASTMATH_NONE}, costly=costly)
