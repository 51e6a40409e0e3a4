"""`Plan`: a contraction as a batch of matrix products: which loops are rows, columns, batches and the depth.

Each of the four is a list of loops that run as one, so that a tile of a matrix product serves convolutions too. The
columns are those loops of one factor that hold the innermost loop of the result, so that results are written along
memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from firebox import dims
from firebox.dialects.kernel.builder import Val
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.lowering.generate.body import Body, strides_of
from firebox.lowering.generate.contract_problem import Operand, Problem
from firebox.lowering.generate.gpu.device_body import is_multiple
from firebox.lowering.generate.nest import Loop
from firebox.lowering.generate.stages import needs_wide_indices

VECTOR_BYTES = 16
MAX_LANES = 4
_INDEX_LIMIT = 1 << 31


@dataclass(frozen=True)
class Side:
    """Loops that run as one, outermost first."""

    loops: tuple[Loop, ...]

    @property
    def extent(self) -> DimLike:
        """Number of turns."""
        return dims.product(loop.extent for loop in self.loops)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(loop.name for loop in self.loops)

    @property
    def last(self) -> str:
        """The innermost loop; empty if there is none."""
        return self.loops[-1].name if self.loops else ""

    def decode(self, body: Body, flat: Val) -> dict[str, Val]:
        """The loop variables at a turn of all loops as one."""
        k, env = body.k, {}
        for loop in reversed(self.loops[1:]):
            extent = body.expression(loop.extent)
            env[loop.name], flat = k.mod(flat, extent), k.floordiv(flat, extent)
        for loop in self.loops[:1]:
            env[loop.name] = flat
        return env


@dataclass(frozen=True)
class Plan:
    """The sides of a contraction.

    Attributes:
        problem: the contraction.
        row_operand: number of the factor that varies along the rows; the other one varies along the columns.
        batch: loops of the result that both factors vary along, or none does.
        rows, columns: loops of the result that one factor varies along.
        depth: the reduced loops.
        affine: both factors are read at positions that are affine in the loops.
    """

    problem: Problem
    row_operand: int
    batch: Side
    rows: Side
    columns: Side
    depth: Side
    affine: bool

    @classmethod
    def of(cls, group: GroupOp) -> "Plan":
        """Analyse a group of kind ``contract``; each group once."""
        found = _PLANS.get(group)
        if found is None:
            found = _PLANS[group] = _analyse(Problem.of(group))
        return found

    @property
    def factors(self) -> tuple[Operand, Operand]:
        """The factor of the rows, and that of the columns."""
        operands = self.problem.operands
        return operands[self.row_operand], operands[1 - self.row_operand]

    @property
    def out(self) -> Side:
        """All loops of the result."""
        return Side(self.problem.out)

    def out_strides(self) -> dict[str, DimLike]:
        """Steps in a row-major array with one element for each turn of the result's loops."""
        strides: dict[str, DimLike] = {}
        running: DimLike = 1
        for loop in reversed(self.problem.out):
            strides[loop.name] = running
            running = dims.multiply(running, loop.extent)
        return strides

    def narrow(self, copies: int = 1) -> bool:
        """Whether 32 bits hold every offset, also into that many copies of the result."""
        sizes = (dims.multiply(self.out.extent, copies), self.depth.extent)
        small = all(isinstance(size, int) and size < _INDEX_LIMIT for size in sizes)
        return small and not needs_wide_indices(self.problem.nest.group)


_PLANS: WeakKeyDictionary[GroupOp, Plan] = WeakKeyDictionary()


def _analyse(problem: Problem) -> Plan:
    left, right = (set(operand.names) for operand in problem.operands)
    alone = [loop.name for loop in problem.out if (loop.name in left) != (loop.name in right)]
    row_operand = 1 if alone and alone[-1] in left else 0
    sides = (right, left) if row_operand else (left, right)
    rows, columns = (
        Side(tuple(loop for loop in problem.out if loop.name in alone and loop.name in side)) for side in sides
    )
    batch = Side(tuple(loop for loop in problem.out if loop.name not in alone))
    affine = all(operand.positions is not None for operand in problem.operands)
    return Plan(problem, row_operand, batch, rows, columns, Side(problem.reduced), affine)


# ---- alignment ---------------------------------------------------------------------------------------------------


def vector_lanes(operand: Operand, side: Side, most: int = MAX_LANES) -> int:
    """Elements that follow each other both along a side and in aligned memory; 1 for none.

    The side may be cut at any multiple of that number: such a piece never crosses from one row of memory to the next.
    """
    lanes = min(most, VECTOR_BYTES // operand.dtype.itemsize)
    while lanes > 1 and not _follows(operand, side, lanes):
        lanes //= 2
    return max(1, lanes)


def _follows(operand: Operand, side: Side, lanes: int) -> bool:
    if operand.positions is None:
        return False
    run, inside = 1, set()
    for loop in reversed(side.loops):
        if not _free(operand, loop.name) or operand.stride(loop.name) != run or not isinstance(loop.extent, int):
            break
        run *= loop.extent
        inside.add(loop.name)
    if not inside or run % lanes:
        return False
    return all(is_multiple(step, lanes) for step in _steps(operand, inside))


def _free(operand: Operand, name: str) -> bool:
    """Whether all turns of a loop are read, with or without the guards of other loops."""
    at = [p for p in operand.positions or () if p.coefficient(name)]
    return all(p.base == 1 and not p.guarded for p in at)


def _steps(operand: Operand, inside: set[str]) -> list[DimLike]:
    """What an address is a sum of multiples of, apart from some loops."""
    positions = operand.positions or ()
    found: list[DimLike] = []
    for position, step in zip(positions, strides_of(tuple(p.size for p in positions)), strict=True):
        if position.base != 1:
            found.append(step)
            continue
        factors = [c for name, c in position.terms if name not in inside]
        found += [dims.multiply(factor, step) for factor in (*factors, position.offset)]
    return found


def step_along(operand: Operand, side: Side) -> int:
    """Distance in memory of two turns of a side's innermost loop; large where it is not known."""
    if not side.loops or operand.positions is None:
        return _INDEX_LIMIT
    stride = operand.stride(side.last)
    return abs(stride) if isinstance(stride, int) and stride != 0 else _INDEX_LIMIT


def estimate(value: DimLike, unknown: int = 256) -> int:
    """A size as a number, with a guess for every name."""
    return dims.evaluate(value, dict.fromkeys(dims.names(value), unknown))


def weighted(body: Body, terms: Sequence[tuple[Val, DimLike]], constant: DimLike = 0) -> Val:
    """A sum of products, what changes least first, so that its parts stay outside of inner loops."""
    k = body.k
    total = body.expression(constant)
    for part in sorted((k.mul(v, body.expression(c)) for v, c in terms if c != 0), key=lambda v: v.level):
        total = k.add(total, part)
    return total


Env = Mapping[str, Val]
