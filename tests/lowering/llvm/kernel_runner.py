"""Compiles kernels and runs them on NumPy arrays, for the tests of this folder."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func

from firebox.dialects import xdsl_compat
from firebox.lowering.llvm.emit import emit_kernels
from firebox.runtime.elf import link_objects
from firebox.runtime.image import LoadedImage, load
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.target import Target

_KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


class Compiled:
    """Kernels of one module, callable on arrays."""

    def __init__(self, functions: Sequence[func.FuncOp], target: Target | None = None) -> None:
        for function in functions:
            xdsl_compat.verify(function)
        self.target = target or Target.host()
        self.text = emit_kernels(functions, self.target)
        self.image: LoadedImage = load(link_objects([compile_to_object(self.text, self.target)]))

    def __call__(
        self, name: str, arrays: Sequence[np.ndarray[Any, Any]], dims: Sequence[int] = (), begin: int = 0, end: int = 1
    ) -> list[int]:
        """Run a kernel on units [begin, end); gives the status words."""
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        extents = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        scratch = np.zeros(1 << 16, np.uint8)
        status = (ctypes.c_int64 * 4)()
        _KERNEL(self.image.address(name))(pointers, extents, begin, end, scratch.ctypes.data, status)
        return list(status)
