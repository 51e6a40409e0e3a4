"""Joins of many arrays (`nd.concat`) and large constants, as `decompose` writes them.

One kernel would look for each element in every part, and could not take so many operands. Parts that follow each other
in memory are packed: a part that a kernel computes is written straight to its place, others are copied there. Where
they do not, as along a later axis or with symbolic dims, a few at a time are joined, then the results.

A constant of many different elements is packed from short ones, which a formula spells out. Programs that are traced
have none, as arrays that a function closes over are inputs; rules of custom ops and IR that is written may have some.
"""

import numpy as np

from firebox.dialects.nd.aval import Shape
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.ops.create import MAX_INLINE
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.value import Value
from firebox.lowering.patterns import Rewriter

MAX_PARTS = 8
"""The most arrays that one kernel joins."""


def split_join(op: NdOp) -> Value | None:
    """A join of more than `MAX_PARTS` arrays, in steps; None for other ops."""
    count = len(op.operand_avals)
    if op.name != "nd.concat" or count <= MAX_PARTS:
        return None
    rewriter = Rewriter(op)
    parts = [rewriter.operand(k) for k in range(count)]
    axis = op.values["axis"]
    shape = rewriter.aval.shape
    packed = _packed(parts, shape) if all(extent == 1 for extent in shape[:axis]) else None
    return _tree(parts, axis) if packed is None else packed


def split_constant(op: NdOp) -> Value | None:
    """A constant of more than `MAX_INLINE` elements that are not all the same, in parts; None for other ops."""
    if op.name != "nd.constant":
        return None
    value = op.values["value"]
    flat = value.array().reshape(-1)
    if flat.size <= MAX_INLINE or value.data == value.data[: flat.itemsize] * flat.size:
        return None
    at = Rewriter(op).at
    cuts = range(MAX_INLINE, flat.size, MAX_INLINE)
    literals = [Literal.of(part) for part in np.split(flat, cuts)]
    parts = [Value(at.insert(type(op), (), {"value": literal}).results[0], at) for literal in literals]
    return _packed(parts, value.shape)


def _packed(parts: list[Value], shape: Shape) -> Value | None:
    """Parts that follow each other in memory; None where their sizes are not known."""
    offsets = [0]
    for part in parts:
        size = part.aval.size
        if not isinstance(size, int):
            return None
        offsets.append(offsets[-1] + size)
    packed: Value = parts[0].one("pack", *parts, offsets=tuple(offsets[:-1]), size=offsets[-1])
    return packed.reshape(shape)


def _tree(parts: list[Value], axis: int) -> Value:
    while len(parts) > 1:
        runs = [parts[k : k + MAX_PARTS] for k in range(0, len(parts), MAX_PARTS)]
        parts = [run[0].one("concat", *run, axis=axis) if len(run) > 1 else run[0] for run in runs]
    return parts[0]
