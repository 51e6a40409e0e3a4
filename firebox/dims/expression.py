"""Symbolic integer expressions in one normal form: dims of tensors, sizes of buffers and index maps of loops.

An expression is an integer polynomial over *atoms*; an atom is a name or ``floordiv``, ``mod``, ``min``, ``max`` of two
expressions. Equal normal forms are equal expressions, so ``==`` and ``hash`` decide equality. Constants are plain ints.
All names stand for non-negative integers (sizes and loop counters), which the simplifications below rely on.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from firebox.errors import UserError

FUNCTIONS = ("floordiv", "mod", "min", "max")

_RESERVED = re.compile(r"[dirvw]\d+|step\d+|flat|block|lane0|threads")


@dataclass(frozen=True, slots=True)
class Call:
    """An atom: a function of two expressions."""

    function: str
    lhs: "DimLike"
    rhs: "DimLike"

    def __str__(self) -> str:
        if self.function in ("floordiv", "mod"):
            sign = "//" if self.function == "floordiv" else "%"
            return f"({_operand(self.lhs)} {sign} {_operand(self.rhs)})"
        return f"{self.function}({self.lhs}, {self.rhs})"


Atom = str | Call
Monomial = tuple[Atom, ...]


def _operand(value: "DimLike") -> str:
    text = str(value)
    return text if re.fullmatch(r"\w+", text) else f"({text})"


@lru_cache(maxsize=65536)
def _atom_key(atom: Atom) -> str:
    return str(atom)


class Dim:
    """A non-constant integer expression; immutable and hashable. Build with `dim`, operators and the functions here."""

    __slots__ = ("_hash", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text: str | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __add__(self, other: "DimLike") -> "DimLike":
        if not isinstance(other, _SIZE):
            return _refused(self, other)
        return from_terms(_sum(terms_of(self), terms_of(other)))

    __radd__ = __add__

    def __neg__(self) -> "DimLike":
        return from_terms({m: -c for m, c in self.terms})

    def __sub__(self, other: "DimLike") -> "DimLike":
        return self + (-other)

    def __rsub__(self, other: "DimLike") -> "DimLike":
        return (-self) + other

    def __mul__(self, other: "DimLike") -> "DimLike":
        return multiply(self, other) if isinstance(other, _SIZE) else _refused(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: "DimLike") -> "DimLike":
        return floordiv(self, other) if isinstance(other, _SIZE) else _refused(self, other)

    def __rfloordiv__(self, other: int) -> "DimLike":
        return floordiv(other, self) if isinstance(other, _SIZE) else _refused(self, other)

    def __mod__(self, other: "DimLike") -> "DimLike":
        return mod(self, other) if isinstance(other, _SIZE) else _refused(self, other)

    def __rmod__(self, other: int) -> "DimLike":
        return mod(other, self) if isinstance(other, _SIZE) else _refused(self, other)

    def __truediv__(self, other: object) -> Any:
        return _refused(self, other, isinstance(other, int))

    __rtruediv__ = __pow__ = __truediv__

    def __ge__(self, other: "DimLike") -> bool:
        return _at_least(self, other, f"{self} >= {other}")

    def __lt__(self, other: "DimLike") -> bool:
        return not _at_least(self, other, f"{self} < {other}")

    def __le__(self, other: "DimLike") -> bool:
        return _at_least(other, self, f"{self} <= {other}")

    def __gt__(self, other: "DimLike") -> bool:
        return not _at_least(other, self, f"{self} > {other}")

    def __bool__(self) -> bool:
        raise UserError("a symbolic dim has no truth value", found=str(self), hint="compare it with == or evaluate it")

    def __index__(self) -> int:
        raise UserError("a symbolic dim is not a number", found=str(self), hint="evaluate it with known values")

    def __str__(self) -> str:
        if self._text is None:
            self._text = _format(self.terms)
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self})"


DimLike = int | Dim
_SIZE = (int, Dim)


def _refused(size: Dim, other: object, always: bool = False) -> Any:
    """What an operator gives for something that is no size: others may know what to do with it, floats do not.

    Raises:
        UserError: the other operand is a float.
    """
    if not always and not isinstance(other, float):
        return NotImplemented
    hint = "calculate with a tensor beside it, as in x.sum() / x.shape[0]"
    raise UserError("a size is known only when the program runs", found=f"{size} and {other!r}", hint=hint)


def _at_least(a: DimLike, b: DimLike, text: str) -> bool:
    """a >= b where that is the same for all values of the names.

    Raises:
        UserError: it is not.
    """
    difference = a - b
    if never_negative(difference):
        return True
    if never_negative(-1 - difference):
        return False
    hint = "give the size a number, or write the function so that it does not ask"
    raise UserError("a size is known only when the program runs", found=text, hint=hint)


def dim(name: str) -> Dim:
    """The symbol ``name``: letters, digits and underscores, not starting with a digit.

    Raises:
        UserError: not a name.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in ("min", "max"):
        raise UserError("not a dim name", expected="letters, digits, underscores", found=repr(name))
    return symbol(name)


def is_reserved(name: str) -> bool:
    """Whether the name stands for a loop, a value read in it, or the number of threads: no tensor dim may have it."""
    return _RESERVED.fullmatch(name) is not None


