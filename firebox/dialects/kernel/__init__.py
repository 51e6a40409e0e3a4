"""The dialect of one kernel, and the builder that writes kernels."""

from firebox.dialects.kernel.ops import Kernel

__all__ = ["Kernel"]
