"""Program transforms as region ops: `nd.grad`, `nd.jvp`, `nd.vmap`, `nd.checkpoint`, `nd.custom_vjp` and `nd.yield`.

A transform holds the slice of the program that it transforms in regions of one block. What it differentiates by or
batches are block arguments; values from outside that a region uses are constants of that transform. The expand pass
replaces transforms by plain ops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from firebox.dialects.nd.aval import Aval, Shape, aval_of, tensor_type
from firebox.dialects.nd.base import Kind, NdOp, register
from firebox.dialects.nd.params import DIMS, INT, INTS, Param
from firebox.dialects.xdsl_compat import operands_of
from firebox.dims import DimLike
from firebox.errors import CompilerError, DTypeError, FireboxError, ShapeError, UserError


@dataclass(frozen=True)
class Signature:
    """What a region takes and yields."""

    args: tuple[Aval, ...]
    yields: tuple[Aval, ...]


@register
class YieldOp(NdOp):
    """``nd.yield %a, %b : types``: the values that a region hands to its op; ends the region."""

    name = "nd.yield"
    kind = Kind.REGION
    differentiable = False
    traits = traits_def(IsTerminator())
    assembly_format = None  # type: ignore[assignment] # it has parse and print

    @classmethod
    def infer(cls, *avals: Aval, **params: Any) -> tuple[Aval, ...]:
        return ()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        names = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        if names is None:
            return cls.create(attributes=attributes)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(operands=parser.resolve_operands(names, types, position), attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        if operands := operands_of(self):
            printer.print_string(" ")
            printer.print_list(operands, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list([v.type for v in operands], printer.print_attribute)


def yield_values(values: Sequence[SSAValue]) -> YieldOp:
    """A detached terminator."""
    return YieldOp.create(operands=values)


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """The values that a region's block yields.

    Raises:
        VerifyException: the block does not end in ``nd.yield``.
    """
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("a region of an nd op must end in nd.yield")
    return operands_of(last)


def signature_of(block: Block) -> Signature:
    """The avals of a block's arguments and of what it yields."""
    return Signature(tuple(aval_of(a.type) for a in block.args), tuple(aval_of(v.type) for v in yielded(block)))


