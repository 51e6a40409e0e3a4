"""Specs of `nd.contract`: einsum with windows, such as ``n c y*2+ky-1, o c ky -> n o y``.

A spec lists, for two operands and the result, an index per dim. The result's indices are loop names. An operand's index
is a loop name or an affine expression of loop names, written without spaces; ``(expression)//base`` reads only where
the expression is a multiple of the base. Outside of the operand, and between multiples of the base, the value read is
0. Loop names that the result does not have are summed over.

Specs are closed under transposition: the gradient of a contraction is a contraction.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from firebox import dims
from firebox.dialects.nd.aval import Shape
from firebox.dialects.nd.formula import Guard, Read
from firebox.dims import Dim, DimLike
from firebox.errors import CompilerError, FireboxError, ShapeError


@dataclass(frozen=True, slots=True)
class Index:
    """``(sum of coefficient * name + offset) / base``, read only where that is an integer.

    Attributes:
        terms: (name, coefficient) by order of appearance; no coefficient is 0.
    """

    terms: tuple[tuple[str, int], ...]
    offset: int = 0
    base: int = 1

    @property
    def name(self) -> str:
        """The loop name that the index is; empty for an expression."""
        if len(self.terms) == 1 and self.offset == 0 and self.base == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    def coefficient(self, name: str) -> int:
        return dict(self.terms).get(name, 0)

    def __str__(self) -> str:
        """As in a spec."""
        if self.name:
            return self.name
        text = ""
        for name, coefficient in self.terms:
            factor = f"*{abs(coefficient)}" if abs(coefficient) != 1 else ""
            text += f"{'-' if coefficient < 0 else '+'}{name}{factor}"
        if self.offset or not text:
            text += f"{self.offset:+d}"
        text = text.removeprefix("+")
        return f"({text})//{self.base}" if self.base != 1 else text

    def numerator(self, loops: Mapping[str, DimLike]) -> DimLike:
        """The expression before division, over other names."""
        total: DimLike = self.offset
        for name, coefficient in self.terms:
            total = total + dims.multiply(coefficient, loops[name])
        return total


@dataclass(frozen=True, slots=True)
class ContractSpec:
    """A parsed spec: the indices of both operands, and the loop names of the result."""

    lhs: tuple[Index, ...]
    rhs: tuple[Index, ...]
    out: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_term_text(self.lhs)}, {_term_text(self.rhs)} -> {' '.join(self.out)}"

    @property
    def operands(self) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        return self.lhs, self.rhs

    @property
    def names(self) -> tuple[str, ...]:
        """All loop names in order of first appearance; the order of the op's ``sizes``."""
        found: dict[str, None] = {}
        for index in (*self.lhs, *self.rhs):
            found.update(dict.fromkeys(index.names))
        found.update(dict.fromkeys(self.out))
        return tuple(found)

    @property
    def reduced(self) -> tuple[str, ...]:
        """The loop names that are summed over."""
        return tuple(name for name in self.names if name not in self.out)

    @property
    def is_plain(self) -> bool:
        """No windows: every index is a loop name (an einsum)."""
        return all(index.name for index in (*self.lhs, *self.rhs))


def _term_text(term: Iterable[Index]) -> str:
    return " ".join(map(str, term))


# ---- parsing -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def parse_spec(text: str) -> ContractSpec:
    """Read a spec.

    Raises:
        ShapeError: malformed, or a window without a loop name of its own to run over.
    """
    match = re.fullmatch(r"([^,>]*),([^,>]*)->([^,>]*)", text)
    if match is None:
        raise _malformed(text, "'a b, b c -> a c'")
    lhs, rhs = (tuple(_parse_index(part, text) for part in match.group(k).split()) for k in (1, 2))
    out = tuple(match.group(3).split())
    if len(set(out)) != len(out) or not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in out):
        raise _malformed(text, "different loop names as the indices of the result")
    spec = ContractSpec(lhs, rhs, out)
    for side in (0, 1):
        _check_windows(spec, side)
    return spec


def _malformed(text: str, expected: str) -> ShapeError:
    return ShapeError("malformed spec", op="contract", expected=expected, found=repr(text))


def _parse_index(part: str, text: str) -> Index:
    match = re.fullmatch(r"\((.*)\)//(\d+)", part)
    body, base = (match.group(1), int(match.group(2))) if match else (part, 1)
    try:
        value = dims.parse(body)
    except FireboxError as error:
        raise _malformed(text, "affine index expressions") from error
    index = affine(value, base)
    if index is None or base < 1:
        raise _malformed(text, "affine index expressions")
    order = [name for name in re.findall(r"[A-Za-z_]\w*", body) if index.coefficient(name)]
    return Index(tuple((n, index.coefficient(n)) for n in dict.fromkeys(order)), index.offset, base)


