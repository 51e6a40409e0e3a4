"""`Value`: an SSA value of nd IR with the operators of `ArrayLike`; writing an expression inserts its ops."""

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, aval_of, tensor_type
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.operators import Operators

AnyOp = TypeVar("AnyOp", bound=Operation)


class Inserter:
    """Where `Value`s put new ops: at the end of a block or before an op; shares equal pure ops while it lives.

    Attributes:
        location: source location given to new ops.
        mark: attributes added to new ops, e.g. ``recompute``.
    """

    def __init__(self, point: Block | Operation) -> None:
        self._builder = Builder(InsertPoint.at_end(point) if isinstance(point, Block) else InsertPoint.before(point))
        self._known: dict[tuple[Any, ...], NdOp] = {}
        self.location: Any = UnknownLoc()
        self.mark: dict[str, Attribute] = {}

    def insert(self, op: type[NdOp], operands: Sequence[SSAValue], params: dict[str, Any]) -> NdOp:
        """Insert an op, or return an equal one inserted before."""
        key = (op, tuple(operands), tuple(sorted(params.items())), tuple(self.mark.items()))
        found = self._known.get(key)
        if found is None:
            found = op.build_op(operands, params)
            found.attributes.update(self.mark)
            found.location = self.location
            self._builder.insert(found)
            self._known[key] = found
        return found

    def put(self, op: AnyOp) -> AnyOp:
        """Insert a finished op, such as one with regions."""
        self._builder.insert(op)
        return op

    def value(self, ssa: SSAValue) -> "Value":
        return Value(ssa, self)


class Value(ArrayLike):
    """An SSA value together with the place where expressions on it go."""

    __slots__ = ("at", "ssa")

    def __init__(self, ssa: SSAValue, at: Inserter) -> None:
        self.ssa = ssa
        self.at = at

    @property
    def aval(self) -> Aval:
        return aval_of(self.ssa.type)

    def apply(self, op: type[NdOp], operands: Sequence[Operators], params: dict[str, Any]) -> tuple[Self, ...]:
        inserted = self.at.insert(op, [o.ssa for o in operands if isinstance(o, Value)], params)
        return tuple(type(self)(r, self.at) for r in inserted.results)

    def __repr__(self) -> str:
        return f"Value({self.aval})"


def block_of(avals: Sequence[Aval]) -> Block:
    """A block with one argument per aval."""
    return Block(arg_types=[tensor_type(a) for a in avals])
