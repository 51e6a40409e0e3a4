"""The pipeline: one function, each step named, timed and open to observers.

``expand -> canonicalize -> checkpoint -> decompose -> layout -> fuse -> order -> schedule -> bufferize -> generate ->
emit``
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from firebox import dims
from firebox.dialects import plan
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dims import DimLike
from firebox.errors import UserError
from firebox.lowering import legal
from firebox.lowering.bufferize import THREADS, bufferize
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.checkpoint import checkpoint
from firebox.lowering.checkpoint_budget import fit
from firebox.lowering.decompose import decompose
from firebox.lowering.expand import expand
from firebox.lowering.fuse import fuse
from firebox.lowering.generate import table
from firebox.lowering.generate.body import location_text
from firebox.lowering.generate.gpu import table as gpu_table
from firebox.lowering.generate.templates import HOST, Kernels, template_named
from firebox.lowering.guards import collect_guards, op_table
from firebox.lowering.layout import layout
from firebox.lowering.llvm.emit import emit_kernels
from firebox.lowering.llvm.plan import emit_plan
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.opencl.emit import emit_source
from firebox.lowering.opencl.plan import emit_plan as emit_opencl_plan
from firebox.lowering.options import Options
from firebox.lowering.order import order
from firebox.lowering.schedule import schedule
from firebox.lowering.slim import slim
from firebox.lowering.stores import DEVICE_ALIGNMENT
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget
from firebox.runtime.program import Guard, KernelInfo, Program
from firebox.signature import TensorSpec

PHASES = (
    "trace",
    "expand",
    "canonicalize",
    "checkpoint",
    "decompose",
    "layout",
    "fuse",
    "order",
    "schedule",
    "bufferize",
    "generate",
    "emit",
)

Observer = Callable[[str, ModuleOp, float], None]
"""Called after each phase with its name, the module and the seconds it took."""

table.register_all()
gpu_table.register_all()


@dataclass(frozen=True)
class Lowered:
    """A compiled program.

    Attributes:
        program: its description.
        text: LLVM IR of its host code, on a CPU with the kernels.
        source: OpenCL C of the kernels, on OpenCL.
        kernels: their names in the order in which the host code knows them, on OpenCL.
        faults: whether a kernel may report a fault, on OpenCL.
    """

    program: Program
    text: str
    source: str = ""
    kernels: tuple[str, ...] = ()
    faults: bool = False


def lower(
    module: ModuleOp, target: AnyTarget, options: Options | None = None, observer: Observer | None = None
) -> Lowered:
    """Lower an nd module to text; the module is used up.

    Raises:
        FireboxError: the program cannot be compiled; names the op and its source line.
    """
    state = _State(module, target, options or Options(), observer)
    with _no_gc():
        for phase in PHASES[1:-1]:
            state.run(phase)
        return state.emit()


def run_to(
    module: ModuleOp, target: AnyTarget, phase: str, options: Options | None = None, observer: Observer | None = None
) -> ModuleOp:
    """Lower an nd module up to and including a phase, for inspection; the module is changed in place.

    Raises:
        UserError: no such phase.
    """
    if phase not in PHASES:
        raise UserError("no such phase", op="pipeline", expected=", ".join(PHASES), found=phase)
    state = _State(module, target, options or Options(), observer)
    with _no_gc():
        for name in PHASES[1 : PHASES.index(phase) + 1]:
            if name != "emit":
                state.run(name)
    return module


class _State:
    """One compilation on its way through the phases."""

    def __init__(self, module: ModuleOp, target: AnyTarget, options: Options, observer: Observer | None) -> None:
        self.module = module
        self.target = target
        self.options = options
        self.observer = observer
        function = main_function(module)
        self.inputs = [
            TensorSpec(_name(function, k), a.dtype, a.shape)
            for k, a in enumerate(aval_of(t) for t in function.function_type.inputs.data)
        ]
        outputs = [aval_of(t) for t in function.function_type.outputs.data]
        self.outputs = [TensorSpec(f"out{k}", a.dtype, a.shape) for k, a in enumerate(outputs)]
        _check_names(self.dim_order)
        self.op_ids: dict[str, int] = {}
        self.guards: dict[DimLike, Guard] = {}
        self.kernels: dict[str, Kernels] = {}
        self.infos: list[KernelInfo] = []

    @property
    def dim_order(self) -> tuple[str, ...]:
        return dims.names(*(d for spec in self.inputs for d in spec.shape))

    def run(self, phase: str) -> None:
        start = time.perf_counter()
        step = getattr(self, f"_{phase}", None) or _PASSES[phase]
        step(self.module)
        if phase in _GUARDED and self.dim_order:
            collect_guards(main_function(self.module), self.op_ids, self.guards)
        if self.options.verify:
            self.module.verify()
            legal.check(self.module, phase)
        if self.observer is not None:
            self.observer(phase, self.module, time.perf_counter() - start)

    def _checkpoint(self, module: ModuleOp) -> None:
        budget = self.options.budget
        if budget is None:
            checkpoint(module, self.options.strategy)
        else:
            fit(module, budget, self._arena)

    def _arena(self, module: ModuleOp) -> int:
        """The bytes that a module on its way is planned with, and one thread's scratch; the module is used up."""
        if self.dim_order:
            raise UserError(
                "a budget needs sizes that are known",
                op="checkpoint",
                expected="no symbolic dims",
                found=", ".join(self.dim_order),
                hint="checkpoint='balanced', or compile for fixed sizes",
            )
        for phase in PHASES[PHASES.index("checkpoint") + 1 : PHASES.index("bufferize") + 1]:
            step = getattr(self, f"_{phase}", None) or _PASSES[phase]
            step(module)
        return dims.evaluate(_program_op(module).dim("arena"), {THREADS: 1})

    def _decompose(self, module: ModuleOp) -> None:
        decompose(module, split=self.target.kind == "cpu")

    def _fuse(self, module: ModuleOp) -> None:
        device = self.target.kind == "opencl"
        fuse(module, splits=device, alignment=DEVICE_ALIGNMENT if device else 1)
        if device:
            slim(module)

    def _schedule(self, module: ModuleOp) -> None:
        schedule(module, self.target)

    def _bufferize(self, module: ModuleOp) -> None:
        bufferize(module, self.target.kind)

    def _generate(self, module: ModuleOp) -> None:
        """Replace @main by the kernels, one per label."""
        function = main_function(module)
        for op in groups_in(function.body.block):
            if op.label not in self.kernels and op.schedule.template != HOST:
                template = template_named(op.schedule.template)
                made = template.generate(op, op.schedule, self.target, self.dim_order, self.op_ids)
                self.kernels[op.label] = made
                for main in made.mains:
                    main.attributes["kernel.about"] = _about(op)
                    self.infos.append(_info(op, main.sym_name.data))
        module.body.block.detach_op(function)
        function.erase(safe_erase=False)
        for kernels in self.kernels.values():
            for made_function in (*kernels.helpers, *kernels.mains):
                module.body.block.add_op(made_function)

    def emit(self) -> Lowered:
        start = time.perf_counter()
        functions = [op for op in self.module.body.block.ops if isinstance(op, FuncOp)]
        entry = _program_op(self.module)
        entry.attributes["entry"] = StringAttr(self.options.name)
        program = self._program(entry)
        if isinstance(self.target, OpenClTarget):
            lowered = _emit_opencl(program, functions, entry, self.target)
        else:
            lowered = Lowered(program, emit_kernels(functions, self.target) + "\n" + emit_plan(entry))
        if self.observer is not None:
            self.observer("emit", self.module, time.perf_counter() - start)
        return lowered

    def _program(self, entry: plan.ProgramOp) -> Program:
        names, lines = op_table(self.op_ids)
        return Program(
            name=self.options.name,
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            dims=self.dim_order,
            arena=entry.dim("arena"),
            aliases=_aliases(entry),
            guards=tuple(self.guards.values()),
            entry=self.options.name,
            kernels=tuple(self.infos),
            ops=names,
            locations=lines,
        )


