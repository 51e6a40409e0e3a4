"""Deformable convolution (Dai et al. 2017; Zhu et al. 2019): every tap of the kernel looks where it is told."""

from firebox import dims
from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend.functions.convolution import Padding, add_bias, paddings
from firebox.frontend.functions.sampling import linear_taps, weighted_sum
from firebox.frontend.functions.spatial import Ints
from firebox.frontend.functions.support import (
    A,
    contract,
    differ,
    promote,
    require_float,
    require_rank,
    shape_text,
    tuple_of,
)

_OP = "deform_conv2d"


def deform_conv2d(
    x: A,
    offset: A,
    weight: A,
    bias: A | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    mask: A | None = None,
    groups: int = 1,
    offset_groups: int = 1,
) -> A:
    """`conv2d` whose taps are moved by ``offset`` and scaled by ``mask``; between pixels it reads bilinearly.

    Args:
        x: (N, C, H, W). weight: (out, C / groups, kernel height, kernel width).
        offset: (N, offset_groups * taps * 2, rows, columns): (dy, dx) of each tap at each position of the result.
        mask: (N, offset_groups * taps, rows, columns).
        offset_groups: channels in so many groups, each with offsets of its own.

    Raises:
        ShapeError: shapes that do not fit. DTypeError: operands that are not floating.
    """
    for what, operand in (("input", x), ("offset", offset)):
        require_float(_OP, operand, what)
    x, weight = promote(_OP, x, weight)
    require_rank(_OP, x, 4, "(N, C, H, W)")
    require_rank(_OP, weight, 4, "weight (out, in / groups, height, width)")
    strides, dilations = tuple_of(_OP, stride, 2, "stride", 1), tuple_of(_OP, dilation, 2, "dilation", 1)
    spans = tuple(dims.multiply(k - 1, d) + 1 for k, d in zip(weight.shape[2:], dilations, strict=True))
    low, high = paddings(_OP, padding, x.shape[2:], spans, strides)
    rows, columns = (
        dims.floordiv(size + a + b - span, s) + 1
        for size, a, b, span, s in zip(x.shape[2:], low, high, spans, strides, strict=True)
    )
    _check(x, weight, offset, mask, groups, offset_groups, (rows, columns))
    taps = dims.product(weight.shape[2:])
    moved = offset.astype(x.dtype).reshape((x.shape[0], offset_groups, taps, 2, rows, columns))
    places = []
    for k in (0, 1):
        start, stop = (0, 0, 0, k, 0, 0), (*moved.shape[:3], k + 1, *moved.shape[4:])
        regular = _regular(x, weight, k, strides[k], dilations[k], low[k], (rows, columns))
        places.append((moved.slice(start, stop).squeeze(3) + regular).reshape((x.shape[0], offset_groups, 1, -1)))
    grouped = x.reshape((x.shape[0], offset_groups, dims.floordiv(x.shape[1], offset_groups), -1))
    seen = weighted_sum(grouped, x.shape[2:], [linear_taps(at) for at in places], True)
    if mask is not None:
        seen = seen * mask.astype(x.dtype).reshape((x.shape[0], offset_groups, 1, -1))
    return add_bias(_product(seen, weight, groups, taps, (rows, columns)), bias)


def _regular(x: A, weight: A, k: int, stride: int, dilation: int, low: int, counts: tuple[DimLike, DimLike]) -> A:
    """Where the taps of a plain convolution look along a dim: (taps, rows, columns) with 1 for what does not matter."""
    kernel = weight.shape[2:]
    tap = x.one("iota", shape=(*(d if j == k else 1 for j, d in enumerate(kernel)), 1, 1), axis=k, dtype=x.dtype)
    at = x.one("iota", shape=(1, *(d if j == k else 1 for j, d in enumerate(counts))), axis=1 + k, dtype=x.dtype)
    taps = (tap * float(dilation)).broadcast_to((*kernel, 1, 1)).reshape((-1, 1, 1))
    return taps + at * float(stride) - float(low)


def _product(seen: A, weight: A, groups: int, taps: DimLike, counts: tuple[DimLike, ...]) -> A:
    """The sum over channels and taps, by groups of channels."""
    out, per_group = weight.shape[:2]
    columns = seen.reshape((seen.shape[0], groups, dims.multiply(per_group, taps), -1))
    kernels = weight.reshape((groups, dims.floordiv(out, groups), dims.multiply(per_group, taps)))
    return contract(columns, kernels, "n g c p, g o c -> n g o p").reshape((seen.shape[0], out, *counts))


def _check(
    x: A, weight: A, offset: A, mask: A | None, groups: int, offset_groups: int, counts: tuple[DimLike, ...]
) -> None:
    channels, out = x.shape[1], weight.shape[0]
    for count, what in ((groups, "groups"), (offset_groups, "offset_groups")):
        if count < 1 or (isinstance(channels, int) and channels % count):
            raise ShapeError(f"bad {what}", op=_OP, expected=f"a divisor of {channels} channels", found=count)
    if differ(channels, dims.multiply(weight.shape[1], groups)) or (isinstance(out, int) and out % groups):
        expected = f"{dims.multiply(weight.shape[1], groups)} channels (axis 1), and out a multiple of {groups}"
        found = f"{shape_text(x)} with a weight {shape_text(weight)}"
        raise ShapeError("the channels do not fit", op=_OP, expected=expected, found=found)
    taps = dims.multiply(dims.product(weight.shape[2:]), offset_groups)
    for what, operand, each in (("offset", offset, 2), ("mask", mask, 1)):
        wanted = (x.shape[0], dims.multiply(taps, each), *counts)
        if operand is not None and (
            operand.rank != 4 or any(differ(a, b) for a, b in zip(operand.shape, wanted, strict=True))
        ):
            text = f"({', '.join(map(str, wanted))})"
            raise ShapeError(f"the {what} does not fit", op=_OP, expected=text, found=shape_text(operand))
