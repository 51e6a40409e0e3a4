"""Convolutions and their gradients on GPUs: strides, padding, dilation, groups, depthwise, transposed."""

from typing import Any

import pytest

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.ops.contract_spec import conv_spec, conv_transpose_spec
from firebox.dims import parse
from tests.lowering.gpu.contractions import check, check_with_gradients, chosen, text

Ints = tuple[int, ...]


def positions(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (3, 1), (2, 3)])
def test_one_dim(stride: int, dilation: int, padding: int) -> None:
    out = positions(19, 3, stride, padding, dilation)
    check_with_gradients(conv_spec((stride,), (padding,), (dilation,)), "f32[2, 3, 19]", "f32[17, 3, 3]", [out])


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "kernel"),
    [
        ((1, 1), (1, 1), (1, 1), (3, 3)),
        ((2, 2), (1, 1), (1, 1), (3, 3)),
        ((1, 2), (0, 2), (2, 1), (2, 4)),
        ((1, 1), (0, 0), (1, 1), (1, 1)),
        ((4, 4), (0, 0), (1, 1), (4, 4)),
    ],
)
@pytest.mark.parametrize("channels", [(1, 16), (12, 20)], ids=str)
def test_two_dims(stride: Ints, padding: Ints, dilation: Ints, kernel: Ints, channels: tuple[int, int]) -> None:
    inner, outer = channels
    sizes = zip((8, 9), kernel, stride, padding, dilation, strict=True)
    x, w = (3, inner, 8, 9), (outer, inner, *kernel)
    out = [positions(*s) for s in sizes]
    check_with_gradients(conv_spec(stride, padding, dilation), text(x), text(w), out)


def test_three_dims() -> None:
    spec = conv_spec((1, 2, 1), (1, 0, 1), (1, 1, 1))
    check_with_gradients(spec, "f32[1, 2, 5, 6, 7]", "f32[9, 2, 3, 2, 3]", [5, 3, 7])


@pytest.mark.parametrize(("groups", "inner", "outer"), [(3, 1, 1), (2, 3, 17), (16, 1, 2), (2, 10, 10)])
def test_groups(groups: int, inner: int, outer: int) -> None:
    spec = conv_spec((1, 1), (1, 1), (1, 1), groups=True)
    x, w = text((2, groups, inner, 6, 8)), text((groups, outer, inner, 3, 3))
    check_with_gradients(spec, x, w, [6, 8])


def test_depthwise_sums_on_its_own() -> None:
    """Many groups of one row each: no tile, no sharing; four results at a time where their lines are whole."""
    spec, known = conv_spec((1, 1), (1, 1), (1, 1), groups=True), {"y0": 56, "y1": 56}
    schedule = chosen(lambda a, b: contract(a, b, spec, known), "f32[32, 64, 1, 56, 56]", "f32[64, 1, 1, 3, 3]")
    assert (schedule.template, schedule.lanes) == ("gpu-window", 4)
    given = "template=gpu-window lanes=4 group=64"
    known = {"y0": 6, "y1": 8}
    check(lambda a, b: contract(a, b, spec, known), "f32[2, 3, 1, 6, 8]", "f32[3, 1, 1, 3, 3]", schedule=given)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 0, 2)])
def test_transposed(stride: int, padding: int, dilation: int) -> None:
    out = (7 - 1) * stride - 2 * padding + dilation * 2 + 1
    spec = conv_transpose_spec((stride,), (padding,), (dilation,))
    check_with_gradients(spec, "f32[2, 12, 7]", "f32[12, 18, 3]", [out])


def test_channels_last() -> None:
    spec = "n y0+k0-1 y1+k1-1 c, o k0 k1 c -> n y0 y1 o"
    check_with_gradients(spec, "f32[2, 7, 6, 12]", "f32[20, 3, 3, 12]", [7, 6])


@pytest.mark.parametrize("batch", [1, 5])
def test_symbolic_batch(batch: int) -> None:
    spec = conv_spec((1, 1), (1, 1), (1, 1))
    check_with_gradients(spec, "f32[b, 3, 8, 8]", "f32[16, 3, 3, 3]", [8, 8], b=batch)


def test_symbolic_positions() -> None:
    known = {"y0": parse("b"), "y1": 6}
    spec = conv_spec((1, 1), (1, 1), (1, 1))
    check(lambda a, b: contract(a, b, spec, known), "f32[2, 3, b, 6]", "f32[5, 3, 3, 3]", b=7)


@pytest.mark.parametrize("dtype", ["f64", "bf16", "i32"])
def test_types(dtype: str) -> None:
    spec = conv_spec((2, 1), (1, 1), (1, 1))
    x, w = text((2, 3, 8, 8), dtype), text((9, 3, 3, 3), dtype)
    check_with_gradients(spec, x, w, [4, 8], tolerance=1e-2 if dtype == "bf16" else 1e-12)


def test_bias_and_rectifier() -> None:
    spec, known = conv_spec((1, 1), (1, 1), (1, 1)), {"y0": 8, "y1": 8}

    def layer(x: Any, w: Any, b: Any, r: Any) -> list[Any]:
        y = contract(x, w, spec, known) + b
        return [y.maximum(y.literal(0.0)), y.tanh() + r]

    check(layer, "f32[3, 4, 8, 8]", "f32[20, 4, 3, 3]", "f32[20, 1, 1]", "f32[3, 20, 8, 8]")


@pytest.mark.parametrize(
    "schedule",
    [
        "template=gpu-contract tile=64x64x16x8x4 group=128",
        "template=gpu-contract tile=16x64x8x2x4 group=128",
        "template=gpu-contract tile=32x32x16x4x4 group=64 split=3",
        "template=gpu-window group=64 lanes=1",
    ],
)
def test_every_tile_gives_the_convolution(schedule: str) -> None:
    spec = conv_spec((1, 1), (1, 1), (1, 1))
    check_with_gradients(spec, "f32[3, 9, 11, 14]", "f32[20, 9, 3, 3]", [11, 14], schedule=schedule, tolerance=1e-4)
