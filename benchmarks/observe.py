"""What the compiler made of each program: ops after each phase, groups, kernels, seconds."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.aval import Shape, aval_of
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.frontend import compiler
from firebox.lowering.options import Options
from firebox.lowering.pipeline import Lowered, lower
from firebox.runtime.code_cache import compile_image
from firebox.runtime.image import CodeImage
from firebox.runtime.target import Target


@dataclass(frozen=True)
class GroupInfo:
    """A fused group.

    Attributes:
        kind, label, domain: what kind of kernel it becomes, the kernel's name, its loops.
        ops: names of its members.
        nbytes: of its operands and results, once each; 0 where sizes are symbolic.
        results: how many values it writes.
        flops: multiplications and additions of its contraction, if it has one.
    """

    kind: str
    label: str
    domain: Shape
    ops: tuple[str, ...]
    nbytes: int = 0
    results: int = 0
    flops: int = 0


@dataclass
class Compilation:
    """One program on its way through the compiler.

    Attributes:
        ops: how many ops of each name the module holds after a phase, in groups or not; ``trace`` is what came in.
        seconds: of each phase.
        groups: after the phase ``schedule``.
        kernels: functions in the result.
        lines: of LLVM IR.
        llvm: seconds that LLVM took.
    """

    ops: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    groups: list[GroupInfo] = field(default_factory=list)
    kernels: int = 0
    lines: int = 0
    llvm: float = 0.0

    def nd_ops(self, phase: str) -> int:
        """Ops of the nd dialect after a phase, without the groups around them."""
        return sum(n for name, n in self.ops[phase].items() if name.startswith("nd.") and name != "nd.group")

    @property
    def labels(self) -> set[str]:
        """Names of the distinct groups."""
        return {group.label for group in self.groups}

    def _observe(self, phase: str, module: ModuleOp, seconds: float) -> None:
        self.seconds[phase] = seconds
        self.ops[phase] = _count(module)
        if phase == "schedule":
            found = [op for op in module.walk() if isinstance(op, GroupOp)]
            self.groups = [_described(group) for group in found]


def _described(group: GroupOp) -> GroupInfo:
    sizes = [aval_of(value.type).nbytes for value in (*group.operands, *group.results)]
    names = tuple(op.name for op in group.members)
    flops = sum(_flops(op) for op in group.members if op.name == "nd.contract")
    nbytes = sum(size for size in sizes if isinstance(size, int))
    return GroupInfo(group.group, group.label, group.domain, names, nbytes, len(group.results), flops)


def _flops(op: NdOp) -> int:
    """Two for each point of a contraction's loops; 0 where sizes are symbolic."""
    sizes = op.values["sizes"]
    return 2 * math.prod(sizes) if all(isinstance(size, int) for size in sizes) else 0


def _count(module: ModuleOp) -> Counter[str]:
    return Counter(op.name for op in module.walk() if op.name != "nd.yield")


def lowered(module: ModuleOp, target: Target, options: Options | None = None) -> Compilation:
    """Lower a module, which is used up; tells what was made of it. LLVM is not asked."""
    compilation = Compilation()
    _lower(module, target, options, compilation)
    return compilation


def _lower(module: ModuleOp, target: Target, options: Options | None, compilation: Compilation) -> Lowered:
    compilation.ops["trace"] = _count(module)
    made = lower(module, target, options, compilation._observe)
    compilation.kernels = len(made.program.kernels)
    compilation.lines = made.text.count("\n")
    return made


@contextmanager
def compilations() -> Iterator[list[Compilation]]:
    """Watch everything that the frontend compiles meanwhile; what comes from the disk cache is not compiled."""
    found: list[Compilation] = []

    def watched_lower(module: ModuleOp, target: Target, options: Options) -> Lowered:
        found.append(Compilation())
        return _lower(module, target, options, found[-1])

    def watched_llvm(texts: Sequence[str], target: Target) -> CodeImage:
        start = time.perf_counter()
        image = compile_image(texts, target)
        found[-1].llvm = time.perf_counter() - start
        return image

    with (
        mock.patch.object(compiler, "lower", watched_lower),
        mock.patch.object(compiler, "compile_image", watched_llvm),
    ):
        yield found
