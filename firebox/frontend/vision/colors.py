"""Colours of images (.., 3, H, W) with values in [0, 1]."""

from firebox.errors import ShapeError
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.shape import concat, narrow
from firebox.frontend.functions.support import as_float, differ, shape_text
from firebox.frontend.tensor import Tensor


def _channels(op: str, x: Tensor, count: int) -> list[Tensor]:
    if x.rank < 3 or differ(x.shape[-3], count):
        raise ShapeError("not the channels", op=op, expected=f"(.., {count}, H, W)", found=shape_text(x))
    x = as_float(x)
    return [narrow(x, -3, k, k + 1) for k in range(count)]


@accepting
def rgb_to_gray(x: Tensor) -> Tensor:
    """(.., 1, H, W): 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601)."""
    r, g, b = _channels("rgb_to_gray", x, 3)
    return r * 0.299 + g * 0.587 + b * 0.114


@accepting
def gray_to_rgb(x: Tensor) -> Tensor:
    """The one channel three times."""
    (gray,) = _channels("gray_to_rgb", x, 1)
    return concat([gray] * 3, -3)


@accepting
def rgb_to_hsv(x: Tensor) -> Tensor:
    """Hue as a share of the circle in [0, 1), saturation and value; grays have hue 0."""
    r, g, b = _channels("rgb_to_hsv", x, 3)
    value = r.maximum(g).maximum(b)
    spread = value - r.minimum(g).minimum(b)
    gray = spread == 0.0
    unit = gray.where(1.0, spread)
    hue = (value == r).where((g - b) / unit, (value == g).where((b - r) / unit + 2.0, (r - g) / unit + 4.0)) * (
        1.0 / 6.0
    )
    hue = gray.where(0.0, hue - hue.floor())
    black = value == 0.0
    return concat([hue, black.where(0.0, spread / black.where(1.0, value)), value], -3)


@accepting
def hsv_to_rgb(x: Tensor) -> Tensor:
    """The inverse of `rgb_to_hsv`; hues beyond [0, 1) go around."""
    hue, saturation, value = _channels("hsv_to_rgb", x, 3)

    def channel(shift: float) -> Tensor:
        k = hue * 6.0 + shift
        k = k - (k * (1.0 / 6.0)).floor() * 6.0
        return value - value * saturation * k.minimum(4.0 - k).clip(0.0, 1.0)

    return concat([channel(5.0), channel(3.0), channel(1.0)], -3)
