"""Adaptive pooling: windows chosen so that the output has a given size.

Window i of a dim of size n reaches from floor(i * n / out) to ceil((i + 1) * n / out).
"""

from collections.abc import Sequence

import numpy as np

from firebox import dims
from firebox.dialects.nd.ops.monoids import lowest
from firebox.dims import DimLike
from firebox.dtypes import i64
from firebox.errors import ShapeError
from firebox.frontend.functions.pooling import picked
from firebox.frontend.functions.spatial import LAYOUTS
from firebox.frontend.functions.support import A, contract, require_float, require_rank, static_size

Sizes = int | Sequence[int | None]
"""Sizes of the output: one for all spatial dims, or one for each; None keeps the size of the input."""


def adaptive_avg_pool1d(x: A, output_size: Sizes) -> A:
    """Means over ``output_size`` windows of (N, C, L); as `adaptive_avg_pool2d`."""
    return _mean("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: A, output_size: Sizes) -> A:
    """Means over ``output_size`` windows of (N, C, H, W).

    Raises:
        ShapeError: not four dims, or an output size below 1. DTypeError: not floating.
    """
    return _mean("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: A, output_size: Sizes) -> A:
    """Means over ``output_size`` windows of (N, C, D, H, W); as `adaptive_avg_pool2d`."""
    return _mean("adaptive_avg_pool3d", 3, x, output_size)


def _mean(op: str, rank: int, x: A, output_size: Sizes) -> A:
    require_float(op, x)
    sizes = _sizes(op, rank, x, output_size)
    if all(out == 1 for out in sizes):
        return x.mean(tuple(range(2, x.rank)), keepdims=True)
    for axis, out in enumerate(sizes, 2):
        if out == 1:
            x = x.mean(axis, keepdims=True)
        elif out != x.shape[axis]:
            x = _averaged(x, axis, out)
    return x


def _averaged(x: A, axis: int, out: DimLike) -> A:
    """The means along one axis, as a product with a matrix."""
    names = [f"b{k}" for k in range(x.rank)]
    result = ["o" if k == axis else name for k, name in enumerate(names)]
    return contract(x, _averaging(x, axis, out), f"{' '.join(names)}, o {names[axis]} -> {' '.join(result)}")


def _averaging(x: A, axis: int, out: DimLike) -> A:
    """The matrix (out, size) that takes the mean over each window of a dim."""
    at = x.one("iota", shape=(1, x.shape[axis]), axis=1, dtype=i64)
    first, last = _bounds(x, axis, out)
    inside = ((at >= first) & (at < last)).astype(x.dtype)
    return inside / (last - first).astype(x.dtype)


def _bounds(x: A, axis: int, out: DimLike) -> tuple[A, A]:
    """Where the windows along an axis start and end, (out, 1) each."""
    window = x.one("iota", shape=(out, 1), axis=0, dtype=i64)
    count, parts = (x.one("dim_size", size=(size,), dtype=i64) for size in (x.shape[axis], out))
    return window * count // parts, ((window + 1) * count + (parts - 1)) // parts


def adaptive_max_pool1d(x: A, output_size: Sizes) -> A:
    """The largest element of each of ``output_size`` windows of (N, C, L); as `adaptive_max_pool2d`."""
    return _max("adaptive_max_pool1d", 1, x, output_size)[0]


def adaptive_max_pool2d(x: A, output_size: Sizes) -> A:
    """The largest element of each of ``output_size`` windows of (N, C, H, W); the gradient goes to the first of them.

    Raises:
        ShapeError: not four dims, an output size below 1, or a symbolic size.
    """
    return _max("adaptive_max_pool2d", 2, x, output_size)[0]


def adaptive_max_pool3d(x: A, output_size: Sizes) -> A:
    """The largest element of each of ``output_size`` windows of (N, C, D, H, W); as `adaptive_max_pool2d`."""
    return _max("adaptive_max_pool3d", 3, x, output_size)[0]


def adaptive_max_pool1d_with_indices(x: A, output_size: Sizes) -> tuple[A, A]:
    """`adaptive_max_pool1d`, and where in L each element comes from (i64)."""
    return _max("adaptive_max_pool1d_with_indices", 1, x, output_size)


def adaptive_max_pool2d_with_indices(x: A, output_size: Sizes) -> tuple[A, A]:
    """`adaptive_max_pool2d`, and each element's position in the flattened image (i64)."""
    return _max("adaptive_max_pool2d_with_indices", 2, x, output_size)


def adaptive_max_pool3d_with_indices(x: A, output_size: Sizes) -> tuple[A, A]:
    """`adaptive_max_pool3d`, and each element's position in the flattened volume (i64)."""
    return _max("adaptive_max_pool3d_with_indices", 3, x, output_size)


def _max(op: str, rank: int, x: A, output_size: Sizes) -> tuple[A, A]:
    """All windows of one width, those that are narrower masked; then the largest, and its place."""
    sizes = _sizes(op, rank, x, output_size)
    windows, inside, place, spatial = x, None, None, x.shape[2:]
    for k, out in enumerate(sizes):
        size = static_size(op, x, 2 + k)
        first, last = _bounds(x, 2 + k, out)
        tap = x.one("iota", shape=(1, _widest(size, out if isinstance(out, int) else size)), axis=1, dtype=i64)
        at = (first + tap).minimum(size - 1)
        windows = windows.take(at, 2 + 2 * k)
        trailing = (1,) * (2 * (rank - 1 - k))
        here = (first + tap < last).reshape((*at.shape, *trailing))
        there = (at * dims.product(spatial[k + 1 :])).reshape((*at.shape, *trailing))
        inside = here if inside is None else inside & here
        place = there if place is None else place + there
    assert inside is not None and place is not None
    order = [2 * k for k in range(rank)] + [2 * k + 1 for k in range(rank)]
    rows = inside.where(windows, lowest(x.dtype)).transpose((0, 1, *(2 + k for k in order))).flatten(2 + rank, -1)
    places = place.broadcast_to(inside.shape).transpose(order).flatten(rank, -1)
    best = rows.argmax(-1, keepdims=True)
    return picked(rows, best), places.expand_dims(0).expand_dims(0).take_along_axis(best, -1).squeeze(-1)


def _widest(size: int, out: int) -> int:
    """Elements of the widest window."""
    window = np.arange(out)
    return int(((-(-(window + 1) * size // out)) - window * size // out).max())


def _sizes(op: str, rank: int, x: A, output_size: Sizes) -> tuple[DimLike, ...]:
    """Sizes of the spatial dims of the output."""
    require_rank(op, x, rank + 2, LAYOUTS[rank])
    given = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    if len(given) != rank or any(out is not None and out < 1 for out in given):
        raise ShapeError("bad output_size", op=op, expected=f"{rank} integers >= 1, or one", found=output_size)
    return tuple(size if out is None else out for out, size in zip(given, x.shape[2:], strict=True))
