"""Sums of products by letters: equations parsed, ordered by cost and turned into contractions of two operands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import combinations

from firebox.dims import DimLike
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.matrices import diagonal
from firebox.frontend.functions.support import A, contract, differ, promote, shape_text

Names = tuple[str, ...]
SYMBOLIC_SIZE = 64
"""What a symbolic dim counts for when orders are compared."""
EXHAUSTIVE = 6
"""Up to here the best order is found among all; more operands are joined greedily."""


def einsum(equation: str, *operands: A) -> A:
    """Sums of products by letters, as in NumPy: ``einsum("bij,bjk->bik", a, b)``.

    ``...`` stands for all other dims, which broadcast; a letter twice in a term takes its diagonal; without ``->`` the
    result has the letters that occur once, in alphabetical order. More than two operands are joined in the order that
    takes the fewest multiplications.

    Raises:
        UserError: a malformed equation. ShapeError: letters that do not fit the operands.
    """
    inputs, output = parse(equation, operands)
    terms = [_plain_term(x, names) for x, names in zip(operands, inputs, strict=True)]
    sizes = _letter_sizes(terms)
    terms = [_without_ones(x, names, sizes) for x, names in terms]
    result, names = _contracted(terms, output, sizes)
    rest = [n for n in output if n in names]
    result = result.transpose(tuple(names.index(n) for n in rest)) if rest else result
    if len(rest) == len(output):
        return result
    return result.reshape(tuple(sizes[n] for n in output))  # letters that are 1 everywhere


# ---- equations ---------------------------------------------------------------------------------------------------


def parse(equation: str, operands: Sequence[A]) -> tuple[list[Names], Names]:
    """The name of each dim of each operand, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not operands or len(terms) != len(operands):
        expected = f"{len(operands)} terms"
        raise UserError("one term for each operand", op="einsum", expected=expected, found=repr(equation))
    inputs = [_letters(term, x, equation) for term, x in zip(terms, operands, strict=True)]
    dots = max((tuple(n for n in names if len(n) > 1) for names in inputs), key=len)
    if arrow:
        if right.count("...") > 1 or not all(c.isalpha() for c in right.replace("...", "")):
            raise UserError("letters only", op="einsum", found=repr(equation))
        output = tuple(n for part in right.replace("...", ".") for n in (dots if part == "." else (part,)))
    else:
        every = [n for names in inputs for n in names]
        output = dots + tuple(sorted(n for n in set(every) if every.count(n) == 1 and len(n) == 1))
    unknown = [n for n in output if not any(n in names for names in inputs)]
    if unknown or len(set(output)) != len(output):
        raise UserError("output letters must be those of the operands, each once", op="einsum", found=repr(equation))
    return inputs, output


def _letters(term: str, x: A, equation: str) -> Names:
    """The name of each dim; dims under ``...`` are called ``dots0, dots1, ..`` from the right."""
    head, dots, tail = term.partition("...")
    letters = [*head, *tail]
    if not all(c.isalpha() for c in letters):
        raise UserError("letters only", op="einsum", found=repr(equation))
    hidden = x.rank - len(letters)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ShapeError(f"term '{term}' does not fit its operand", op="einsum", found=shape_text(x))
    return (*head, *(f"dots{k}" for k in reversed(range(hidden))), *tail)


# ---- operands ----------------------------------------------------------------------------------------------------


def _plain_term(x: A, names: Names) -> tuple[A, Names]:
    """Letters that occur twice taken on their diagonal, so that each occurs once."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first, second = [k for k, n in enumerate(names) if n == name][:2]
            if differ(x.shape[first], x.shape[second]):
                found = f"{x.shape[first]} and {x.shape[second]}"
                raise ShapeError(f"dim '{name}' has two sizes", op="einsum", expected="one size", found=found)
            x = diagonal(x, 0, first, second)
            names = (*(n for k, n in enumerate(names) if k not in (first, second)), name)
    return x, names


def _letter_sizes(terms: Sequence[tuple[A, Names]]) -> dict[str, DimLike]:
    """The size of each letter; dims of size 1 broadcast."""
    sizes: dict[str, DimLike] = {}
    for x, names in terms:
        for name, size in zip(names, x.shape, strict=True):
            known = sizes.get(name, 1)
            if known != 1 and size != 1 and differ(known, size):
                raise ShapeError(f"dim '{name}' has two sizes", op="einsum", expected=known, found=size)
            sizes[name] = size if known == 1 else known
    return sizes


def _without_ones(x: A, names: Names, sizes: Mapping[str, DimLike]) -> tuple[A, Names]:
    """Without dims of size 1: an operand that lacks a letter is broadcast along it."""
    keep = [k for k, size in enumerate(x.shape) if size != 1]
    return x.reshape(tuple(x.shape[k] for k in keep)), tuple(names[k] for k in keep)


# ---- the order ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Operands ``left`` and ``right`` (positions, or earlier steps) and what they cost together."""

    members: frozenset[int]
    parts: "tuple[Step, Step] | None" = None
    cost: float = 0.0


