"""Rotary position encoding."""

import math

from firebox.errors import ShapeError
from firebox.frontend.functions.shape import concat, narrow, stack
from firebox.frontend.functions.support import A, one_node, require_float, shape_text


@one_node
def rotary_encoding(
    x: A, width: int | None = None, theta: float = 10000.0, start: int = 0, interleaved: bool = True
) -> A:
    """Pairs of elements of (.., length, size) turned by position * theta^(-2k / width) (Su et al. 2021).

    Args:
        width: how many of the first elements are turned; an even number, by default all.
        start: the position of the first vector.
        interleaved: pair k is elements 2k and 2k + 1; else k and k + width / 2.

    Raises:
        ShapeError: fewer than two dims, or a width that is odd or larger than the size. DTypeError: x is not floating.
    """
    require_float("rotary_encoding", x)
    size = x.shape[-1] if x.rank > 1 else 0
    turned = size if width is None else width
    if not isinstance(size, int) or not isinstance(turned, int) or turned % 2 or not 0 < turned <= size:
        found = f"{shape_text(x)}, width {width}"
        raise ShapeError(
            "no pairs to turn", op="rotary_encoding", expected="(.., length, size), width even", found=found
        )
    half = turned // 2
    wide = narrow(x, -1, 0, turned).astype(x.dtype.compute)
    position = wide.one("iota", shape=(x.shape[-2], 1), axis=0, dtype=wide.dtype) + float(start)
    pair = wide.one("iota", shape=(1, half), axis=1, dtype=wide.dtype)
    angle = position * (pair * (-2.0 * math.log(theta) / turned)).exp()
    split = wide.reshape((*wide.shape[:-1], half, 2) if interleaved else (*wide.shape[:-1], 2, half))
    axis = -1 if interleaved else -2
    first, second = (narrow(split, axis, k, k + 1).squeeze(axis) for k in (0, 1))
    parts = (first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos())
    result = stack(parts, axis).reshape(wide.shape).astype(x.dtype)
    return result if turned == size else concat([result, narrow(x, -1, turned, size)], -1)
