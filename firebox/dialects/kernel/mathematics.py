"""The kernel builder's mathematical functions of floats; all but `fma` and `pow` take and give one value."""

from xdsl.dialects import math

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.control import Control
from firebox.dialects.kernel.core import FASTMATH_NONE
from firebox.dialects.kernel.values import Operand, Val
from firebox.dtypes import Kind, bool_
from firebox.errors import CompilerError

_MAX_UNROLLED_POWER = 64


class Mathematics(Control):
    """Elementary functions, within 2 ULP in f32 and 4 ULP in f64 on the CPU."""

    def exp(self, x: Val) -> Val:
        """e to the x."""
        return self.unary(math.ExpOp, x, costly=True)

    def exp2(self, x: Val) -> Val:
        """2 to the x."""
        return self.unary(math.Exp2Op, x, costly=True)

    def expm1(self, x: Val) -> Val:
        """exp(x) - 1, accurate near 0."""
        return self.unary(math.ExpM1Op, x, costly=True)

    def log(self, x: Val) -> Val:
        """Natural logarithm; -inf at 0, NaN below."""
        return self.unary(math.LogOp, x, costly=True)

    def log2(self, x: Val) -> Val:
        """Logarithm to base 2; -inf at 0, NaN below."""
        return self.unary(math.Log2Op, x, costly=True)

    def log1p(self, x: Val) -> Val:
        """log(1 + x), accurate near 0; -inf at -1, NaN below."""
        return self.unary(math.Log1pOp, x, costly=True)

    def tanh(self, x: Val) -> Val:
        """Hyperbolic tangent."""
        return self.unary(math.TanhOp, x, costly=True)

    def erf(self, x: Val) -> Val:
        """The error function."""
        return self.unary(math.ErfOp, x, costly=True)

    def sin(self, x: Val) -> Val:
        """Sine of an angle in radians."""
        return self.unary(math.SinOp, x, costly=True)

    def cos(self, x: Val) -> Val:
        """Cosine of an angle in radians."""
        return self.unary(math.CosOp, x, costly=True)

    def tan(self, x: Val) -> Val:
        """Tangent of an angle in radians."""
        return self.unary(math.TanOp, x, costly=True)

    def sqrt(self, x: Val) -> Val:
        """Square root, correctly rounded; NaN below 0."""
        return self.unary(math.SqrtOp, x, costly=True)

    def rsqrt(self, x: Val) -> Val:
        """1 / sqrt(x)."""
        return self.unary(math.RsqrtOp, x, costly=True)

    def sigmoid(self, x: Val) -> Val:
        """1 / (1 + exp(-x))."""
        if x.dtype.kind is not Kind.FLOAT:
            raise CompilerError("no such operation for this element type", op="sigmoid", found=x.dtype.name)
        return self._pure(ops.SigmoidOp, (x,), x.dtype, x.lanes, {}, costly=True)

    def floor(self, x: Val) -> Val:
        """Rounded down; integers stay."""
        return self.unary(math.FloorOp, x) if x.dtype.kind is Kind.FLOAT else x

    def ceil(self, x: Val) -> Val:
        """Rounded up; integers stay."""
        return self.unary(math.CeilOp, x) if x.dtype.kind is Kind.FLOAT else x

    def round(self, x: Val) -> Val:
        """Rounded to the nearest integer, halves to even; integers stay."""
        return self.unary(math.RoundEvenOp, x) if x.dtype.kind is Kind.FLOAT else x

    def trunc(self, x: Val) -> Val:
        """Rounded toward zero; integers stay."""
        return self.unary(math.TruncOp, x) if x.dtype.kind is Kind.FLOAT else x

    def copysign(self, magnitude: Operand, sign: Operand) -> Val:
        """The magnitude of one float with the sign of the other."""
        return self._copysign(*self._pair(magnitude, sign))

    def isnan(self, x: Val) -> Val:
        """Whether x is NaN; false for integers."""
        return self.ne(x, x) if x.dtype.kind is Kind.FLOAT else self.broadcast(False, x.lanes, bool_)

    def isinf(self, x: Val) -> Val:
        """Whether x is an infinity; false for integers."""
        return (
            self.eq(self.abs(x), float("inf")) if x.dtype.kind is Kind.FLOAT else self.broadcast(False, x.lanes, bool_)
        )

    def isfinite(self, x: Val) -> Val:
        """Whether x is neither NaN nor an infinity; true for integers."""
        return (
            self.lt(self.abs(x), float("inf")) if x.dtype.kind is Kind.FLOAT else self.broadcast(True, x.lanes, bool_)
        )

    def fma(self, a: Operand, b: Operand, c: Operand) -> Val:
        """a * b + c, with one rounding for floats."""
        a, b = self._pair(a, b)
        a, c = self._pair(a, c)
        a, b = self._pair(a, b)
        if a.dtype.kind is not Kind.FLOAT:
            return self.add(self.mul(a, b), c)
        return self._pure(math.FmaOp, (a, b, c), a.dtype, a.lanes, {"fastmath": FASTMATH_NONE})

    def pow(self, a: Operand, b: Operand) -> Val:
        """a to the b, as np.power; an integer to a negative power is truncated (0, or 1 and -1 to themselves)."""
        a, b = self._pair(a, b)
        if a.dtype.kind is not Kind.FLOAT:
            return self._pow_integer(a, b)
        if b.const == 1.0:
            return a
        if b.const == 2.0:
            return self.mul(a, a)
        return self._pure(math.PowFOp, (a, b), a.dtype, a.lanes, {"fastmath": FASTMATH_NONE}, costly=True)

    def _pow_integer(self, a: Val, b: Val) -> Val:
        if a.dtype is bool_:
            raise CompilerError("no such operation for this element type", op="pow", found=a.dtype.name)
        if b.const is not None and 0 <= b.const <= _MAX_UNROLLED_POWER:
            return self._pow_static(a, int(b.const))
        return self._pow_dynamic(a, b)

    def _pow_static(self, a: Val, exponent: int) -> Val:
        """Right-to-left binary powering with the exponent known."""
        result: Val | None = None
        while exponent:
            if exponent & 1:
                result = a if result is None else self.mul(result, a)
            exponent >>= 1
            if exponent:
                a = self.mul(a, a)
        return self.broadcast(1, a.lanes, a.dtype) if result is None else result

    def _pow_dynamic(self, a: Val, b: Val) -> Val:
        """Binary powering until no lane has a bit of its exponent left."""
        one = self.broadcast(1, a.lanes, a.dtype)

        def some_left(values: list[Val]) -> Val:
            return self.reduce("or", self.gt(values[2], 0))

        def step(values: list[Val]) -> list[Val]:
            result, power, exponent = values
            odd = self.ne(self.and_(exponent, 1), 0)
            result = self.select(odd, self.mul(result, power), result)
            return [result, self.mul(power, power), self.shr(exponent, 1)]

        result = self.while_([one, a, b], some_left, step)[0]
        if not a.dtype.is_signed:
            return result
        odd = self.ne(self.and_(b, 1), 0)
        unit = self.select(self.eq(a, 1), 1, self.select(self.eq(a, -1), self.select(odd, a, one), 0))
        return self.select(self.lt(b, 0), unit, result)
