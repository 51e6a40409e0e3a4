"""Images with more rows and columns around them: how filters and morphology see what lies outside."""

from typing import Any

import numpy as np

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.support import shape_text, static_size
from firebox.frontend.tensor import Tensor, as_tensor

BORDERS = {"replicate": "edge", "reflect": "symmetric", "reflect101": "reflect"}
"""Names as in OpenCV, and NumPy's: ``reflect`` repeats the outermost elements, ``reflect101`` does not."""


def check_image(op: str, x: Tensor) -> None:
    """Raises ShapeError unless the last two dims are rows and columns."""
    if x.rank < 2:
        raise ShapeError("not an image", op=op, expected="(.., H, W)", found=shape_text(x))


def bordered(op: str, x: Tensor, widths: tuple[tuple[int, int], tuple[int, int]], border: str, value: Any) -> Tensor:
    """The image with (before, after) rows and columns.

    Raises:
        UserError: another border. ShapeError: an image too small to be mirrored so far.
    """
    if border == "constant":
        none = (0,) * (x.rank - 2)
        return x.pad((*none, widths[0][0], widths[1][0]), (*none, widths[0][1], widths[1][1]), value)
    if border not in BORDERS:
        expected = ", ".join(["constant", *BORDERS])
        raise UserError("no such border", op=op, expected=expected, found=repr(border))
    for axis, width in zip((-2, -1), widths, strict=True):
        size = static_size(op, x, axis)
        if size == 0 or (border == "reflect101" and max(width) >= size) or (border == "reflect" and max(width) > size):
            raise ShapeError("too small for its border", op=op, expected=f"more than {max(width)}", found=shape_text(x))
        mode: Any = BORDERS[border]
        x = x.take(as_tensor(np.pad(np.arange(size), width, mode=mode), x.device), axis)
    return x
