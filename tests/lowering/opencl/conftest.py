"""Compiles kernels with the first OpenCL device's own compiler and runs them on NumPy arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects import xdsl_compat
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dtypes import as_dtype
from firebox.lowering.opencl.emit import emit_source
from firebox.runtime.opencl_target import OpenClTarget

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")

Array = np.ndarray[Any, Any]
Body = Callable[..., Val]
FEATURES = {"cl_khr_fp64": "fp64", "cl_khr_int64_base_atomics": "int64_atomics"}


class Runner:
    """One device, and what compiles and runs on it.

    Attributes:
        target: describes the device to the emitter.
    """

    def __init__(self) -> None:
        device = cl.get_platforms()[0].get_devices()[0]
        found = tuple(sorted(FEATURES[e] for e in device.extensions.split() if e in FEATURES))
        generic = OpenClTarget.generic()
        self.target = OpenClTarget(
            "opencl",
            generic.vendor,
            generic.arch,
            found,
            device.max_compute_units,
            256,
            device.local_mem_size,
            generic.cache_bytes,
            1,
            generic.host,
        )
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)

    def compile(self, *functions: func.FuncOp) -> "Compiled":
        xdsl_compat.verify(ModuleOp(list(functions)))
        return Compiled(self, functions)

    def map(self, body: Body, arrays: Sequence[Array], result: Any, lanes: int = 1, raw: bool = False) -> Array:
        """`body` over the elements of arrays of one length, `lanes` at a time; the length is padded for the run."""
        group, size = 8, len(arrays[0])
        whole = -(-size // (lanes * group)) * lanes * group
        padded = [np.concatenate([a, np.ones(whole - size, a.dtype)]) for a in arrays]
        types = [as_dtype(t) for t in (*(a.dtype for a in arrays), result)]
        k = KernelBuilder.device_kernel("mapped", types, group=group, narrow=True, location=("map.py", 7))
        at = k.mul(k.add(k.mul(k.group_id(), group), k.local_id()), lanes)
        k.store(k.buffers[-1], at, body(k, *(k.load(ref, at, lanes, raw=raw) for ref in k.buffers[:-1])), raw=raw)
        out = np.zeros(whole, types[-1].numpy)
        self.compile(k.finish())("mapped", [*padded, out], groups=whole // (lanes * group))
        return out[:size]


class Compiled:
    """A compiled unit."""

    def __init__(self, runner: Runner, functions: Sequence[func.FuncOp]) -> None:
        self.runner = runner
        self.functions = {f.sym_name.data: f for f in functions}
        self.text = emit_source(functions, runner.target)
        self.program = cl.Program(runner.context, self.text).build(["-cl-std=CL1.2"])

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
        getattr(self.program, name)(self.runner.queue, (groups * group,), (group,), *arguments)
        for array, bytes_, buffer in zip(arrays, memory, buffers, strict=True):
            cl.enqueue_copy(self.runner.queue, bytes_, buffer)
            array.view(np.uint8).ravel()[:] = bytes_[16:]
        cl.enqueue_copy(self.runner.queue, words, state)
        return [int(word) for word in words]


@pytest.fixture(scope="session")
def device() -> Runner:
    try:
        return Runner()
    except (cl.Error, IndexError):
        pytest.skip("no OpenCL platform (for tests: the package pocl-opencl-icd)")