def affine(value: DimLike, base: int = 1) -> Index | None:
    """A dim expression as an index, or None if it is not affine."""
    if isinstance(value, int):
        return Index((), value, base)
    terms, offset = [], 0
    for monomial, coefficient in value.terms:
        if not monomial:
            offset = coefficient
        elif len(monomial) == 1 and isinstance(monomial[0], str):
            terms.append((monomial[0], coefficient))
        else:
            return None
    return Index(tuple(terms), offset, base)


def _check_windows(spec: ContractSpec, side: int) -> None:
    """Every expression needs a name that stands alone elsewhere, so that the gradient can be solved for it."""
    elsewhere = {index.name for index in spec.operands[1 - side]} | set(spec.out)
    for index in spec.operands[side]:
        if not index.name and not elsewhere.intersection(index.names):
            expected = "a loop name that is an index of the other operand or of the result"
            raise ShapeError("a window that nothing else runs over", op="contract", expected=expected, found=str(index))


def infer_sizes(spec: ContractSpec, lhs: Shape, rhs: Shape, known: Mapping[str, DimLike]) -> Shape:
    """The sizes of all loop names: from ``known`` and from the operands' dims that are plain names.

    Raises:
        ShapeError: a name without a size.
    """
    sizes = dict(known)
    for term, shape in ((spec.lhs, lhs), (spec.rhs, rhs)):
        for index, size in zip(term, shape, strict=False):
            if index.name:
                sizes.setdefault(index.name, size)
    missing = [name for name in spec.names if name not in sizes]
    if missing:
        raise ShapeError("loop names without a size", op="contract", expected="sizes for all names", found=missing)
    return tuple(sizes[name] for name in spec.names)


# ---- reads -------------------------------------------------------------------------------------------------------


def operand_read(
    operand: int, term: Sequence[Index], shape: Shape, loops: Mapping[str, DimLike], sizes: Mapping[str, DimLike]
) -> Read:
    """The read of an operand: guarded where an index may leave the dim or fall between multiples of its base.

    Args:
        loops: the loop variable of each name.
        sizes: the extent of each name.
    """
    index: list[DimLike] = []
    guards: list[Guard] = []
    for entry, size in zip(term, shape, strict=True):
        numerator = entry.numerator(loops)
        at = dims.floordiv(numerator, entry.base)
        index.append(at)
        if not _always_inside(entry, size, sizes):
            guards.append(Guard(at, size, numerator if entry.base != 1 else 0, entry.base))
    return Read(operand, tuple(index), tuple(guards))


def _always_inside(index: Index, size: DimLike, sizes: Mapping[str, DimLike]) -> bool:
    """Whether the index provably stays in ``[0, size)``."""
    if index.name:
        return sizes[index.name] == size
    low = high = index.offset
    for name, coefficient in index.terms:
        extent = sizes[name]
        if isinstance(extent, Dim):
            return False
        low += min(0, coefficient * (extent - 1))
        high += max(0, coefficient * (extent - 1))
    return index.base == 1 and low >= 0 and isinstance(size, int) and high < size


# ---- transposition -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transposed:
    """The contraction that gives an operand's cotangent: of the cotangent of the result and the other operand."""

    spec: ContractSpec
    sizes: Shape


@lru_cache(maxsize=4096)
def transpose_spec(spec: ContractSpec, side: int, shape: Shape, sizes: Shape) -> Transposed:
    """The spec of operand ``side``'s cotangent; its operands are (cotangent, rhs) for 0 and (lhs, cotangent) for 1.

    A plain index of the operand becomes an index of the result. An expression is solved for one of its names: with
    ``h = y*2 + k - 1`` the output position is ``y = (h + 1 - k)//2``, which is the index wherever ``y`` stood alone.

    Args:
        shape: the operand's.
        sizes: extents of ``spec.names``.

    Raises:
        CompilerError: the operand repeats a loop name (a diagonal).
    """
    extents = dict(zip(spec.names, sizes, strict=True))
    own = list(spec.operands[side])
    terms = [[Index(((name, 1),)) for name in spec.out], list(spec.operands[1 - side])]
    out: list[str] = []
    for k, size in enumerate(shape):
        index = own[k]
        if not index.name:
            fresh = _fresh_name(f"p{k}", extents)
            extents[fresh] = size
            _solve(index, fresh, own, terms, extents)
            out.append(fresh)
        elif index.name in out:
            raise CompilerError("no gradient of a diagonal", op="contract", found=str(spec))
        else:
            out.append(index.name)
    lhs, rhs = (terms[0], terms[1]) if side == 0 else (terms[1], terms[0])
    result = ContractSpec(tuple(lhs), tuple(rhs), tuple(out))
    return Transposed(result, tuple(extents[name] for name in result.names))


