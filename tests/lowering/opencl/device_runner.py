"""Compiles kernels with the first OpenCL device's own compiler and runs them on NumPy arrays, for this folder's tests.

That compiler gives no warnings for them: pyopencl would pass them on, and the tests take warnings as errors.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects import xdsl_compat
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dtypes import as_dtype
from firebox.lowering.opencl.emit import emit_source
from firebox.runtime.opencl_detect import detect, rounds_division

Array = np.ndarray[Any, Any]
Body = Callable[..., Val]


class Runner:
    """One device, and what compiles and runs on it.

    Attributes:
        target: describes the device to the emitter.
        options: what programs are built with.
    """

    def __init__(self) -> None:
        device = cl.get_platforms()[0].get_devices()[0]
        self.target = detect(device)
        rounded = ["-cl-fp32-correctly-rounded-divide-sqrt"] if rounds_division(device) else []
        self.options = ["-cl-std=CL1.2", *rounded]
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)

    def compile(self, *functions: func.FuncOp) -> "Compiled":
        xdsl_compat.verify(ModuleOp(list(functions)))
        return Compiled(self, functions)

    def maps(
        self, bodies: Mapping[str, Body], arrays: Sequence[Array], result: Any, lanes: int = 1, raw: bool = False
    ) -> dict[str, Array]:
        """What each of some functions gives for the elements of arrays of one length, `lanes` at a time, in one kernel.

        The length is padded to whole groups for the run.
        """
        group, size, inputs = 8, len(arrays[0]), len(arrays)
        whole = -(-size // (lanes * group)) * lanes * group
        padded = [np.concatenate([a, np.ones(whole - size, a.dtype)]) for a in arrays]
        types = [as_dtype(a.dtype) for a in arrays] + [as_dtype(result)] * len(bodies)
        k = KernelBuilder.device_kernel("mapped", types, group=group, narrow=True)
        at = k.mul(k.add(k.mul(k.group_id(), group), k.local_id()), lanes)
        values = [k.load(ref, at, lanes, raw=raw) for ref in k.buffers[:inputs]]
        for ref, body in zip(k.buffers[inputs:], bodies.values(), strict=True):
            k.store(ref, at, body(k, *values), raw=raw)
        outs = [np.zeros(whole, types[-1].numpy) for _ in bodies]
        self.compile(k.finish())("mapped", [*padded, *outs], groups=whole // (lanes * group))
        return {name: out[:size] for name, out in zip(bodies, outs, strict=True)}


class Compiled:
    """A compiled unit."""

    def __init__(self, runner: Runner, functions: Sequence[func.FuncOp]) -> None:
        self.runner = runner
        self.functions = {f.sym_name.data: f for f in functions}
        self.text = emit_source(functions, runner.target)
        program = cl.Program(runner.context, self.text).build(runner.options)
        self.kernels = {k.function_name: k for k in program.all_kernels()}

    def __call__(
        self,
        name: str,
        arrays: Sequence[Array],
        dims: Sequence[int] = (),
        groups: int = 1,
        workspace: int = 0,
        status: Sequence[int] = (0, 0, 0, 0),
    ) -> list[int]:
        """Run a kernel; arrays are read and written, at offset 16 of their memory objects. Gives the status words."""
        attributes = self.functions[name].attributes
        words = np.array(status, np.int64)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        memory = [np.concatenate([np.zeros(16, np.uint8), a.view(np.uint8).ravel()]) for a in arrays]
        buffers = [cl.Buffer(self.runner.context, flags, hostbuf=m) for m in memory]
        arguments: list[Any] = [x for b in buffers for x in (b, np.uint64(16))]
        arguments += [np.int64(d) for d in dims]
        if "kernel.workspace" in attributes:
            arguments += [cl.Buffer(self.runner.context, cl.mem_flags.READ_WRITE, workspace + 64), np.uint64(64)]
        state = cl.Buffer(self.runner.context, flags, hostbuf=words)
        if "kernel.status" in attributes:
            arguments.append(state)
        group = attributes["kernel.group"].value.data  # type: ignore[attr-defined]
        self.kernels[name](self.runner.queue, (groups * group,), (group,), *arguments)
        for array, bytes_, buffer in zip(arrays, memory, buffers, strict=True):
            cl.enqueue_copy(self.runner.queue, bytes_, buffer)
            array.view(np.uint8).ravel()[:] = bytes_[16:]
        cl.enqueue_copy(self.runner.queue, words, state)
        return [int(word) for word in words]
