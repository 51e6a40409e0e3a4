"""Lane-wise expressions on floats of one width and the integers beside them, for the expansions of math and casts."""

from typing import Self

from firebox.lowering.llvm import rounding
from firebox.lowering.llvm.function import FunctionText
from firebox.lowering.llvm.payne_hanek import large_angles
from firebox.lowering.llvm.text import float_literal, splat, suffix, vector
from firebox.lowering.math.lanewise import Angle, Element
from firebox.lowering.math.lanewise import Lanewise as Base


class Lanewise(Base):
    """Writes instructions on values of one shape into a function; every method gives operand text.

    Attributes:
        fn: the function.
        lanes: 1 for scalars.
        type: the LLVM type of the floats.
        int: the LLVM type of integers of the same width.
        mask: the LLVM type of conditions.
    """

    def __init__(self, f: FunctionText, element: Element, lanes: int) -> None:
        super().__init__(element)
        self.fn = f
        self.lanes = lanes
        self.int_element = f"i{self.bit_count}"
        self.type = vector(element, lanes)
        self.int = vector(self.int_element, lanes)
        self.mask = vector("i1", lanes)

    def within(self, f: FunctionText, element: Element, lanes: int) -> Self:
        """The operations on another shape, written into any function."""
        return type(self)(f, element, lanes)

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

    # Integers

    def iadd(self, a: str, b: str) -> str:
        return self.fn.op(f"add {self.int} {a}, {b}")

    def isub(self, a: str, b: str) -> str:
        return self.fn.op(f"sub {self.int} {a}, {b}")

    def imax(self, a: str, b: str) -> str:
        return self.fn.lanewise("smax", self.int_element, self.lanes, a, b)

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

    def number(self, a: str) -> str:
        return self.fn.op(f"sitofp {self.int} {a} to {self.type}")

    def double(self) -> Self:
        return self.within(self.fn, "double", self.lanes)

    def widen(self, a: str) -> str:
        return self.fn.op(f"fpext {self.type} {a} to {vector('double', self.lanes)}")

    def narrow(self, a: str) -> str:
        return self.fn.op(f"fptrunc {vector('double', self.lanes)} {a} to {self.type}")

    def replace_large(self, x: str, far: str, usual: Angle) -> Angle:
        f = self.fn
        slow, done, before = f.new_label("large"), f.new_label("reduced"), f.label
        f.branch_if(self.any(far), slow, done)
        f.block(slow)
        exact = large_angles(self, x)
        replaced = (
            self.select(far, exact[0], usual[0]),
            self.select(far, exact[1], usual[1]),
            self.iselect(far, exact[2], usual[2]),
        )
        f.branch(done)
        f.block(done)
        r, low, n = (
            f.phi(type_, [(fast, before), (other, slow)])
            for type_, fast, other in zip((self.type, self.type, self.int), usual, replaced, strict=True)
        )
        return r, low, n

    def scale(self, x: str, n: str) -> str:
        """x * 2^n with one rounding, n an integer in [-2 * bias, 2 * bias].

        llvm.ldexp is one instruction with AVX-512 and a call to libm elsewhere: there, two multiplications by powers.
        """
        if self.fn.target.has("avx512f") and (self.fn.target.has("avx512vl") or self.lanes * self.bit_count >= 512):
            name = f"llvm.ldexp.{suffix(self.element, self.lanes)}.{suffix('i32', self.lanes)}"
            exponent = vector("i32", self.lanes)
            n32 = n if self.bit_count == 32 else self.fn.op(f"trunc {self.int} {n} to {exponent}")
            return self.fn.intrinsic(name, self.type, [(self.type, x), (exponent, n32)])
        return super().scale(x, n)
