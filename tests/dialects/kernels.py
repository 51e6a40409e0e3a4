"""Small kernels for tests of the dialect."""

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder


def kernel(buffers: list[dtypes.DType] | None = None, dims: int = 0) -> KernelBuilder:
    return KernelBuilder.kernel("k", buffers or [dtypes.f32], dims)
