"""What the expansions of math are written against: lane-wise operations on floats of one width and their integers.

Each emitter has its own `Lanewise`. Values are operand texts of its language, so the expansions never look into them.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Self

Element = Literal["float", "double"]
Angle = tuple[str, str, str]
"""r in two parts and the integer n of an angle n pi/2 + r."""


class Lanewise(ABC):
    """Writes operations on values of one shape; every method gives the operand text of its result.

    Attributes:
        element: `float` or `double`.
        bit_count: of the floats and of the integers beside them.
        mantissa_bits: stored bits of the significand.
    """

    def __init__(self, element: Element) -> None:
        self.element: Element = element
        self.bit_count = 32 if element == "float" else 64
        self.mantissa_bits = 23 if element == "float" else 52

    # Literals

    @abstractmethod
    def f(self, value: float) -> str:
        """A float constant, rounded to the type."""

    @abstractmethod
    def i(self, value: int) -> str:
        """An integer constant; bit patterns may be given unsigned."""

    # Floats

    @abstractmethod
    def add(self, a: str, b: str) -> str: ...

    @abstractmethod
    def sub(self, a: str, b: str) -> str: ...

    @abstractmethod
    def mul(self, a: str, b: str) -> str: ...

    @abstractmethod
    def div(self, a: str, b: str) -> str: ...

    @abstractmethod
    def neg(self, a: str) -> str: ...

    @abstractmethod
    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c with one rounding."""

    @abstractmethod
    def abs(self, a: str) -> str: ...

    @abstractmethod
    def copysign(self, magnitude: str, sign: str) -> str: ...

    @abstractmethod
    def round(self, name: str, a: str) -> str:
        """floor, ceil, trunc or roundeven."""

    @abstractmethod
    def cmp(self, predicate: str, a: str, b: str) -> str:
        """A condition by LLVM's predicates: `oeq`, `olt`, `ogt`, ... false for NaN; `ult`, `une`, `uno` true for it."""

    @abstractmethod
    def select(self, cond: str, a: str, b: str) -> str: ...

    # Integers, which wrap

    @abstractmethod
    def iadd(self, a: str, b: str) -> str: ...

    @abstractmethod
    def isub(self, a: str, b: str) -> str: ...

    @abstractmethod
    def imax(self, a: str, b: str) -> str:
        """The larger of signed integers."""

    @abstractmethod
    def and_(self, a: str, b: str) -> str: ...

    @abstractmethod
    def or_(self, a: str, b: str) -> str: ...

    @abstractmethod
    def xor(self, a: str, b: str) -> str: ...

    @abstractmethod
    def shl(self, a: str, bits: int) -> str: ...

    @abstractmethod
    def lshr(self, a: str, bits: int) -> str: ...

    @abstractmethod
    def ashr(self, a: str, bits: int) -> str: ...

    @abstractmethod
    def icmp(self, predicate: str, a: str, b: str) -> str:
        """A condition by LLVM's predicates: `eq`, `ne`, `slt`, `ult`, ..."""

    @abstractmethod
    def iselect(self, cond: str, a: str, b: str) -> str: ...

    # Conditions

    @abstractmethod
    def both(self, a: str, b: str) -> str: ...

    @abstractmethod
    def either(self, a: str, b: str) -> str: ...

    @abstractmethod
    def not_(self, a: str) -> str: ...

    # Between the kinds

    @abstractmethod
    def bits(self, a: str) -> str:
        """The bits of floats as integers."""

    @abstractmethod
    def real(self, a: str) -> str:
        """Integers as the floats with these bits."""

    @abstractmethod
    def number(self, a: str) -> str:
        """Signed integers converted to floats."""

    @abstractmethod
    def double(self) -> Self:
        """The operations on f64 of as many lanes."""

    @abstractmethod
    def widen(self, a: str) -> str:
        """f32 (the values of this object) as f64."""

    @abstractmethod
    def narrow(self, a: str) -> str:
        """f64 rounded to f32 (the values of this object)."""

    # What takes control flow

    @abstractmethod
    def replace_large(self, x: str, far: str, usual: Angle) -> Angle:
        """The reduced angle `usual`, and where `far` holds the exact reduction of `x` instead (payne_hanek)."""

    # Written with the others

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

    def nearest(self, x: str, factor: float) -> tuple[str, str]:
        """`x * factor` rounded to an integer, as a float and as an integer; for magnitudes below 2^(mantissa - 2).

        Adding 1.5 * 2^mantissa leaves the integer in the lowest bits, which needs no conversion instruction: those
        are missing for vectors of f64 before AVX-512, and slow on GPUs.
        """
        magic = 1.5 * 2.0**self.mantissa_bits
        shifted = self.fma(x, self.f(factor), self.f(magic))
        number = self.sub(shifted, self.f(magic))
        return number, self.isub(self.bits(shifted), self.bits_of(magic))

    def bits_of(self, value: float) -> str:
        """The bits of a constant that the type has exactly."""
        code, word = (">f", ">I") if self.element == "float" else (">d", ">Q")
        (bits,) = struct.unpack(word, struct.pack(code, value))
        return self.i(bits)

    def scale(self, x: str, n: str) -> str:
        """x * 2^n with one rounding, n an integer in [-2 * bias, 2 * bias] and x near 1."""
        half = self.ashr(n, 1)
        return self.mul(self.mul(x, self.power(half)), self.power(self.isub(n, half)))

    def power(self, n: str) -> str:
        """2^n for an integer n that is a normal exponent."""
        bias = (1 << (self.bit_count - self.mantissa_bits - 2)) - 1
        return self.real(self.shl(self.iadd(n, self.i(bias)), self.mantissa_bits))
