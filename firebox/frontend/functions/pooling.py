"""Pooling over one to three spatial dims: windows (`nd.window`), then a reduction of each."""

from firebox import dims
from firebox.dialects.nd.ops.indexing import scatter_along_axis
from firebox.dialects.nd.ops.monoids import lowest
from firebox.dims import DimLike
from firebox.dtypes import i32, i64
from firebox.errors import UserError
from firebox.frontend.functions.spatial import LAYOUTS, Ints, Windows, windows_over
from firebox.frontend.functions.support import (
    A,
    arange_like,
    equals,
    require_float,
    require_int,
    require_rank,
    require_same_shape,
    tuple_of,
)

# ---- the largest -------------------------------------------------------------------------------------------------


def max_pool1d(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> A:
    """The largest element of each window of (N, C, L); as `max_pool2d`."""
    return _max(x, windows_over("max_pool1d", x, 1, kernel_size, stride, padding, dilation, ceil_mode))


def max_pool2d(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> A:
    """The largest element of each window of (N, C, H, W); NaN wins. Padding never does.

    The gradient goes to the first largest element of a window in row-major order, as in PyTorch.

    Args:
        ceil_mode: a last window may reach over the end of a dim, as long as it starts before it.

    Raises:
        ShapeError: not four dims, a window larger than the padded image, or padding of more than half a window.
    """
    return _max(x, windows_over("max_pool2d", x, 2, kernel_size, stride, padding, dilation, ceil_mode))


def max_pool3d(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> A:
    """The largest element of each window of (N, C, D, H, W); as `max_pool2d`."""
    return _max(x, windows_over("max_pool3d", x, 3, kernel_size, stride, padding, dilation, ceil_mode))


def max_pool1d_with_indices(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[A, A]:
    """`max_pool1d`, and where in L each element comes from (i64)."""
    op = "max_pool1d_with_indices"
    return _max_and_place(x, windows_over(op, x, 1, kernel_size, stride, padding, dilation, ceil_mode))


def max_pool2d_with_indices(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[A, A]:
    """`max_pool2d`, and where each element comes from: its position in the flattened image (i64)."""
    op = "max_pool2d_with_indices"
    return _max_and_place(x, windows_over(op, x, 2, kernel_size, stride, padding, dilation, ceil_mode))


def max_pool3d_with_indices(
    x: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[A, A]:
    """`max_pool3d`, and where each element comes from: its position in the flattened volume (i64)."""
    op = "max_pool3d_with_indices"
    return _max_and_place(x, windows_over(op, x, 3, kernel_size, stride, padding, dilation, ceil_mode))


def _rows(x: A, windows: Windows) -> A:
    """(N, C, positions.., elements of the window)."""
    return windows.of(x, lowest(x.dtype)).flatten(2 + windows.rank, -1)


def _max(x: A, windows: Windows) -> A:
    rows = _rows(x, windows)
    if not getattr(x, "requires_grad", True):  # no gradient, so it does not matter which of equal elements wins
        return rows.max(-1)
    return picked(rows, rows.argmax(-1, keepdims=True))


def picked(rows: A, best: A) -> A:
    """The element of each row at the index ``best`` (of size 1 in the last dim), by a comparison that fuses."""
    narrow = best.astype(i32)  # backward keeps these
    chosen = equals(arange_like(rows, rows.shape[-1], i32), narrow)
    return chosen.where(rows, 0).sum(-1).astype(rows.dtype)


def _max_and_place(x: A, windows: Windows) -> tuple[A, A]:
    rows = _rows(x, windows)
    best = rows.argmax(-1, keepdims=True)
    return picked(rows, best), _place(x, best.squeeze(-1), windows)


def _place(x: A, tap: A, windows: Windows) -> A:
    """Positions in the flattened spatial dims, from positions within windows."""
    total = tap * 0
    rest = tap
    stride: DimLike = 1
    for k in reversed(range(windows.rank)):
        size = windows.shape[k]
        first = tap.one("iota", shape=_along(windows, k), axis=0, dtype=i64) * windows.strides[k] - windows.low[k]
        at = (first + rest % windows.sizes[k] * windows.dilations[k]).maximum(0).minimum(_count(tap, size) - 1)
        total = total + at * _count(tap, stride)
        rest = rest // windows.sizes[k]
        stride = dims.multiply(stride, size)
    return total


def _along(windows: Windows, k: int) -> tuple[DimLike, ...]:
    """The shape of a vector over the windows of a spatial dim."""
    return (windows.counts[k], *(1,) * (windows.rank - 1 - k))


def _count(x: A, size: DimLike) -> A | int:
    """A size as an operand beside integers."""
    return size if isinstance(size, int) else x.size_of(size)


def max_unpool1d(
    x: A, indices: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, output_size: Ints | None = None
) -> A:
    """The inverse of `max_pool1d_with_indices`; as `max_unpool2d`."""
    return _unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: A, indices: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, output_size: Ints | None = None
) -> A:
    """The inverse of `max_pool2d_with_indices`: zeros, but the elements of ``x`` where the indices say.

    Where windows overlap and several elements belong to one place, their mean stands there.

    Args:
        indices: positions in the flattened image of the result, of the shape of ``x``.
        output_size: sizes of the spatial dims; by default (size - 1) * stride - 2 * padding + kernel_size.

    Raises:
        ShapeError: ranks or shapes that do not fit. DTypeError: indices that are no integers.
    """
    return _unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: A, indices: A, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, output_size: Ints | None = None
) -> A:
    """The inverse of `max_pool3d_with_indices`; as `max_unpool2d`."""
    return _unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


def _unpool(
    op: str, rank: int, x: A, indices: A, kernel: Ints, stride: Ints | None, padding: Ints, output_size: Ints | None
) -> A:
    require_rank(op, x, rank + 2, LAYOUTS[rank])
    require_int(op, indices, "indices")
    require_same_shape(op, x, indices)
    sizes = tuple_of(op, kernel, rank, "kernel_size", 1)
    strides = sizes if stride is None else tuple_of(op, stride, rank, "stride", 1)
    pads = tuple_of(op, padding, rank, "padding", 0)
    if output_size is not None:
        out: tuple[DimLike, ...] = tuple_of(op, output_size, rank, "output_size", 1)
    else:
        rows = zip(x.shape[2:], sizes, strides, pads, strict=True)
        out = tuple(dims.multiply(size - 1, s) - 2 * p + k for size, k, s, p in rows)
    at = indices.flatten(2, -1).astype(i64)
    total = scatter_along_axis(x.flatten(2, -1), at, 2, dims.product(out))
    ones = x.literal(1).broadcast_to(at.shape)
    count = scatter_along_axis(ones, at, 2, dims.product(out))
    result: A = (total / count.maximum(1.0)).reshape((*x.shape[:2], *out))  # type: ignore[assignment]
    return result


# ---- the mean ----------------------------------------------------------------------------------------------------


def avg_pool1d(
    x: A,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> A:
    """The mean of each window of (N, C, L); as `avg_pool2d`."""
    return _mean("avg_pool1d", 1, x, kernel_size, stride, padding, count_include_pad, ceil_mode, None)


def avg_pool2d(
    x: A,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    divisor_override: int | None = None,
) -> A:
    """The mean of each window of (N, C, H, W); padding counts as zeros, or not at all.

    Args:
        ceil_mode: as in `max_pool2d`; what lies beyond the padding never counts.
        divisor_override: the sum of each window is divided by this in place of the number of elements.

    Raises:
        ShapeError: as `max_pool2d`. DTypeError: not floating. UserError: a divisor of 0.
    """
    return _mean("avg_pool2d", 2, x, kernel_size, stride, padding, count_include_pad, ceil_mode, divisor_override)


def avg_pool3d(
    x: A,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    divisor_override: int | None = None,
) -> A:
    """The mean of each window of (N, C, D, H, W); as `avg_pool2d`."""
    return _mean("avg_pool3d", 3, x, kernel_size, stride, padding, count_include_pad, ceil_mode, divisor_override)


def _mean(
    op: str,
    rank: int,
    x: A,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    include: bool,
    ceil_mode: bool,
    divisor: int | None,
) -> A:
    require_float(op, x)
    if divisor == 0:
        raise UserError("the divisor is 0", op=op, expected="another number, or None", found=0)
    windows = windows_over(op, x, rank, kernel, stride, padding, 1, ceil_mode)
    rows = windows.of(x, 0).flatten(2 + rank, -1)
    if divisor is not None:
        return rows.sum(-1) * (1.0 / divisor)
    if windows.high == windows.padded and (include or not any(windows.low)):
        return rows.mean(-1)
    total = rows.sum(-1)
    for k in range(rank):
        total = total / _elements(x, windows, k, include)
    return total


def _elements(x: A, windows: Windows, k: int, include: bool) -> A:
    """How many elements of a dim each window has, its padding included or not; what lies beyond never counts."""
    size, pad = x.size_of(windows.shape[k]), float(windows.low[k])
    step = x.one("iota", shape=_along(windows, k), axis=0, dtype=x.dtype) * float(windows.strides[k])
    first = step - pad
    last = (first + float(windows.sizes[k])).minimum(size + float(windows.padded[k]))
    return last - first if include else last.minimum(size) - first.maximum(0.0)


# ---- norms -------------------------------------------------------------------------------------------------------


def lp_pool1d(x: A, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False) -> A:
    """sum(|x|^p)^(1/p) of each window of (N, C, L); the gradient is 0 where the sum is."""
    return _norm("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(x: A, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False) -> A:
    """sum(|x|^p)^(1/p) of each window of (N, C, H, W); the gradient is 0 where the sum is."""
    return _norm("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(x: A, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False) -> A:
    """sum(|x|^p)^(1/p) of each window of (N, C, D, H, W); the gradient is 0 where the sum is."""
    return _norm("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)


def _norm(op: str, rank: int, x: A, p: float, kernel: Ints, stride: Ints | None, ceil_mode: bool) -> A:
    require_float(op, x)
    if p <= 0:
        raise UserError("bad norm_type", op=op, expected="a positive number", found=p)
    rows = windows_over(op, x, rank, kernel, stride, 0, 1, ceil_mode).of(x, 0).flatten(2 + rank, -1)
    total = (rows * rows if p == 2 else rows.abs() ** p).sum(-1)
    empty = equals(total, 0)
    return empty.where(0.0, empty.where(1.0, total) ** (1.0 / p))
