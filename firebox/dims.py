"""Symbolic integer expressions in one normal form: dims of tensors, sizes of buffers and index maps of loops.

An expression is an integer polynomial over *atoms*; an atom is a name or ``floordiv``, ``mod``, ``min``, ``max`` of two
expressions. Equal normal forms are equal expressions, so ``==`` and ``hash`` decide equality. Constants are plain ints.
All names stand for non-negative integers (sizes and loop counters), which the simplifications below rely on.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from firebox.errors import UserError

FUNCTIONS = ("floordiv", "mod", "min", "max")

_RESERVED = re.compile(r"[dirvw]\d+|flat|block|lane0|threads")


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
        return _from_terms(_sum(_terms(self), _terms(other)))

    __radd__ = __add__

    def __neg__(self) -> "DimLike":
        return _from_terms({m: -c for m, c in self.terms})

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
    return _symbol(name)


def is_reserved(name: str) -> bool:
    """Whether the name stands for a loop, a value read in it, or the number of threads: no tensor dim may have it."""
    return _RESERVED.fullmatch(name) is not None


def _symbol(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


def _terms(value: DimLike) -> dict[Monomial, int]:
    if isinstance(value, int):
        return {(): int(value)} if value else {}
    return dict(value.terms)


def _sum(a: dict[Monomial, int], b: dict[Monomial, int]) -> dict[Monomial, int]:
    for monomial, coefficient in b.items():
        a[monomial] = a.get(monomial, 0) + coefficient
    return a


def _from_terms(terms: dict[Monomial, int]) -> DimLike:
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
    for ma, ca in _terms(a).items():
        for mb, cb in _terms(b).items():
            monomial = tuple(sorted(ma + mb, key=_atom_key))
            result[monomial] = result.get(monomial, 0) + ca * cb
    return _from_terms(result)


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
    for monomial, coefficient in _terms(a).items():
        whole[monomial], rest[monomial] = divmod(coefficient, b)
    return _from_terms(whole), _from_terms(rest)


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
    return _from_terms(result)


def _call(function: str, a: DimLike, b: DimLike) -> Dim:
    return _symbol(Call(function, a, b))


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


# ---- queries -----------------------------------------------------------------------------------------------------


def names(*values: DimLike) -> tuple[str, ...]:
    """The names in the expressions, in order of first appearance, each once."""
    found: dict[str, None] = {}
    for value in values:
        _collect(value, found)
    return tuple(found)


def _collect(value: DimLike, found: dict[str, None]) -> None:
    if isinstance(value, int):
        return
    for monomial, _ in value.terms:
        for atom in monomial:
            if isinstance(atom, str):
                found.setdefault(atom)
            else:
                _collect(atom.lhs, found)
                _collect(atom.rhs, found)


def evaluate(value: DimLike, env: Mapping[str, int]) -> int:
    """The number that the expression stands for.

    Raises:
        UserError: a name has no value in ``env``.
    """
    result = substitute(value, env)
    if isinstance(result, int):
        return result
    raise UserError("dim without a value", expected=f"values for {', '.join(names(result))}", found=str(value))


def by_sign(value: DimLike) -> tuple[DimLike, DimLike]:
    """(a, b) with ``value == a - b``, both with positive coefficients only."""
    terms = _terms(value)
    positive, negative = ({m: s * c for m, c in terms.items() if s * c > 0} for s in (1, -1))
    return _from_terms(positive), _from_terms(negative)


def as_multiple(value: DimLike) -> tuple[str, int] | None:
    """(n, c) for ``c * n`` with a name n; None for other expressions."""
    if isinstance(value, int) or len(value.terms) != 1:
        return None
    monomial, coefficient = value.terms[0]
    return (monomial[0], coefficient) if len(monomial) == 1 and isinstance(monomial[0], str) else None


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
        rest = value - multiply(coefficient, _symbol(atom))
        if atom.function == "min":
            yield rest + multiply(coefficient, atom.lhs)
            yield rest + multiply(coefficient, atom.rhs)
        elif atom.function == "floordiv" and isinstance(atom.rhs, int) and coefficient % atom.rhs == 0:
            yield rest + multiply(coefficient // atom.rhs, atom.lhs)
        elif atom.function == "mod" and isinstance(atom.rhs, int):
            yield rest + coefficient * (atom.rhs - 1)


def substitute(value: DimLike, env: Mapping[str, DimLike]) -> DimLike:
    """Replace names by expressions and simplify."""
    if isinstance(value, int):
        return value
    return fold(value, lambda name: env[name] if name in env else _symbol(name))


def fold(value: DimLike, leaf: Callable[[str], DimLike]) -> DimLike:
    """Rebuild the expression bottom-up with each name replaced by ``leaf(name)``."""
    if isinstance(value, int):
        return value
    total: DimLike = 0
    for monomial, coefficient in value.terms:
        product_: DimLike = coefficient
        for atom in monomial:
            factor = leaf(atom) if isinstance(atom, str) else _apply(atom, leaf)
            product_ = multiply(product_, factor)
        total = total + product_
    return total


def _apply(atom: Call, leaf: Callable[[str], DimLike]) -> DimLike:
    function = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}[atom.function]
    return function(fold(atom.lhs, leaf), fold(atom.rhs, leaf))


def product(values: Iterable[DimLike]) -> DimLike:
    """The product of the values; 1 when there are none."""
    result: DimLike = 1
    for value in values:
        result = multiply(result, value)
    return result


def is_static(shape: Iterable[DimLike]) -> bool:
    """True when every dim is a number."""
    return all(isinstance(d, int) for d in shape)


# ---- text --------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|//|[-+*%(),])")


def parse(text: str) -> DimLike:
    """Read an expression as `str` prints it: ``b*8 + 2``, ``(n // 2)``, ``min(a, b)``.

    Raises:
        UserError: malformed text; names the position.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over sums, products and atoms."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.token = ""
        self._next()

    def parse(self) -> DimLike:
        value = self._sum()
        if self.token:
            self._fail()
        return value

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.position)
        if match is None and self.text[self.position :].strip():
            self._fail()
        self.token = match.group(1) if match else ""
        self.position = match.end() if match else len(self.text)

    def _fail(self) -> None:
        raise UserError("malformed dim expression", found=f"{self.text!r} at column {self.position}")

    def _take(self, token: str) -> None:
        if self.token != token:
            self._fail()
        self._next()

    def _sum(self) -> DimLike:
        value: DimLike = 0
        sign = 1
        if self.token == "-":
            sign = -1
            self._next()
        value = multiply(sign, self._product())
        while self.token in ("+", "-"):
            sign = 1 if self.token == "+" else -1
            self._next()
            value = value + multiply(sign, self._product())
        return value

    def _product(self) -> DimLike:
        value = self._atom()
        while self.token in ("*", "//", "%"):
            function = {"*": multiply, "//": floordiv, "%": mod}[self.token]
            self._next()
            value = function(value, self._atom())
        return value

    def _atom(self) -> DimLike:
        token = self.token
        if token.isdigit():
            self._next()
            return int(token)
        if token == "(":
            self._next()
            value = self._sum()
            self._take(")")
            return value
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            self._fail()
        self._next()
        if token in ("min", "max") and self.token == "(":
            return self._extremum(minimum if token == "min" else maximum)
        return dim(token)

    def _extremum(self, function: Callable[[DimLike, DimLike], DimLike]) -> DimLike:
        self._take("(")
        lhs = self._sum()
        self._take(",")
        rhs = self._sum()
        self._take(")")
        return function(lhs, rhs)
