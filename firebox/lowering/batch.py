"""Batching of straight-line nd code: replaces `nd.vmap` by its region's ops run over a new leading axis."""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.transform import CheckpointOp, CustomVjpOp, VmapOp, YieldOp, signature_of, yielded
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dialects.xdsl_compat import location_text, operands_of
from firebox.dims import DimLike
from firebox.errors import CompilerError, FireboxError
from firebox.lowering.batch_control import batch_control
from firebox.lowering.rewrite import RECOMPUTE, block_holding, body_ops, move_before, replace_args, replace_op

Known = dict[SSAValue, SSAValue]
"""Values of the region that are batched, with their batched counterpart (new axis first)."""


def expand_vmap(op: VmapOp) -> None:
    """Replace an `nd.vmap` whose region holds no grad, jvp or vmap."""
    _check(op)
    params, operands, block = op.values, operands_of(op), op.body.block
    batcher = _Batcher(op, params["size"][0])
    known: Known = {}
    for arg, operand, axis in zip(block.args, operands, params["in_axes"], strict=True):
        if axis >= 0:
            known[arg] = _move_axis(Value(operand, batcher.at), axis, 0).ssa
    ends = batcher.run(block, known)
    batcher.at.location = op.location
    results = [_place(batcher, v, known, axis) for v, axis in zip(ends, params["out_axes"], strict=True)]
    bound: Known = dict(zip(block.args, operands, strict=True))
    replace_args(block, operands)
    replace_op(op, [bound.get(r, r) for r in results])


def _check(op: VmapOp) -> None:
    try:
        op.type_rule(op.operand_avals, [signature_of(b) for b in op.blocks], **op.values)
    except FireboxError as error:
        raise error.at(location_text(op.location)) from None


def _place(batcher: "_Batcher", value: SSAValue, known: Known, axis: int) -> SSAValue:
    found = known.get(value)
    batched = batcher.spread(value) if found is None else Value(found, batcher.at)
    return _move_axis(batched, 0, axis).ssa


def _move_axis(value: Value, source: int, target: int) -> Value:
    order = [k for k in range(value.rank) if k != source]
    order.insert(target, source)
    return value.transpose(tuple(order))


class _Batcher:
    """Puts the batched ops before ``anchor``."""

    def __init__(self, anchor: Operation, size: DimLike) -> None:
        self.at = Inserter(anchor)
        self._anchor = anchor
        self.size = size

    def spread(self, value: SSAValue) -> Value:
        """The value repeated along a new leading axis."""
        plain = Value(value, self.at)
        return plain.broadcast_to((self.size, *plain.shape))

    def run(self, block: Block, known: Known) -> tuple[SSAValue, ...]:
        """Batch what depends on ``known`` (which grows) and move the rest; returns what the block yields."""
        for op in body_ops(block):
            if not isinstance(op, NdOp) or not _depends(op, known):
                move_before([op], self._anchor)
                continue
            self.at.location = op.location
            mark = op.attributes.get(RECOMPUTE)
            self.at.mark = {} if mark is None else {RECOMPUTE: mark}
            if isinstance(op, ControlOp):
                self._control(op, known)
                continue
            results = self._batch(op, known)
            known.update(zip(op.results, results, strict=True))
        self.at.mark = {}
        return yielded(block)

    def _batch(self, op: NdOp, known: Known) -> Sequence[SSAValue]:
        if isinstance(op, CheckpointOp):
            return self._checkpoint(op, known)
        if isinstance(op, CustomVjpOp):
            return self._custom(op, known)
        if op.kind is Kind.REGION:
            raise CompilerError("this region op cannot be batched", op=op.name).at(location_text(op.location))
        flags = [v in known for v in operands_of(op)]
        operands = [Value(known.get(v, v), self.at) for v in operands_of(op)]
        results = [_as_value(op, r) for r in _rule(op, operands, flags)]
        _verify(op, results, self.size)
        return [r.ssa for r in results]

    def _control(self, op: ControlOp, known: Known) -> None:
        """Results that are the same for all slices stay so."""
        for result, (value, batched) in zip(op.results, batch_control(op, known, self), strict=True):
            if batched:
                known[result] = value
            else:
                result.replace_all_uses_with(value)

    def _checkpoint(self, op: CheckpointOp, known: Known) -> Sequence[SSAValue]:
        """A checkpoint of the batched region; arguments that are not batched stay so."""
        operands = [known.get(v, v) for v in operands_of(op)]
        flags = [v in known for v in operands_of(op)]
        block = self.region(op.body.block, flags, known)
        return self._insert(CheckpointOp.build_region_op(operands, {}, [block], op.location))

    def _custom(self, op: CustomVjpOp, known: Known) -> Sequence[SSAValue]:
        """Both regions batched in everything, so that the backward region still takes what the forward one gives."""
        operands = [known[v] if v in known else self.spread(v).ssa for v in operands_of(op)]
        blocks = [self.region(b, [True] * len(b.args), known) for b in op.blocks]
        return self._insert(CustomVjpOp.build_region_op(operands, op.values, blocks, op.location))

    def _insert(self, op: Operation) -> Sequence[SSAValue]:
        block_holding(self._anchor).insert_op_before(op, self._anchor)
        return op.results

    def region(self, old: Block, flags: Sequence[bool], known: Known, wanted: Sequence[bool] | None = None) -> Block:
        """A new block with the batched ops of an old one, which is left empty.

        Args:
            flags: which arguments are batched.
            known: batched values from outside.
            wanted: which yields are to be batched, among them all that must be; by default all.
        """
        avals = [aval_of(a.type) for a in old.args]
        new = block_of([_batched(a, self.size) if f else a for a, f in zip(avals, flags, strict=True)])
        end = YieldOp.create()
        new.add_op(end)
        inner = _Batcher(end, self.size)
        scope = dict(known)
        for arg, fresh, flag in zip(old.args, new.args, flags, strict=True):
            if flag:
                scope[arg] = fresh
        values = inner.run(old, scope)
        chosen = [True] * len(values) if wanted is None else wanted
        end.operands = [inner.yielded(v, scope, flag) for v, flag in zip(values, chosen, strict=True)]
        replace_args(old, new.args)
        return new

    def yielded(self, value: SSAValue, known: Known, batched: bool) -> SSAValue:
        """A value as a region yields it."""
        if value in known:
            assert batched, "a value that is not the same for all slices"
            return known[value]
        return self.spread(value).ssa if batched else value


def _depends(op: NdOp, known: Known) -> bool:
    return any(v in known for inner in op.walk() for v in operands_of(inner))


def _batched(aval: Aval, size: DimLike) -> Aval:
    return Aval(aval.dtype, (size, *aval.shape))


def _rule(op: NdOp, operands: Sequence[Value], flags: Sequence[bool]) -> Sequence[ArrayLike]:
    try:
        results = op.batch(operands, flags, **op.values)
    except FireboxError as error:
        raise error.at(location_text(op.location)) from None
    return [results] if isinstance(results, ArrayLike) else results


def _as_value(op: NdOp, value: ArrayLike) -> Value:
    if isinstance(value, Value):
        return value
    raise CompilerError("the batching rule must return arrays", op=op.name, found=type(value).__name__)


def _verify(op: NdOp, results: Sequence[Value], size: DimLike) -> None:
    expected = [_batched(a, size) for a in op.avals]
    found = [r.aval for r in results]
    if expected != found:
        raise CompilerError(
            "the batching rule gives other types",
            op=op.name,
            expected=", ".join(map(str, expected)),
            found=", ".join(map(str, found)),
        ).at(location_text(op.location))