def best_order(inputs: tuple[Names, ...], output: Names, sizes: Mapping[str, int]) -> Step:
    """How to join the operands two at a time with the fewest multiplications."""
    single = [Step(frozenset((k,))) for k in range(len(inputs))]
    if len(inputs) <= EXHAUSTIVE:
        return _best(inputs, output, sizes)
    while len(single) > 1:
        a, b = min(combinations(single, 2), key=lambda pair: _joined(pair[0], pair[1], inputs, output, sizes).cost)
        single = [s for s in single if s not in (a, b)] + [_joined(a, b, inputs, output, sizes)]
    return single[0]


def _best(inputs: tuple[Names, ...], output: Names, sizes: Mapping[str, int]) -> Step:
    @cache
    def over(members: frozenset[int]) -> Step:
        if len(members) == 1:
            return Step(members)
        first, *others = sorted(members)
        splits = (frozenset((first, *c)) for n in range(len(others)) for c in combinations(others, n))
        return min(
            (_joined(over(part), over(members - part), inputs, output, sizes) for part in splits),
            key=lambda step: step.cost,
        )

    return over(frozenset(range(len(inputs))))


def _joined(a: Step, b: Step, inputs: tuple[Names, ...], output: Names, sizes: Mapping[str, int]) -> Step:
    """Two steps contracted: one multiplication for each combination of all their letters."""
    letters = set(remaining(a.members, inputs, output)) | set(remaining(b.members, inputs, output))
    work = float(reduce(lambda total, name: total * sizes[name], letters, 1))
    return Step(a.members | b.members, (a, b), a.cost + b.cost + work)


def remaining(members: frozenset[int], inputs: tuple[Names, ...], output: Names) -> Names:
    """Letters of these operands that the result or another operand needs; of a single one, all its letters."""
    own = tuple(dict.fromkeys(n for k in sorted(members) for n in inputs[k]))
    later = set(output).union(*(names for k, names in enumerate(inputs) if k not in members))
    return own if len(members) == 1 else tuple(n for n in own if n in later)


def _contracted(terms: Sequence[tuple[A, Names]], output: Names, sizes: Mapping[str, DimLike]) -> tuple[A, Names]:
    inputs = tuple(names for _, names in terms)
    counted = {n: s if isinstance(s, int) else SYMBOLIC_SIZE for n, s in sizes.items()}

    def run(step: Step) -> tuple[A, Names]:
        if step.parts is None:
            (k,) = step.members
            later = set(output).union(*(names for other, names in enumerate(inputs) if other != k))
            return _summed(*terms[k], later)
        (a, a_names), (b, b_names) = run(step.parts[0]), run(step.parts[1])
        kept = remaining(step.members, inputs, output)
        kept = tuple(n for n in output if n in kept) if len(step.members) == len(terms) else kept
        a, b = promote("einsum", a, b)
        return contract(a, b, f"{' '.join(a_names)}, {' '.join(b_names)} -> {' '.join(kept)}"), kept

    return run(best_order(inputs, output, counted))


def _summed(x: A, names: Names, later: set[str]) -> tuple[A, Names]:
    """Summed over the letters that nothing else has, in the operand's own type."""
    gone = tuple(k for k, n in enumerate(names) if n not in later)
    if not gone:
        return x, names
    return x.sum(gone).astype(x.dtype), tuple(n for n in names if n in later)
