"""Simplifications of ops that move elements, and of reductions over nothing; entered into the table of patterns."""

from xdsl.dialects.func import FuncOp

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.xdsl_compat import operands_of
from firebox.lowering.patterns import Replacement, Rewriter, defined_by, pattern, reads_elements

REDUCTIONS = ("nd.reduce_sum", "nd.reduce_prod", "nd.reduce_max", "nd.reduce_min", "nd.reduce_any", "nd.reduce_all")


@pattern("nd.transpose")
def transpose_of_transpose(op: NdOp, rw: Rewriter) -> Replacement:
    """Two transposes are one; the identity is none."""
    order = op.values["permutation"]
    (x,) = operands_of(op)
    if order == tuple(range(len(order))):
        return rw.value(x)
    inner = defined_by(x, "nd.transpose")
    if inner is None:
        return None
    first = inner.values["permutation"]
    return rw.value(operands_of(inner)[0]).transpose(tuple(first[k] for k in order))


@pattern("nd.transpose")
def transpose_of_ones(op: NdOp, rw: Rewriter) -> Replacement:
    """A transpose that keeps the order of all dims other than 1 is a reshape."""
    shape = aval_of(operands_of(op)[0].type).shape
    moved = [k for k in op.values["permutation"] if shape[k] != 1]
    return rw.operand(0).reshape(rw.aval.shape) if moved == sorted(moved) else None


@pattern("nd.reshape")
def reshape_of_reshape(op: NdOp, rw: Rewriter) -> Replacement:
    """Only the last shape counts."""
    (x,) = operands_of(op)
    if aval_of(x.type) == rw.aval:
        return rw.value(x)
    inner = defined_by(x, "nd.reshape")
    return rw.value(operands_of(inner)[0]).reshape(rw.aval.shape) if inner is not None else None


@pattern("nd.broadcast_to")
def broadcast_of_broadcast(op: NdOp, rw: Rewriter) -> Replacement:
    """Only the last shape counts."""
    (x,) = operands_of(op)
    if aval_of(x.type) == rw.aval:
        return rw.value(x)
    inner = defined_by(x, "nd.broadcast_to")
    return rw.value(operands_of(inner)[0]).broadcast_to(rw.aval.shape) if inner is not None else None


@pattern("nd.broadcast_to")
def broadcast_of_leading_ones(op: NdOp, rw: Rewriter) -> Replacement:
    """A reshape that only adds dims of size 1 in front is what broadcasting does anyway."""
    (x,) = operands_of(op)
    inner = defined_by(x, "nd.reshape")
    if inner is None:
        return None
    (source,) = operands_of(inner)
    old, new = aval_of(source.type).shape, aval_of(x.type).shape
    extra = len(new) - len(old)
    if extra > 0 and new == (1,) * extra + old:
        return rw.value(source).broadcast_to(rw.aval.shape)
    return None


@pattern("nd.slice")
def slice_of_all(op: NdOp, rw: Rewriter) -> Replacement:
    """A slice that takes everything."""
    (x,) = operands_of(op)
    return rw.value(x) if aval_of(x.type) == rw.aval else None


@pattern("nd.pad")
def pad_by_nothing(op: NdOp, rw: Rewriter) -> Replacement:
    """A pad of no elements."""
    (x,) = operands_of(op)
    return rw.value(x) if aval_of(x.type) == rw.aval else None


@pattern("nd.concat")
def concat_of_one(op: NdOp, rw: Rewriter) -> Replacement:
    """A single part, or parts of which all but one are empty."""
    axis = op.values["axis"]
    parts = [v for v in operands_of(op) if aval_of(v.type).shape[axis] != 0]
    return rw.value(parts[0]) if len(parts) == 1 else None


@pattern("nd.flip")
def flip_of_flip(op: NdOp, rw: Rewriter) -> Replacement:
    """Flipping twice, or along dims of size 1."""
    (x,) = operands_of(op)
    axes = op.values["axes"]
    if all(rw.aval.shape[a] == 1 for a in axes):
        return rw.value(x)
    inner = defined_by(x, "nd.flip")
    return rw.value(operands_of(inner)[0]) if inner is not None and inner.values["axes"] == axes else None


@pattern(*REDUCTIONS)
def reduce_ones(op: NdOp, rw: Rewriter) -> Replacement:
    """Reducing dims of size 1 is a reshape."""
    (x,) = operands_of(op)
    shape = aval_of(x.type).shape
    axes = op.values["axes"]
    if all(shape[a] == 1 for a in axes):
        return rw.value(x).reshape(rw.aval.shape)
    return None


@pattern("nd.reshape", "nd.transpose", "nd.slice", "nd.flip")
def move_of_number(op: NdOp, rw: Rewriter) -> Replacement:
    """Moving the elements of one repeated number."""
    inner = defined_by(operands_of(op)[0], "nd.broadcast_to")
    if inner is None or inner.operand_avals[0].size != 1:
        return None
    return rw.value(operands_of(inner)[0]).reshape(()).broadcast_to(rw.aval.shape)


@pattern(Kind.MAP)
def broadcast_later(op: NdOp, rw: Rewriter) -> Replacement:
    """An element-wise op broadcasts its operands itself; where its result becomes smaller, that is broadcast."""
    sources = {
        position: operands_of(inner)[0]
        for position, operand in enumerate(operands_of(op))
        if (inner := defined_by(operand, "nd.broadcast_to")) is not None
    }
    if not sources or op.movement or not reads_elements(op):  # parameters of movements belong to the operand's shape
        return None
    values = [rw.value(sources.get(k, v)) for k, v in enumerate(operands_of(op))]
    (result,) = values[0].apply(type(op), values, op.values)
    return result.broadcast_to(rw.aval.shape)


@pattern("nd.stop_gradient")
def stop_nothing(op: NdOp, rw: Rewriter) -> Replacement:
    """Outside of transforms there is no derivative left to stop."""
    return rw.operand(0) if isinstance(op.parent_op(), FuncOp) else None


@pattern("nd.fold_window")
def fold_of_tiles(op: NdOp, rw: Rewriter) -> Replacement:
    """Windows that cover an array without overlap or gap fold back by moving alone."""
    v = op.values
    shape = rw.aval.shape
    axes, sizes = v["axes"], v["sizes"]
    whole = all(isinstance(shape[a], int) and dims.mod(shape[a], n) == 0 for a, n in zip(axes, sizes, strict=True))
    plain = v["strides"] == sizes and all(d == 1 for d in v["dilations"]) and not any((*v["low"], *v["high"]))
    if not (whole and plain):
        return None
    order: list[int] = []
    for k in range(len(shape)):
        order += [k, len(shape) + axes.index(k)] if k in axes else [k]
    return rw.operand(0).transpose(tuple(order)).reshape(shape)
