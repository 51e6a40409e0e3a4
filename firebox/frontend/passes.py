"""All passes by name, for `firebox opt` and other xDSL tools; each is defined in its own file in `lowering`."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from firebox.lowering.bufferize import BufferizePass
from firebox.lowering.canonicalize import CanonicalizePass
from firebox.lowering.checkpoint import CheckpointPass
from firebox.lowering.decompose import DecomposePass
from firebox.lowering.expand import ExpandPass
from firebox.lowering.fuse import FusePass
from firebox.lowering.layout import LayoutPass
from firebox.lowering.order import OrderPass
from firebox.lowering.pipeline import run_to
from firebox.lowering.schedule import SchedulePass
from firebox.lowering.slim import SlimPass
from firebox.runtime.opencl_target import parse_target


@dataclass(frozen=True)
class LowerPass(ModulePass):
    """Run the whole pipeline up to and including a phase."""

    name = "nd-lower"

    to: str = "generate"
    target: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        run_to(op, parse_target(self.target), self.to)


PASSES: dict[str, type[ModulePass]] = {
    cls.name: cls
    for cls in (
        ExpandPass,
        CanonicalizePass,
        CheckpointPass,
        DecomposePass,
        LayoutPass,
        FusePass,
        SlimPass,
        OrderPass,
        SchedulePass,
        BufferizePass,
        LowerPass,
    )
}