def _fresh_name(wanted: str, taken: Mapping[str, object]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _solve(
    index: Index, fresh: str, own: list[Index], terms: list[list[Index]], extents: Mapping[str, DimLike]
) -> None:
    """Eliminate one name of ``index == fresh`` from all other indices: the one with the most turns."""
    alone = {entry.name for term in terms for entry in term}
    candidates = [name for name in index.names if name in alone]
    if not candidates:
        raise CompilerError("a window that cannot be solved for", op="contract", found=str(index))
    name = min(candidates, key=lambda n: (-_turns(extents[n]), abs(index.coefficient(n))))
    coefficient = index.coefficient(name)
    sign = 1 if coefficient > 0 else -1
    rest = [(n, -sign * c) for n, c in index.terms if n != name]
    solution = Index(((fresh, sign * index.base), *rest), -sign * index.offset, abs(coefficient))
    for term in (own, *terms):
        term[:] = [_replace(entry, name, solution) for entry in term]


def _turns(extent: DimLike) -> float:
    """An extent for comparison; unknown ones count as large."""
    return extent if isinstance(extent, int) else math.inf


def _replace(index: Index, name: str, solution: Index) -> Index:
    """``index`` with ``name`` replaced by an index expression, in lowest terms."""
    factor = index.coefficient(name)
    if not factor:
        return index
    sums: dict[str, int] = {}
    for n, c in solution.terms:
        sums[n] = factor * c
    for n, c in index.terms:
        if n != name:
            sums[n] = sums.get(n, 0) + c * solution.base
    terms = tuple((n, c) for n, c in sums.items() if c)
    offset = factor * solution.offset + index.offset * solution.base
    base = index.base * solution.base
    common = math.gcd(base, offset, *(c for _, c in terms))
    return Index(tuple((n, c // common) for n, c in terms), offset // common, base // common)


# ---- specs of the usual contractions -----------------------------------------------------------------------------


def matmul_spec(rank_a: int, rank_b: int) -> str:
    """The spec of ``a @ b`` for operands of these ranks (>= 1) whose batch dims, if both have some, are equal.

    ``matmul_spec(3, 3)`` is ``"b0 m k, b0 k n -> b0 m n"``; an operand of rank 1 has no row or column dim.
    """
    batch_a = [f"b{k}" for k in range(rank_a - 2)]
    batch_b = [f"b{k}" for k in range(rank_b - 2)]
    batch = batch_a if len(batch_a) >= len(batch_b) else batch_b
    batch_a, batch_b = (names and batch[-len(names) :] for names in (batch_a, batch_b))
    row, column = ["m"] * (rank_a > 1), ["n"] * (rank_b > 1)
    lhs, rhs = [*batch_a, *row, "k"], [*batch_b, "k", *column]
    return f"{' '.join(lhs)}, {' '.join(rhs)} -> {' '.join([*batch, *row, *column])}"


def conv_spec(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: bool = False) -> str:
    """The spec of a convolution: input ``n c x0 x1 ..``, weight ``o c k0 k1 ..``, result ``n o y0 y1 ..``.

    Args:
        stride, padding (low side), dilation: one number per spatial dim.
        groups: with a dim ``g`` before ``c`` of the input, before ``o`` of the weight and before ``o`` of the result.
    """
    rank = len(stride)
    taps, positions = [f"k{d}" for d in range(rank)], [f"y{d}" for d in range(rank)]
    windows = [
        str(Index(((y, s), (k, d)), -p))
        for y, k, s, d, p in zip(positions, taps, stride, dilation, padding, strict=True)
    ]
    group = ["g"] * groups
    lhs, rhs, out = ["n", *group, "c", *windows], [*group, "o", "c", *taps], ["n", *group, "o", *positions]
    return f"{' '.join(lhs)}, {' '.join(rhs)} -> {' '.join(out)}"


def conv_transpose_spec(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: bool = False
) -> str:
    """The spec of a transposed convolution: input ``n c x0 ..``, weight ``c o k0 ..``, result ``n o y0 ..``."""
    rank = len(stride)
    taps, positions = [f"k{d}" for d in range(rank)], [f"y{d}" for d in range(rank)]
    windows = [
        str(Index(((y, 1), (k, -d)), p, s))
        for y, k, s, d, p in zip(positions, taps, stride, dilation, padding, strict=True)
    ]
    group = ["g"] * groups
    lhs, rhs, out = ["n", *group, "c", *windows], [*group, "c", "o", *taps], ["n", *group, "o", *positions]
    return f"{' '.join(lhs)}, {' '.join(rhs)} -> {' '.join(out)}"