class RegionOp(NdOp):
    """An op with regions; its results follow from the operands, the parameters and the regions' signatures."""

    kind = Kind.REGION

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        """Avals of the results.

        Raises:
            UserError: what does not fit; names the op, what was expected and what was found.
        """
        raise NotImplementedError

    @classmethod
    def infer(cls, *avals: Aval, **params: Any) -> tuple[Aval, ...]:
        raise CompilerError("the results depend on the regions", op=cls.name, hint="use type_rule or build_region_op")

    @classmethod
    def build_region_op(
        cls,
        operands: Sequence[SSAValue],
        params: dict[str, Any],
        blocks: Sequence[Block],
        location: LocationAttr = UNKNOWN_LOC,
    ) -> Self:
        """A detached op that owns the given blocks, each of which ends in ``nd.yield``.

        Raises:
            UserError: operands, parameters and regions do not fit.
        """
        results = cls.type_rule([aval_of(o.type) for o in operands], [signature_of(b) for b in blocks], **params)
        return cls.create(
            operands=operands,
            result_types=[tensor_type(a) for a in results],
            attributes=cls.encode(params),
            regions=[Region(b) for b in blocks],
            location=location,
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block of each region."""
        return tuple(r.block for r in self.regions)

    def verify_(self) -> None:
        for name, param in self.params.items():
            if not isinstance(self.attributes.get(name), param.attribute):
                raise VerifyException(f"{self.name}: parameter '{name}' must be {param.description}")
        signatures = [signature_of(b) for b in self.blocks]
        try:
            expected = self.type_rule(self.operand_avals, signatures, **self.values)
        except FireboxError as error:
            raise VerifyException(str(error)) from error
        if expected != self.avals:
            wanted, found = (_list(a) for a in (expected, self.avals))
            raise VerifyException(f"{self.name}: results must be {wanted}, found {found}")


def _list(avals: Sequence[Aval]) -> str:
    return f"({', '.join(map(str, avals))})"


def check_same(op: str, what: str, expected: Sequence[Aval], found: Sequence[Aval]) -> None:
    """Raises ShapeError unless the avals are the same."""
    if tuple(expected) != tuple(found):
        raise ShapeError(f"{what} do not fit", op=op, expected=_list(expected), found=_list(found))


def _floats(op: str, what: str, avals: Sequence[Aval]) -> None:
    for position, aval in enumerate(avals):
        if not aval.dtype.is_float:
            raise DTypeError(
                f"{what} {position} cannot be differentiated",
                op=op,
                expected="a float type",
                found=aval,
                hint="cast it",
            )


def _count(op: str, what: str, expected: object, found: int, holds: bool) -> None:
    if not holds:
        raise UserError(f"wrong number of {what}", op=op, expected=expected, found=found)


@register
class GradOp(RegionOp):
    """Reverse-mode derivative of the first ``seeds`` yields by all block arguments.

    Operands: ``wrt`` values, then a cotangent for each differentiated yield. Results: a gradient for each block
    argument (zeros where nothing depends on it), then everything that the region yields.
    """

    name = "nd.grad"
    body = region_def("single_block")
    params: ClassVar[dict[str, Param]] = {"wrt": INT, "seeds": INT}
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        wrt, seeds = params["wrt"], params["seeds"]
        (body,) = regions
        _count(cls.name, "operands", f"{wrt} values and {seeds} cotangents", len(avals), len(avals) == wrt + seeds)
        _count(cls.name, "yields", f"at least {seeds}", len(body.yields), len(body.yields) >= seeds >= 0)
        check_same(cls.name, "block arguments", avals[:wrt], body.args)
        _floats(cls.name, "input", avals[:wrt])
        _floats(cls.name, "output", body.yields[:seeds])
        check_same(cls.name, "cotangents", body.yields[:seeds], avals[wrt:])
        return (*avals[:wrt], *body.yields)


@register
class JvpOp(RegionOp):
    """Forward-mode derivative. Operands: ``wrt`` primals, then as many tangents.

    Results: everything that the region yields, then the tangents of its first ``seeds`` yields.
    """

    name = "nd.jvp"
    body = region_def("single_block")
    params: ClassVar[dict[str, Param]] = {"wrt": INT, "seeds": INT}
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        wrt, seeds = params["wrt"], params["seeds"]
        (body,) = regions
        _count(cls.name, "operands", f"{wrt} primals and {wrt} tangents", len(avals), len(avals) == 2 * wrt)
        _count(cls.name, "yields", f"at least {seeds}", len(body.yields), len(body.yields) >= seeds >= 0)
        check_same(cls.name, "block arguments", avals[:wrt], body.args)
        _floats(cls.name, "input", avals[:wrt])
        _floats(cls.name, "output", body.yields[:seeds])
        check_same(cls.name, "tangents", avals[:wrt], avals[wrt:])
        return (*body.yields, *body.yields[:seeds])


@register
class VmapOp(RegionOp):
    """The region for each of ``size`` slices of the operands along ``in_axes`` (-1: the same for all slices).

    The region sees slices; its yields are stacked along ``out_axes``.
    """

    name = "nd.vmap"
    body = region_def("single_block")
    params: ClassVar[dict[str, Param]] = {"in_axes": INTS, "out_axes": INTS, "size": DIMS}
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        in_axes, out_axes, sizes = params["in_axes"], params["out_axes"], params["size"]
        (body,) = regions
        _count(cls.name, "dims in size", 1, len(sizes), len(sizes) == 1)
        _count(cls.name, "operands", f"{len(in_axes)}, as in_axes says", len(avals), len(avals) == len(in_axes))
        wanted = len(body.yields)
        _count(cls.name, "out_axes", f"{wanted}, one for each yield", len(out_axes), len(out_axes) == wanted)
        slices = [_slice(cls.name, a, axis, sizes[0]) for a, axis in zip(avals, in_axes, strict=True)]
        check_same(cls.name, "block arguments", slices, body.args)
        return tuple(_stack(cls.name, a, axis, sizes[0]) for a, axis in zip(body.yields, out_axes, strict=True))


def _slice(op: str, aval: Aval, axis: int, size: DimLike) -> Aval:
    if axis == -1:
        return aval
    if not 0 <= axis < aval.rank:
        raise ShapeError("no such axis to map over", op=op, expected=f"-1 or an axis of {aval}", found=axis)
    if aval.shape[axis] != size:
        raise ShapeError(
            "the mapped axes differ in size", op=op, expected=f"size {size}", found=f"{aval} along axis {axis}"
        )
    return Aval(aval.dtype, aval.shape[:axis] + aval.shape[axis + 1 :])


def _stack(op: str, aval: Aval, axis: int, size: DimLike) -> Aval:
    if not 0 <= axis <= aval.rank:
        raise ShapeError("no such axis for a result", op=op, expected=f"0 to {aval.rank} for {aval}", found=axis)
    shape: Shape = (*aval.shape[:axis], size, *aval.shape[axis:])
    return Aval(aval.dtype, shape)


@register
class CheckpointOp(RegionOp):
    """The region's values; a derivative recomputes what is inside instead of keeping it.

    Values from outside that the region uses are differentiated too: it changes nothing but what is kept.
    """

    name = "nd.checkpoint"
    body = region_def("single_block")
    assembly_format = "operands attr-dict `:` functional-type(operands, results) $body"

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        check_same(cls.name, "block arguments", avals, regions[0].args)
        return regions[0].yields


@register
class CustomVjpOp(RegionOp):
    """A function with its own derivative; ``results`` is the number of its results.

    The forward region yields the results, then residuals. The backward region takes the residuals and a cotangent for
    each result, and yields a cotangent for each operand (ignored where the operand is not a float). Values from outside
    that the regions use are constants, also when they depend on what is differentiated by.
    """

    name = "nd.custom_vjp"
    forward = region_def("single_block")
    backward = region_def("single_block")
    params: ClassVar[dict[str, Param]] = {"results": INT}
    assembly_format = (
        "operands attr-dict `:` functional-type(operands, results) `forward` $forward `backward` $backward"
    )

    @classmethod
    def type_rule(cls, avals: Sequence[Aval], regions: Sequence[Signature], **params: Any) -> tuple[Aval, ...]:
        results = params["results"]
        forward, backward = regions
        yields = len(forward.yields)
        _count(cls.name, "yields", f"at least {results}", yields, yields >= results >= 0)
        check_same(cls.name, "arguments of the forward region", avals, forward.args)
        values, residuals = forward.yields[:results], forward.yields[results:]
        check_same(cls.name, "arguments of the backward region", residuals + values, backward.args)
        check_same(cls.name, "cotangents yielded by the backward region", avals, backward.yields)
        return values
