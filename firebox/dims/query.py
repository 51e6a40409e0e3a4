"""Questions about dim expressions: their names, values, signs; and replacement of names."""

from collections.abc import Callable, Iterable, Mapping

from firebox.dims.expression import (
    Call,
    DimLike,
    floordiv,
    from_terms,
    maximum,
    minimum,
    mod,
    multiply,
    symbol,
    terms_of,
)
from firebox.errors import UserError


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
    terms = terms_of(value)
    positive, negative = ({m: s * c for m, c in terms.items() if s * c > 0} for s in (1, -1))
    return from_terms(positive), from_terms(negative)


def as_multiple(value: DimLike) -> tuple[str, int] | None:
    """(n, c) for ``c * n`` with a name n; None for other expressions."""
    if isinstance(value, int) or len(value.terms) != 1:
        return None
    monomial, coefficient = value.terms[0]
    return (monomial[0], coefficient) if len(monomial) == 1 and isinstance(monomial[0], str) else None


def substitute(value: DimLike, env: Mapping[str, DimLike]) -> DimLike:
    """Replace names by expressions and simplify."""
    if isinstance(value, int):
        return value
    return fold(value, lambda name: env[name] if name in env else symbol(name))


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
