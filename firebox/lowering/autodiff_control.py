"""Derivatives of control flow, written with the derivatives of the regions: a `nd.grad` or `nd.jvp` in a new region.

A `nd.cond` computes the branch again on its way back; `autodiff_scan` goes back through a `nd.scan`. A `nd.while` has
no way back. Forward, each op becomes one that carries the tangents along.
"""

from collections.abc import Callable, Collection, Sequence

from xdsl.ir import Block, Operation, SSAValue

from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp
from firebox.dialects.nd.transform import GradOp, JvpOp, yield_values, yielded
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.rewrite import body_ops, copy_ops, erase_dead, remade, zeros

ExpandGrad = Callable[[GradOp], None]
ExpandJvp = Callable[[JvpOp], None]


def is_float(value: SSAValue) -> bool:
    """Whether a value can have a derivative."""
    return aval_of(value.type).dtype.is_float


def avals_of(values: Sequence[SSAValue]) -> list[Aval]:
    """The types of values."""
    return [aval_of(v.type) for v in values]


def uses_of(op: Operation) -> list[SSAValue]:
    """Operands of an op and of what is inside it."""
    return [v for inner in op.walk() for v in operands_of(inner)]


def dependents(ops: Sequence[Operation], start: Collection[SSAValue]) -> set[SSAValue]:
    """The values that depend on some, those included."""
    found = set(start)
    for op in ops:
        if any(v in found for v in uses_of(op)):
            found.update(op.results)
    return found


def active_arguments(op: ControlOp, active: Collection[SSAValue]) -> list[int]:
    """Numbers of the region arguments through which a derivative flows: by way of the carried values too."""
    first = 1 if isinstance(op, CondOp) else 0
    operands = operands_of(op)[first:]
    found = {k for k, v in enumerate(operands) if v in active and is_float(v)}
    if isinstance(op, CondOp):
        return sorted(found)
    body, carry = op.blocks[-1], op.values["carry"]
    while True:
        reached = dependents(body_ops(body), [body.args[k] for k in found])
        more = {k for k, v in enumerate(yielded(body)[:carry]) if v in reached and is_float(v)}
        if more <= found:
            return sorted(found)
        found |= more


def region_of(source: Block, arguments: Sequence[SSAValue], by: Sequence[int], order: Sequence[int]) -> Block:
    """A copy of a block as the region of a derivative by some arguments, with its yields in another order."""
    inside = block_of(avals_of([source.args[k] for k in by]))
    given = list(arguments)
    for k, argument in zip(by, inside.args, strict=True):
        given[k] = argument
    ends = copy_ops(source, given, inside.add_op)
    inside.add_op(yield_values([ends[k] for k in order]))
    return inside


# ---- backward through a branch -----------------------------------------------------------------------------------


def pull_cond(
    op: CondOp, cotangents: Sequence[Value | None], active: Collection[SSAValue], at: Inserter, expand: ExpandGrad
) -> list[Value | None]:
    """Cotangents of the operands of a branch."""
    operands = operands_of(op)
    by = active_arguments(op, active)
    seeds = [k for k, c in enumerate(cotangents) if c is not None and is_float(op.results[k])]
    given = [c.ssa for k in seeds if (c := cotangents[k]) is not None]
    blocks = []
    for source in op.blocks:
        block = block_of([*avals_of(operands[1:]), *avals_of(given)])
        own, incoming = block.args[: len(operands) - 1], block.args[len(operands) - 1 :]
        inside = region_of(source, own, by, seeds)
        params = {"wrt": len(by), "seeds": len(seeds)}
        grad = GradOp.build_region_op([*(own[k] for k in by), *incoming], params, [inside], op.location)
        block.add_ops([grad, yield_values(grad.results[: len(by)])])
        expand(grad)
        erase_dead(block)
        blocks.append(block)
    made = at.put(remade(op, [*operands, *given], {}, blocks))
    found = dict(zip(by, made.results, strict=True))
    return [None, *(Value(found[k], at) if k in found else None for k in range(len(operands) - 1))]


# ---- forward -----------------------------------------------------------------------------------------------------


