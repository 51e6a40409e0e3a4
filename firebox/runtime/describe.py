"""What a device is, for people: platform, name, memory, features."""

import os
from dataclasses import dataclass

from firebox.runtime.cpu import CpuDevice
from firebox.runtime.opencl import OpenClDevice
from firebox.runtime.pool import get_num_threads

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Facts:
    """What a device says about itself.

    Attributes:
        platform: what drives it, with its version.
        product: its own name.
        memory: bytes.
    """

    platform: str
    product: str
    memory: int


def facts(backend: object) -> Facts:
    """Platform, name and memory of a device."""
    if isinstance(backend, OpenClDevice):
        return Facts(backend.info.platform, backend.info.name, backend.info.memory)
    assert isinstance(backend, CpuDevice)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Facts("host", f"{backend.target.arch} {backend.target.cpu}", memory)


def describe(backend: object) -> str:
    """A device in one line, without its features."""
    found = facts(backend)
    if isinstance(backend, OpenClDevice):
        target = backend.target
        size = f"{target.compute_units} compute units, groups of up to {target.max_group} work-items"
    else:
        assert isinstance(backend, CpuDevice)
        size = f"{get_num_threads()} threads, {backend.target.vector_bits}-bit vectors"
    return f"{found.product} ({found.platform}), {amount(found.memory)}, {size}"


def amount(nbytes: int) -> str:
    """Bytes in the largest unit that leaves a whole part."""
    power = min((max(nbytes, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{nbytes / (1 << 10 * power):.4g} {_UNITS[power]}"
