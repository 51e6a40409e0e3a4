"""Windows as columns and back (im2col, col2im), and channels to space and back; values move, or are summed."""

from collections.abc import Sequence

from firebox import dims
from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend.functions.spatial import Ints, Windows, windows_of
from firebox.frontend.functions.support import A, differ, require_rank, shape_text, tuple_of


def unfold(x: A, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> A:
    """Every window of (N, C, H, W) as a column: (N, C * elements of the window, windows); zeros outside.

    Raises:
        ShapeError: not four dims, or a window larger than the padded image.
    """
    require_rank("unfold", x, 4, "(N, C, H, W)")
    windows = _windows("unfold", x.shape[2:], kernel_size, stride, padding, dilation, shape_text(x))
    columns = windows.of(x, 0).transpose(0, 1, 4, 5, 2, 3)
    return columns.flatten(4, 5).flatten(1, 3)


def fold(x: A, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> A:
    """Columns (N, C * elements of the window, windows) added up into an image (N, C, *output_size).

    Raises:
        ShapeError: not three dims, or sizes that are not those of an unfolded image of ``output_size``.
    """
    require_rank("fold", x, 3, "(N, C * elements of a window, windows)")
    shape = tuple_of("fold", output_size, 2, "output_size", 1)
    windows = _windows("fold", shape, kernel_size, stride, padding, dilation, f"output_size {shape}")
    (rows, columns), (height, width) = windows.counts, windows.sizes
    channels = x.shape[1]
    area = height * width
    if differ(x.shape[2], dims.multiply(rows, columns)) or (isinstance(channels, int) and channels % area):
        expected = f"(N, a multiple of {area}, {dims.multiply(rows, columns)})"
        raise ShapeError("not the windows of such an image", op="fold", expected=expected, found=shape_text(x))
    split = x.reshape((x.shape[0], dims.floordiv(channels, area), height, width, rows, columns))
    return windows.folded(split.transpose(0, 1, 4, 5, 2, 3), (x.shape[0], dims.floordiv(channels, area), *shape))


def _windows(
    op: str, shape: Sequence[DimLike], kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, found: str
) -> Windows:
    """Windows with padding of any width."""
    return windows_of(op, shape, kernel_size, stride, padding, dilation, False, found, half=False)


def pixel_shuffle(x: A, factor: int) -> A:
    """(.., C * factor^2, H, W) as (.., C, H * factor, W * factor): channels become positions (Shi et al. 2016).

    Raises:
        ShapeError: fewer than three dims, or channels that are no multiple of factor^2.
    """
    channels = _channels("pixel_shuffle", x, factor)
    if channels % (factor * factor):
        expected = f"a multiple of {factor * factor} channels"
        raise ShapeError("the channels do not divide", op="pixel_shuffle", expected=expected, found=shape_text(x))
    (height, width), lead = x.shape[-2:], x.shape[:-3]
    kept = channels // (factor * factor)
    split = x.reshape((*lead, kept, factor, factor, height, width))
    n = len(lead)
    moved = split.transpose((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return moved.reshape((*lead, kept, dims.multiply(height, factor), dims.multiply(width, factor)))


def pixel_unshuffle(x: A, factor: int) -> A:
    """(.., C, H * factor, W * factor) as (.., C * factor^2, H, W): the inverse of `pixel_shuffle`.

    Raises:
        ShapeError: fewer than three dims, or sizes that are no multiples of the factor.
    """
    channels = _channels("pixel_unshuffle", x, factor)
    (height, width), lead = x.shape[-2:], x.shape[:-3]
    if any(isinstance(size, int) and size % factor for size in (height, width)):
        expected = f"multiples of {factor} in the last two dims"
        raise ShapeError("the sizes do not divide", op="pixel_unshuffle", expected=expected, found=shape_text(x))
    rows, columns = dims.floordiv(height, factor), dims.floordiv(width, factor)
    split = x.reshape((*lead, channels, rows, factor, columns, factor))
    n = len(lead)
    moved = split.transpose((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return moved.reshape((*lead, channels * factor * factor, rows, columns))


def _channels(op: str, x: A, factor: int) -> int:
    if x.rank < 3 or not isinstance(x.shape[-3], int):
        raise ShapeError("needs channels of a known number", op=op, expected="(.., C, H, W)", found=shape_text(x))
    if factor < 1:
        raise ShapeError("bad factor", op=op, expected="at least 1", found=factor)
    return x.shape[-3]


def channel_shuffle(x: A, groups: int) -> A:
    """Channels (axis 1) of ``groups`` groups interleaved: the k-th of every group, then the next (Zhang et al. 2018).

    Raises:
        ShapeError: no axis 1, or channels that do not divide into the groups.
    """
    channels = x.shape[1] if x.rank > 1 else 0
    if not isinstance(channels, int) or groups < 1 or not channels or channels % groups:
        expected, found = f"a multiple of {groups} channels (axis 1)", shape_text(x)
        raise ShapeError("the channels do not divide", op="channel_shuffle", expected=expected, found=found)
    split = x.reshape((x.shape[0], groups, channels // groups, *x.shape[2:]))
    return split.swapaxes(1, 2).reshape(x.shape)
