"""Our own rows of the table of templates for OpenCL devices."""

from dataclasses import replace

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.contract import CONTRACT, TEMPLATES
from firebox.lowering.generate.gpu.loops import LOOPS
from firebox.lowering.generate.gpu.scan import GPU_SCAN
from firebox.lowering.generate.gpu.scatter import GPU_SCATTER
from firebox.lowering.generate.gpu.sort import GPU_SORT
from firebox.lowering.generate.gpu.transpose import GPU_TRANSPOSE, is_transposing
from firebox.lowering.generate.templates import add_template, register_template
from firebox.runtime.opencl_target import OpenClTarget

KIND = "opencl"


def register_all() -> None:
    """Enter the templates of this package."""
    for template in (*TEMPLATES, GPU_TRANSPOSE):
        add_template(template)
    register_template("loops", replace(LOOPS, schedule=_loops), KIND)
    register_template("contract", CONTRACT, KIND)
    register_template("scan", GPU_SCAN, KIND)
    register_template("nd.sort", GPU_SORT, KIND)
    register_template("nd.scatter_add", GPU_SCATTER, KIND)


def _loops(group: GroupOp, target: OpenClTarget) -> Schedule:
    """Transposes go through local memory, everything else is a nest of loops."""
    return (GPU_TRANSPOSE if is_transposing(group, target) else LOOPS).schedule(group, target)
