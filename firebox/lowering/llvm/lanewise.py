"""Lane-wise expressions on floats of one width and the integers beside them, for the expansions of math and casts."""

from collections.abc import Sequence
from typing import Literal

from firebox.lowering.llvm import rounding
from firebox.lowering.llvm.function import FunctionText
from firebox.lowering.llvm.text import float_literal, splat, suffix, vector

Element = Literal["float", "double"]


class Lanewise:
    """Writes instructions on values of one shape into a function; every method gives operand text.

    Attributes:
        element: `float` or `double`.
        lanes: 1 for scalars.
        type: the LLVM type of the floats.
        int: the LLVM type of integers of the same width.
        mask: the LLVM type of conditions.
    """

    def __init__(self, f: FunctionText, element: Element, lanes: int) -> None:
        self.fn = f
        self.element: Element = element
        self.lanes = lanes
        self.bit_count = 32 if element == "float" else 64
        self.mantissa_bits = 23 if element == "float" else 52
        self.int_element = f"i{self.bit_count}"
        self.type = vector(element, lanes)
        self.int = vector(self.int_element, lanes)
        self.mask = vector("i1", lanes)

    # Literals

    def f(self, value: float) -> str:
        """A float constant."""
        return splat(self.element, float_literal(value, self.element), self.lanes)

    def i(self, value: int) -> str:
        """An integer constant; bit patterns may be given unsigned."""
        if value >= 1 << (self.bit_count - 1):
            value -= 1 << self.bit_count
        return splat(self.int_element, str(value), self.lanes)

    # Floats

    def add(self, a: str, b: str) -> str:
        return self.fn.op(f"fadd {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        return self.fn.op(f"fsub {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        return self.fn.op(f"fmul {self.type} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        return self.fn.op(f"fdiv {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        return self.fn.op(f"fneg {self.type} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        return rounding.fma(self.fn, self.element, self.lanes, a, b, c)

    def abs(self, a: str) -> str:
        return self.fn.lanewise("fabs", self.element, self.lanes, a)

    def sqrt(self, a: str) -> str:
        return self.fn.lanewise("sqrt", self.element, self.lanes, a)

    def copysign(self, magnitude: str, sign: str) -> str:
        return self.fn.lanewise("copysign", self.element, self.lanes, magnitude, sign)

    def round(self, name: str, a: str) -> str:
        """floor, ceil, trunc or roundeven."""
        return rounding.write(self.fn, name, self.element, self.lanes, a)

    def cmp(self, predicate: str, a: str, b: str) -> str:
        return self.fn.op(f"fcmp {predicate} {self.type} {a}, {b}")

    def select(self, cond: str, a: str, b: str) -> str:
        return self.fn.op(f"select {self.mask} {cond}, {self.type} {a}, {self.type} {b}")

    def clamp(self, x: str, low: float, high: float) -> str:
        """`x` into [low, high], NaN unchanged: the constant is the first operand of each comparison."""
        x = self.select(self.cmp("ogt", self.f(low), x), self.f(low), x)
        return self.select(self.cmp("olt", self.f(high), x), self.f(high), x)

    def estrin(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial by Estrin's scheme (a short dependency chain); coefficients from the constant term up."""
        terms = [self.f(c) for c in coefficients]
        power = x
        while len(terms) > 1:
            pairs = [self.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
            terms = pairs + terms[len(pairs) * 2 :]
            if len(terms) > 1:
                power = self.mul(power, power)
        return terms[0]

    # Integers

    def iadd(self, a: str, b: str) -> str:
        return self.fn.op(f"add {self.int} {a}, {b}")

    def isub(self, a: str, b: str) -> str:
        return self.fn.op(f"sub {self.int} {a}, {b}")

    def and_(self, a: str, b: str) -> str:
        return self.fn.op(f"and {self.int} {a}, {b}")

    def or_(self, a: str, b: str) -> str:
        return self.fn.op(f"or {self.int} {a}, {b}")

    def xor(self, a: str, b: str) -> str:
        return self.fn.op(f"xor {self.int} {a}, {b}")

    def shl(self, a: str, bits: int) -> str:
        return self.fn.op(f"shl {self.int} {a}, {self.i(bits)}")

    def lshr(self, a: str, bits: int) -> str:
        return self.fn.op(f"lshr {self.int} {a}, {self.i(bits)}")

    def ashr(self, a: str, bits: int) -> str:
        return self.fn.op(f"ashr {self.int} {a}, {self.i(bits)}")

    def icmp(self, predicate: str, a: str, b: str) -> str:
        return self.fn.op(f"icmp {predicate} {self.int} {a}, {b}")

    def iselect(self, cond: str, a: str, b: str) -> str:
        return self.fn.op(f"select {self.mask} {cond}, {self.int} {a}, {self.int} {b}")

    # Conditions

    def both(self, a: str, b: str) -> str:
        return self.fn.op(f"and {self.mask} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.fn.op(f"or {self.mask} {a}, {b}")

    def not_(self, a: str) -> str:
        return self.fn.op(f"xor {self.mask} {a}, {splat('i1', 'true', self.lanes)}")

    def any(self, cond: str) -> str:
        """Whether a condition holds in some lane, as one i1."""
        if self.lanes == 1:
            return cond
        return self.fn.intrinsic(f"llvm.vector.reduce.or.{suffix('i1', self.lanes)}", "i1", [(self.mask, cond)])

    # Between the two

    def bits(self, a: str) -> str:
        """The bits of floats as integers."""
        return self.fn.op(f"bitcast {self.type} {a} to {self.int}")

    def real(self, a: str) -> str:
        """Integers as the floats with these bits."""
        return self.fn.op(f"bitcast {self.int} {a} to {self.type}")

    def nearest(self, x: str, factor: float) -> tuple[str, str]:
        """`x * factor` rounded to an integer, as a float and as an integer; for magnitudes below 2^(mantissa - 2).

        Adding 1.5 * 2^mantissa leaves the integer in the lowest bits, which needs no conversion instruction: those
        are missing for vectors of f64 before AVX-512.
        """
        magic = 1.5 * 2.0**self.mantissa_bits
        shifted = self.fma(x, self.f(factor), self.f(magic))
        number = self.sub(shifted, self.f(magic))
        return number, self.isub(self.bits(shifted), self.bits_of(magic))

    def bits_of(self, value: float) -> str:
        """The bits of a constant."""
        exact = float_literal(value, "double")
        word = int(exact, 16)
        if self.element == "double":
            return self.i(word)
        exponent = ((word >> 52) & 0x7FF) - 1023 + 127
        return self.i((word >> 63) << 31 | exponent << 23 | (word >> 29) & 0x7FFFFF)

    def scale(self, x: str, n: str) -> str:
        """x * 2^n with one rounding, n an integer in [-2 * bias, 2 * bias].

        llvm.ldexp is one instruction with AVX-512 and a call to libm elsewhere: there, two multiplications by powers.
        """
        if self.fn.target.has("avx512f") and (self.fn.target.has("avx512vl") or self.lanes * self.bit_count >= 512):
            name = f"llvm.ldexp.{suffix(self.element, self.lanes)}.{suffix('i32', self.lanes)}"
            exponent = vector("i32", self.lanes)
            n32 = n if self.bit_count == 32 else self.fn.op(f"trunc {self.int} {n} to {exponent}")
            return self.fn.intrinsic(name, self.type, [(self.type, x), (exponent, n32)])
        half = self.ashr(n, 1)
        return self.mul(self.mul(x, self.power(half)), self.power(self.isub(n, half)))

    def power(self, n: str) -> str:
        """2^n for an integer n that is a normal exponent."""
        bias = (1 << (self.bit_count - self.mantissa_bits - 2)) - 1
        return self.real(self.shl(self.iadd(n, self.i(bias)), self.mantissa_bits))
