"""Small OpenCL programs written by hand, for tests of the runtime that must not depend on generators and emitter."""

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from firebox.dialects import plan
from firebox.dialects.kernel.builder import KernelBuilder
from firebox.dims import DimLike, dim
from firebox.dtypes import DType, f32, i64
from firebox.lowering.opencl.plan import emit_plan
from firebox.runtime.code_cache import compile_image
from firebox.runtime.opencl_code import OpenClCode
from firebox.runtime.program import KernelInfo, Program
from firebox.runtime.target import Target
from firebox.signature import TensorSpec

GROUP = 32
B = dim("b")

_HEAD = "#define AT(p, o) ((__global float *)((__global uchar *)(p) + (o)))\n"
_ADD = """
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void add(__global uchar *x, ulong xo, __global uchar *w, ulong wo, __global uchar *y, ulong yo, long b) {
    size_t i = get_global_id(0);
    if (i < b * 8) AT(y, yo)[i] = AT(x, xo)[i] + AT(w, wo)[i & 7];
}
"""
_TWICE = """
__kernel void twice(__global uchar *x, ulong xo, __global uchar *y, ulong yo) {
    size_t i = get_global_id(0);
    AT(y, yo)[i] = 2.0f * AT(x, xo)[i];
}
"""
_SUM = """
__kernel void sum(__global uchar *x, ulong xo, __global uchar *y, ulong yo, __global uchar *work, ulong wo) {
    size_t i = get_global_id(0);
    AT(work, wo)[i] = AT(x, xo)[i];
    barrier(CLK_GLOBAL_MEM_FENCE);
    float total = 0.0f;
    for (int k = 0; k < 32; ++k) total += AT(work, wo)[k];
    AT(y, yo)[i] = total;
}
"""
_LOOK_UP = """
__kernel void look_up(__global uchar *t, ulong to, __global uchar *k, ulong ko, __global uchar *y, ulong yo,
                      __global long *status) {
    long i = *(__global long *)(k + ko);
    if (i < 0 || i >= 4) {
        if (get_global_id(0) == 0) { status[0] = 1; status[1] = 1; status[2] = i; status[3] = 4; }
        return;
    }
    if (get_global_id(0) == 0) AT(y, yo)[0] = AT(t, to)[i];
}
"""

Steps = Callable[["Plan"], None]


class Plan:
    """A plan in the making.

    Attributes:
        inputs, outputs: buffers.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        self.block = Block()
        self.inputs = [self.add(plan.InputOp.make(k)) for k in range(inputs)]
        self.outputs = [self.add(plan.OutputOp.make(k)) for k in range(outputs)]

    def add(self, op: plan.InputOp | plan.OutputOp | plan.AllocOp | plan.ViewOp) -> SSAValue:
        self.block.add_op(op)
        return op.buffer

    def alloc(self, offset: DimLike, nbytes: DimLike) -> SSAValue:
        return self.add(plan.AllocOp.make(offset, nbytes))

    def launch(self, name: str, buffers: Sequence[SSAValue], count: DimLike, at: DimLike = 0) -> None:
        self.block.add_op(plan.LaunchOp.make(name, buffers, count, GROUP, 0, at))

    def finish(self, dims: Sequence[str], arena: DimLike) -> plan.ProgramOp:
        self.block.add_op(plan.EndOp.make())
        return plan.ProgramOp.make("main", dims, arena, [], self.block)


def kernel(
    name: str, buffers: Sequence[DType], n_dims: int = 0, workspace: bool = False, status: bool = False
) -> FuncOp:
    """What the host's part must know of a kernel."""
    builder = KernelBuilder.device_kernel(name, buffers, n_dims, group=GROUP, narrow=True)
    if workspace:
        builder.store(builder.workspace, 0, builder.load(builder.workspace, 0))
    if status:
        builder.fail(1, 0)
    return builder.finish()


KERNELS = {
    "add": kernel("add", [f32] * 3, 1),
    "twice": kernel("twice", [f32] * 2),
    "sum": kernel("sum", [f32] * 2, workspace=True),
    "look_up": kernel("look_up", [f32, i64, f32], status=True),
}
_SOURCES = {"add": _ADD, "twice": _TWICE, "sum": _SUM, "look_up": _LOOK_UP}


def entry_text(program: Program, steps: Steps) -> str:
    """The host's part of a program as LLVM IR; its kernels are those of its description."""
    made = Plan(len(program.inputs), len(program.outputs))
    steps(made)
    return emit_plan(made.finish(program.dims, program.arena), {k.name: KERNELS[k.name] for k in program.kernels})


def code(program: Program, steps: Steps, source: str | None = None) -> OpenClCode:
    """The code of a program that consists of kernels of `KERNELS`."""
    names = tuple(k.name for k in program.kernels)
    text = source if source is not None else _HEAD + "".join(_SOURCES[name] for name in names)
    host = compile_image([entry_text(program, steps)], Target.host())
    return OpenClCode(host, text, names, "look_up" in names)


def _info(*names: str) -> tuple[KernelInfo, ...]:
    return tuple(KernelInfo(name, "loops", (f"nd.{name}",)) for name in names)


VECTOR = TensorSpec("x", f32, (GROUP,))

ADD = Program(
    name="add",
    inputs=(TensorSpec("x", f32, (B, 8)), TensorSpec("w", f32, (8,))),
    outputs=(TensorSpec("y", f32, (B, 8)),),
    dims=("b",),
    kernels=_info("add"),
)
TWICE = Program("twice", (VECTOR,), (TensorSpec("y", f32, (GROUP,)),), kernels=_info("twice"))
CHAIN = Program("chain", (VECTOR,), (TensorSpec("y", f32, (GROUP,)),), arena=1024, kernels=_info("twice", "sum"))
LOOK_UP = Program(
    name="look_up",
    inputs=(TensorSpec("table", f32, (4,)), TensorSpec("index", i64)),
    outputs=(TensorSpec("y", f32),),
    kernels=_info("look_up"),
    ops=("nd.first", "nd.look_up"),
    locations=("model.py:1", "model.py:7"),
)


def add_steps(p: Plan) -> None:
    """One kernel over b * 8 elements; none where b is 0."""
    p.launch("add", [*p.inputs, p.outputs[0]], (B * 8 + GROUP - 1) // GROUP)


def twice_steps(p: Plan) -> None:
    """One kernel."""
    p.launch("twice", [p.inputs[0], p.outputs[0]], 1)


def chain_steps(p: Plan) -> None:
    """Twice through a temporary, then a sum with its workspace behind it."""
    between = p.alloc(256, 128)
    p.launch("twice", [p.inputs[0], between], 1)
    p.launch("sum", [between, p.outputs[0]], 1, at=512)


def look_up_steps(p: Plan) -> None:
    """A fault of op 1 for an index outside [0, 4)."""
    p.launch("look_up", [*p.inputs, p.outputs[0]], 1)