class Pushed:
    """An op with control flow that carries tangents along.

    Attributes:
        op: the new op, detached; its results are listed in ``values`` and ``tangents``.
        values, tangents: numbers of its results, for each result of the old op; None where there is no tangent.
    """

    def __init__(self, op: ControlOp, tangents: dict[SSAValue, SSAValue], at: Inserter, expand: ExpandJvp) -> None:
        self.old = op
        self.at = at
        self.expand = expand
        self.tangents_of = tangents
        self.by = active_arguments(op, tangents)
        if isinstance(op, CondOp):
            self._cond(op)
        else:
            self._loop(op)

    def _tangent(self, value: SSAValue) -> SSAValue:
        found = self.tangents_of.get(value)
        return found if found is not None else zeros(self.at, aval_of(value.type)).ssa

    def _block(self, source: Block, places: Sequence[int], avals: Sequence[Aval], moved: Sequence[int]) -> Block:
        """A block that computes the values of another and the tangents of some of its results.

        Args:
            places: where the arguments of the other are; their tangents are where -1 - k is for argument k.
        """
        block = block_of(avals)
        where = {p: block.args[k] for k, p in enumerate(places)}
        own = [where[k] for k in range(len(source.args))]
        rest = [k for k in range(len(yielded(source))) if k not in moved]
        inside = region_of(source, own, self.by, [*moved, *rest])
        operands = [*(own[k] for k in self.by), *(where[-1 - k] for k in self.by)]
        params = {"wrt": len(self.by), "seeds": len(moved)}
        jvp = JvpOp.build_region_op(operands, params, [inside], self.old.location)
        block.add_op(jvp)
        count = len(yielded(source))
        values = dict(zip([*moved, *rest], jvp.results, strict=False))
        moves = dict(zip(moved, jvp.results[count:], strict=True))
        order = self._order(count, moved)
        block.add_op(yield_values([values[k] if k >= 0 else moves[-1 - k] for k in order]))
        self.expand(jvp)
        erase_dead(block)
        return block

    def _order(self, count: int, moved: Sequence[int]) -> list[int]:
        """Results of the new op: result k of the old one, or -1 - k for its tangent; carried values first."""
        carry = 0 if isinstance(self.old, CondOp) else self.old.values["carry"]
        first = [*range(carry), *(-1 - k for k in moved if k < carry)]
        return [*first, *range(carry, count), *(-1 - k for k in moved if k >= carry)]

    def _finish(self, op: ControlOp, moved: Sequence[int]) -> None:
        order = self._order(len(self.old.results), moved)
        results = dict(zip(order, self.at.put(op).results, strict=True))
        self.values = [results[k] for k in range(len(self.old.results))]
        self.tangents = [results.get(-1 - k) for k in range(len(self.old.results))]

    def _cond(self, op: CondOp) -> None:
        operands = operands_of(op)
        moved = [k for k, r in enumerate(op.results) if is_float(r)]
        moves = [self._tangent(operands[1 + k]) for k in self.by]
        places = [*range(len(operands) - 1), *(-1 - k for k in self.by)]
        avals = avals_of([*operands[1:], *moves])
        blocks = [self._block(b, places, avals, moved) for b in op.blocks]
        self._finish(remade(op, [*operands, *moves], {}, blocks), moved)

    def _loop(self, op: ControlOp) -> None:
        operands, params = operands_of(op), dict(op.values)
        body = op.blocks[-1]
        carry = params["carry"]
        sliced = carry + params.get("slices", 0)
        reached = dependents(body_ops(body), [body.args[k] for k in self.by])
        ends = yielded(body)
        moved = [k for k in self.by if k < carry]
        moved += [k for k in range(carry, len(ends)) if ends[k] in reached and is_float(ends[k])]
        places: list[int] = []
        for start, stop in ((0, carry), (carry, sliced), (sliced, len(operands))):
            places += [*range(start, stop), *(-1 - k for k in self.by if start <= k < stop)]
        values = [operands[k] if k >= 0 else self._tangent(operands[-1 - k]) for k in places]
        avals = avals_of([body.args[k if k >= 0 else -1 - k] for k in places])
        blocks = [self._block(body, places, avals, moved)]
        params["carry"] += sum(k < carry for k in self.by)
        if isinstance(op, ScanOp):
            params["slices"] += sum(carry <= k < sliced for k in self.by)
        else:
            blocks.insert(0, self._condition(op.blocks[0], places, avals))
        self._finish(remade(op, values, params, blocks), moved)

    def _condition(self, source: Block, places: Sequence[int], avals: Sequence[Aval]) -> Block:
        block = block_of(avals)
        where = {p: block.args[k] for k, p in enumerate(places)}
        block.add_op(yield_values(copy_ops(source, [where[k] for k in range(len(source.args))], block.add_op)))
        return block
