"""`fb.vision` against plain loops, the standard library's colours, and examples worked by hand."""

import colorsys
import math
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import vision
from firebox.errors import ShapeError, UserError
from firebox.runtime.device import Device
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(31)
IMAGE: Any = RNG.uniform(size=(2, 3, 6, 7))
Array = np.ndarray[Any, Any]


def close(found: fb.Tensor, expected: Any, atol: float = 1e-12) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, atol=atol)


# ---- colours -----------------------------------------------------------------------------------------------------


def test_colours() -> None:
    colours = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.5, 0.5], [0.7, 0.1, 0.6]])
    x = colours.T.reshape(1, 3, 1, 7)
    expected = np.array([colorsys.rgb_to_hsv(*c) for c in colours]).T.reshape(x.shape)
    close(vision.rgb_to_hsv(x), expected)
    close(vision.hsv_to_rgb(expected), x)
    close(vision.hsv_to_rgb(vision.rgb_to_hsv(IMAGE)), IMAGE)
    gray = vision.rgb_to_gray(IMAGE)
    close(gray, np.tensordot([0.299, 0.587, 0.114], IMAGE, (0, 1))[:, None])
    close(vision.gray_to_rgb(gray), np.repeat(gray.numpy(), 3, 1))
    check_gradient(lambda v: vision.hsv_to_rgb(vision.rgb_to_hsv(v)), IMAGE)
    with pytest.raises(ShapeError, match="rgb_to_gray: not the channels"):
        vision.rgb_to_gray(IMAGE[:, :2])


# ---- windows -----------------------------------------------------------------------------------------------------

MODES = {"constant": "constant", "replicate": "edge", "reflect": "symmetric", "reflect101": "reflect"}


def windowed(x: Array, size: tuple[int, int], anchor: tuple[int, int], border: str, f: Any, **fill: Any) -> Array:
    """A function of the window around each element, by a loop."""
    (h, w), (row, column) = size, anchor
    mode: Any = MODES[border]
    padded = np.pad(x, ((row, h - 1 - row), (column, w - 1 - column)), mode=mode, **fill)
    return np.array([[f(padded[i : i + h, j : j + w]) for j in range(x.shape[1])] for i in range(x.shape[0])])


@pytest.mark.parametrize("border", MODES)
def test_filters(border: str) -> None:
    x = IMAGE[0, 0]
    kernel = RNG.normal(size=(3, 4))
    expected = windowed(x, (3, 4), (1, 2), border, lambda v: (v * kernel).sum())
    close(vision.filter2d(x, kernel, border), expected)
    close(vision.box_blur(x, (2, 3), border), windowed(x, (2, 3), (1, 1), border, np.mean))
    close(vision.median_blur(x, 3, border), windowed(x, (3, 3), (1, 1), border, np.median))
    assert vision.filter2d(IMAGE, kernel, border).shape == IMAGE.shape


@pytest.mark.parametrize("border", MODES)
def test_morphology(border: str) -> None:
    x = IMAGE[0, 0]
    for kernel, anchor in ((np.ones((3, 3)), (1, 1)), (np.array([[0, 1, 1], [1, 0, 0]]), (1, 0))):
        on = kernel.astype(bool)
        for name, best, lost in (("erode", np.min, np.inf), ("dilate", np.max, -np.inf)):
            fill = {"constant_values": lost} if border == "constant" else {}
            expected = windowed(x, kernel.shape, anchor, border, lambda v, b=best, k=on: b(v[k]), **fill)
            close(getattr(vision, name)(x, kernel, anchor, border=border), expected)


