"""Numbers that alone tell kernels apart become operands, at the end of the pass `fuse`.

The steps of an unrolled loop compare with the number of the step or add it. Their kernels would differ in nothing else,
and each would be compiled. Where many do, and the numbers of each place follow each other at equal distances, one more
kernel counts them in memory, and every step reads its own.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from xdsl.ir import Block, SSAValue

from firebox import dtypes
from firebox.dialects.nd.aval import Aval, tensor_type
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.ops.create import Constant
from firebox.dialects.nd.ops.pieces import View
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.transform import yield_values
from firebox.dialects.nd.value import Inserter, Value
from firebox.lowering.structure import structure

MANY = 8
"""So many kernels in place of one cost more than reading a number."""


_KINDS = ("loops", "contract")
"""Groups whose maps may read a number from memory; the kernels of others take numbers as they are."""


def share_kernels(block: Block, alignment: int) -> None:
    """Let the groups of a block that differ in numbers only be of one structure.

    Args:
        alignment: bytes at whose multiples a buffer of a kernel must begin.
    """
    families: dict[tuple[object, ...], list[GroupOp]] = {}
    for op in block.ops:
        if isinstance(op, GroupOp) and op.group in _KINDS and any(map(_is_number, op.members)):
            families.setdefault(structure(op, _is_number), []).append(op)
    for family in families.values():
        if len(family) >= MANY:
            _share(block, family, alignment)


def _is_number(op: object) -> bool:
    """A single integer."""
    return isinstance(op, Constant) and op.avals[0].rank == 0 and op.avals[0].dtype.is_int


def _share(block: Block, family: Sequence[GroupOp], alignment: int) -> None:
    places = zip(*([inner for inner in group.members if _is_number(inner)] for group in family), strict=True)
    for numbers in list(places):  # before any is replaced
        values = [int(op.values["value"].array()) for op in numbers]
        step = values[1] - values[0]
        if step != 0 and all(b - a == step for a, b in pairwise(values)):
            _count(block, family, numbers, (values[0], step), alignment)


def _count(
    block: Block, family: Sequence[GroupOp], numbers: Sequence[NdOp], first: tuple[int, int], alignment: int
) -> None:
    """Replace a number of each group by an element of a counted array."""
    dtype = numbers[0].avals[0].dtype
    apart = max(1, alignment // dtype.itemsize)
    counted = _counted(family[0], first, apart, Aval(dtype, (len(family) * apart,)))
    start = block.first_op
    assert start is not None
    block.insert_op_before(counted, start)
    for k, (group, number) in enumerate(zip(family, numbers, strict=True)):
        attributes = View.encode({"offset": (k * apart,), "shape": ()})
        view = View.create(
            operands=[counted.results[0]],
            result_types=[number.results[0].type],
            attributes=attributes,
            location=group.location,
        )
        block.insert_op_before(view, group)
        argument = group.block.insert_arg(view.results[0].type, len(group.block.args))
        group.operands = [*group.operands, view.results[0]]
        number.results[0].replace_all_uses_with(argument)
        group.block.erase_op(number)


def _counted(like: GroupOp, first: tuple[int, int], apart: int, aval: Aval) -> GroupOp:
    """A kernel that gives ``start + step * (k // apart)`` at k, in i64 and then in the type that is wanted."""
    start, step = first
    body = Block()
    at = Inserter(body)
    zero = Value(_number(body, start), at)
    position: Value = zero.one("iota", shape=aval.shape, axis=0, dtype=dtypes.i64)
    result = ((position // apart) * step + zero).astype(aval.dtype)
    body.add_op(yield_values((result.ssa,)))
    params = {"group": "loops", "label": "", "domain": aval.shape, "axes": ()}
    group = GroupOp.make((), (tensor_type(aval),), body, params)
    group.location = like.location
    return group


def _number(body: Block, value: int) -> SSAValue:
    op = Constant.build_op((), {"value": Literal.of(np.asarray(value, np.int64))})
    body.add_op(op)
    return op.results[0]
