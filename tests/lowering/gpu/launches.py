"""Runs the groups of a small program as OpenCL kernels, template by template, and compares with `interpret`."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from firebox import dims
from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.base import Kind, NdOp
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dialects.nd.value import Value
from firebox.lowering.generate.templates import Launch, Template
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.opencl.emit import emit_source
from firebox.lowering.pipeline import run_to
from firebox.runtime import opencl
from firebox.runtime.opencl_target import OpenClTarget
from tests.programs import opencl_device, program

cl = pytest.importorskip("pyopencl")

Array = np.ndarray[Any, Any]
Function = Callable[..., Value | Sequence[Value]]
Choose = Callable[[GroupOp], Schedule]


@lru_cache(maxsize=1)
def queue() -> Any:
    """A queue of the first OpenCL device; the test is skipped where there is none."""
    opencl_device()
    return cl.CommandQueue(cl.Context([opencl.find(0)]))


def groups_of(module: ModuleOp, target: OpenClTarget | None = None) -> list[GroupOp]:
    """The groups of a program, in order."""
    run_to(module, target or OpenClTarget.generic(), "order")
    return [op for op in main_function(module).body.block.ops if isinstance(op, GroupOp)]


class Runner:
    """One run of a program.

    Attributes:
        template: what makes kernels of every group.
        target: what kernels are made for.
        status: the status words after the run.
    """

    def __init__(self, template: Template, target: OpenClTarget, choose: Choose | None = None) -> None:
        self.template, self.target = template, target
        self.choose = choose or (lambda group: template.schedule(group, target))
        self.status = np.zeros(4, np.int64)
        self.values: dict[SSAValue, Any] = {}
        self.sizes: dict[str, int] = {}

    def run(self, module: ModuleOp, arrays: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
        """The results of @main."""
        groups = groups_of(module, self.target)
        block = main_function(module).body.block
        self.sizes = dict(sizes)
        for argument, array in zip(block.args, arrays, strict=True):
            self.values[argument] = _buffer(max(array.nbytes, 1), array)
        for group in groups:
            self._launch(group)
        terminator = block.last_op
        assert terminator is not None
        return [self._read(value) for value in terminator.operands]

    def _memory(self, value: SSAValue) -> Any:
        op = value.owner
        while isinstance(op, NdOp) and op.kind is Kind.RESHAPE:
            value = op.operands[0]
            op = value.owner
        return self.values[value]

    def _read(self, value: SSAValue) -> Array:
        aval = aval_of(value.type)
        found = np.empty(tuple(dims.evaluate(d, self.sizes) for d in aval.shape), aval.dtype.numpy)
        if found.size:
            cl.enqueue_copy(queue(), found.reshape(-1).view(np.uint8), self._memory(value))
        return found

    def _launch(self, group: GroupOp) -> None:
        schedule = self.choose(group)
        kernels = self.template.generate(group, schedule, self.target, tuple(self.sizes), {})
        launches = self.template.launch(group, schedule)
        assert len(kernels.mains) == len(launches)
        for result in group.results:
            size = dims.evaluate(aval_of(result.type).nbytes, self.sizes)
            self.values[result] = _buffer(max(size, 1), None)
        built = cl.Program(queue().context, emit_source(kernels.mains, self.target)).build(["-cl-std=CL1.2"])
        scratch = max(dims.evaluate(launch.scratch, self.sizes) for launch in launches)
        workspace = _buffer(max(scratch, 16), None)
        status = _buffer(self.status.nbytes, self.status)
        for function, launch in zip(kernels.mains, launches, strict=True):
            self._enqueue(built, function, launch, [self._memory(v) for v in (*group.operands, *group.results)], (
                workspace, status
            ))  # fmt: skip
        cl.enqueue_copy(queue(), self.status, status)

    def _enqueue(self, built: Any, function: FuncOp, launch: Launch, memory: list[Any], own: tuple[Any, Any]) -> None:
        attributes = function.attributes
        arguments: list[Any] = [a for buffer in memory for a in (buffer, np.uint64(0))]
        numbers = [int(n) for n in attributes["kernel.dims"].get_values()]  # type: ignore[attr-defined]
        arguments += [np.int64(list(self.sizes.values())[n]) for n in numbers]
        if "kernel.workspace" in attributes:
            arguments += [own[0], np.uint64(0)]
        if "kernel.status" in attributes:
            arguments.append(own[1])
        count = dims.evaluate(launch.count, self.sizes)
        assert attributes["kernel.group"].value.data == launch.grain  # type: ignore[attr-defined]
        if count:
            getattr(built, function.sym_name.data)(queue(), (count * launch.grain,), (launch.grain,), *arguments)


def _buffer(size: int, array: Array | None) -> Any:
    buffer = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, size)
    if array is not None and array.size:
        cl.enqueue_copy(queue(), buffer, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return buffer


def run(
    template: Template,
    function: Function,
    specs: Sequence[str],
    arrays: Sequence[Array],
    target: OpenClTarget | None = None,
    choose: Choose | None = None,
    **sizes: int,
) -> list[Array]:
    """Results on the device."""
    runner = Runner(template, target or OpenClTarget.generic(), choose)
    found = runner.run(program(function, *specs), arrays, sizes)
    assert runner.status[0] == 0, runner.status
    return found


def check(
    template: Template,
    function: Function,
    specs: Sequence[str],
    arrays: Sequence[Array],
    target: OpenClTarget | None = None,
    rtol: float = 0.0,
    choose: Choose | None = None,
    **sizes: int,
) -> None:
    """Results on the device equal interpreted ones."""
    expected = interpret(main_function(program(function, *specs)), arrays)
    found = run(template, function, specs, arrays, target, choose, **sizes)
    for e, f in zip(expected, found, strict=True):
        assert e.shape == f.shape and e.dtype == f.dtype
        np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=rtol)
