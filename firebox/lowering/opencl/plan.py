"""The plan as one native entry function: LLVM IR text of the host side of a program on an OpenCL device.

`args` and `outs` of the entry (see `firebox.lowering.plan_text`) are tables of pointers to places; a place is two i64:
the memory object's handle and a byte offset in it. The slots of `env` are those of `firebox.runtime.opencl_entry`:

    2 command queue, 3 table of kernels, 4 clSetKernelArg, 5 clEnqueueNDRangeKernel, 6 clEnqueueCopyBuffer,
    7 clEnqueueFillBuffer, 8 memory object of the device's status words, 9 clEnqueueReadBuffer, 10 clWaitForEvents,
    11 clReleaseEvent, 12 the host's status words

A kernel takes for each buffer the memory object and the offset, then its dims, then the place of the workspace and the
status words if it asks for them; each argument has 8 bytes. A call that OpenCL refuses ends the entry; the status block
of the host then holds {4, number of the kernel or -1, OpenCL's code, 0 argument / 1 launch / 2 copy / 3 fill / 4 read}.

Behind the last kernel that may report a fault the entry asks for the status words, without waiting. It waits for them
before the first kernel that overwrites an input (bufferize lets none overwrite one before that point), or at its end:
the device works on meanwhile. With a fault the entry ends. The flag of a branch or of a loop is read, and waited for,
where it is needed.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from firebox.dialects import plan
from firebox.errors import CompilerError
from firebox.lowering.plan_text import PARAMETERS, PlanWriter

STATUS_SLOT = 8

_FAIL = """\
define internal i1 @fb.fail(ptr %status, i64 %kernel, i32 %code, i64 %call) nounwind noinline {
entry:
  %code.wide = sext i32 %code to i64
  %s1 = getelementptr i64, ptr %status, i64 1
  %s2 = getelementptr i64, ptr %status, i64 2
  %s3 = getelementptr i64, ptr %status, i64 3
  store i64 4, ptr %status, align 8
  store i64 %kernel, ptr %s1, align 8
  store i64 %code.wide, ptr %s2, align 8
  store i64 %call, ptr %s3, align 8
  ret i1 true
}
"""
_LAUNCH = """\
define internal i1 @fb.launch(ptr %env, ptr %status, i64 %number, ptr %table, i32 %count, i64 %groups, i64 %size) \
nounwind noinline {
entry:
  %global = alloca i64, align 8
  %local = alloca i64, align 8
  %some = icmp sgt i64 %groups, 0
  br i1 %some, label %begin, label %good
begin:
  %kernels.p = getelementptr i64, ptr %env, i64 3
  %kernels = load ptr, ptr %kernels.p, align 8
  %kernel.p = getelementptr i64, ptr %kernels, i64 %number
  %kernel = load i64, ptr %kernel.p, align 8
  %set.p = getelementptr i64, ptr %env, i64 4
  %set = load ptr, ptr %set.p, align 8
  %any = icmp sgt i32 %count, 0
  br i1 %any, label %argument, label %start
argument:
  %i = phi i32 [ 0, %begin ], [ %next, %more ]
  %wide = zext i32 %i to i64
  %value.p = getelementptr ptr, ptr %table, i64 %wide
  %value = load ptr, ptr %value.p, align 8
  %refused = call i32 %set(i64 %kernel, i32 %i, i64 8, ptr %value)
  %bad = icmp ne i32 %refused, 0
  br i1 %bad, label %fail, label %more
more:
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %count
  br i1 %again, label %argument, label %start
start:
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %enqueue.p = getelementptr i64, ptr %env, i64 5
  %enqueue = load ptr, ptr %enqueue.p, align 8
  %total = mul i64 %groups, %size
  store i64 %total, ptr %global, align 8
  store i64 %size, ptr %local, align 8
  %failed = call i32 %enqueue(i64 %queue, i64 %kernel, i32 1, ptr null, ptr %global, ptr %local, i32 0, ptr null, \
ptr null)
  %lost = icmp ne i32 %failed, 0
  br i1 %lost, label %fail, label %good
fail:
  %code = phi i32 [ %refused, %argument ], [ %failed, %start ]
  %call = phi i64 [ 0, %argument ], [ 1, %start ]
  %told = call i1 @fb.fail(ptr %status, i64 %number, i32 %code, i64 %call)
  ret i1 %told
good:
  ret i1 false
}
"""
_COPY = """\
define internal i1 @fb.copy(ptr %env, ptr %status, ptr %from, ptr %to, i64 %bytes) nounwind noinline {
entry:
  %source = load i64, ptr %from, align 8
  %target = load i64, ptr %to, align 8
  %from.p = getelementptr i64, ptr %from, i64 1
  %to.p = getelementptr i64, ptr %to, i64 1
  %source.at = load i64, ptr %from.p, align 8
  %target.at = load i64, ptr %to.p, align 8
  %none = icmp sle i64 %bytes, 0
  %one = icmp eq i64 %source, %target
  %same = icmp eq i64 %source.at, %target.at
  %itself = and i1 %one, %same
  %idle = or i1 %none, %itself
  br i1 %idle, label %good, label %start
start:
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %copy.p = getelementptr i64, ptr %env, i64 6
  %copy = load ptr, ptr %copy.p, align 8
  %code = call i32 %copy(i64 %queue, i64 %source, i64 %target, i64 %source.at, i64 %target.at, i64 %bytes, i32 0, \
ptr null, ptr null)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %good
fail:
  %told = call i1 @fb.fail(ptr %status, i64 -1, i32 %code, i64 2)
  ret i1 %told
good:
  ret i1 false
}
"""
# A pattern of 4 bytes, or of 1 where the size or the place asks for it: both must be multiples of the pattern.
_FILL = """\
define internal i1 @fb.fill(ptr %env, ptr %status, ptr %to, i64 %bytes) nounwind noinline {
entry:
  %zero = alloca i32, align 4
  store i32 0, ptr %zero, align 4
  %some = icmp sgt i64 %bytes, 0
  br i1 %some, label %start, label %good
start:
  %target = load i64, ptr %to, align 8
  %to.p = getelementptr i64, ptr %to, i64 1
  %at = load i64, ptr %to.p, align 8
  %both = or i64 %at, %bytes
  %low = and i64 %both, 3
  %whole = icmp eq i64 %low, 0
  %pattern = select i1 %whole, i64 4, i64 1
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %fill.p = getelementptr i64, ptr %env, i64 7
  %fill = load ptr, ptr %fill.p, align 8
  %code = call i32 %fill(i64 %queue, i64 %target, ptr %zero, i64 %pattern, i64 %at, i64 %bytes, i32 0, ptr null, \
ptr null)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %good
fail:
  %told = call i1 @fb.fail(ptr %status, i64 -1, i32 %code, i64 3)
  ret i1 %told
good:
  ret i1 false
}
"""
_ASK = """\
define internal i1 @fb.ask(ptr %env, ptr %status, ptr %event) nounwind noinline {
entry:
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %words.p = getelementptr i64, ptr %env, i64 8
  %words = load i64, ptr %words.p, align 8
  %read.p = getelementptr i64, ptr %env, i64 9
  %read = load ptr, ptr %read.p, align 8
  %answer.p = getelementptr i64, ptr %env, i64 12
  %answer = load ptr, ptr %answer.p, align 8
  %code = call i32 %read(i64 %queue, i64 %words, i32 0, i64 0, i64 32, ptr %answer, i32 0, ptr null, ptr %event)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %good
fail:
  %told = call i1 @fb.fail(ptr %status, i64 -1, i32 %code, i64 4)
  ret i1 %told
good:
  ret i1 false
}

