"""The plan as one native entry function: LLVM IR text of the host side of a program.

``void @<name>(ptr env, ptr args, ptr dims, ptr outs, ptr status)``: `args` and `outs` are tables of addresses, the
last one of `outs` is the arena; `dims` are the values of the symbolic dims; `env` is the runtime's table (slot 1
threads, slot 2 parallel).
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from firebox import dims
from firebox.dialects import plan
from firebox.dims import Call, DimLike
from firebox.errors import CompilerError
from firebox.lowering.llvm.text import Text

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


class _Entry:
    """Writes one entry function."""

    def __init__(self, program: plan.ProgramOp) -> None:
        self.program = program
        self.out = Text()
        self.names: dict[str, str] = {}
        self.known: dict[DimLike, str] = {}
        self.addresses: dict[SSAValue, str] = {}
        self.table = max(
            (len(op.operands) for op in program.body.block.ops if isinstance(op, plan.LaunchOp)), default=0
        )
        self.helpers = False

    def text(self) -> str:
        out = self.out
        assert isinstance(self.program.dims, ArrayAttr)
        for k, name in enumerate(self.program.dims.data):
            assert isinstance(name, StringAttr)
            self.names[name.data] = self._slot("i64", "%dims", k)
        self.names["threads"] = self._slot("i64", "%env", THREADS_SLOT)
        parallel = self._slot("ptr", "%env", PARALLEL_SLOT)
        arena = self._slot("ptr", "%outs", self._count(plan.OutputOp))
        for op in self.program.body.block.ops:
            self._write(op, arena, parallel)
        out.line("ret void")
        name = self.program.entry.data
        head = f"define void @{name}(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status) nounwind {{"
        table = f"  %table = alloca [{max(self.table, 1)} x ptr], align 16"
        body = "\n".join([head, "entry:", table, out.body(), "}"])
        return f"{_COPY}\n{_ZERO}\n{body}\n" if self.helpers else body + "\n"

    def _count(self, kind: type[Operation]) -> int:
        return sum(isinstance(op, kind) for op in self.program.body.block.ops)

    def _slot(self, type_: str, base: str, index: int) -> str:
        return self.out.op(f"load {type_}, ptr {self._at(base, 'i64', str(index))}, align 8")

    def _at(self, base: str, unit: str, index: str) -> str:
        return base if index == "0" else self.out.op(f"getelementptr inbounds {unit}, ptr {base}, i64 {index}")

    def _write(self, op: Operation, arena: str, parallel: str) -> None:
        if isinstance(op, plan.InputOp):
            self.addresses[op.buffer] = self._slot("ptr", "%args", op.integer("index"))
        elif isinstance(op, plan.OutputOp):
            self.addresses[op.buffer] = self._slot("ptr", "%outs", op.integer("index"))
        elif isinstance(op, plan.AllocOp):
            self.addresses[op.buffer] = self._at(arena, "i8", self.expression(op.dim("offset")))
        elif isinstance(op, plan.ViewOp):
            source = self.addresses[op.source]
            self.addresses[op.buffer] = self._at(source, "i8", self.expression(op.dim("offset")))
        elif isinstance(op, plan.LaunchOp):
            self._launch(op, arena, parallel)
        elif isinstance(op, plan.CopyOp):
            self._helper("copy", self.addresses[op.target], self.addresses[op.source], bytes_=op.dim("bytes"))
        elif isinstance(op, plan.FillOp):
            self._helper("zero", self.addresses[op.target], bytes_=op.dim("bytes"))
        elif not isinstance(op, plan.EndOp):
            raise CompilerError("not a step of a plan", op=op.name)

    def _helper(self, name: str, *addresses: str, bytes_: DimLike) -> None:
        self.helpers = True
        pointers = ", ".join(f"ptr {a}" for a in addresses)
        self.out.line(f"call void @fb.{name}({pointers}, i64 {self.expression(bytes_)})")

    def _launch(self, op: plan.LaunchOp, arena: str, parallel: str) -> None:
        out = self.out
        count = op.dim("count")
        if count == 0:
            return
        if "unless_fault" in op.attributes:
            self._end_on_fault()
        for k, buffer in enumerate(op.buffers):
            out.line(f"store ptr {self.addresses[buffer]}, ptr {self._at('%table', 'ptr', str(k))}, align 8")
        scratch = self._at(arena, "i8", self.expression(op.dim("at"))) if op.dim("scratch") != 0 else "null"
        grain = op.integer("grain")
        units = self.expression(count)
        if isinstance(count, int) and count <= grain:
            out.line(f"call void @{op.kernel}(ptr %table, ptr %dims, i64 0, i64 {units}, ptr {scratch}, ptr %status)")
            return
        out.line(
            f"call void {parallel}(ptr %env, ptr @{op.kernel}, ptr %table, ptr %dims, i64 {units}, i64 {grain}, "
            f"ptr {scratch}, i64 {self.expression(op.dim('scratch'))}, ptr %status)"
        )

    def _end_on_fault(self) -> None:
        out = self.out
        code = out.op("load i64, ptr %status, align 8")
        failed = out.op(f"icmp ne i64 {code}, 0")
        stop, go_on = out.new_label("fault"), out.new_label("go")
        out.branch_if(failed, stop, go_on)
        out.block(stop)
        out.line("ret void")
        out.block(go_on)

    # ---- dims ----------------------------------------------------------------------------------------------------

    def expression(self, value: DimLike) -> str:
        """The operand text of a dim expression (non-negative i64)."""
        if isinstance(value, int):
            return str(value)
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._sum([self._product(m, c) for m, c in value.terms])
        return found

    def _sum(self, terms: Sequence[str]) -> str:
        total = terms[0]
        for term in terms[1:]:
            total = self.out.op(f"add nsw i64 {total}, {term}")
        return total

    def _product(self, monomial: dims.Monomial, coefficient: int) -> str:
        factors = [self._atom(a) for a in monomial]
        if coefficient != 1 or not factors:
            factors.append(str(coefficient))
        total = factors[0]
        for factor in factors[1:]:
            total = self.out.op(f"mul nsw i64 {total}, {factor}")
        return total

    def _atom(self, atom: dims.Atom) -> str:
        if isinstance(atom, Call):
            return self._call(atom)
        if atom not in self.names:
            raise CompilerError("a dim of the plan has no value", op="plan", expected=list(self.names), found=atom)
        return self.names[atom]

    def _call(self, call: Call) -> str:
        a, b = self.expression(call.lhs), self.expression(call.rhs)
        if call.function == "floordiv":
            return self.out.op(f"sdiv i64 {a}, {b}")
        if call.function == "mod":
            return self.out.op(f"srem i64 {a}, {b}")
        less = self.out.op(f"icmp slt i64 {a}, {b}")
        first, second = (a, b) if call.function == "min" else (b, a)
        return self.out.op(f"select i1 {less}, i64 {first}, i64 {second}")
