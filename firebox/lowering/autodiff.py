"""Derivatives of straight-line nd code by the ops' own `vjp` rules: reverse mode, and forward mode as its transpose.

Forward mode uses that ``c -> vjp(c)`` is linear: its reverse-mode derivative at any ``c``, seeded with the tangents, is
the jvp. An op class may define ``jvp(tangents, operands, results, **params)`` to give the tangents of its results
directly; a tangent is None where there is none.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import Aval, aval_of
from firebox.dialects.nd.base import Kind, NdOp, lookup
from firebox.dialects.nd.control import CondOp, ControlOp, ScanOp, WhileOp
from firebox.dialects.nd.transform import CheckpointOp, CustomVjpOp, GradOp, JvpOp, YieldOp, signature_of, yielded
from firebox.dialects.nd.value import Inserter, Value
from firebox.dialects.xdsl_compat import location_text, operands_of
from firebox.errors import CompilerError, FireboxError, UserError
from firebox.lowering.autodiff_control import Pushed, pull_cond
from firebox.lowering.autodiff_scan import Backward, open_scan, pull_scan
from firebox.lowering.rewrite import (
    RECOMPUTE,
    Held,
    block_holding,
    body_ops,
    constant,
    inline_before,
    inline_region,
    move_before,
    replace_args,
    replace_op,
    zeros,
)

NewId = Callable[[], int]


def expand_grad(op: GradOp, new_id: NewId) -> None:
    """Replace an `nd.grad` whose region holds no grad, jvp or vmap by the region's ops and their reverse."""
    _check(op)
    params, operands, block = op.values, operands_of(op), op.body.block
    wrt, seeds = params["wrt"], params["seeds"]
    tape = body_ops(block)
    move_before(tape, op)
    reverse = Reverse(op, new_id)
    entries = reverse.activate(tape, block.args)
    for value, cotangent in zip(yielded(block)[:seeds], operands[wrt:], strict=True):
        reverse.give(value, Value(cotangent, reverse.at))
    reverse.sweep(entries)
    reverse.at.location = op.location
    gradients = Held([reverse.gradient(a).ssa for a in block.args])
    reverse.close()
    _finish(op, [*gradients.release(), *yielded(block)], operands[:wrt])


def expand_jvp(op: JvpOp, new_id: NewId) -> None:
    """Replace an `nd.jvp` whose region holds no grad, jvp or vmap by the region's ops and their tangents."""
    _check(op)
    params, operands, block = op.values, operands_of(op), op.body.block
    wrt, seeds = params["wrt"], params["seeds"]
    _inline_checkpoints(block)
    tape = body_ops(block)
    move_before(tape, op)
    forward = _Forward(op, new_id)
    forward.tangents = dict(zip(block.args, operands[wrt:], strict=True))
    forward.sweep(tape)
    forward.at.location = op.location
    tangents = Held([forward.tangent(v) for v in yielded(block)[:seeds]])
    forward.reverse.close()
    _finish(op, [*yielded(block), *tangents.release()], operands[:wrt])


def _check(op: GradOp | JvpOp) -> None:
    try:
        op.type_rule(op.operand_avals, [signature_of(b) for b in op.blocks], **op.values)
    except FireboxError as error:
        raise error.at(location_text(op.location)) from None


def _inline_checkpoints(block: Block) -> None:
    """Forward mode keeps nothing, so that there is nothing to recompute."""
    for op in body_ops(block):
        if isinstance(op, CheckpointOp):
            _inline_checkpoints(op.body.block)
            inline_region(op)


def _finish(op: GradOp | JvpOp, results: Sequence[SSAValue], operands: Sequence[SSAValue]) -> None:
    block = op.body.block
    bound: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    replace_args(block, operands)
    replace_op(op, [bound.get(r, r) for r in results])