def _check_names(names: Sequence[str]) -> None:
    """Loop variables and dims share one namespace in index expressions."""
    for name in names:
        if dims.is_reserved(name):
            hint = "rename it: such names stand for loops and for the number of threads"
            raise UserError("a dim has a reserved name", op="dims", expected="another name", found=name, hint=hint)


_GUARDED = ("expand", "decompose")
"""Phases after which conditions on the dims are collected: as the user wrote the ops, and as they are computed."""

_PASSES: dict[str, Callable[[ModuleOp], object]] = {
    "expand": expand,
    "canonicalize": canonicalize,
    "layout": layout,
    "order": order,
}


def _name(function: FuncOp, index: int) -> str:
    """The name given to an input by the argument attribute ``nd.name``."""
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    if index < len(attributes):
        name = attributes[index].data.get("nd.name")
        if isinstance(name, StringAttr):
            return name.data
    return f"in{index}"


def _emit_opencl(program: Program, functions: Sequence[FuncOp], entry: plan.ProgramOp, target: OpenClTarget) -> Lowered:
    """Kernels as OpenCL C, the host's part as LLVM IR."""
    kernels = {f.sym_name.data: f for f in functions if "kernel.abi" in f.attributes}
    text = emit_kernels((), target.host) + "\n" + emit_opencl_plan(entry, kernels)
    faults = any("kernel.status" in f.attributes for f in kernels.values())
    return Lowered(program, text, emit_source(functions, target), tuple(kernels), faults)


def _info(group: GroupOp, name: str) -> KernelInfo:
    first: Operation | None = group.block.first_op
    where = location_text(group.members[0]) if first is not None else ""
    return KernelInfo(name, group.group, tuple(op.name for op in group.members), where)


def _about(group: GroupOp) -> ArrayAttr[StringAttr]:
    """What a kernel computes, for those who read it: its ops in order, and the source lines that they are of."""
    names = ", ".join(op.name.partition(".")[2] for op in group.members)
    places = dict.fromkeys(location_text(op).rpartition("/")[2] for op in group.members)
    lines = ", ".join(place for place in places if place)
    return ArrayAttr([StringAttr(text) for text in (names, lines) if text])


def _program_op(module: ModuleOp) -> plan.ProgramOp:
    return next(op for op in module.body.block.ops if isinstance(op, plan.ProgramOp))


def _aliases(entry: plan.ProgramOp) -> tuple[tuple[int, int], ...]:
    pairs = []
    for pair in entry.aliases.data:
        output, source = (number.value.data for number in pair.data)
        pairs.append((int(output), int(source)))
    return tuple(pairs)


@contextmanager
def _no_gc() -> Iterator[None]:
    """The cyclic collector doubles the time of IR construction and finds nothing in it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
