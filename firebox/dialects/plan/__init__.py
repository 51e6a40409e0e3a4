"""The `plan` dialect: a compiled program as the host runs it, launches, copies and fills over buffers, in loops
and branches.

A buffer is an input, an output or a part of the arena, plus a byte offset. Sizes and counts are dim expressions.
"""

from xdsl.ir import Dialect

from firebox.dialects.plan.ops import (
    AllocOp,
    BufferType,
    CopyOp,
    EndOp,
    FillOp,
    ForOp,
    IfOp,
    InputOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ViewOp,
    WhileOp,
)

PLAN = Dialect(
    "plan",
    [ProgramOp, InputOp, OutputOp, AllocOp, ViewOp, LaunchOp, CopyOp, FillOp, ForOp, WhileOp, IfOp, EndOp],
    [BufferType],
)

__all__ = [
    "PLAN",
    "AllocOp",
    "BufferType",
    "CopyOp",
    "EndOp",
    "FillOp",
    "ForOp",
    "IfOp",
    "InputOp",
    "LaunchOp",
    "OutputOp",
    "ProgramOp",
    "ViewOp",
    "WhileOp",
]
