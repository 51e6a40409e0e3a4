"""Control flow as region ops: `nd.cond`, `nd.while` and `nd.scan`.

Their regions are isolated: whatever they use from outside comes in as an operand and a block argument, behind those
that the op itself speaks of. So a rule sees all that a region depends on, and a region is lowered like a function.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.irdl import region_def, traits_def
from xdsl.traits import IsolatedFromAbove, Pure

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import register
from firebox.dialects.nd.params import BOOL, DIMS, INT, Param
from firebox.dialects.nd.transform import RegionOp, Signature, check_same
from firebox.dialects.xdsl_compat import operands_of
from firebox.dims import DimLike
from firebox.errors import DTypeError, ShapeError, UserError

PREDICATE = Aval(dtypes.bool_, ())


class ControlOp(RegionOp):
    """An op that decides at run time which region runs, and how often."""

    @classmethod
    def closed(
        cls,
        operands: Sequence[SSAValue],
        params: dict[str, Any],
        blocks: Sequence[Block],
        location: LocationAttr = UNKNOWN_LOC,
    ) -> Self:
        """As `build_region_op`; what the blocks use from outside becomes further operands and arguments."""
        captured = list(dict.fromkeys(v for block in blocks for v in captures(block)))
        for block in blocks:
            for value in captured:
                argument = block.insert_arg(value.type, len(block.args))
                argument.name_hint = value.name_hint
                value.replace_uses_with_if(argument, _inside(block))
        return cls.build_region_op([*operands, *captured], params, blocks, location)


def captures(block: Block) -> list[SSAValue]:
    """The values from outside that the ops in a block use, in order of use, each once."""
    own: set[SSAValue] = set(block.args)
    found: dict[SSAValue, None] = {}
    for op in block.walk():
        own.update(op.results)
        own.update(a for region in op.regions for inner in region.blocks for a in inner.args)
    for op in block.walk():
        found.update(dict.fromkeys(v for v in operands_of(op) if v not in own))
    return list(found)


def _inside(block: Block) -> Callable[[Use], bool]:
    """Whether a use is in the block or in a region in it."""

    def test(use: Use) -> bool:
        op: Operation | None = use.operation
        while op is not None:
            if op.parent is block:
                return True
            op = op.parent_op()
        return False

    return test


def _check_predicate(op: str, found: Aval) -> None:
    if found != PREDICATE:
        raise DTypeError("the condition is not one bool", op=op, expected=PREDICATE, found=found)


@register
class CondOp(ControlOp):
    """The values of one of two regions: of the first where the condition holds.

    Operands: the condition (one bool), then the arguments of both regions. Results: what the chosen region yields.
    """

    name = "nd.cond"
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    assembly_format = "operands attr-dict `:` functional-type(operands, results) `then` $then `else` $otherwise"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        if not avals:
            raise UserError("no condition", op=cls.name, expected=PREDICATE, found="no operands")
        _check_predicate(cls.name, avals[0])
        for region in regions:
            check_same(cls.name, "block arguments", avals[1:], region.args)
        check_same(cls.name, "results of the two regions", regions[0].yields, regions[1].yields)
        return regions[0].yields


@register
class WhileOp(ControlOp):
    """Runs the second region on the carried values as long as the first one yields true for them.

    Operands: the first ``carry`` are the carried values, the others are the same in every step. Both regions take all
    of them; the first yields one bool, the second the next carried values. Results: the last carried values.
    """

    name = "nd.while"
    condition = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    params: ClassVar[dict[str, Param]] = {"carry": INT}
    assembly_format = "operands attr-dict `:` functional-type(operands, results) `while` $condition `do` $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        condition, body = regions
        carried = tuple(avals[: params["carry"]])
        check_same(cls.name, "arguments of the condition", avals, condition.args)
        check_same(cls.name, "arguments of the body", avals, body.args)
        if len(condition.yields) != 1:
            raise UserError("wrong number of conditions", op=cls.name, expected=1, found=len(condition.yields))
        _check_predicate(cls.name, condition.yields[0])
        check_same(cls.name, "carried values", carried, body.yields)
        return carried


@register
class ScanOp(ControlOp):
    """Runs the region ``length`` times, from the first slice to the last, or with ``reverse`` from the last on.

    Operands: ``carry`` carried values, ``slices`` values that are read slice by slice along their first axis, then
    values that are the same in every step. The region takes the carried values, a slice of each, and the others; it
    yields the next carried values, then values that are stacked along a new first axis, each at the place of the
    slices it was made of. Results: the last carried values, then the stacks.
    """

    name = "nd.scan"
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    params: ClassVar[dict[str, Param]] = {"carry": INT, "slices": INT, "length": DIMS, "reverse": BOOL}
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        carry, sliced = params["carry"], params["carry"] + params["slices"]
        (length,) = params["length"]
        (body,) = regions
        slices = tuple(_slice(cls.name, a, length) for a in avals[carry:sliced])
        check_same(cls.name, "block arguments", (*avals[:carry], *slices, *avals[sliced:]), body.args)
        check_same(cls.name, "carried values", avals[:carry], body.yields[:carry])
        return (*avals[:carry], *(stacked(a, length) for a in body.yields[carry:]))

    @property
    def length(self) -> DimLike:
        """How often the region runs."""
        (length,) = self.values["length"]
        return length  # type: ignore[no-any-return]


def stacked(aval: Aval, length: DimLike) -> Aval:
    """So many values along a new first axis."""
    return Aval(aval.dtype, (length, *aval.shape))


def _slice(op: str, aval: Aval, length: DimLike) -> Aval:
    if not aval.rank or aval.shape[0] != length:
        raise ShapeError("not that many slices", op=op, expected=f"{length} along the first axis", found=aval)
    return Aval(aval.dtype, aval.shape[1:])
