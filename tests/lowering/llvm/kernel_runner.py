"""Compiles kernels and runs them on NumPy arrays, for the tests of this folder."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects import xdsl_compat
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dtypes import as_dtype
from firebox.lowering.llvm.emit import emit_kernels
from firebox.runtime.elf import link_objects
from firebox.runtime.image import LoadedImage, load
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.target import Target

Array = np.ndarray[Any, Any]
Body = Callable[..., Val]

_KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


class Compiled:
    """Kernels of one module, callable on arrays."""

    def __init__(self, functions: Sequence[func.FuncOp], target: Target | None = None) -> None:
        xdsl_compat.verify(ModuleOp(list(functions)))
        self.target = target or Target.host()
        self.text = emit_kernels(functions, self.target)
        self.image: LoadedImage = load(link_objects([compile_to_object(self.text, self.target)]))

    def __call__(
        self, name: str, arrays: Sequence[Array], dims: Sequence[int] = (), begin: int = 0, end: int = 1
    ) -> list[int]:
        """Run a kernel on units [begin, end); gives the status words."""
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        extents = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        scratch = np.zeros(1 << 16, np.uint8)
        status = (ctypes.c_int64 * 4)()
        _KERNEL(self.image.address(name))(pointers, extents, begin, end, scratch.ctypes.data, status)
        return list(status)


def map_kernel(name: str, body: Body, types: Sequence[Any], result: Any, lanes: int) -> func.FuncOp:
    """A kernel that applies `body` to elements of its first buffers and stores into its last one, `lanes` at a time."""
    b = KernelBuilder.kernel(name, [as_dtype(t) for t in (*types, result)])

    def step(i: Val, _: list[Val]) -> None:
        values = [b.load(ref, i, lanes) for ref in b.buffers[:-1]]
        b.store(b.buffers[-1], i, body(b, *values))

    b.loop(b.begin, b.end, lanes, [], step)
    return b.finish()


def run_maps(
    bodies: Mapping[str, Body], arrays: Sequence[Array], result: Any, lanes: int, target: Target | None = None
) -> dict[str, Array]:
    """Element-wise kernels over arrays of one length, which is padded to whole vectors for the run."""
    size = len(arrays[0])
    padded = [np.concatenate([a, np.ones(-size % lanes, a.dtype)]) for a in arrays]
    types = [a.dtype for a in arrays]
    compiled = Compiled([map_kernel(n, body, types, result, lanes) for n, body in bodies.items()], target)
    found = {}
    for name in bodies:
        out = np.zeros(len(padded[0]), as_dtype(result).numpy)
        compiled(name, [*padded, out], end=len(out))
        found[name] = out[:size]
    return found