define internal i1 @fb.answer(ptr %env, ptr %status, ptr %event) nounwind noinline {
entry:
  %wait.p = getelementptr i64, ptr %env, i64 10
  %wait = load ptr, ptr %wait.p, align 8
  %release.p = getelementptr i64, ptr %env, i64 11
  %release = load ptr, ptr %release.p, align 8
  %code = call i32 %wait(i32 1, ptr %event)
  %done = load ptr, ptr %event, align 8
  %released = call i32 %release(ptr %done)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %good
fail:
  %told = call i1 @fb.fail(ptr %status, i64 -1, i32 %code, i64 4)
  ret i1 %told
good:
  %answer.p = getelementptr i64, ptr %env, i64 12
  %answer = load ptr, ptr %answer.p, align 8
  %word = load volatile i64, ptr %answer, align 8
  %fault = icmp ne i64 %word, 0
  ret i1 %fault
}
"""
_FLAG = """\
define internal i1 @fb.flag(ptr %env, ptr %status, ptr %from, ptr %flag) nounwind noinline {
entry:
  %queue.p = getelementptr i64, ptr %env, i64 2
  %queue = load i64, ptr %queue.p, align 8
  %source = load i64, ptr %from, align 8
  %from.p = getelementptr i64, ptr %from, i64 1
  %at = load i64, ptr %from.p, align 8
  %read.p = getelementptr i64, ptr %env, i64 9
  %read = load ptr, ptr %read.p, align 8
  %code = call i32 %read(i64 %queue, i64 %source, i32 1, i64 %at, i64 1, ptr %flag, i32 0, ptr null, ptr null)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %good
fail:
  %told = call i1 @fb.fail(ptr %status, i64 -1, i32 %code, i64 4)
  ret i1 %told
good:
  ret i1 false
}
"""
# A program that needs no workspace gets none, yet its entry computes places in it.
_NOWHERE = "@fb.nowhere = internal constant [2 x i64] zeroinitializer, align 16"
_HELPERS = {plan.LaunchOp: _LAUNCH, plan.CopyOp: _COPY, plan.FillOp: _FILL}


def emit_plan(program: plan.ProgramOp, kernels: Mapping[str, FuncOp]) -> str:
    """The entry function and the helpers it calls.

    Args:
        program: the steps.
        kernels: the kernels by name, in the order of the runtime's table of them.

    Raises:
        CompilerError: a step starts a kernel that is not there, or with another number of work-items than it has.
    """
    return _Entry(program, kernels).text()


class _Entry(PlanWriter):
    """Writes one entry function."""

    def __init__(self, program: plan.ProgramOp, kernels: Mapping[str, FuncOp]) -> None:
        super().__init__(program)
        self.kernels = kernels
        self.numbers = {name: number for number, name in enumerate(kernels)}
        self.names["threads"] = "1"
        self.table = 1  # arguments of the kernel that has most
        self.own = 0  # places in the entry's own memory
        self.arena = ""
        self.offsets: dict[str, str] = {}  # place -> address of its offset
        self.last_fault = max((k for k, op in enumerate(self._all()) if self._may_fault(op)), default=-1)

    def _all(self) -> list[Operation]:
        return list(self.program.body.block.ops)

    def _may_fault(self, op: Operation) -> bool:
        names = (inner.kernel for inner in op.walk() if isinstance(inner, plan.LaunchOp))
        kernels = (self.kernels[name] for name in names if name in self.kernels)
        return any("kernel.status" in kernel.attributes for kernel in kernels)

    def steps(self) -> None:
        waiting = False
        for number, op in enumerate(self._all()):
            if waiting and ("unless_fault" in op.attributes or isinstance(op, plan.EndOp)):
                self._helper("@fb.answer(ptr %env, ptr %status, ptr %event)")
                waiting = False
            self.step(op)
            if number == self.last_fault:
                self._helper("@fb.ask(ptr %env, ptr %status, ptr %event)")
                waiting = True
        self.out.line("ret void")

    def text(self) -> str:
        self.load_dims()
        given = self.slot("ptr", "%outs", self.count(plan.OutputOp))
        missing = self.out.op(f"icmp eq ptr {given}, null")
        self.arena = self.out.op(f"select i1 {missing}, ptr @fb.nowhere, ptr {given}")
        self.steps()
        head = f"define void @{self.program.entry.data}({PARAMETERS}) nounwind {{"
        table = f"  %table = alloca [{self.table} x ptr], align 16"
        own = f"  %own = alloca [{max(self.own, 1)} x [2 x i64]], align 16"
        reads = self.count(plan.WhileOp) + self.count(plan.IfOp) > 0
        helpers = [text for kind, text in _HELPERS.items() if self.count(kind)]
        memory = [table, own]
        if reads:
            helpers.append(_FLAG)
            memory.append("  %flag = alloca i8, align 1")
        if self.last_fault >= 0:
            helpers.append(_ASK)
            memory.append("  %event = alloca ptr, align 8")
        fail = [_FAIL] if helpers else []
        body = "\n".join([head, "entry:", *memory, self.out.body(), "}"])
        return "\n".join([_NOWHERE, *fail, *helpers, body]) + "\n"

    def alloc(self, op: plan.AllocOp) -> str:
        return self._inside(self.arena, self.expression(op.dim("offset")))

    def view(self, op: plan.ViewOp) -> str:
        return self._inside(self.places[op.source], self.expression(op.dim("offset")))

    def _inside(self, place: str, offset: str) -> str:
        """A new place, `offset` bytes after another."""
        if offset == "0":
            return place
        out = self.out
        handle = out.op(f"load i64, ptr {place}, align 8")
        base = out.op(f"load i64, ptr {self._offset(place)}, align 8")
        made = self.at("%own", "[2 x i64]", str(self.own))
        self.own += 1
        out.line(f"store i64 {handle}, ptr {made}, align 8")
        total = out.op(f"add nsw i64 {base}, {offset}")
        out.line(f"store i64 {total}, ptr {self._offset(made)}, align 8")
        return made

    def _offset(self, place: str) -> str:
        if place not in self.offsets:
            self.offsets[place] = self.at(place, "i64", "1")
        return self.offsets[place]

    def launch(self, op: plan.LaunchOp) -> None:
        if op.dim("count") == 0:
            return
        kernel = self._kernel(op)
        values = [part for buffer in op.buffers for part in self._place(self.places[buffer])]
        values += [self.at("%dims", "i64", str(index)) for index in _dims(kernel)]
        if "kernel.workspace" in kernel.attributes:
            values += self._place(self._inside(self.arena, self.expression(op.dim("at"))))
        if "kernel.status" in kernel.attributes:
            values.append(self.at("%env", "i64", str(STATUS_SLOT)))
        for k, value in enumerate(values):
            self.out.line(f"store ptr {value}, ptr {self.at('%table', 'ptr', str(k))}, align 8")
        self.table = max(self.table, len(values))
        groups = self.expression(op.dim("count"))
        self._helper(
            f"@fb.launch(ptr %env, ptr %status, i64 {self.numbers[op.kernel]}, ptr %table, i32 {len(values)}, "
            f"i64 {groups}, i64 {op.integer('grain')})"
        )

    def _place(self, place: str) -> list[str]:
        return [place, self._offset(place)]

    def _kernel(self, op: plan.LaunchOp) -> FuncOp:
        if op.kernel not in self.kernels:
            raise CompilerError("no such kernel", op="plan", expected=", ".join(self.kernels), found=op.kernel)
        kernel = self.kernels[op.kernel]
        group = kernel.attributes.get("kernel.group")
        if not isinstance(group, IntegerAttr) or group.value.data != op.integer("grain"):
            raise CompilerError(
                "launched with another size of work-groups than it has",
                op=f"kernel {op.kernel}",
                expected=group,
                found=op.integer("grain"),
            )
        return kernel

    def copy(self, op: plan.CopyOp) -> None:
        source, target = self.places[op.source], self.places[op.target]
        bytes_ = self.expression(op.dim("bytes"))
        self._helper(f"@fb.copy(ptr %env, ptr %status, ptr {source}, ptr {target}, i64 {bytes_})")

    def fill(self, op: plan.FillOp) -> None:
        bytes_ = self.expression(op.dim("bytes"))
        self._helper(f"@fb.fill(ptr %env, ptr %status, ptr {self.places[op.target]}, i64 {bytes_})")

    def scope(self, block: Block) -> None:
        offsets = dict(self.offsets)
        super().scope(block)
        self.offsets = offsets

    def flag(self, place: str) -> str:
        self._helper(f"@fb.flag(ptr %env, ptr %status, ptr {place}, ptr %flag)")
        byte = self.out.op("load i8, ptr %flag, align 1")
        return self.out.op(f"icmp ne i8 {byte}, 0")

    def loop_check(self, op: plan.WhileOp) -> None:
        if self._may_fault(op):
            self._helper("@fb.ask(ptr %env, ptr %status, ptr %event)")
            self._helper("@fb.answer(ptr %env, ptr %status, ptr %event)")

    def _helper(self, call: str) -> None:
        """Call a helper, and end here if it fails."""
        out = self.out
        failed = out.op(f"call i1 {call}")
        stop, go_on = out.new_label("stop"), out.new_label("go")
        out.branch_if(failed, stop, go_on)
        out.block(stop)
        out.line("ret void")
        out.block(go_on)


def _dims(kernel: FuncOp) -> list[int]:
    """Which of the program's dims a kernel takes."""
    indices = kernel.attributes["kernel.dims"]
    assert isinstance(indices, DenseArrayBase)
    return [int(index) for index in indices.get_values()]
