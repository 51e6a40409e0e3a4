"""Elements at positions that arrays say, not only at whole ones: what `grid_sample` and `deform_conv2d` share."""

import itertools
from collections.abc import Sequence

from firebox import dims
from firebox.dims import DimLike
from firebox.dtypes import i64
from firebox.frontend.functions.support import A


def linear_taps(at: A) -> list[tuple[A, A]]:
    """The two neighbours of a position and their weights."""
    first = at.floor()
    part = at - first
    return [(first, 1.0 - part), (first + 1.0, part)]


def weighted_sum(x: A, sizes: Sequence[DimLike], taps: Sequence[Sequence[tuple[A, A]]], zeros: bool) -> A:
    """The sum over all combinations of one tap a dim: the element there times the weights.

    Args:
        x: (lead.., elements): the dims of ``sizes`` in one.
        taps: for each of these dims positions and weights, (lead.., positions) each; leading dims broadcast.
        zeros: positions outside count as 0; else they are inside.
    """
    total: A | None = None
    for combination in itertools.product(*taps):
        part = value_at(x, sizes, [at for at, _ in combination], zeros)
        for _, weight in combination:
            part = part * weight
        total = part if total is None else total + part
    assert total is not None, taps
    return total


def value_at(x: A, sizes: Sequence[DimLike], positions: Sequence[A], zeros: bool) -> A:
    """The elements at whole positions; those outside read the nearest one, or 0 with ``zeros``."""
    inside: A | None = None
    index: A | None = None
    for k, (at, size) in enumerate(zip(positions, sizes, strict=True)):
        last = at.size_of(size - 1)
        fits = (at >= 0.0) & (at <= last)
        inside = fits if inside is None else inside & fits
        whole = at.maximum(0.0).minimum(last).astype(i64)
        rest = dims.product(sizes[k + 1 :])
        row = whole * (rest if isinstance(rest, int) else whole.size_of(rest))
        index = row if index is None else index + row
    assert index is not None and inside is not None, positions
    found = x.take_along_axis(index, -1)
    return inside.where(found, 0.0) if zeros else found
