"""The dialect of one kernel, and the builder that writes kernels."""

from xdsl.ir import Dialect

from firebox.dialects.kernel.group_ops import GROUP_OPS
from firebox.dialects.kernel.ops import OPS
from firebox.dialects.kernel.tile_ops import TILE_OPS

Kernel = Dialect("kernel", [*OPS, *GROUP_OPS, *TILE_OPS], [])

__all__ = ["Kernel"]
