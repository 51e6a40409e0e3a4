"""The `plan` dialect: a compiled program as the host runs it, a list of launches, copies and fills over buffers.

A buffer is an input, an output or a part of the arena, plus a byte offset. Sizes and counts are dim expressions.
"""

from xdsl.ir import Dialect

from firebox.dialects.plan.ops import (
    AllocOp,
    BufferType,
    CopyOp,
    EndOp,
    FillOp,
    InputOp,
    LaunchOp,
    OutputOp,
    ProgramOp,
    ViewOp,
)

PLAN = Dialect(
    "plan",
    [ProgramOp, InputOp, OutputOp, AllocOp, ViewOp, LaunchOp, CopyOp, FillOp, EndOp],
    [BufferType],
)

__all__ = [
    "PLAN",
    "AllocOp",
    "BufferType",
    "CopyOp",
    "EndOp",
    "FillOp",
    "InputOp",
    "LaunchOp",
    "OutputOp",
    "ProgramOp",
    "ViewOp",
]
