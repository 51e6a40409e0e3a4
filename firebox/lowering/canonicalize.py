"""Canonicalize: constant folding, algebra, common subexpressions and dead code.

Ops are visited in order, patterns are looked up by the op's name and kind, and the block is visited again until
nothing changes (at most `MAX_SWEEPS` times). Every rewrite keeps locations and ``recompute`` marks; values are never
merged across the border of a region, nor with a recomputed copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.params import DIMS, Literal
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import is_used, operands_of, ops_of
from firebox.lowering import simplify_algebra, simplify_control, simplify_movement
from firebox.lowering.patterns import Rewriter, patterns_of
from firebox.lowering.rewrite import erase_dead, functions_of, is_pure, replace_op

MAX_SWEEPS = 16
FOLD_LIMIT = 1024
"""Largest result, in elements, that is computed at compile time."""

RULES = (simplify_algebra, simplify_control, simplify_movement)
"""The modules whose patterns are entered by importing them."""

_COMMUTATIVE = frozenset(("nd.add", "nd.mul", "nd.eq", "nd.ne", "nd.bitwise_and", "nd.bitwise_or", "nd.bitwise_xor"))
_NEVER_FOLDED = frozenset(("nd.constant", "nd.broadcast_to"))


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Simplify without changing any value."""

    name = "nd-canonicalize"
    max_sweeps: int = MAX_SWEEPS
    """How often a block is visited at most."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize(op, self.max_sweeps)


def canonicalize(module: ModuleOp, max_sweeps: int = MAX_SWEEPS) -> None:
    """Simplify all functions of a module, in place."""
    for function in functions_of(module):
        canonicalize_block(function.body.block, max_sweeps)


def canonicalize_block(block: Block, max_sweeps: int = MAX_SWEEPS) -> bool:
    """Simplify a block and the regions in it; whether anything changed."""
    changed = bool(erase_dead(block))
    for _ in range(max_sweeps):
        again = _sweep(block)
        for op in ops_of(block):
            for region in op.regions:
                for inner in region.blocks:
                    again |= canonicalize_block(inner, max_sweeps)
        if not again:
            break
        changed = True
        erase_dead(block)
    return changed


def _sweep(block: Block) -> bool:
    changed = False
    known: dict[tuple[Any, ...], Operation] = {}
    for op in list(ops_of(block)):
        if not isinstance(op, NdOp) or not _is_plain(op) or not is_pure(op):
            continue
        if not any(is_used(r) for r in op.results):
            block.erase_op(op)
            changed = True
        elif (values := _simpler(op)) is not None:
            replace_op(op, values)
            changed = True
        elif not op.regions and (same := known.setdefault(_key(op), op)) is not op:
            replace_op(op, same.results)
            changed = True
    return changed


def _is_plain(op: NdOp) -> bool:
    """No group and no transform: their regions belong to the passes that made them, or take them apart."""
    return not op.regions or isinstance(op, ControlOp)


def _simpler(op: NdOp) -> Sequence[SSAValue] | None:
    patterns = patterns_of(op)
    folded = _fold(op)
    if folded is not None:
        return folded
    if not patterns:
        return None
    rewriter = Rewriter(op)
    for pattern in patterns:
        found = pattern(op, rewriter)
        if found is not None:
            return [found.ssa] if isinstance(found, Value) else [v.ssa for v in found]
    return None


def _key(op: NdOp) -> tuple[Any, ...]:
    operands: Sequence[SSAValue] = operands_of(op)
    if op.name in _COMMUTATIVE:
        operands = sorted(operands, key=id)  # only compared for equality: which of the equal ops stays is its order
    return (type(op), *operands, frozenset(op.attributes.items()))


def _fold(op: NdOp) -> Sequence[SSAValue] | None:
    """The op on constants, computed now; never what only repeats a constant, never a large result."""
    if op.name in _NEVER_FOLDED or op.regions or (not op.arity and op.name != "nd.dim_size"):
        return None
    literals = []
    for operand in operands_of(op):
        owner = operand.owner
        if not isinstance(owner, NdOp) or owner.name != "nd.constant":
            return None
        literals.append(owner.values["value"])
    sizes = [a.size for a in op.avals]
    largest = max((_count(x) for x in literals), default=1)
    if any(not isinstance(s, int) or s > min(FOLD_LIMIT, largest) for s in sizes) or _symbolic(op):
        return None
    results = op.evaluate_all([x.array() for x in literals], op.values)
    at = Rewriter(op).at
    constant = lookup("nd.constant")
    return [at.insert(constant, (), {"value": Literal.of(r)}).results[0] for r in results]


def _count(literal: Literal) -> int:
    count = 1
    for d in literal.shape:
        count *= d
    return count


def _symbolic(op: NdOp) -> bool:
    values = op.values
    return any(not all(isinstance(d, int) for d in values[name]) for name, param in op.params.items() if param is DIMS)
