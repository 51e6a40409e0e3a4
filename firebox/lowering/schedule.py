"""Pass `schedule`: give every group its `Schedule` for a target, as an attribute that can be read and edited."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from firebox.dialects.nd.schedule import Schedule, ScheduleAttr
from firebox.lowering.generate.templates import template_of
from firebox.lowering.module import groups_in, main_function
from firebox.runtime.opencl_target import AnyTarget, parse_target


def schedule(module: ModuleOp, target: AnyTarget) -> None:
    """Attach a `ScheduleAttr` named ``schedule`` to every group that has none yet; in place."""
    made: dict[str, Schedule] = {}
    for op in groups_in(main_function(module).body.block):
        if "schedule" not in op.attributes:
            if op.label not in made:
                made[op.label] = template_of(op, target.kind).schedule(op, target)
            op.attributes["schedule"] = ScheduleAttr(made[op.label])


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Schedule the groups of @main for a target."""

    name = "nd-schedule"

    target: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        schedule(op, parse_target(self.target))