class Reverse:
    """Reverse mode; new ops go before ``anchor``.

    `activate` finds what depends on the inputs, `give` seeds cotangents, `sweep` runs the ops' rules in reverse order.
    """

    def __init__(self, anchor: Operation, new_id: NewId) -> None:
        self.at = Inserter(anchor)
        self._anchor = anchor
        self.new_id = new_id
        self._active: set[SSAValue] = set()
        self._cotangents: dict[SSAValue, list[Value]] = {}
        self._opened: list[CustomVjpOp] = []
        self._scans: dict[NdOp, Backward] = {}

    def fork(self) -> "Reverse":
        """Another derivative at the same place; what it opens is closed with this one."""
        other = Reverse(self._anchor, self.new_id)
        other.at, other._opened, other._scans = self.at, self._opened, self._scans
        return other

    def activate(self, ops: Sequence[Operation], inputs: Sequence[SSAValue] = ()) -> list[NdOp]:
        """The ops through which a float result depends on the inputs (or on values active before), in order."""
        active = self._active
        active.update(inputs)
        tape: list[NdOp] = []
        for op in ops:
            if not isinstance(op, NdOp) or not op.differentiable or not self._depends(op):
                continue
            entry = self._entry(op)
            floats = [r for r in entry.results if aval_of(r.type).dtype.is_float]
            if floats:
                tape.append(entry)
                active.update(floats)
        return tape

    def _entry(self, op: NdOp) -> NdOp:
        """The op, or what is put in its place so that it keeps what the way back needs."""
        if isinstance(op, CustomVjpOp):
            return self.open(op)
        if isinstance(op, ScanOp):
            return self._open_scan(op)
        if isinstance(op, WhileOp):
            raise UserError(
                "the steps of a while loop cannot be gone back",
                op="while_loop",
                expected="a loop whose number of steps is known",
                found="a derivative in reverse mode",
                hint="use fb.fori_loop or fb.scan with a fixed number of steps, or fb.jvp",
            ).at(location_text(op.location))
        if op.kind is Kind.REGION and not isinstance(op, CheckpointOp | CondOp):
            raise CompilerError("no derivative of this region op", op=op.name).at(location_text(op.location))
        return op

    def _open_scan(self, op: ScanOp) -> ScanOp:
        opened, back = open_scan(op, self._active, lambda grad: expand_grad(grad, self.new_id))
        block_holding(op).insert_op_before(opened, op)
        replace_op(op, opened.results[: len(op.results)])
        self._scans[opened] = back
        return opened

    def _depends(self, op: NdOp) -> bool:
        active = self._active
        if isinstance(op, CheckpointOp):
            return any(v in active for inner in op.walk() for v in operands_of(inner))
        return any(v in active for v in operands_of(op))

    def open(self, op: CustomVjpOp) -> CustomVjpOp:
        """Give the op its residuals as further results; `close` inlines it."""
        blocks = op.blocks
        types = [v.type for v in yielded(blocks[0])]
        regions = [op.detach_region(0) for _ in blocks]
        opened = CustomVjpOp.create(
            operands=operands_of(op),
            result_types=types,
            attributes=op.attributes,
            regions=regions,
            location=op.location,
        )
        block_holding(op).insert_op_before(opened, op)
        replace_op(op, opened.results[: len(op.results)])
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Inline the forward regions of the ops that were opened."""
        for op in self._opened:
            inline_region(op)
        self._opened.clear()

    def give(self, value: SSAValue, cotangent: Value) -> None:
        """Add to the cotangent of a value, summed down to its shape; ignored where nothing depends on the inputs."""
        if value in self._active:
            self._cotangents.setdefault(value, []).append(_fit(cotangent, aval_of(value.type)))

    def _take(self, value: SSAValue) -> Value | None:
        parts = self._cotangents.get(value)
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = total.one("add", total, part)
        self._cotangents[value] = [total]
        return total

    def gradient(self, value: SSAValue) -> Value:
        """The cotangent gathered for a value; zeros when there is none."""
        found = self._take(value)
        return found if found is not None else zeros(self.at, aval_of(value.type))

    def sweep(self, tape: Sequence[NdOp]) -> None:
        """Run the rules of the ops in reverse order; what they add has the location of the op they come from."""
        for op in reversed(tape):
            self.at.location = op.location
            cotangents = [self._take(r) for r in op.results]
            if all(c is None for c in cotangents):
                continue
            if isinstance(op, CheckpointOp):
                self._checkpoint(op, cotangents)
                continue
            for operand, cotangent in zip(operands_of(op), self.pull(op, cotangents), strict=True):
                if cotangent is not None:
                    self.give(operand, cotangent)

    def pull(self, op: NdOp, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        """Cotangents of the operands of one op, not yet summed down."""
        if isinstance(op, CustomVjpOp):
            return self._custom(op, cotangents)
        if isinstance(op, ScanOp):
            return pull_scan(op, self._scans[op], cotangents, self.at)
        if isinstance(op, CondOp):
            return pull_cond(op, cotangents, self._active, self.at, lambda grad: expand_grad(grad, self.new_id))
        full = [self._or_zeros(c, r) for c, r in zip(cotangents, op.results, strict=True)]
        operands = [Value(v, self.at) for v in operands_of(op)]
        results = [Value(r, self.at) for r in op.results]
        return [_as_value(op, c) for c in _rule(op, full, operands, results)]

    def _or_zeros(self, cotangent: Value | None, like: SSAValue) -> Value:
        return cotangent if cotangent is not None else zeros(self.at, aval_of(like.type))

    def _checkpoint(self, op: CheckpointOp, cotangents: Sequence[Value | None]) -> None:
        """Compute the region again, marked so that nothing merges it with the first time, and go through the copy."""
        mark = IntegerAttr(self.new_id(), i64)
        block = op.body.block
        mapping: dict[SSAValue, SSAValue] = dict(zip(block.args, operands_of(op), strict=True))
        home = block_holding(self._anchor)
        copies = []
        for inner in body_ops(block):
            copy = inner.clone(mapping)
            _mark(copy, mark)
            home.insert_op_before(copy, self._anchor)
            copies.append(copy)
        held = Held([mapping.get(v, v) for v in yielded(block)])
        tape = self.activate(copies)
        ends = held.release()
        for value, cotangent in zip(ends, cotangents, strict=True):
            if cotangent is not None:
                self.give(value, cotangent)
        self.sweep(tape)

    def _custom(self, op: CustomVjpOp, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        count = op.values["results"]
        values: list[SSAValue] = [*op.results[count:]]
        values += [self._or_zeros(c, r).ssa for c, r in zip(cotangents[:count], op.results[:count], strict=True)]
        return [Value(v, self.at) for v in inline_before(op.backward.block, values, self._anchor)]


def _rule(
    op: NdOp, cotangents: Sequence[Value], operands: Sequence[Value], results: Sequence[Value]
) -> Sequence[ArrayLike | None]:
    try:
        return op.vjp(cotangents, operands, results, **op.values)
    except FireboxError as error:
        raise error.at(location_text(op.location)) from None


def _as_value(op: NdOp, value: ArrayLike | None) -> Value | None:
    if value is None or isinstance(value, Value):
        return value
    raise CompilerError("the vjp rule must return arrays or None", op=op.name, found=type(value).__name__)


def _fit(cotangent: Value, target: Aval) -> Value:
    """Sum a cotangent over the dims along which the operand was broadcast."""
    shape, wanted = cotangent.shape, target.shape
    extra = len(shape) - len(wanted)
    if shape != wanted and extra >= 0:
        stretched = [k for k, d in enumerate(wanted, extra) if d == 1 and shape[k] != 1]
        cotangent = cotangent.sum((*range(extra), *stretched)) if extra or stretched else cotangent
        cotangent = cotangent.reshape(tuple(1 if k in stretched else d for k, d in enumerate(shape) if k >= extra))
    return cotangent.broadcast_to(wanted).astype(target.dtype)


def _mark(op: Operation, mark: Attribute) -> None:
    for inner in op.walk():
        if not isinstance(inner, YieldOp) and operands_of(inner):
            inner.attributes[RECOMPUTE] = mark


class _Forward:
    """Forward mode, op by op; new ops go before ``anchor``."""

    def __init__(self, anchor: Operation, new_id: NewId) -> None:
        self.tangents: dict[SSAValue, SSAValue] = {}
        self.reverse = Reverse(anchor, new_id)
        self.at = self.reverse.at
        self._anchor = anchor

    def tangent(self, value: SSAValue) -> SSAValue:
        """The tangent of a value; zeros when it depends on no input."""
        found = self.tangents.get(value)
        return found if found is not None else zeros(self.at, aval_of(value.type)).ssa

    def sweep(self, tape: Sequence[Operation]) -> None:
        """Run the rules of the ops in order."""
        for number, op in enumerate(tape):
            if isinstance(op, NdOp) and op.differentiable and any(v in self.tangents for v in operands_of(op)):
                self.at.location = op.location
                if isinstance(op, ControlOp):
                    self._control(op, tape[number + 1 :])
                    continue
                self._push(self.reverse.open(op) if isinstance(op, CustomVjpOp) else op)

    def _control(self, op: ControlOp, later: Sequence[Operation]) -> None:
        """Put an op that carries the tangents along in place of one; they are made before the anchor, and so is it."""
        pushed = Pushed(op, self.tangents, self.at, lambda jvp: expand_jvp(jvp, self.reverse.new_id))
        replace_op(op, pushed.values)
        move_before(later, self._anchor)
        for value, tangent in zip(pushed.values, pushed.tangents, strict=True):
            if tangent is not None:
                self.tangents[value] = tangent

    def _push(self, op: NdOp) -> None:
        rule = getattr(op, "jvp", None)
        tangents = self._transpose(op) if rule is None else self._rule(op, rule)
        for result, tangent in zip(op.results, tangents, strict=True):
            if tangent is not None and aval_of(result.type).dtype.is_float:
                self.tangents[result] = tangent.ssa

    def _rule(self, op: NdOp, rule: Callable[..., Sequence[Value | None]]) -> Sequence[Value | None]:
        given = [self.tangents.get(v) for v in operands_of(op)]
        operands, results = ([Value(v, self.at) for v in side] for side in (operands_of(op), op.results))
        return rule([None if t is None else Value(t, self.at) for t in given], operands, results, **op.values)

    def _transpose(self, op: NdOp) -> Sequence[Value | None]:
        """The tangents of an op's results: the reverse of its reverse rule at zero cotangents."""
        before = self._anchor.prev_op
        inputs = [self._unshared_zeros(r) for r in op.results]
        pulled = self.reverse.pull(op, [Value(v, self.at) for v in inputs])
        reverse = self.reverse.fork()
        outputs = [
            (_fit(c, aval_of(v.type)).ssa, self.tangents[v])
            for v, c in zip(operands_of(op), pulled, strict=True)
            if c is not None and v in self.tangents
        ]
        held = Held([o for o, _ in outputs])
        tape = reverse.activate(_between(before, self._anchor), inputs)
        for output, (_, tangent) in zip(held.release(), outputs, strict=True):
            reverse.give(output, Value(tangent, self.at))
        reverse.sweep(tape)
        return [reverse.gradient(v) for v in inputs]

    def _unshared_zeros(self, like: SSAValue) -> SSAValue:
        """Zeros that no other op shares, so that what depends on them is what the rule made."""
        aval = aval_of(like.type)
        zero = constant(self.at, 0, aval.dtype).ssa
        op = lookup("nd.broadcast_to").build_op([zero], {"shape": aval.shape})
        block_holding(self._anchor).insert_op_before(op, self._anchor)
        return op.results[0]


def _between(before: Operation | None, anchor: Operation) -> list[Operation]:
    """The ops after ``before`` (None: from the start of the block) and before the anchor."""
    ops: list[Operation] = []
    op = anchor.prev_op
    while op is not None and op is not before:
        ops.append(op)
        op = op.prev_op
    return ops[::-1]
