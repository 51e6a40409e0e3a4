"""Pass `decompose`: composites that the target does not take whole become simpler ops, large reductions two steps, and
joins of many arrays several.

Before::

    %s = nd.softmax %x {axis = 1}                        %t = nd.reduce_sum %x {axes = [0]} : (tensor<1048576xf32>)

After::

    %m = nd.reduce_max %x ...                            %r = nd.reshape %x {shape = <64, 16384>}
    ...                                                  %p = nd.reduce_sum %r {axes = [1]} : -> tensor<64xf32>
    %s = nd.div %e, %d                                   %t = nd.reduce_sum %p {axes = [0]}
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from firebox.dialects.nd.array import ArrayLike
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import location_text, operands_of, ops_of
from firebox.errors import CompilerError, FireboxError
from firebox.lowering.joins import split_constant, split_join
from firebox.lowering.patterns import Rewriter
from firebox.lowering.rewrite import functions_of, replace_op

MAX_DEPTH = 16
"""How deep composites may be made of composites."""

FEW_OUTPUTS = 16
LARGE_REDUCTION = 1 << 16
MAX_CHUNKS = 64
MIN_CHUNK = 1 << 12
SPLIT = ("nd.reduce_sum", "nd.reduce_prod", "nd.reduce_max", "nd.reduce_min", "nd.reduce_any", "nd.reduce_all")
_ROUNDING = ("nd.reduce_sum", "nd.reduce_prod")


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Replace composites by simpler ops and split large reductions."""

    name = "nd-decompose"
    keep: tuple[str, ...] = ()
    """Full names of composites that stay whole."""
    split: bool = True
    """Whether large reductions to few results become two steps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        decompose(op, self.keep, self.split)


def decompose(module: ModuleOp, keep: Collection[str] = (), split: bool = True) -> None:
    """Decompose all functions of a module, in place.

    Args:
        keep: full names of composites that stay.
        split: whether to split large reductions.

    Raises:
        CompilerError: a composite whose decomposition has another type or does not end.
    """
    for function in functions_of(module):
        _decompose_block(function.body.block, keep)
        if split:
            _split_block(function.body.block)
        _split_joins(function.body.block)


def _split_joins(block: Block) -> None:
    for op in list(ops_of(block)):
        for region in op.regions:
            for inner in region.blocks:
                _split_joins(inner)
        if isinstance(op, NdOp):
            found = split_constant(op) if op.name == "nd.constant" else split_join(op)
            if found is not None:
                replace_op(op, [found.ssa])


def _decompose_block(block: Block, keep: Collection[str]) -> None:
    for op in list(ops_of(block)):
        for region in op.regions:
            for inner in region.blocks:
                _decompose_block(inner, keep)
        _decompose(op, keep, 0)


def _decompose(op: Operation, keep: Collection[str], depth: int) -> None:
    if not isinstance(op, NdOp) or op.kind is not Kind.COMPOSITE or op.name in keep:
        return
    if depth > MAX_DEPTH:
        raise CompilerError("the decomposition does not end", op=op.name).at(location_text(op.location))
    before, block = op.prev_op, op.parent
    values = _parts(op)
    following = op.next_op
    replace_op(op, values)
    first = before.next_op if before is not None else block.first_op if block is not None else None
    while first is not None and first is not following:
        new, first = first, first.next_op
        _decompose(new, keep, depth + 1)


def _parts(op: NdOp) -> Sequence[SSAValue]:
    rewriter = Rewriter(op)
    operands = [rewriter.value(v) for v in operands_of(op)]
    try:
        results = op.decompose(operands, **op.values)
    except FireboxError as error:
        raise error.at(location_text(op.location)) from None
    values = [results] if isinstance(results, ArrayLike) else list(results)
    ssa = [v.ssa for v in values if isinstance(v, Value)]
    if [v.type for v in ssa] != [r.type for r in op.results]:
        found = ", ".join(str(aval_of(v.type)) for v in ssa)
        expected = ", ".join(map(str, op.avals))
        raise CompilerError("the decomposition has other types", op=op.name, expected=expected, found=found)
    return ssa


# ---- large reductions --------------------------------------------------------------------------------------------


def _split_block(block: Block) -> None:
    for op in list(ops_of(block)):
        for region in op.regions:
            for inner in region.blocks:
                _split_block(inner)
        if isinstance(op, NdOp) and op.name in SPLIT:
            _split(op)


def split_of(shape: Sequence[object], axes: Sequence[int]) -> tuple[int, int] | None:
    """Where to split a reduction: (axis, chunks), or None to leave it whole.

    With R elements reduced to each of P results, a reduction with P < 16 and R >= 65536 is split. It is cut into C
    chunks along one reduced axis, C being the largest divisor of the axis' size that is at most min(ceil(64 / P), R /
    4096): some 64 independent parts in all, none below 4096 elements. The axis with the largest C is taken, the
    outermost among equals. Only shapes decide, so that results do not depend on the machine.
    """
    sizes = [d for d in shape if isinstance(d, int)]
    if len(sizes) != len(shape) or 0 in sizes:
        return None
    outputs = reduced = 1
    for axis, size in enumerate(sizes):
        outputs *= 1 if axis in axes else size
        reduced *= size if axis in axes else 1
    if outputs >= FEW_OUTPUTS or reduced < LARGE_REDUCTION:
        return None
    limit = min(-(-MAX_CHUNKS // outputs), reduced // MIN_CHUNK)
    best = max(((_divisor(sizes[a], limit), -a) for a in axes), default=(1, 0))
    return (-best[1], best[0]) if best[0] > 1 else None


def _divisor(size: int, limit: int) -> int:
    return next(c for c in range(min(size, limit), 0, -1) if size % c == 0)


def _split(op: NdOp) -> None:
    """Reduce the chunks, then their results; f16 and bf16 stay in f32 in between."""
    axes = op.values["axes"]
    aval = op.operand_avals[0]
    found = split_of(aval.shape, axes)
    if found is None:
        return
    axis, chunks = found
    rewriter = Rewriter(op)
    x = rewriter.operand(0)
    if op.name in _ROUNDING:
        x = x.astype(aval.dtype.compute)
    size = aval.shape[axis]
    inner: list[int] = [a + (a >= axis) for a in axes]
    if chunks == size:
        inner = [a for a in axes if a != axis]
    else:
        x = x.reshape((*aval.shape[:axis], chunks, size // chunks, *aval.shape[axis + 1 :]))
    short = op.name.removeprefix("nd.")
    partial = x.one(short, x, axes=tuple(inner), keepdims=False)
    place = axis - sum(a < axis for a in axes)
    total = partial.one(short, partial, axes=(place,), keepdims=False)
    replace_op(op, [total.reshape(rewriter.aval.shape).astype(aval.dtype).ssa])
