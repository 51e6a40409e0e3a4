"""Index expressions inside a kernel: as scalars, or as vectors of integers where they differ between lanes."""

from dataclasses import dataclass

from firebox import dims
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dialects.nd.aval import Shape
from firebox.dims import Dim, DimLike, dim
from firebox.dtypes import DType, i32, i64, u32, u64
from firebox.lowering.access import Index

FLAT = "flat"
"""Name of the loop that stands for all parallel loops."""


@dataclass(frozen=True)
class Lane:
    """The loop that fills the vector lanes.

    Attributes:
        name: of the loop variable; the environment holds its value in lane 0.
        lanes: elements of a vector.
        mask: lanes inside the loop's bounds; None when all are.
    """

    name: str
    lanes: int
    mask: Val | None = None


def strides_of(shape: Shape) -> tuple[DimLike, ...]:
    """Row-major strides in elements."""
    strides: list[DimLike] = []
    running: DimLike = 1
    for extent in reversed(shape):
        strides.append(running)
        running = dims.multiply(running, extent)
    return tuple(reversed(strides))


def linear(index: Index, shape: Shape) -> DimLike:
    """Offset in elements of an index into a row-major buffer."""
    total: DimLike = 0
    for position, stride in zip(index, strides_of(shape), strict=True):
        total = total + dims.multiply(position, stride)
    return total


def split(expression: DimLike, name: str) -> tuple[DimLike, DimLike | None]:
    """``expression == rest + coefficient * name``; the coefficient is None when the expression is not affine in it."""
    if isinstance(expression, int):
        return expression, 0
    rest: DimLike = 0
    coefficient: DimLike = 0
    for monomial, factor in expression.terms:
        term: DimLike = Dim(((monomial, factor),)) if monomial else factor
        if name not in dims.names(term):
            rest = rest + term
        elif monomial.count(name) == 1 and all(isinstance(a, str) for a in monomial):
            others = tuple(a for a in monomial if a != name)
            coefficient = coefficient + (Dim(((others, factor),)) if others else factor)
        else:
            return expression, None
    return rest, coefficient


class Addressing:
    """Evaluation of index expressions.

    Attributes:
        k: the builder.
        env: loop variables and symbolic dims as index values (of lane 0).
        lane: the vectorised loop, or None.
        collapse: loops that were merged into another one: they read 0.
        flat: with all parallel loops run as one, what each of them is in terms of that one.
        identity: the offset that is the flat loop itself.
        wide_indices: vectors of indices need 64 bits.
    """

    def __init__(self, k: KernelBuilder) -> None:
        self.k = k
        self.env: dict[str, Val] = {}
        self.lane: Lane | None = None
        self.collapse: dict[str, DimLike] = {}
        self.flat: dict[str, DimLike] = {}
        self.identity: DimLike = 0
        self.wide_indices = False

    def expression(self, expression: DimLike) -> Val:
        """An index expression as a scalar, or as a vector of integers if it differs between lanes."""
        expression = self.resolve(expression)
        if isinstance(expression, int):
            return self.k.index(expression)
        if not self._varies(expression):
            return self._sum(expression)
        return self._vector(expression)

    def resolve(self, expression: DimLike) -> DimLike:
        """The expression in terms of the loops that are run."""
        if isinstance(expression, int):
            return expression
        if self.collapse:
            expression = dims.substitute(expression, self.collapse)
        if not self.flat:
            return expression
        return dim(FLAT) if expression == self.identity else dims.substitute(expression, self.flat)

    def _varies(self, expression: DimLike) -> bool:
        return any(self._is_vector(name) for name in dims.names(expression))

    def _is_vector(self, name: str) -> bool:
        if self.lane is not None and name == self.lane.name:
            return True
        return self.env[name].lanes > 1

    def _sum(self, expression: DimLike) -> Val:
        """Terms of outer loops first, so that the part that does not change stays outside the inner loops."""
        if isinstance(expression, int):
            return self.k.index(expression)
        terms = sorted((self._term(m, c) for m, c in expression.terms), key=lambda v: v.level)
        total = terms[0]
        for term in terms[1:]:
            total = self.k.add(total, term)
        return total

    def _term(self, monomial: dims.Monomial, coefficient: int) -> Val:
        factors = sorted((self._atom(a) for a in monomial), key=lambda v: v.level)
        if not factors:
            return self.k.index(coefficient)
        total = factors[0]
        for factor in factors[1:]:
            total = self.k.mul(total, factor)
        return total if coefficient == 1 else self.k.mul(total, self.k.index(coefficient))

    def _atom(self, atom: dims.Atom) -> Val:
        if isinstance(atom, str):
            return self.env[atom]
        a, b = self._sum(atom.lhs), self._sum(atom.rhs)
        return getattr(self.k, atom.function)(a, b)  # type: ignore[no-any-return]

    def _vector(self, expression: Dim) -> Val:
        """The value in every lane, as i32 or i64."""
        assert self.lane is not None or any(self.env[n].lanes > 1 for n in dims.names(expression))
        total: Val | None = None
        fixed: DimLike = 0
        for monomial, coefficient in expression.terms:
            term = Dim(((monomial, coefficient),)) if monomial else coefficient
            if not self._varies(term):
                fixed = fixed + term
                continue
            value = self._vector_term(monomial, coefficient)
            total = value if total is None else self.k.add(total, value)
        assert total is not None
        return total if fixed == 0 else self.k.add(total, self._narrow(self._sum(fixed)))

    def _vector_term(self, monomial: dims.Monomial, coefficient: int) -> Val:
        total = self._narrow(self.k.index(coefficient)) if coefficient != 1 else None
        for atom in monomial:
            factor = self._vector_atom(atom)
            total = factor if total is None else self.k.mul(total, factor)
        assert total is not None
        return total

    def _vector_atom(self, atom: dims.Atom) -> Val:
        if isinstance(atom, str):
            return self._vector_name(atom)
        a = self._operand(atom.lhs)
        function = getattr(self.k, atom.function)
        if not isinstance(atom.rhs, int):
            return function(a, self._operand(atom.rhs))  # type: ignore[no-any-return]
        if atom.function in ("min", "max") or not dims.never_negative(atom.lhs):
            return function(a, atom.rhs)  # type: ignore[no-any-return]
        unsigned = u64 if a.dtype is i64 else u32  # so that division by a power of two is a shift
        return self.k.bitcast(function(self.k.bitcast(a, unsigned), atom.rhs), a.dtype)

    def _operand(self, expression: DimLike) -> Val:
        if not isinstance(expression, int) and self._varies(expression):
            return self._vector(expression)
        return self._narrow(self._sum(expression))

    def _vector_name(self, name: str) -> Val:
        value = self._narrow(self.env[name])
        if self.lane is None or name != self.lane.name:
            return value
        return self.k.add(value, self.k.iota(self.lane.lanes, self._index_type()))

    def _index_type(self) -> DType:
        return i64 if self.wide_indices else i32

    def _narrow(self, value: Val) -> Val:
        """An index value in the type of vector indices."""
        wanted = self._index_type()
        return value if value.dtype is wanted else self.k.cast(value, wanted)
