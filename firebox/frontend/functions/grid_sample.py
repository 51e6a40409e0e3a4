"""`grid_sample`: elements of images at positions that a grid holds; and `affine_grid`, which makes such grids."""

from collections.abc import Sequence
from typing import Generic, Literal, get_args

from firebox.dims import DimLike
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.interpolate import cubic_weight
from firebox.frontend.functions.linear_algebra import matmul
from firebox.frontend.functions.sampling import linear_taps, value_at, weighted_sum
from firebox.frontend.functions.shape import concat
from firebox.frontend.functions.support import A, differ, equals, one_node, require_float, shape_text

Mode = Literal["bilinear", "nearest", "bicubic"]
Padding = Literal["zeros", "border", "reflection"]

_CUBIC = -0.75


@one_node
def grid_sample(
    x: A, grid: A, mode: Mode = "bilinear", padding_mode: Padding = "zeros", align_corners: bool = False
) -> A:
    """The elements of ``x`` at the positions of ``grid``: (N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and 3.

    Args:
        grid: positions as (x, y) or (x, y, z), the last dim of the image first; -1 and 1 are its ends.
        mode: ``"bilinear"`` (of volumes trilinear), ``"nearest"`` (halves to even), ``"bicubic"`` (images only).
        padding_mode: what lies outside: 0, the nearest element, or the image mirrored at its ends.
        align_corners: -1 and 1 are the centres of the first and last pixels, not their outer edges.

    Raises:
        ShapeError: shapes that do not fit. UserError: no such mode. DTypeError: operands that are not floating.
    """
    _check(x, grid, mode, padding_mode)
    sizes = x.shape[2:]
    rank = len(sizes)
    flat = x.reshape((*x.shape[:2], -1))
    points = grid.astype(x.dtype.compute).reshape((grid.shape[0], 1, -1, rank))
    places: list[_Place[A]] = []
    for k, size in enumerate(sizes):  # the grid's coordinates count from the last dim
        c = rank - 1 - k
        picked = points.slice((0, 0, 0, c), (*points.shape[:3], c + 1)).squeeze(3)
        places.append(_Place(picked.size_of(size), padding_mode, align_corners, picked))
    wide = flat.astype(x.dtype.compute)
    if mode == "nearest":
        found = value_at(wide, sizes, [p.kept(p.source).round() for p in places], padding_mode == "zeros")
    elif mode == "bilinear":
        taps = [linear_taps(p.kept(p.source)) for p in places]
        found = weighted_sum(wide, sizes, taps, padding_mode == "zeros")
    else:
        found = weighted_sum(wide, sizes, [p.cubic_taps() for p in places], padding_mode == "zeros")
    return found.astype(x.dtype).reshape((*x.shape[:2], *grid.shape[1:-1]))


def _check(x: A, grid: A, mode: str, padding_mode: str) -> None:
    require_float("grid_sample", x)
    require_float("grid_sample", grid, "grid")
    rank = x.rank - 2
    if mode not in get_args(Mode) or (mode == "bicubic" and rank != 2):
        expected = "'bilinear' or 'nearest', or 'bicubic' for images"
        raise UserError("no such mode", op="grid_sample", expected=expected, found=repr(mode))
    if padding_mode not in get_args(Padding):
        expected = ", ".join(map(repr, get_args(Padding)))
        raise UserError("no such padding_mode", op="grid_sample", expected=expected, found=repr(padding_mode))
    fits = rank in (2, 3) and grid.rank == x.rank and grid.shape[-1] == rank
    if not fits or differ(grid.shape[0], x.shape[0]):
        raise ShapeError(
            "the grid does not fit",
            op="grid_sample",
            expected="(N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, w, 3)",
            found=f"{shape_text(x)} and {shape_text(grid)}",
        )


class _Place(Generic[A]):
    """Positions along one dim of an image of ``size`` elements (a 0-d array)."""

    def __init__(self, size: A, padding: str, align: bool, coordinate: A) -> None:
        self.size = size
        self.padding = padding
        self.align = align
        self.source = (coordinate + 1.0) * 0.5 * (size - 1.0) if align else ((coordinate + 1.0) * size - 1.0) * 0.5

    def kept(self, at: A) -> A:
        """Positions inside of the image, as the padding says; with zeros as they are."""
        if self.padding == "zeros":
            return at
        if self.padding == "reflection":
            at = self._reflected(at)
        return at.maximum(0.0).minimum(self.size - 1.0)

    def _reflected(self, at: A) -> A:
        """Mirrored at the centres of the first and last pixels, or at their outer edges."""
        low = 0.0 if self.align else -0.5
        span = (self.size - 1.0).maximum(1e-30) if self.align else self.size
        distance = (at - low).abs()
        turns = (distance / span).floor()
        rest = distance - turns * span
        even = equals((turns * 0.5).floor() * 2.0, turns)
        return even.where(rest, span - rest) + low

    def cubic_taps(self) -> list[tuple[A, A]]:
        """The four neighbours, each brought inside on its own, and their weights."""
        first = self.source.floor()
        part = self.source - first
        return [(self.kept(first + float(k)), cubic_weight((part - float(k)).abs(), _CUBIC)) for k in (-1, 0, 1, 2)]


def affine_grid(theta: A, size: Sequence[DimLike], align_corners: bool = False) -> A:
    """The grid (N, H, W, 2) of an affine map (N, 2, 3) for images ``size`` = (N, C, H, W); of (N, 3, 4) for volumes.

    Raises:
        ShapeError: sizes that do not fit. DTypeError: theta is not floating.
    """
    require_float("affine_grid", theta, "theta")
    rank = len(size) - 2
    if rank not in (2, 3) or theta.rank != 3 or theta.shape[1:] != (rank, rank + 1) or differ(theta.shape[0], size[0]):
        raise ShapeError(
            "theta does not fit the size",
            op="affine_grid",
            expected="theta (N, 2, 3) for (N, C, H, W), or (N, 3, 4) for (N, C, D, H, W)",
            found=f"theta {shape_text(theta)}, size {tuple(size)}",
        )
    spatial = tuple(size[2:])
    columns = [_base(theta, spatial, k, align_corners) for k in reversed(range(rank))]
    ones = theta.literal(1).broadcast_to((*spatial, 1))
    base = concat([*columns, ones], -1).reshape((1, -1, rank + 1))
    return matmul(base, theta.swapaxes(1, 2)).reshape((size[0], *spatial, rank))


def _base(theta: A, spatial: tuple[DimLike, ...], k: int, align: bool) -> A:
    """Coordinates from -1 to 1 along a dim, repeated along the others: (spatial.., 1)."""
    size = theta.size_of(spatial[k])
    shape = tuple(d if j == k else 1 for j, d in enumerate(spatial))
    at = theta.one("iota", shape=shape, axis=k, dtype=theta.dtype)
    if align:
        line = at * (2.0 / (size - 1.0).maximum(1.0)) - 1.0
        line = line if spatial[k] != 1 else line * 0.0
    else:
        line = (at * 2.0 + 1.0) / size - 1.0
    return line.broadcast_to(spatial).expand_dims(-1)
