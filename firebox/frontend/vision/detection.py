"""Boxes and connected regions."""

from firebox import dtypes
from firebox.errors import ShapeError, UserError
from firebox.frontend.control import fori_loop, while_loop
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.scattering import put_flat
from firebox.frontend.functions.sets import masked_select
from firebox.frontend.functions.shape import argsort, narrow, stack
from firebox.frontend.functions.support import arange_like, as_float, differ, positions, shape_text, static_size
from firebox.frontend.tensor import Tensor


@accepting
def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Shared area divided by joint area of boxes (n, 4) and (m, 4), each (left, top, right, bottom): (n, m)."""
    for boxes in (a, b):
        if boxes.rank != 2 or differ(boxes.shape[1], 4):
            raise ShapeError("not boxes", op="box_iou", expected="(n, 4)", found=shape_text(boxes))
    a, b = as_float(a).expand_dims(1), as_float(b).expand_dims(0)
    low, high = a[..., :2].maximum(b[..., :2]), a[..., 2:].minimum(b[..., 2:])
    sides = (high - low).maximum(0.0)
    shared = sides[..., 0] * sides[..., 1]
    both = _area(a) + _area(b) - shared
    return shared / (both == 0.0).where(1.0, both)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


@accepting
def nms(boxes: Tensor, scores: Tensor, iou: float = 0.5, score: float = 0.0, max_output: int = 0) -> Tensor:
    """Indices (i64) of the boxes that are kept, the highest score first: greedy non-maximum suppression.

    Args:
        boxes: (n, 4): left, top, right, bottom.
        scores: (n).
        iou: a box goes that shares more than this with one that is kept.
        score: boxes below this score go.
        max_output: the most boxes to keep; 0 for all.

    The result has as many elements as the values say, so values are read.

    Raises:
        ShapeError: shapes that do not fit.
    """
    if scores.rank != 1 or boxes.rank != 2 or differ(boxes.shape[0], scores.shape[0]):
        both = f"{shape_text(boxes)} and {shape_text(scores)}"
        raise ShapeError("boxes and scores do not fit", op="nms", expected="(n, 4) and (n)", found=both)
    order = argsort(scores, 0, descending=True)
    ranked = boxes.take(order, 0)
    shared = box_iou(ranked, ranked)
    place = arange_like(scores, scores.shape[0])

    def step(i: Tensor, kept: Tensor) -> Tensor:
        covered = (shared.take(i, 0) > iou) & (place > i)
        left: Tensor = kept & ~(covered & kept.take(i, 0))
        return left

    kept = scores.take(order, 0) >= score
    if static_size("nms", scores, 0):
        kept = fori_loop(0, scores.shape[0], step, kept)
    found: Tensor = masked_select(order, kept)
    return narrow(found, 0, 0, min(max_output, static_size("nms", found, 0))) if max_output else found


# ---- regions -----------------------------------------------------------------------------------------------------


@accepting
def connected_components(mask: Tensor, connectivity: int = 4) -> Tensor:
    """Labels (i64) of connected regions of a mask (.., H, W): 0 outside, 1, 2, .. in the order of their first element.

    Every element takes the smallest position of its neighbours, then that of the element at this position, until
    nothing changes.

    Args:
        connectivity: 4: neighbours share a side; 8: or a corner.

    Raises:
        UserError: another connectivity. ShapeError: no image.
    """
    if connectivity not in (4, 8):
        raise UserError("no such connectivity", op="connected_components", expected="4 or 8", found=connectivity)
    if mask.rank < 2:
        raise ShapeError("not an image", op="connected_components", expected="(.., H, W)", found=shape_text(mask))
    height, width = (static_size("connected_components", mask, k) for k in (-2, -1))
    count = height * width
    inside = mask.astype(dtypes.bool_)
    flat = inside.reshape((*mask.shape[:-2], count))
    here = positions(flat, -1).broadcast_to(flat.shape)
    if count == 0:
        return here.reshape(mask.shape)

    def spread(x: Tensor) -> Tensor:
        """The smallest position around, of those inside."""
        image = x.reshape(mask.shape)
        none = (0,) * (mask.rank - 2)
        for axes in ((-2, -1),) if connectivity == 8 else ((-2,), (-1,)):
            start = image
            for axis in axes:
                rows = axis == -2
                width_of = (*none, int(rows), int(not rows))
                padded = image.pad(width_of, width_of, count)
                size = height if rows else width
                image = narrow(padded, axis, 0, size).minimum(narrow(padded, axis, 2, size + 2)).minimum(image)
            image = inside.where(image, start)
        return image.reshape(flat.shape)

    def step(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, _ = state
        near = flat.where(spread(x), count)
        jumped = near.take_along_axis(near.minimum(count - 1), -1)
        new = flat.where(jumped.minimum(near), count)
        return new, (new != x).any()

    first = flat.where(here, count)
    root, _ = while_loop(lambda state: state[1], step, (first, flat.any()))
    numbers = (root == here).astype(dtypes.i64).cumsum(-1)
    labels = flat.where(numbers.take_along_axis(root.minimum(count - 1), -1), 0)
    return labels.reshape(mask.shape)


@accepting
def component_stats(labels: Tensor, count: int | None = None) -> Tensor:
    """Of each label from 1 on (area, left, top, right, bottom) as rows (count, 5) of i64; right and bottom are inside.

    Args:
        labels: (H, W), from `connected_components`.
        count: the number of rows; by default that of the labels, which are read. A label that is not there has area 0.
    """
    if labels.rank != 2:
        raise ShapeError("not labels", op="component_stats", expected="(H, W)", found=shape_text(labels))
    rows = int(labels.max().item()) if count is None else count
    flat = labels.reshape((labels.size,))
    one = flat.literal(1).broadcast_to(flat.shape)
    zeros = flat.literal(0).broadcast_to((rows + 1,))
    at = (flat <= rows).where(flat, 0)
    area = zeros.scatter_add(at, one, 0)
    y, x = (positions(labels, k).broadcast_to(labels.shape).reshape(flat.shape) for k in (0, 1))
    far = static_size("component_stats", labels, 0) + static_size("component_stats", labels, 1)
    least = [put_flat(zeros + far, at, v, "min", "component_stats") for v in (x, y)]
    most = [put_flat(zeros - 1, at, v, "max", "component_stats") for v in (x, y)]
    return narrow(stack([area, *least, *most], 1), 0, 1, rows + 1)
