"""Cases of interpolation and sampling; the names are those of `tests/frontend/test_resampling.py`."""

import importlib
import itertools
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def interpolated(**options: Any) -> Any:
    return lambda x: F.interpolate(x, **options)


def sampled(mode: str, padding: str, align: bool) -> Any:
    return lambda x, g: F.grid_sample(x, g, mode, padding, align)


CASES: dict[str, Any] = {
    "nearest_size": (interpolated(size=(5, 9)), (normal(1, 2, 4, 6),)),
    "nearest_factor": (interpolated(scale_factor=2), (normal(1, 2, 3, 4),)),
    "nearest_odd_factor": (interpolated(scale_factor=(1.7, 0.6)), (normal(1, 2, 5, 8),)),
    "nearest_exact": (interpolated(size=(7, 3), mode="nearest-exact"), (normal(1, 2, 4, 5),)),
    "nearest_1d": (interpolated(size=7), (normal(2, 2, 4),)),
    "nearest_3d": (interpolated(size=(3, 2, 5)), (normal(1, 1, 2, 3, 4),)),
    "linear": (interpolated(size=7, mode="linear"), (normal(2, 2, 4),)),
    "linear_corners": (interpolated(size=7, mode="linear", align_corners=True), (normal(2, 2, 4),)),
    "bilinear": (interpolated(size=(7, 3), mode="bilinear"), (normal(1, 2, 4, 5),)),
    "bilinear_corners": (interpolated(size=(7, 1), mode="bilinear", align_corners=True), (normal(1, 2, 4, 5),)),
    "bilinear_factor": (interpolated(scale_factor=(1.3, 0.7), mode="bilinear"), (normal(1, 2, 4, 7),)),
    "trilinear": (interpolated(size=(3, 5, 2), mode="trilinear"), (normal(1, 1, 2, 3, 4),)),
    "bicubic": (interpolated(size=(7, 3), mode="bicubic"), (normal(1, 2, 4, 5),)),
    "bicubic_corners": (interpolated(size=(7, 3), mode="bicubic", align_corners=True), (normal(1, 2, 4, 5),)),
    "bicubic_factor": (interpolated(scale_factor=1.6, mode="bicubic"), (normal(1, 2, 4, 5),)),
    "bilinear_antialias": (interpolated(size=(3, 9), mode="bilinear", antialias=True), (normal(1, 2, 8, 5),)),
    "bicubic_antialias": (interpolated(size=(3, 9), mode="bicubic", antialias=True), (normal(1, 2, 8, 5),)),
    "area": (interpolated(size=(3, 2), mode="area"), (normal(1, 2, 7, 6),)),
    "affine_grid": (lambda t: F.affine_grid(t, (2, 3, 3, 4), False), (normal(2, 2, 3),)),
    "affine_grid_corners": (lambda t: F.affine_grid(t, (2, 3, 2, 3, 1), True), (normal(2, 3, 4),)),
}
GRID = RNG.uniform(-1.6, 1.6, size=(2, 3, 4, 2))
for _mode, _padding, _align in itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
):
    CASES[f"grid_{_mode}_{_padding}{'_corners' * _align}"] = (
        sampled(_mode, _padding, _align),
        (normal(2, 2, 4, 5), GRID),
    )
for _mode in ("bilinear", "nearest"):
    CASES[f"grid3d_{_mode}"] = (
        sampled(_mode, "reflection", False),
        (normal(1, 2, 3, 4, 2), RNG.uniform(-1.5, 1.5, size=(1, 2, 2, 2, 3))),
    )
