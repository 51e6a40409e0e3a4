"""Pass `layout`: transposes become part of contractions, or move to where there are fewer of them.

Before::

    %t = nd.transpose %w {permutation = [1, 0]}
    %y = nd.contract %x, %t {spec = "m k, k n -> m n"}

After::

    %y = nd.contract %x, %w {spec = "m k, n k -> m n"}
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.ops.contract_spec import ContractSpec, parse_spec
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import operands_of, ops_of
from firebox.lowering.patterns import Rewriter, defined_by, reads_elements
from firebox.lowering.rewrite import erase_dead, functions_of, replace_op

MAX_SWEEPS = 16
LOOK_AHEAD = 8
"""Element-wise ops in a row that a transpose is moved through to where it vanishes."""
CONTRACT, TRANSPOSE = "nd.contract", "nd.transpose"


@dataclass(frozen=True)
class LayoutPass(ModulePass):
    """Fold transposes into contractions."""

    name = "nd-layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layout(op)


def layout(module: ModuleOp) -> None:
    """Fold and move the transposes of a module, in place."""
    for function in functions_of(module):
        _layout_block(function.body.block)


def _layout_block(block: Block) -> None:
    for _ in range(MAX_SWEEPS):
        changes = [_rewrite(op) for op in list(ops_of(block)) if isinstance(op, NdOp)]
        if not any(changes):
            break
        erase_dead(block)
    for op in ops_of(block):
        for region in op.regions:
            for inner in region.blocks:
                _layout_block(inner)


def _rewrite(op: NdOp) -> bool:
    new = None
    if op.name == CONTRACT:
        new = _fold_operands(op)
    elif op.name == TRANSPOSE:
        new = _fold_result(op)
    elif op.kind is Kind.MAP and len(op.results) == 1:
        new = _move_down(op)
    if new is None:
        return False
    replace_op(op, [new.ssa])
    return True


def _fold_operands(op: NdOp) -> Value | None:
    """Read the operands of a contraction before their transposes."""
    spec = parse_spec(op.values["spec"])
    operands = list(operands_of(op))
    terms = list(spec.operands)
    for side, operand in enumerate(operands):
        inner = defined_by(operand, TRANSPOSE)
        if inner is None:
            continue
        order = inner.values["permutation"]
        term = terms[side]
        terms[side] = tuple(term[order.index(k)] for k in range(len(order)))
        operands[side] = operands_of(inner)[0]
    if operands == list(operands_of(op)):
        return None
    return _contract(op, Rewriter(op), operands, replace(spec, lhs=terms[0], rhs=terms[1]))


def _fold_result(op: NdOp) -> Value | None:
    """Transpose of a transpose, or of a contraction that nothing else uses."""
    (x,) = operands_of(op)
    order = op.values["permutation"]
    rewriter = Rewriter(op)
    if order == tuple(range(len(order))):
        return rewriter.value(x)
    inner = defined_by(x, TRANSPOSE)
    if inner is not None:
        first = inner.values["permutation"]
        return rewriter.value(operands_of(inner)[0]).transpose(tuple(first[k] for k in order))
    product = defined_by(x, CONTRACT)
    if product is None or not x.has_one_use():
        return None
    spec = parse_spec(product.values["spec"])
    wanted = replace(spec, out=tuple(spec.out[k] for k in order))
    return _contract(product, Rewriter(product), operands_of(product), wanted)


def _contract(old: NdOp, rewriter: Rewriter, operands: Sequence[SSAValue], spec: ContractSpec) -> Value:
    """A contraction like ``old`` with another spec over the same loop names."""
    before = parse_spec(old.values["spec"])
    extents = dict(zip(before.names, old.values["sizes"], strict=True))
    lhs, rhs = (rewriter.value(v) for v in operands)
    return lhs.one("contract", lhs, rhs, spec=str(spec), sizes=tuple(extents[n] for n in spec.names))


def _move_down(op: NdOp) -> Value | None:
    """Transpose the result of an element-wise op instead of its operands, where that leaves fewer transposes."""
    operands = operands_of(op)
    inner = [defined_by(v, TRANSPOSE) for v in operands]
    orders = {t.values["permutation"] for t in inner if t is not None}
    if len(orders) != 1:
        return None
    (order,) = orders
    gone = {id(t) for t in inner if t is not None and all(use.operation is op for use in t.results[0].uses)}
    if not _turns(op, order) or len(gone) <= (0 if _absorbed(op.results[0], order, LOOK_AHEAD) else 1):
        return None
    rewriter = Rewriter(op)
    values = [rewriter.value(v if t is None else operands_of(t)[0]) for v, t in zip(operands, inner, strict=True)]
    return values[0].apply(type(op), values, op.values)[0].transpose(order)


def _turns(op: NdOp, order: Sequence[int], turned: SSAValue | None = None) -> bool:
    """Whether all operands are transposed in that order (``turned`` is meant to be) or single numbers."""
    if op.kind is not Kind.MAP or op.movement or len(op.results) != 1:
        return False  # parameters of movements belong to the dims as they are
    for value in operands_of(op):
        inner = defined_by(value, TRANSPOSE)
        same = value is turned or (inner is not None and inner.values["permutation"] == order)
        if not same and aval_of(value.type).rank:
            return False
    return reads_elements(op)


def _absorbed(value: SSAValue, order: Sequence[int], depth: int) -> bool:
    """Whether all users take the transpose in without cost, if need be further down."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        isinstance(user, NdOp)
        and (
            user.name in (CONTRACT, TRANSPOSE)
            or (depth > 0 and _turns(user, order, value) and _absorbed(user.results[0], order, depth - 1))
        )
        for user in users
    )
