"""Index maps between values: where an op reads when it is computed at a point of a loop domain.

Loops of a domain are named ``d0, d1, ...``; a loop of extent 1 is the number 0. The *home* of a value is the index, in
terms of the domain's loops, at which a group computes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from firebox import dims
from firebox.dialects.nd.aval import Shape
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.formula import Formula, Guard, Read
from firebox.dims import Dim, DimLike, dim

Index = tuple[DimLike, ...]

_MANY_PARTS = 8
"""As many kernels to compile cost more than one more pass over memory."""

_FORMULAS: dict[tuple[object, ...], Formula] = {}
_CAPACITY = 8192


def formula_of(op: NdOp) -> Formula:
    """The op's formula; equal ops share one object."""
    key = (type(op), tuple(o.type for o in op._operands), tuple(r.type for r in op.results), *op.attributes.items())
    found = _FORMULAS.get(key)
    if found is None:
        if len(_FORMULAS) >= _CAPACITY:
            _FORMULAS.clear()
        found = _FORMULAS[key] = op.get_formula()
    return found


def loops(domain: Shape) -> Index:
    """The loop variables of a domain; 0 where the extent is 1."""
    return tuple(0 if extent == 1 else dim(f"d{k}") for k, extent in enumerate(domain))


def substitute(index: Index, env: Mapping[str, DimLike]) -> Index:
    """Replace names in every expression."""
    return tuple(_substitute(e, env) for e in index)


def _substitute(expression: DimLike, env: Mapping[str, DimLike]) -> DimLike:
    if isinstance(expression, int):
        return expression
    terms = expression.terms
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:  # a bare name, nearly always
        atom = terms[0][0][0]
        if isinstance(atom, str):
            return env.get(atom, expression)
    return dims.substitute(expression, env)


def point(home: Index) -> dict[str, DimLike]:
    """The values of ``i*`` at a home."""
    return {f"i{k}": e for k, e in enumerate(home)}


def substitute_guard(guard: Guard, env: Mapping[str, DimLike]) -> Guard:
    """Replace names in a guard."""
    return Guard(
        _substitute(guard.expression, env),
        _substitute(guard.size, env),
        _substitute(guard.multiple, env),
        guard.divisor,
    )


def is_movement(op: Operation | None) -> bool:
    """The op only moves elements (a view, a slice, a transpose, ...) of at most one operand."""
    return isinstance(op, NdOp) and (op.kind is Kind.RESHAPE or op.movement) and len(op._operands) <= 1


def part_offset(op: NdOp) -> DimLike | None:
    """Where the elements of a slice begin in its row-major operand, if they follow each other there; in elements.

    None for other ops and for slices with gaps. A slice has none if, from the first dim on that it takes more than one
    of, it takes every element of all dims but that one.
    """
    if op.name != "nd.slice":
        return None
    offset: DimLike = 0
    started = False
    bounds = zip(*(op.values[name] for name in ("start", "stop", "step")), strict=True)
    for (start, stop, step), size in zip(bounds, op.operand_avals[0].shape, strict=True):
        if started and not (start == 0 and stop == size and step == 1):
            return None
        started = started or stop - start != 1
        if step != 1 and started:
            return None
        offset = dims.multiply(offset, size) + start
    return offset


def is_join(op: NdOp) -> bool:
    """Each element is looked for in several places: joined arrays, which in joined arrays would multiply the search."""
    return sum(bool(read.guards) for read in formula_of(op).reads) > 1


def is_taken_apart(op: NdOp) -> bool:
    """So many parts are taken of the result that it is better made as a whole, once: each part would be a kernel."""
    parts = [use.operation for result in op.results for use in result.uses if isinstance(use.operation, NdOp)]
    return sum(part_offset(part) is not None for part in parts) >= _MANY_PARTS


def owner_op(value: SSAValue) -> NdOp | None:
    """The nd op that computes a value; None for block arguments."""
    owner = value.owner
    return owner if isinstance(owner, NdOp) else None