def test_morphology_of_other_types() -> None:
    cross = vision.structuring_element("cross", (3, 3))
    np.testing.assert_array_equal(cross.numpy(), [[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    dot = np.zeros((5, 5), bool)
    dot[2, 2] = True
    grown = vision.dilate(dot, cross, iterations=2)
    distance = np.abs(np.arange(5) - 2)
    np.testing.assert_array_equal(grown.numpy(), distance[:, None] + distance <= 2)
    np.testing.assert_array_equal(vision.erode(grown, cross, iterations=2).numpy(), dot)
    assert vision.erode(np.full((2, 2), 7, np.uint8), np.ones((3, 3))).tolist() == [[7, 7], [7, 7]]
    ellipse = vision.structuring_element("ellipse", (5, 5)).numpy().astype(int)
    np.testing.assert_array_equal(ellipse, [[0, 0, 1, 0, 0], [1] * 5, [1] * 5, [1] * 5, [0, 0, 1, 0, 0]])
    assert vision.structuring_element("rect", (2, 3)).numpy().all()


# ---- boxes and regions -------------------------------------------------------------------------------------------


def suppressed(boxes: Array, scores: Array, iou: float, least: float) -> list[int]:
    """Greedy suppression by a loop."""
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable"):
        if scores[k] >= least and all(overlap(boxes[k], boxes[j]) <= iou for j in kept):
            kept.append(int(k))
    return kept


def overlap(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    shared = float(sides[0] * sides[1])
    areas = [(v[2] - v[0]) * (v[3] - v[1]) for v in (a, b)]
    return shared / float(sum(areas) - shared)


def test_suppression() -> None:
    corners = RNG.uniform(0, 10, size=(30, 2))
    boxes = np.concatenate([corners, corners + RNG.uniform(1, 6, size=(30, 2))], 1)
    scores = RNG.uniform(size=30)
    for iou, least in ((0.5, 0.0), (0.2, 0.3), (0.0, 0.0)):
        expected = suppressed(boxes, scores, iou, least)
        assert vision.nms(boxes, scores, iou, least).tolist() == expected
        assert vision.nms(boxes, scores, iou, least, 3).tolist() == expected[:3]
    assert vision.nms(np.zeros((0, 4)), np.zeros(0)).tolist() == []


def components(mask: Array, connectivity: int) -> Array:
    """Labels by a search from every element."""
    labels = np.zeros(mask.shape, int)
    steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if connectivity == 8 or abs(i) + abs(j) == 1]
    for start in zip(*np.nonzero(mask), strict=True):
        if labels[start]:
            continue
        label, todo = labels.max() + 1, [start]
        while todo:
            at = todo.pop()
            if all(0 <= k < n for k, n in zip(at, mask.shape, strict=True)) and mask[at] and not labels[at]:
                labels[at] = label
                todo += [(at[0] + i, at[1] + j) for i, j in steps]
    return labels


def test_regions_that_share_corners(each_device: Device) -> None:
    mask = RNG.uniform(size=(2, 12, 15)) < 0.4
    with fb.device(each_device):
        found = vision.connected_components(fb.tensor(mask), 8)
    np.testing.assert_array_equal(found.numpy(), [components(m, 8) for m in mask])


def test_regions_that_share_sides() -> None:
    mask = RNG.uniform(size=(12, 15)) < 0.6
    np.testing.assert_array_equal(vision.connected_components(mask).numpy(), components(mask, 4))
    spiral = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]], bool)
    np.testing.assert_array_equal(vision.connected_components(spiral).numpy(), spiral.astype(int))


def test_sizes_of_regions() -> None:
    mask = RNG.uniform(size=(9, 11)) < 0.4
    labels = components(mask, 8)
    found = vision.component_stats(labels).numpy()
    for label, row in enumerate(found, 1):
        y, x = np.nonzero(labels == label)
        assert row.tolist() == [len(y), x.min(), y.min(), x.max(), y.max()]
    assert len(found) == labels.max()
    assert vision.component_stats(labels, 200).numpy()[-1, 0] == 0


# ---- maps of the plane -------------------------------------------------------------------------------------------


def test_maps() -> None:
    x = fb.tensor(IMAGE)
    close(vision.Transform2d.identity()(x), IMAGE, 1e-6)
    turned = vision.Transform2d.rotation(math.pi)(x)
    close(turned, IMAGE[..., ::-1, ::-1], 1e-6)
    flipped = vision.Transform2d.scale(-1.0, 1.0)
    close(flipped(x), IMAGE[..., ::-1], 1e-6)
    there = vision.Transform2d.translation(0.3, -0.2)
    back = vision.Transform2d.translation(-0.3, 0.2)
    close(vision.Transform2d.composed(there, back)(x), IMAGE, 1e-6)
    shift = vision.Transform2d.translation(2 / 7, 0.0).with_padding_mode("border")
    close(shift(x), np.concatenate([IMAGE[..., 1:], IMAGE[..., -1:]], -1), 1e-6)
    a, b = vision.Transform2d.rotation(0.3, 0.5, 0.1), vision.Transform2d.shear(0.2, 0.1, 0.4, 0.3)
    for each, centre in ((a, (0.5, 0.1)), (b, (0.4, 0.3)), (vision.Transform2d.scale(2, 3, 0.2, 0.1), (0.2, 0.1))):
        np.testing.assert_allclose(np.array(each.matrix) @ [*centre, 1.0], centre)
    np.testing.assert_allclose(
        vision.Transform2d.composed(a, b).matrix,
        (np.vstack([b.matrix, [0, 0, 1]]) @ np.vstack([a.matrix, [0, 0, 1]]))[:2],
    )


def test_products_of_channels() -> None:
    flat = IMAGE.reshape(2, 3, -1)
    close(vision.gram_matrix(IMAGE), flat @ flat.transpose(0, 2, 1) / flat[0].size)


def test_bad_input() -> None:
    with pytest.raises(UserError, match="erode: no such border"):
        vision.erode(IMAGE, np.ones((3, 3)), border="wrap")
    with pytest.raises(ShapeError, match="dilate: not a kernel"):
        vision.dilate(IMAGE, np.zeros((3, 3)))
    with pytest.raises(UserError, match="erode: the anchor is outside"):
        vision.erode(IMAGE, np.ones((3, 3)), (3, 0))
    with pytest.raises(UserError, match="structuring_element: no such shape"):
        vision.structuring_element("star", (3, 3))
    with pytest.raises(UserError, match="median_blur: not a size"):
        vision.median_blur(IMAGE, 4)
    with pytest.raises(ShapeError, match="nms: boxes and scores"):
        vision.nms(np.ones((2, 4)), np.ones(3))
    with pytest.raises(UserError, match="connected_components: no such connectivity"):
        vision.connected_components(IMAGE[0, 0] > 0.5, 6)
    with pytest.raises(ShapeError, match="filter2d: too small"):
        vision.filter2d(np.ones((2, 2)), np.ones((5, 5)))