def symbol(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


def terms_of(value: DimLike) -> dict[Monomial, int]:
    if isinstance(value, int):
        return {(): int(value)} if value else {}
    return dict(value.terms)


def _sum(a: dict[Monomial, int], b: dict[Monomial, int]) -> dict[Monomial, int]:
    for monomial, coefficient in b.items():
        a[monomial] = a.get(monomial, 0) + coefficient
    return a


def from_terms(terms: dict[Monomial, int]) -> DimLike:
    terms = {m: c for m, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Dim(tuple(sorted(terms.items(), key=_term_key)))


def _term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    return -len(term[0]), tuple(_atom_key(a) for a in term[0])


def multiply(a: DimLike, b: DimLike) -> DimLike:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    result: dict[Monomial, int] = {}
    for ma, ca in terms_of(a).items():
        for mb, cb in terms_of(b).items():
            monomial = tuple(sorted(ma + mb, key=_atom_key))
            result[monomial] = result.get(monomial, 0) + ca * cb
    return from_terms(result)


def floordiv(a: DimLike, b: DimLike) -> DimLike:
    """a // b rounded toward minus infinity; exact parts are taken out: (4*b + 3) // 4 is b."""
    if isinstance(a, int) and isinstance(b, int):
        _nonzero(b)
        return a // b
    if b == 1:
        return a
    if isinstance(b, int):
        _nonzero(b)
        whole, rest = _split(a, b)
        if isinstance(rest, int):  # in [0, b)
            return whole
        return whole + _call("floordiv", rest, b)
    if a == b:
        return 1
    if a == 0:
        return 0
    quotient = _exact_quotient(a, b)
    return quotient if quotient is not None else _call("floordiv", a, b)


def mod(a: DimLike, b: DimLike) -> DimLike:
    """a % b with the sign of b; multiples of b drop out."""
    if isinstance(a, int) and isinstance(b, int):
        _nonzero(b)
        return a % b
    if b == 1 or a == b or a == 0:
        return 0
    if isinstance(b, int):
        _nonzero(b)
        _, rest = _split(a, b)
        return rest if isinstance(rest, int) else _call("mod", rest, b)
    if _exact_quotient(a, b) is not None:
        return 0
    return _call("mod", a, b)


def minimum(a: DimLike, b: DimLike) -> DimLike:
    """min(a, b)."""
    return _extremum("min", a, b)


def maximum(a: DimLike, b: DimLike) -> DimLike:
    """max(a, b)."""
    return _extremum("max", a, b)


def ceildiv(a: DimLike, b: DimLike) -> DimLike:
    """The smallest integer >= a / b, for b > 0."""
    return floordiv(a + b - 1, b)


def _extremum(function: str, a: DimLike, b: DimLike) -> DimLike:
    difference = a - b
    if isinstance(difference, int):
        a_is_less = difference <= 0
        return a if a_is_less == (function == "min") else b
    first, second = sorted((a, b), key=str)
    return _call(function, first, second)


def _nonzero(b: int) -> None:
    if b == 0:
        raise UserError("division of a dim by zero")


def _split(a: DimLike, b: int) -> tuple[DimLike, DimLike]:
    """a == whole * b + rest, with the coefficients of rest in [0, |b|)."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(a).items():
        whole[monomial], rest[monomial] = divmod(coefficient, b)
    return from_terms(whole), from_terms(rest)


def _exact_quotient(a: DimLike, b: Dim) -> DimLike | None:
    """a / b when b is a single term that divides each term of a."""
    if len(b.terms) != 1 or isinstance(a, int):
        return None
    (monomial, coefficient) = b.terms[0]
    result: dict[Monomial, int] = {}
    for ma, ca in a.terms:
        left = list(ma)
        for atom in monomial:
            if atom not in left:
                return None
            left.remove(atom)
        if ca % coefficient:
            return None
        result[tuple(left)] = ca // coefficient
    return from_terms(result)


def _call(function: str, a: DimLike, b: DimLike) -> Dim:
    return symbol(Call(function, a, b))


def _format(terms: tuple[tuple[Monomial, int], ...]) -> str:
    parts: list[str] = []
    for monomial, coefficient in terms:
        factors = [str(a) for a in monomial]
        size = abs(coefficient)
        if size != 1 or not factors:
            factors.insert(0, str(size))
        sign = "-" if coefficient < 0 else "+"
        parts.append(f"{sign} {'*'.join(factors)}")
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else "-" + text[2:]


def never_negative(value: DimLike) -> bool:
    """Whether the expression is provably 0 or more, whatever its names stand for; False where no rule here shows it."""
    if isinstance(value, int):
        return value >= 0
    if all(c > 0 and all(map(_atom_never_negative, m)) for m, c in value.terms):
        return True
    return any(map(never_negative, _lower_bounds(value)))


def _atom_never_negative(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    left, right = never_negative(atom.lhs), never_negative(atom.rhs)
    if atom.function == "max":
        return left or right
    return right if atom.function == "mod" else left and right


def _lower_bounds(value: Dim) -> Iterable[DimLike]:
    """Simpler expressions that are no greater: what is subtracted replaced by something that is no less."""
    for monomial, coefficient in value.terms:
        atom = monomial[0] if len(monomial) == 1 else ""
        if coefficient > 0 or isinstance(atom, str):
            continue
        rest = value - multiply(coefficient, symbol(atom))
        if atom.function == "min":
            yield rest + multiply(coefficient, atom.lhs)
            yield rest + multiply(coefficient, atom.rhs)
        elif atom.function == "floordiv" and isinstance(atom.rhs, int) and coefficient % atom.rhs == 0:
            yield rest + multiply(coefficient // atom.rhs, atom.lhs)
        elif atom.function == "mod" and isinstance(atom.rhs, int):
            yield rest + coefficient * (atom.rhs - 1)
