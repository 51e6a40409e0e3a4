"""Plans through the lowering: to native code, or to calls of the reference interpreter."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from firebox import dims
from firebox.frontend.build import build
from firebox.frontend.plan import Plan
from firebox.lowering.interpret import interpret
from firebox.lowering.options import Options
from firebox.lowering.pipeline import Lowered, lower
from firebox.lowering.supported import check_types
from firebox.runtime.code_cache import compile_image
from firebox.runtime.memory import Buffer
from firebox.runtime.opencl_code import Code, OpenClCode
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget
from firebox.runtime.program import Program


def compile_plan(
    plan: Plan, dynamic: Collection[int], target: AnyTarget, options: Options, device: str
) -> tuple[Program, Code]:
    """The program and its code; source lines are numbers of the plan's steps.

    Args:
        device: what to call the target in messages.

    Raises:
        DeviceError: an op on an element type that the device lacks. FireboxError: it cannot be compiled.
    """
    module = build(plan, dynamic, numbered=True)
    check_types(module, target, device)
    lowered = lower(module, target, options)
    return lowered.program, code_of(lowered, target)


def code_of(lowered: Lowered, target: AnyTarget) -> Code:
    """What a device loads: machine code; for OpenCL the kernels' source beside the machine code of the host's part."""
    if not isinstance(target, OpenClTarget):
        return compile_image([lowered.text], target)
    host = compile_image([lowered.text], target.host)
    return OpenClCode(host, lowered.source, lowered.kernels, lowered.faults)


def interpreted(
    plan: Plan, dynamic: Collection[int], names: Sequence[str]
) -> Callable[[Sequence[Buffer], Sequence[int], Sequence[bool] | None], list[Buffer]]:
    """A call that runs each op of the plan in NumPy."""
    module = build(plan, dynamic, names)
    avals = [v.aval for v in plan.inputs] + [plan.slots[k].aval for k in sorted(dynamic)]
    dim_names = dims.names(*(d for a in avals for d in a.shape))

    def call(inputs: Sequence[Buffer], sizes: Sequence[int], donate: Sequence[bool] | None) -> list[Buffer]:
        env = dict(zip(dim_names, sizes, strict=True))
        shapes = [tuple(dims.evaluate(d, env) for d in a.shape) for a in avals]
        arrays = [
            b.as_numpy(a.dtype.numpy, shape, internal=True) for b, a, shape in zip(inputs, avals, shapes, strict=True)
        ]
        return [Buffer.from_numpy(np.ascontiguousarray(r)) for r in interpret(module, arrays, env)]

    return call