@dataclass(frozen=True)
class Reduction:
    """How a reduce op sits in its own loop domain.

    Attributes:
        domain: extents of all its loops.
        axes: the reduced ones.
        env: values of ``i*`` and ``r*``.
        home: index at which the results are computed.
        plain: every element of the one operand is read exactly once, at its own index.
    """

    domain: Shape
    axes: tuple[int, ...]
    env: dict[str, DimLike]
    home: Index
    plain: bool


_REDUCTIONS: dict[int, tuple[Formula, Reduction]] = {}


def reduction_of(formula: Formula) -> Reduction:
    """Loop domain of a reduce formula: the operand's shape if it is read in place, else ``i*`` then ``r*``."""
    kept = _REDUCTIONS.get(id(formula))
    if kept is not None and kept[0] is formula:
        return kept[1]
    result = _plain(formula) or _general(formula)
    if len(_REDUCTIONS) >= _CAPACITY:
        _REDUCTIONS.clear()
    _REDUCTIONS[id(formula)] = (formula, result)
    return result


def _plain(formula: Formula) -> Reduction | None:
    if len(formula.reads) != 1 or formula.reads[0].guards:
        return None
    extents = {f"i{k}": e for k, e in enumerate(formula.extents)} | {f"r{k}": e for k, e in enumerate(formula.reduced)}
    names: list[str] = []
    for position, expression in enumerate(formula.reads[0].index):
        name = _bare(expression) if isinstance(expression, Dim) else _unit_name(extents, names, position)
        if name is None or name not in extents or name in names:
            return None
        names.append(name)
    rest = [n for n, e in extents.items() if n not in names]
    if any(extents[n] != 1 for n in rest):
        return None
    domain = tuple(extents[n] for n in names)
    variables = loops(domain)
    env: dict[str, DimLike] = dict.fromkeys(rest, 0)
    env.update(zip(names, variables, strict=True))
    axes = tuple(k for k, n in enumerate(names) if n.startswith("r"))
    home = tuple(env[f"i{k}"] for k in range(len(formula.extents)))
    return Reduction(domain, axes, env, home, True)


def _unit_name(extents: Mapping[str, DimLike], used: list[str], position: int) -> str | None:
    """A loop of extent 1 to stand for a constant index 0."""
    return next((n for n, e in extents.items() if e == 1 and n not in used), None)


def _bare(expression: Dim) -> str | None:
    terms = expression.terms
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1 and isinstance(terms[0][0][0], str):
        return terms[0][0][0]
    return None


def _general(formula: Formula) -> Reduction:
    domain = formula.extents + formula.reduced
    variables = loops(domain)
    rank = len(formula.extents)
    env = point(variables[:rank]) | {f"r{k}": e for k, e in enumerate(variables[rank:])}
    return Reduction(domain, tuple(range(rank, len(domain))), env, variables[:rank], False)


def op_env(op: NdOp, home: Index) -> dict[str, DimLike]:
    """Values of ``i*`` and ``r*`` for a map at a home, or for a reduce in its own domain."""
    if op.kind is Kind.REDUCE:
        return reduction_of(formula_of(op)).env
    return point(home)


def through_movement(value: SSAValue, index: Index) -> tuple[SSAValue, Index, bool]:
    """Follow views and moves back to the value whose element is read; the flag tells that a guard was met."""
    guarded = False
    while True:
        op = owner_op(value)
        if op is None or not is_movement(op) or not op._operands:
            return value, index, guarded
        formula = formula_of(op)
        read = formula.reads[0]
        guarded = guarded or bool(read.guards)
        index = simplify(substitute(read.index, point(index)), op)
        value = op._operands[0]


def simplify(index: Index, op: NdOp) -> Index:
    """Dims of extent 1 are read at 0."""
    shape = op.operand_avals[0].shape
    return tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))


def reads_at(op: NdOp, home: Index) -> list[tuple[SSAValue, Index, Read]]:
    """Operand values and indices that the op reads when computed at its home."""
    formula = formula_of(op)
    env = op_env(op, home)
    found = []
    for read in formula.reads:
        value = op._operands[read.operand]
        shape = op.operand_avals[read.operand].shape
        index = substitute(read.index, env)
        index = tuple(0 if extent == 1 else e for e, extent in zip(index, shape, strict=True))
        found.append((value, index, read))
    return found
