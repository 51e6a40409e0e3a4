"""From a plan to IR: ``builtin.module { func.func @main }`` of nd ops, with the user's lines as locations."""

import itertools
from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir import Block as IrBlock

from firebox.dialects.nd.aval import tensor_type
from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.control import ControlOp
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.transform import RegionOp, yield_values
from firebox.dialects.xdsl_compat import append, file_location
from firebox.frontend import locations
from firebox.frontend.entries import Entry
from firebox.frontend.graph import ScalarVar
from firebox.frontend.plan import STEP, Plan
from firebox.frontend.steps import Block, Step

_UNKNOWN = UnknownLoc()


def build(plan: Plan, dynamic: Collection[int] = (), names: Sequence[str] = (), numbered: bool = False) -> ModuleOp:
    """The module of a plan.

    Args:
        dynamic: the slots that are inputs; every other is a constant of the value that it has in the plan.
        names: names of the inputs, as far as they are known.
        numbered: locations are the numbers of the steps (``step:7``) in place of the user's lines, so that what is
            compiled does not depend on where the source lies; `step_locations` tells what they stand for.
    """
    return _Builder(plan, sorted(dynamic), names, numbered).module()


class _Builder:
    def __init__(self, plan: Plan, dynamic: Sequence[int], names: Sequence[str], numbered: bool) -> None:
        self.plan = plan
        self.names = names
        self.numbers = itertools.count() if numbered else None
        self.dynamic = dynamic
        avals = [v.aval for v in plan.inputs] + [plan.slots[k].aval for k in dynamic]
        self.block = IrBlock(arg_types=[tensor_type(a) for a in avals])
        self.values: dict[int, SSAValue] = dict(zip(plan.input_numbers, self.block.args, strict=False))
        self.values.update(zip((-1 - k for k in dynamic), self.block.args[len(plan.inputs) :], strict=True))
        self.constants: dict[tuple[str, bytes], SSAValue] = {}

    def module(self) -> ModuleOp:
        self._constants()
        self._steps(self.plan.steps, self.block)
        results = [self.values[n] for n in self.plan.outputs]
        append(self.block, ReturnOp.create(operands=results))
        kind = FunctionType.from_lists([a.type for a in self.block.args], [r.type for r in results])
        function = FuncOp("main", kind, Region(self.block))
        if any(self.names):
            function.properties["arg_attrs"] = self._argument_names()
        return ModuleOp([function])

    def _argument_names(self) -> ArrayAttr[DictionaryAttr]:
        attributes = []
        for position, argument in enumerate(self.block.args):
            name = self.names[position] if position < len(self.names) else ""
            attributes.append(DictionaryAttr({"nd.name": StringAttr(name)} if name else {}))
            if name.replace(".", "_").isidentifier():
                argument.name_hint = name.replace(".", "_")
        return ArrayAttr(attributes)

    def _constants(self) -> None:
        """One constant for each different number, at the top."""
        for position, slot in enumerate(self.plan.slots):
            if -1 - position not in self.values:
                self.values[-1 - position] = self._constant(slot)

    def _constant(self, slot: ScalarVar) -> SSAValue:
        key = (slot.aval.dtype.name, slot.data)
        if key not in self.constants:
            value = Literal(slot.aval.dtype.name, (), slot.data)
            op = lookup("nd.constant").build_op((), {"value": value})
            append(self.block, op)
            self.constants[key] = op.results[0]
        return self.constants[key]

    def _steps(self, steps: Sequence[Step], block: IrBlock) -> None:
        values = self.values
        for step in steps:
            entry = step.entry
            operands = [values[n] for n in step.operands]
            location = self._location(step)
            op: NdOp
            if step.blocks:
                op = self._region_op(entry, operands, step.blocks, location)
            else:
                op = entry.op.create(
                    operands=operands,
                    result_types=[tensor_type(a) for a in entry.results],
                    attributes=_attributes(entry),
                    location=location,
                )
            append(block, op)
            values.update(zip(range(step.first, step.first + len(op.results)), op.results, strict=True))

    def _location(self, step: Step) -> LocationAttr:
        if self.numbers is not None:
            return file_location(STEP, next(self.numbers))
        location = step.node.location
        return _UNKNOWN if location is None else file_location(*locations.file_and_line(location))

    def _region_op(
        self, entry: Entry, operands: list[SSAValue], blocks: Sequence[Block], location: LocationAttr
    ) -> RegionOp:
        op = entry.op
        assert issubclass(op, RegionOp), op
        if issubclass(op, ControlOp):
            return op.closed(operands, entry.params, [self._block(b) for b in blocks], location)
        return op.build_region_op(operands, entry.params, [self._block(b) for b in blocks], location)

    def _block(self, block: Block) -> IrBlock:
        result = IrBlock(arg_types=[tensor_type(a) for a in block.avals])
        self.values.update(zip(block.args, result.args, strict=True))
        self._steps(block.steps, result)
        append(result, yield_values([self.values[n] for n in block.yields]))
        return result


def _attributes(entry: Entry) -> dict[str, Attribute]:
    return entry.op.encode(entry.params)
