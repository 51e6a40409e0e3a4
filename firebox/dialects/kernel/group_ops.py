"""Ops of the kernel dialect for work-groups: where a work-item is, and waiting for the others."""

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

ID_KINDS = ("group", "groups", "item")


@irdl_op_definition
class IdOp(IRDLOperation):
    """Where this work-item is: its `group`, how many `groups` there are, which `item` of its group it is."""

    name = "kernel.id"
    kind = prop_def(StringAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$kind attr-dict"

    def verify_(self) -> None:
        if self.kind.data not in ID_KINDS:
            raise VerifyException(f"kernel.id knows {', '.join(ID_KINDS)}, found '{self.kind.data}'")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All work-items of the group come here before any goes on, and see what the others wrote to local memory.

    Not what they wrote to buffers: a fence for those would wait for every store under way.
    """

    name = "kernel.barrier"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


GROUP_OPS: tuple[type[Operation], ...] = (IdOp, BarrierOp)
