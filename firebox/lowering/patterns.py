"""Rewrite patterns for canonicalize: the table, open to plugins, and what a pattern may ask and do."""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.formula import broadcast_read
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.value import Inserter, Value
from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.rewrite import RECOMPUTE, constant

Replacement = Value | Sequence[Value] | None
Pattern = Callable[[NdOp, "Rewriter"], Replacement]

UNIFORM_LIMIT = 1024
"""Largest constant, in elements, that is looked through for equal elements."""

_PATTERNS: dict[str | Kind, list[Pattern]] = {}


def pattern(*ops: str | Kind | type[NdOp]) -> Callable[[Pattern], Pattern]:
    """Decorator: try a function on ops of these full names (``nd.add``), classes or kinds.

    The function gets the op and a `Rewriter` and returns the values that replace the op's results, or None where it
    does not apply. It must make progress towards fewer or simpler ops: canonicalize runs patterns until none applies.
    """

    def enter(function: Pattern) -> Pattern:
        for op in ops:
            _PATTERNS.setdefault(op.name if isinstance(op, type) else op, []).append(function)
        return function

    return enter


def patterns_of(op: NdOp) -> Sequence[Pattern]:
    """The patterns for an op: those for its name, then those for its kind, in order of registration."""
    return (*_PATTERNS.get(op.name, ()), *_PATTERNS.get(op.kind, ()))


class Rewriter:
    """Stands at one op; what is inserted goes before it, with its location and its ``recompute`` mark."""

    def __init__(self, op: NdOp) -> None:
        self.op = op
        self._at: Inserter | None = None

    @property
    def at(self) -> Inserter:
        """Where new ops go."""
        if self._at is None:
            self._at = Inserter(self.op)
            self._at.location = self.op.location
            mark = self.op.attributes.get(RECOMPUTE)
            self._at.mark = {} if mark is None else {RECOMPUTE: mark}
        return self._at

    @property
    def aval(self) -> Aval:
        """The aval of the op's first result."""
        return aval_of(self.op.results[0].type)

    def value(self, ssa: SSAValue) -> Value:
        """An SSA value to write expressions with."""
        return Value(ssa, self.at)

    def operand(self, position: int) -> Value:
        """An operand to write expressions with."""
        return Value(operands_of(self.op)[position], self.at)

    def fitted(self, ssa: SSAValue) -> Value:
        """An operand as the result: broadcast to the result's shape where that is larger."""
        return self.value(ssa).broadcast_to(self.aval.shape)

    def filled(self, value: float | int | bool) -> Value:
        """The result as one repeated number."""
        return constant(self.at, value, self.aval.dtype).broadcast_to(self.aval.shape)


def defined_by(value: SSAValue, name: str) -> NdOp | None:
    """The op that defines the value, when it has that full name."""
    owner = value.owner
    return owner if isinstance(owner, NdOp) and owner.name == name else None


def uniform(value: SSAValue) -> np.generic | None:
    """The number that every element of the value is, when a small constant (broadcast, reshaped) says so."""
    owner: Operation | Block = value.owner
    while isinstance(owner, NdOp) and owner.name in ("nd.broadcast_to", "nd.reshape"):
        owner = operands_of(owner)[0].owner
    if not isinstance(owner, NdOp) or owner.name != "nd.constant":
        return None
    literal: Literal = owner.values["value"]
    flat = literal.array().reshape(-1)
    size = len(literal.data) // max(flat.size, 1)
    if not 0 < flat.size <= UNIFORM_LIMIT or literal.data[:size] * flat.size != literal.data:
        return None
    number: np.generic = flat[0]
    return number


def is_number(value: SSAValue, number: float) -> bool:
    """Whether every element of the value is this number; zeros count by sign (-0.0 is not 0.0)."""
    found = uniform(value)
    if found is None:
        return False
    return bool(found == number) and bool(np.signbit(float(found)) == np.signbit(float(number)))


def reads_elements(op: NdOp) -> bool:
    """Whether each operand is read at the result's own index, as broadcasting does."""
    formula = op.get_formula()
    out, avals = formula.extents, op.operand_avals
    if any(aval.rank > len(out) for aval in avals):  # an operand of more dims, as a gather at one index has
        return False
    return all(read == broadcast_read(read.operand, avals[read.operand].shape, out) for read in formula.reads)
