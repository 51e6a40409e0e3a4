"""Transposition of a square of vectors in registers."""

from collections.abc import Sequence

from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.runtime.target import Target

_PART = 16
"""Bytes within which shuffles are cheapest on every target."""


def transpose(k: KernelBuilder, rows: Sequence[Val], target: Target) -> list[Val]:
    """As many vectors as each has lanes (a power of two): lane j of result i is lane i of vector j.

    First squares within parts of 16 bytes, by interleaving; then whole parts change places.
    """
    lanes = rows[0].lanes
    width = max(1, min(lanes, _PART // rows[0].dtype.itemsize))
    groups = [_interleaved(k, rows[at : at + width], width) for at in range(0, lanes, width)]
    if len(groups) > 1:
        groups = [[_opaque(k, vector, target) for vector in group] for group in groups]
    columns = [_parts(k, [group[i] for group in groups], width) for i in range(width)]
    return [columns[i % width][i // width] for i in range(lanes)]


def _opaque(k: KernelBuilder, x: Val, target: Target) -> Val:
    """The same value. LLVM takes twice as long when it tries to merge all shuffles that depend on each other."""
    register = "w" if target.arch == "aarch64" else "v" if target.vector_bits == 512 else "x"
    found = k.asm("", f"={register},0", [x], x.dtype, x.lanes)
    assert found is not None
    return found


def _interleaved(k: KernelBuilder, rows: Sequence[Val], width: int) -> list[Val]:
    """Transpose within every part: rows i and i + half are interleaved, once for each bit of the width."""
    current, half = list(rows), width // 2
    for _ in range(width.bit_length() - 1):
        pairs = list(zip(current[:half], current[half:], strict=True))
        current = [_mixed(k, a, b, width, high) for a, b in pairs for high in (0, half)]
    return current


def _mixed(k: KernelBuilder, a: Val, b: Val, width: int, first: int) -> Val:
    lanes = a.lanes
    chosen = [part + first + i // 2 + (lanes if i % 2 else 0) for part in range(0, lanes, width) for i in range(width)]
    return k.shuffle(a, b, chosen)


def _parts(k: KernelBuilder, vectors: Sequence[Val], width: int) -> list[Val]:
    """Transpose a square whose elements are parts: result i has part i of every vector."""
    if len(vectors) == 1:
        return list(vectors)
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    halves = [_parts(k, [_every_other(k, a, b, width, odd) for a, b in pairs], width) for odd in (0, 1)]
    return [vector for pair in zip(*halves, strict=True) for vector in pair]


def _every_other(k: KernelBuilder, a: Val, b: Val, width: int, odd: int) -> Val:
    """The even or odd parts of a, then of b."""
    count = 2 * a.lanes // width
    chosen = [part * width + i for part in range(odd, count, 2) for i in range(width)]
    return k.shuffle(a, b, chosen)
