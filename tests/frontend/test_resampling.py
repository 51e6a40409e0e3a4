"""Interpolation and sampling at positions, against recorded values and gradients of PyTorch."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions.grid_sample import affine_grid, grid_sample
from firebox.frontend.functions.interpolate import interpolate
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(23)


def interpolated(**options: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: interpolate(x, **options)


def sampled(mode: Any, padding: Any, align: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, grid: grid_sample(x, grid, mode, padding, align)


CASES: dict[str, Callable[..., Tensor]] = {
    "nearest_size": interpolated(size=(5, 9)),
    "nearest_factor": interpolated(scale_factor=2),
    "nearest_odd_factor": interpolated(scale_factor=(1.7, 0.6)),
    "nearest_exact": interpolated(size=(7, 3), mode="nearest-exact"),
    "nearest_1d": interpolated(size=7),
    "nearest_3d": interpolated(size=(3, 2, 5)),
    "linear": interpolated(size=7, mode="linear"),
    "linear_corners": interpolated(size=7, mode="linear", align_corners=True),
    "bilinear": interpolated(size=(7, 3), mode="bilinear"),
    "bilinear_corners": interpolated(size=(7, 1), mode="bilinear", align_corners=True),
    "bilinear_factor": interpolated(scale_factor=(1.3, 0.7), mode="bilinear"),
    "trilinear": interpolated(size=(3, 5, 2), mode="trilinear"),
    "bicubic": interpolated(size=(7, 3), mode="bicubic"),
    "bicubic_corners": interpolated(size=(7, 3), mode="bicubic", align_corners=True),
    "bicubic_factor": interpolated(scale_factor=1.6, mode="bicubic"),
    "bilinear_antialias": interpolated(size=(3, 9), mode="bilinear", antialias=True),
    "bicubic_antialias": interpolated(size=(3, 9), mode="bicubic", antialias=True),
    "area": interpolated(size=(3, 2), mode="area"),
    "affine_grid": lambda theta: affine_grid(theta, (2, 3, 3, 4)),
    "affine_grid_corners": lambda theta: affine_grid(theta, (2, 3, 2, 3, 1), True),
    "grid3d_bilinear": sampled("bilinear", "reflection", False),
    "grid3d_nearest": sampled("nearest", "reflection", False),
}
for _mode, _padding, _align in itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
):
    CASES[f"grid_{_mode}_{_padding}{'_corners' * _align}"] = sampled(_mode, _padding, _align)


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("resampling"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("resampling", name, CASES[name])


def test_lanczos() -> None:
    """Against the sum over six neighbours, their weights made to add up to 1."""
    x = RNG.normal(size=(1, 2, 6, 5))
    expected = x
    for axis, out in ((2, 9), (3, 3)):
        size = expected.shape[axis]
        source = (np.arange(out) + 0.5) * size / out - 0.5
        at = np.floor(source).astype(int)[:, None] + np.arange(-2, 4)
        weight = np.sinc(source[:, None] - at) * np.sinc((source[:, None] - at) / 3)
        weight /= weight.sum(1, keepdims=True)
        matrix = np.zeros((out, size))
        np.add.at(matrix, (np.arange(out)[:, None], np.clip(at, 0, size - 1)), weight)
        expected = np.moveaxis(np.tensordot(expected, matrix, (axis, 1)), -1, axis)
    function = interpolated(size=(9, 3), mode="lanczos")
    np.testing.assert_allclose(function(tensor(x)).numpy(), expected, rtol=1e-9, atol=1e-11)
    check_gradient(function, x)


def test_lanczos_with_antialias_keeps_constants() -> None:
    x = tensor(np.full((1, 1, 9, 7), 2.5))
    found = interpolate(x, (3, 11), mode="lanczos", antialias=True)
    np.testing.assert_allclose(found.numpy(), np.full((1, 1, 3, 11), 2.5), rtol=1e-12)


def test_other_types() -> None:
    image = np.arange(6, dtype=np.int32).reshape(1, 1, 2, 3)
    found = interpolate(tensor(image), (3, 4))
    np.testing.assert_array_equal(found.numpy(), image[:, :, [0, 0, 1]][:, :, :, [0, 0, 1, 2]])
    half = interpolate(tensor(RNG.normal(size=(1, 1, 4, 4)).astype(np.float16)), (8, 8), mode="bicubic")
    assert half.dtype.name == "f16"


def test_what_does_not_fit() -> None:
    x = tensor(np.ones((1, 1, 4, 4)))
    with pytest.raises(UserError, match="no such mode"):
        interpolate(x, 8, mode="quadratic")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="1 spatial dims for mode 'linear'"):
        interpolate(x, 8, mode="linear")
    with pytest.raises(UserError, match="needs size or scale_factor"):
        interpolate(x)
    with pytest.raises(UserError, match="does not take align_corners"):
        interpolate(x, 8, align_corners=True)
    with pytest.raises(UserError, match="does not take antialias"):
        interpolate(x, 8, antialias=True)
    with pytest.raises(DTypeError, match="must be floating"):
        interpolate(tensor(np.ones((1, 1, 4, 4), np.int32)), 8, mode="bilinear")
    with pytest.raises(ShapeError, match="bad scale_factor"):
        interpolate(x, scale_factor=-1.0)
    grid = tensor(np.zeros((1, 2, 2, 2)))
    with pytest.raises(UserError, match="no such padding_mode"):
        grid_sample(x, grid, padding_mode="circular")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="the grid does not fit"):
        grid_sample(x, tensor(np.zeros((1, 2, 2, 3))))
    with pytest.raises(ShapeError, match="theta does not fit"):
        affine_grid(tensor(np.ones((1, 3, 3))), (1, 1, 4, 4))
