"""The host entry of a plan as LLVM IR text: what the devices' entries have in common.

``void @<name>(ptr env, ptr args, ptr dims, ptr outs, ptr status)``: `dims` are the values of the symbolic dims, 8 bytes
each; `args` and `outs` are tables with one pointer per buffer, the last one of `outs` is the arena.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from firebox import dims
from firebox.dialects import plan
from firebox.dims import Call, DimLike
from firebox.errors import CompilerError
from firebox.lowering.llvm.text import Text

PARAMETERS = "ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status"


class PlanWriter(ABC):
    """Writes one entry function, step by step.

    Attributes:
        out: the function's body so far.
        names: operand texts of the dims by name.
        places: operand texts of the buffers: an address of what the device takes for one.
    """

    def __init__(self, program: plan.ProgramOp) -> None:
        self.program = program
        self.out = Text()
        self.names: dict[str, str] = {}
        self.places: dict[SSAValue, str] = {}
        self._known: dict[DimLike, str] = {}

    @abstractmethod
    def alloc(self, op: plan.AllocOp) -> str:
        """Write what finds a part of the arena; returns its place."""

    @abstractmethod
    def view(self, op: plan.ViewOp) -> str:
        """Write what finds a part of another buffer; returns its place."""

    @abstractmethod
    def launch(self, op: plan.LaunchOp) -> None:
        """Write a call of a kernel."""

    @abstractmethod
    def copy(self, op: plan.CopyOp) -> None:
        """Write a copy between buffers."""

    @abstractmethod
    def fill(self, op: plan.FillOp) -> None:
        """Write the zeroing of a buffer."""

    @abstractmethod
    def flag(self, place: str) -> str:
        """Write what waits for a byte and reads it; returns an i1."""

    @abstractmethod
    def loop_check(self, op: plan.WhileOp) -> None:
        """Write what ends the program before a step of a loop that a fault may keep from ending."""

    def load_dims(self) -> None:
        """Write what reads the values of the symbolic dims."""
        assert isinstance(self.program.dims, ArrayAttr)
        for k, name in enumerate(self.program.dims.data):
            assert isinstance(name, StringAttr)
            self.names[name.data] = self.slot("i64", "%dims", k)

    def steps(self) -> None:
        """Write every step of the program."""
        self._steps(self.program.body.block)
        self.out.line("ret void")

    def _steps(self, block: Block) -> None:
        for op in block.ops:
            self.step(op)

    def step(self, op: Operation) -> None:
        """Write one step."""
        if isinstance(op, plan.InputOp):
            self.places[op.buffer] = self.argument("%args", op.integer("index"))
        elif isinstance(op, plan.OutputOp):
            self.places[op.buffer] = self.argument("%outs", op.integer("index"))
        elif isinstance(op, plan.AllocOp):
            self.places[op.buffer] = self.alloc(op)
        elif isinstance(op, plan.ViewOp):
            self.places[op.buffer] = self.view(op)
        elif isinstance(op, plan.LaunchOp):
            self.launch(op)
        elif isinstance(op, plan.CopyOp):
            self.copy(op)
        elif isinstance(op, plan.FillOp):
            self.fill(op)
        else:
            self._branch(op)

    def _branch(self, op: Operation) -> None:
        if isinstance(op, plan.ForOp):
            self._for(op)
        elif isinstance(op, plan.WhileOp):
            self._while(op)
        elif isinstance(op, plan.IfOp):
            self._if(op)
        elif not isinstance(op, plan.EndOp):
            raise CompilerError("not a step of a plan", op=op.name)

    # ---- control flow --------------------------------------------------------------------------------------------

    def scope(self, block: Block) -> None:
        """Write the steps of a region; what is computed in it is not known after it."""
        known = dict(self._known)
        self._steps(block)
        self._known = known

    def _for(self, op: plan.ForOp) -> None:
        out = self.out
        count = self.expression(op.dim("count"))
        head, body, end = (out.new_label(n) for n in ("for", "step", "end"))
        counter = self._counter(op.counter, head)
        more = out.op(f"icmp slt i64 {self.names[op.counter]}, {count}")
        out.branch_if(more, body, end)
        out.block(body)
        self.scope(op.body.block)
        counter.close(head)
        out.block(end)

    def _while(self, op: plan.WhileOp) -> None:
        out = self.out
        head, body, end = (out.new_label(n) for n in ("while", "step", "end"))
        counter = self._counter(op.counter, head)
        self.scope(op.condition.block)
        self.loop_check(op)
        out.branch_if(self.flag(self.places[op.flag]), body, end)
        out.block(body)
        self.scope(op.body.block)
        counter.close(head)
        out.block(end)

    def _if(self, op: plan.IfOp) -> None:
        out = self.out
        then, otherwise, end = (out.new_label(n) for n in ("then", "else", "end"))
        out.branch_if(self.flag(self.places[op.flag]), then, otherwise)
        for label, region in ((then, op.then), (otherwise, op.otherwise)):
            out.block(label)
            self.scope(region.block)
            out.branch(end)
        out.block(end)

    def _counter(self, name: str, head: str) -> "_Counter":
        """Begin a loop at a label; the name stands for the number of the step."""
        counter = _Counter(self.out, head)
        self.names[name] = counter.value
        return counter

    def argument(self, table: str, index: int) -> str:
        """The place of an input or output."""
        return self.slot("ptr", table, index)

    def count(self, kind: type[Operation]) -> int:
        """How many steps of a kind the program has."""
        return sum(isinstance(op, kind) for op in self.program.body.walk())

    def slot(self, type_: str, base: str, index: int) -> str:
        """Load from a table of 8-byte slots."""
        return self.out.op(f"load {type_}, ptr {self.at(base, 'i64', str(index))}, align 8")

    def at(self, base: str, unit: str, index: str) -> str:
        """The address of an element."""
        return base if index == "0" else self.out.op(f"getelementptr inbounds {unit}, ptr {base}, i64 {index}")

    # ---- dims ----------------------------------------------------------------------------------------------------

    def expression(self, value: DimLike) -> str:
        """The operand text of a dim expression (non-negative i64)."""
        if isinstance(value, int):
            return str(value)
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._sum([self._product(m, c) for m, c in value.terms])
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


class _Counter:
    """The number of a loop's step: 0, 1, ... in the block that is begun here."""

    def __init__(self, out: Text, head: str) -> None:
        self.out = out
        self.value = out.fresh()
        self._before = out.label
        out.branch(head)
        out.block(head)
        self._place = out.reserve()

    def close(self, head: str) -> None:
        """The end of a step: begin the next one."""
        following = self.out.op(f"add nuw nsw i64 {self.value}, 1")
        pairs = f"[ 0, %{self._before} ], [ {following}, %{self.out.label} ]"
        self.out.fill(self._place, [f"{self.value} = phi i64 {pairs}"])
        self.out.branch(head)
