"""Convolutions and their gradients in native code: strides, padding, dilation, groups, under all kinds of schedules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.ops.contract_spec import (
    conv_spec,
    conv_transpose_spec,
    infer_sizes,
    parse_spec,
    transpose_spec,
)
from firebox.dims import parse
from tests.lowering.generate.contractions import check, scheduled, values
from tests.programs import parse_aval

Ints = tuple[int, ...]


def text(shape: Sequence[Any], dtype: str = "f32") -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def check_all(spec: str, x: str, w: str, out: Sequence[int], symbolic: bool = False, **dim_values: int) -> None:
    """The contraction and both of its gradients."""
    known = {f"y{k}": size for k, size in enumerate(out)}
    check(lambda a, b: contract(a, b, spec, known), x, w, **dim_values)
    parsed, shapes = parse_spec(spec), (parse_aval(x).shape, parse_aval(w).shape)
    sizes = infer_sizes(parsed, *shapes, known)
    extents = dict(zip(parsed.names, sizes, strict=True))
    cotangent = text([extents[name] for name in parsed.out])
    for side, pair in enumerate(((cotangent, w), (x, cotangent))):
        moved = transpose_spec(parsed, side, shapes[side], sizes)
        check(lambda a, b: a.one("contract", a, b, spec=str(moved.spec), sizes=moved.sizes), *pair, **dim_values)  # noqa: B023


def positions(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3)])
def test_one_dim(stride: int, dilation: int, padding: int) -> None:
    out = positions(19, 3, stride, padding, dilation)
    check_all(conv_spec((stride,), (padding,), (dilation,)), "f32[2, 3, 19]", "f32[17, 3, 3]", [out])


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "kernel"),
    [
        ((1, 1), (1, 1), (1, 1), (3, 3)),
        ((2, 2), (1, 1), (1, 1), (3, 3)),
        ((1, 2), (0, 2), (2, 1), (2, 4)),
        ((1, 1), (0, 0), (1, 1), (1, 1)),
        ((2, 2), (0, 0), (1, 1), (1, 1)),
        ((4, 4), (0, 0), (1, 1), (4, 4)),
    ],
)
@pytest.mark.parametrize("channels", [(1, 16), (5, 20)], ids=str)
def test_two_dims(stride: Ints, padding: Ints, dilation: Ints, kernel: Ints, channels: tuple[int, int]) -> None:
    inner, outer = channels
    sizes = zip((8, 9), kernel, stride, padding, dilation, strict=True)
    x, w = (3, inner, 8, 9), (outer, inner, *kernel)
    check_all(conv_spec(stride, padding, dilation), text(x), text(w), [positions(*s) for s in sizes])


def test_three_dims() -> None:
    spec = conv_spec((1, 2, 1), (1, 0, 1), (1, 1, 1))
    check_all(spec, "f32[1, 2, 5, 6, 7]", "f32[4, 2, 3, 2, 3]", [5, 3, 7])


@pytest.mark.parametrize(("groups", "inner", "outer"), [(3, 1, 1), (2, 3, 17), (16, 1, 2)])
def test_groups(groups: int, inner: int, outer: int) -> None:
    spec = conv_spec((1, 1), (1, 1), (1, 1), groups=True)
    check_all(spec, text((2, groups, inner, 6, 9)), text((groups, outer, inner, 3, 3)), [6, 9])


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 0, 2), (2, 2, 1)])
def test_transposed(stride: int, padding: int, dilation: int) -> None:
    out = (7 - 1) * stride - 2 * padding + dilation * 2 + 1
    spec = conv_transpose_spec((stride,), (padding,), (dilation,))
    check_all(spec, "f32[2, 5, 7]", "f32[5, 18, 3]", [out])


@pytest.mark.parametrize("batch", [1, 5, 16])
def test_symbolic_batch(batch: int) -> None:
    check_all(conv_spec((1, 1), (1, 1), (1, 1)), "f32[b, 3, 8, 8]", "f32[16, 3, 3, 3]", [8, 8], b=batch)


def test_symbolic_positions() -> None:
    known = {"y0": parse("b"), "y1": 6}
    spec = conv_spec((1, 1), (1, 1), (1, 1))
    check(lambda a, b: contract(a, b, spec, known), "f32[2, 3, b, 6]", "f32[5, 3, 3, 3]", b=7)


@pytest.mark.parametrize("dtype", ["f64", "bf16", "i32"])
def test_types(dtype: str) -> None:
    spec, known = conv_spec((2, 1), (1, 1), (1, 1)), {"y0": 4, "y1": 8}
    pair = text((2, 3, 8, 8), dtype), text((9, 3, 3, 3), dtype)
    check(lambda a, b: contract(a, b, spec, known), *pair, tolerance=1e-2 if dtype == "bf16" else 1e-12)


@pytest.mark.parametrize("size", [(1, 16), (4, 20)], ids=str)
def test_bias_and_rectifier(size: tuple[int, int]) -> None:
    inner, outer = size
    spec, known = conv_spec((1, 1), (1, 1), (1, 1)), {"y0": 8, "y1": 8}

    def layer(x: Any, w: Any, b: Any, r: Any) -> list[Any]:
        y = contract(x, w, spec, known) + b
        return [y.maximum(y.literal(0.0)), y.tanh() + r]

    check(layer, text((3, inner, 8, 8)), text((outer, inner, 3, 3)), text((outer, 1, 1)), text((3, outer, 8, 8)))


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "lane=d1 lanes=16 tile=7x16 rows=d3 blocks=d0:1 pack=0x1x2",
        "lane=d1 lanes=16 tile=2x7x16 rows=d2,d3 blocks=d0:1,d2:4 pack=0x1x2",
        "lane=d1 lanes=16 tile=4x32 rows=d2 blocks=d0:2,d1:32 pack=0x1x2",
        "lane=d1 lanes=16 tile=5x16 rows=d3 blocks=d0:1,r0:2 pack=0x1x2",
        "lane=d3 lanes=16 tile=4x16 rows=d1 blocks=d0:1 pack=0",
        "lane=d3 lanes=16 tile=3x16 rows=d2 blocks=d1:4,d2:6,r0:3 pack=0x2",
        "lane=d0 lanes=16 tile=3x16 rows=d1 blocks=d1:9,d2:5 pack=0x2",
        "lane=d2 lanes=8 tile=2x8 rows=d3 pack=2",
    ],
)
def test_every_way_of_cutting_gives_the_convolution(schedule: str) -> None:
    specs = ["f32[3, 5, 11, 14]", "f32[20, 5, 3, 3]"]
    known = {"y0": 11, "y1": 14}
    x, w = (values(s, k).astype(np.float64) for k, s in enumerate(specs))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(
        np.einsum("nchw,oc->nohw", padded[:, :, i : i + 11, j : j + 14], w[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    spec = conv_spec((1, 1), (1, 1), (1, 1))
    (found,) = scheduled(lambda a, b: contract(a, b, spec, known), specs, schedule)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "lane=d0 lanes=16 tile=3x3x16 rows=d2,d3 blocks=d1:1,r0:2 pack=0x1x2",
        "lane=d0 lanes=16 tile=3x16 rows=d1 blocks=r0:1,r1:4 pack=0x1x2",
        "lane=d1 lanes=16 tile=4x3x16 rows=d0,d3 blocks=d0:8,d2:1,r0:2 pack=0x2",
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_of_cutting_gives_the_gradient_of_the_weights(schedule: str, threads: int) -> None:
    specs = ["f32[5, 4, 7, 9]", "f32[5, 20, 7, 9]"]
    x, dy = (values(s, k).astype(np.float64) for k, s in enumerate(specs))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.empty((20, 4, 3, 3))
    for i, j in np.ndindex(3, 3):
        expected[:, :, i, j] = np.einsum("nchw,nohw->oc", padded[:, :, i : i + 7, j : j + 9], dy)
    spec = "n c y0+k0-1 y1+k1-1, n o y0 y1 -> o c k0 k1"
    known = {"k0": 3, "k1": 3}
    (found,) = scheduled(lambda a, b: contract(a, b, spec, known), specs, schedule, threads)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
