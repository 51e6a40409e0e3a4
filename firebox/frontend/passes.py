"""The phases of the pipeline as xDSL passes, so that `firebox opt` and other xDSL tools can run each alone."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from firebox.lowering.bufferize import bufferize
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.checkpoint import checkpoint
from firebox.lowering.decompose import decompose
from firebox.lowering.expand import expand
from firebox.lowering.fuse import fuse
from firebox.lowering.layout import layout
from firebox.lowering.order import order
from firebox.lowering.pipeline import run_to
from firebox.lowering.schedule import schedule
from firebox.runtime.target import Target


@dataclass(frozen=True)
class NdExpand(ModulePass):
    """Replace transforms (gradients, batching) by plain ops."""

    name = "nd-expand"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand(op)


@dataclass(frozen=True)
class NdCanonicalize(ModulePass):
    """Fold constants, merge equal ops, drop dead ones, simplify."""

    name = "nd-canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize(op)


@dataclass(frozen=True)
class NdCheckpoint(ModulePass):
    """Choose what a backward pass keeps and what it computes again."""

    name = "nd-checkpoint"

    strategy: str = "keep-all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        checkpoint(op, self.strategy)


@dataclass(frozen=True)
class NdDecompose(ModulePass):
    """Replace composites by simpler ops."""

    name = "nd-decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        decompose(op)


@dataclass(frozen=True)
class NdLayout(ModulePass):
    """Absorb movements of data into their neighbours."""

    name = "nd-layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layout(op)


@dataclass(frozen=True)
class NdFuse(ModulePass):
    """Group ops that run as one kernel."""

    name = "nd-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse(op)


@dataclass(frozen=True)
class NdOrder(ModulePass):
    """Name the groups and put them into the order of execution."""

    name = "nd-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        order(op)


@dataclass(frozen=True)
class NdSchedule(ModulePass):
    """Choose tiles, widths and threads of every group."""

    name = "nd-schedule"

    target: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        schedule(op, Target.parse(self.target))


@dataclass(frozen=True)
class NdBufferize(ModulePass):
    """Give every value a place in memory; makes the plan."""

    name = "nd-bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        bufferize(op)


@dataclass(frozen=True)
class NdLower(ModulePass):
    """Run the whole pipeline up to and including a phase."""

    name = "nd-lower"

    to: str = "generate"
    target: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        run_to(op, Target.parse(self.target), self.to)


PASSES: dict[str, type[ModulePass]] = {
    cls.name: cls
    for cls in (
        NdExpand, NdCanonicalize, NdCheckpoint, NdDecompose, NdLayout, NdFuse, NdOrder, NdSchedule, NdBufferize,
        NdLower,
    )
}  # fmt: skip
