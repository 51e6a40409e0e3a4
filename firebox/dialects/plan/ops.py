"""Ops of the `plan` dialect."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Block, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, NoTerminator

from firebox.dialects.nd.aval import DimsAttr
from firebox.dims import DimLike


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """``!plan.buffer``: an address in memory of the program's device."""

    name = "plan.buffer"


BUFFER = BufferType()


def number(value: int) -> IntegerAttr[Any]:
    """An i64 attribute."""
    return IntegerAttr(value, i64)


def size(value: DimLike) -> DimsAttr:
    """A dim expression as an attribute."""
    return DimsAttr((value,))


class PlanOp(IRDLOperation):
    """Base of the plan's steps and buffers."""

    def dim(self, name: str) -> DimLike:
        """The value of a dim attribute."""
        attribute = self.attributes[name]
        assert isinstance(attribute, DimsAttr)
        return attribute.data[0]

    def integer(self, name: str) -> int:
        """The value of an integer attribute."""
        attribute = self.attributes[name]
        assert isinstance(attribute, IntegerAttr)
        return int(attribute.value.data)


@irdl_op_definition
class ProgramOp(PlanOp):
    """The program: ``dims`` names its symbolic dims in order, ``arena`` is the size of the workspace in bytes.

    ``aliases`` are pairs (output, input) that may share one buffer. ``arena`` may use the name ``threads``.
    """

    name = "plan.program"
    entry = attr_def(StringAttr)
    dims = attr_def(ArrayAttr)
    arena = attr_def(DimsAttr)
    aliases = attr_def(ArrayAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "attr-dict-with-keyword $body"

    @classmethod
    def make(
        cls, name: str, dims: Sequence[str], arena: DimLike, aliases: Sequence[tuple[int, int]], body: Block
    ) -> "ProgramOp":
        """A program over finished steps."""
        pairs = ArrayAttr([ArrayAttr([number(a), number(b)]) for a, b in aliases])
        attributes: dict[str, Attribute] = {
            "entry": StringAttr(name),
            "dims": ArrayAttr([StringAttr(d) for d in dims]),
            "arena": size(arena),
            "aliases": pairs,
        }
        return cls.create(attributes=attributes, regions=[Region(body)])


class _BufferOp(PlanOp):
    buffer = result_def(BufferType)


@irdl_op_definition
class InputOp(_BufferOp):
    """The buffer of an input."""

    name = "plan.input"
    assembly_format = "attr-dict `:` type($buffer)"

    @classmethod
    def make(cls, index: int) -> "InputOp":
        return cls.create(result_types=[BUFFER], attributes={"index": number(index)})


@irdl_op_definition
class OutputOp(_BufferOp):
    """The buffer of an output."""

    name = "plan.output"
    assembly_format = "attr-dict `:` type($buffer)"

    @classmethod
    def make(cls, index: int) -> "OutputOp":
        return cls.create(result_types=[BUFFER], attributes={"index": number(index)})


@irdl_op_definition
class AllocOp(_BufferOp):
    """Part of the arena: byte offset and size."""

    name = "plan.alloc"
    assembly_format = "attr-dict `:` type($buffer)"

    @classmethod
    def make(cls, offset: DimLike, bytes_: DimLike) -> "AllocOp":
        return cls.create(result_types=[BUFFER], attributes={"offset": size(offset), "size": size(bytes_)})


@irdl_op_definition
class ViewOp(_BufferOp):
    """A buffer from a byte offset on."""

    name = "plan.view"
    source = operand_def(BufferType)
    assembly_format = "$source attr-dict `:` type($buffer)"

    @classmethod
    def make(cls, source: SSAValue, offset: DimLike) -> "ViewOp":
        return cls.create(operands=[source], result_types=[BUFFER], attributes={"offset": size(offset)})


@irdl_op_definition
class LaunchOp(PlanOp):
    """Run a kernel on ``count`` units of work, ``grain`` at a time per thread, each thread with ``scratch`` bytes.

    With the attribute ``unless_fault`` the program ends here if a kernel before has reported a fault: the kernel may
    overwrite an input, which a failed program must leave as it was.
    """

    name = "plan.launch"
    buffers = var_operand_def(BufferType)
    assembly_format = "$buffers attr-dict `:` type($buffers)"

    @classmethod
    def make(
        cls, kernel: str, buffers: Sequence[SSAValue], count: DimLike, grain: int, scratch: DimLike, arena: DimLike
    ) -> "LaunchOp":
        attributes: dict[str, Attribute] = {
            "kernel": SymbolRefAttr(kernel),
            "count": size(count),
            "grain": number(grain),
            "scratch": size(scratch),
            "at": size(arena),
        }
        return cls.create(operands=buffers, attributes=attributes)

    @property
    def kernel(self) -> str:
        attribute = self.attributes["kernel"]
        assert isinstance(attribute, SymbolRefAttr)
        return attribute.root_reference.data


@irdl_op_definition
class CopyOp(PlanOp):
    """Copy ``bytes`` from a buffer to another."""

    name = "plan.copy"
    source = operand_def(BufferType)
    target = operand_def(BufferType)
    assembly_format = "$source `,` $target attr-dict `:` type($source) `,` type($target)"

    @classmethod
    def make(cls, source: SSAValue, target: SSAValue, bytes_: DimLike) -> "CopyOp":
        return cls.create(operands=[source, target], attributes={"bytes": size(bytes_)})


@irdl_op_definition
class FillOp(PlanOp):
    """Set ``bytes`` of a buffer to zero."""

    name = "plan.fill"
    target = operand_def(BufferType)
    assembly_format = "$target attr-dict `:` type($target)"

    @classmethod
    def make(cls, target: SSAValue, bytes_: DimLike) -> "FillOp":
        return cls.create(operands=[target], attributes={"bytes": size(bytes_)})


class _LoopOp(PlanOp):
    @property
    def counter(self) -> str:
        """The name that stands for the number of the step in dim expressions inside."""
        attribute = self.attributes["counter"]
        assert isinstance(attribute, StringAttr)
        return attribute.data


@irdl_op_definition
class ForOp(_LoopOp):
    """Run the steps of the region ``count`` times; ``counter`` names the number of the time in dims inside."""

    name = "plan.for"
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "attr-dict-with-keyword $body"

    @classmethod
    def make(cls, counter: str, count: DimLike, body: Block) -> "ForOp":
        attributes: dict[str, Attribute] = {"counter": StringAttr(counter), "count": size(count)}
        return cls.create(attributes=attributes, regions=[Region(body)])


@irdl_op_definition
class WhileOp(_LoopOp):
    """Run the first region's steps, which set a byte; while it is not 0 run the second's, and begin again.

    Afterwards the first region's steps and the rest of the program may use ``counter``: how often the second has run.
    """

    name = "plan.while"
    flag = operand_def(BufferType)
    condition = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$flag attr-dict `:` type($flag) `while` $condition `do` $body"

    @classmethod
    def make(cls, flag: SSAValue, counter: str, condition: Block, body: Block) -> "WhileOp":
        return cls.create(
            operands=[flag],
            attributes={"counter": StringAttr(counter)},
            regions=[Region(condition), Region(body)],
        )


@irdl_op_definition
class IfOp(PlanOp):
    """Run the steps of the first region if a byte is not 0, else those of the second."""

    name = "plan.if"
    flag = operand_def(BufferType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$flag attr-dict `:` type($flag) `then` $then `else` $otherwise"

    @classmethod
    def make(cls, flag: SSAValue, then: Block, otherwise: Block) -> "IfOp":
        return cls.create(operands=[flag], regions=[Region(then), Region(otherwise)])


@irdl_op_definition
class EndOp(PlanOp):
    """Ends a plan."""

    name = "plan.end"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"

    @classmethod
    def make(cls) -> "EndOp":
        return cls.create()
