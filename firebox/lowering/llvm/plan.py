"""The plan as one native entry function: LLVM IR text of the host side of a program on the CPU.

`args` and `outs` of the entry (see `firebox.lowering.plan_text`) are tables of addresses; `env` is the runtime's table
(slot 1 threads, slot 2 parallel).
"""

from firebox.dialects import plan
from firebox.dims import DimLike
from firebox.lowering.plan_text import PARAMETERS, PlanWriter

THREADS_SLOT = 1
PARALLEL_SLOT = 2

_HELPER = """\
define internal void @fb.{name}({parameters}i64 %bytes) nounwind {{
entry:
  %wide = and i64 %bytes, -64
  %any = icmp sgt i64 %wide, 0
  br i1 %any, label %vector, label %rest
vector:
  %i = phi i64 [ 0, %entry ], [ %i1, %vector ]
  %q = getelementptr i8, ptr %to, i64 %i
{vector}
  store <64 x i8> {value}, ptr %q, align 1
  %i1 = add nsw i64 %i, 64
  %more = icmp slt i64 %i1, %wide
  br i1 %more, label %vector, label %rest
rest:
  %left = icmp slt i64 %wide, %bytes
  br i1 %left, label %byte, label %done
byte:
  %j = phi i64 [ %wide, %rest ], [ %j1, %byte ]
  %s = getelementptr i8, ptr %to, i64 %j
{byte}
  store i8 {element}, ptr %s, align 1
  %j1 = add nsw i64 %j, 1
  %again = icmp slt i64 %j1, %bytes
  br i1 %again, label %byte, label %done
done:
  ret void
}}
"""
_ZERO = _HELPER.format(
    name="zero", parameters="ptr %to, ", vector="", value="zeroinitializer", byte="", element="0"
).replace("\n\n", "\n")
_COPY = _HELPER.format(
    name="copy",
    parameters="ptr %to, ptr %from, ",
    vector="  %p = getelementptr i8, ptr %from, i64 %i\n  %v = load <64 x i8>, ptr %p, align 1",
    value="%v",
    byte="  %r = getelementptr i8, ptr %from, i64 %j\n  %b = load i8, ptr %r, align 1",
    element="%b",
)


def emit_plan(program: plan.ProgramOp) -> str:
    """The entry function and the helpers it calls; kernels are referred to by name."""
    return _Entry(program).text()


class _Entry(PlanWriter):
    """Writes one entry function."""

    def __init__(self, program: plan.ProgramOp) -> None:
        super().__init__(program)
        self.table = max((len(op.operands) for op in program.body.walk() if isinstance(op, plan.LaunchOp)), default=0)
        self.helpers = False
        self.parallel = self.arena = ""

    def text(self) -> str:
        self.load_dims()
        self.names["threads"] = self.slot("i64", "%env", THREADS_SLOT)
        self.parallel = self.slot("ptr", "%env", PARALLEL_SLOT)
        self.arena = self.slot("ptr", "%outs", self.count(plan.OutputOp))
        self.steps()
        head = f"define void @{self.program.entry.data}({PARAMETERS}) nounwind {{"
        table = f"  %table = alloca [{max(self.table, 1)} x ptr], align 16"
        body = "\n".join([head, "entry:", table, self.out.body(), "}"])
        return f"{_COPY}\n{_ZERO}\n{body}\n" if self.helpers else body + "\n"

    def alloc(self, op: plan.AllocOp) -> str:
        return self.at(self.arena, "i8", self.expression(op.dim("offset")))

    def view(self, op: plan.ViewOp) -> str:
        return self.at(self.places[op.source], "i8", self.expression(op.dim("offset")))

    def copy(self, op: plan.CopyOp) -> None:
        self._helper("copy", self.places[op.target], self.places[op.source], bytes_=op.dim("bytes"))

    def fill(self, op: plan.FillOp) -> None:
        self._helper("zero", self.places[op.target], bytes_=op.dim("bytes"))

    def _helper(self, name: str, *addresses: str, bytes_: DimLike) -> None:
        self.helpers = True
        pointers = ", ".join(f"ptr {a}" for a in addresses)
        self.out.line(f"call void @fb.{name}({pointers}, i64 {self.expression(bytes_)})")

    def launch(self, op: plan.LaunchOp) -> None:
        out = self.out
        count = op.dim("count")
        if count == 0:
            return
        if "unless_fault" in op.attributes:
            self._end_on_fault()
        for k, buffer in enumerate(op.buffers):
            out.line(f"store ptr {self.places[buffer]}, ptr {self.at('%table', 'ptr', str(k))}, align 8")
        scratch = self.at(self.arena, "i8", self.expression(op.dim("at"))) if op.dim("scratch") != 0 else "null"
        grain = op.integer("grain")
        units = self.expression(count)
        if isinstance(count, int) and count <= grain:
            out.line(f"call void @{op.kernel}(ptr %table, ptr %dims, i64 0, i64 {units}, ptr {scratch}, ptr %status)")
            return
        out.line(
            f"call void {self.parallel}(ptr %env, ptr @{op.kernel}, ptr %table, ptr %dims, i64 {units}, i64 {grain}, "
            f"ptr {scratch}, i64 {self.expression(op.dim('scratch'))}, ptr %status)"
        )

    def flag(self, place: str) -> str:
        byte = self.out.op(f"load i8, ptr {place}, align 1")
        return self.out.op(f"icmp ne i8 {byte}, 0")

    def loop_check(self, op: plan.WhileOp) -> None:
        self._end_on_fault()

    def _end_on_fault(self) -> None:
        out = self.out
        code = out.op("load i64, ptr %status, align 8")
        failed = out.op(f"icmp ne i64 {code}, 0")
        stop, go_on = out.new_label("fault"), out.new_label("go")
        out.branch_if(failed, stop, go_on)
        out.block(stop)
        out.line("ret void")
        out.block(go_on)
