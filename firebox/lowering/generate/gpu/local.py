"""Arrays in local memory that lie so that work-items which read blocks side by side do not meet in a bank."""

from firebox.dialects.kernel.builder import KernelBuilder, Val

BANKS_BYTES = 128
"""After so many bytes one place stays empty: the banks of local memory on NVIDIA's devices, once around."""


def padded(k: KernelBuilder, place: Val, itemsize: int) -> Val:
    """Where an element is."""
    place.nonneg = True
    return k.add(place, k.floordiv(place, BANKS_BYTES // itemsize))


def padded_size(count: int, itemsize: int) -> int:
    """Places that so many elements take."""
    return count + -(-count * itemsize // BANKS_BYTES)
