"""Cases of pooling; the names are those of `tests/frontend/test_pooling.py`."""

import importlib
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(2)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


CASES = {
    "max1d": (lambda x: F.max_pool1d(x, 3, 2, 1, 1, True), (normal(2, 3, 8),)),
    "max2d_ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, 2, True), (normal(2, 2, 7, 8),)),
    "max3d": (lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0)), (normal(1, 2, 4, 5, 6),)),
    "max3d_ceil": (lambda x: F.max_pool3d(x, 2, 2, 1, 1, True), (normal(1, 2, 3, 4, 5),)),
    "places1d": (lambda x: F.max_pool1d(x, 3, 2, 1, 1, True, True)[1], (normal(2, 3, 8),)),
    "places2d": (lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2), False, True)[1], (normal(2, 2, 7, 6),)),
    "places3d": (lambda x: F.max_pool3d(x, 2, 2, 1, 1, True, True)[1], (normal(1, 2, 3, 4, 5),)),
    "unpool1d": (lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, 2, return_indices=True), 2, 2), (normal(2, 3, 8),)),
    "unpool2d": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, return_indices=True), 2, 2, 0, (5, 7)),
        (normal(1, 2, 5, 7),),
    ),
    "unpool3d": (lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, 2, return_indices=True), 2, 2), (normal(1, 2, 2, 4, 4),)),
    "avg1d": (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), (normal(2, 3, 8),)),
    "avg2d_ceil": (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, True, True), (normal(1, 2, 7, 6),)),
    "avg2d_ceil_real": (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, True, False), (normal(1, 2, 7, 6),)),
    "avg2d_divisor": (lambda x: F.avg_pool2d(x, 2, 1, 1, False, True, 3), (normal(1, 2, 3, 4),)),
    "avg3d": (lambda x: F.avg_pool3d(x, 3, 2, 1, True, False), (normal(1, 2, 4, 5, 4),)),
    "lp1d": (lambda x: F.lp_pool1d(x, 2, 3, 2), (normal(2, 3, 8),)),
    "lp2d": (lambda x: F.lp_pool2d(x, 3.0, 2, 2), (np.abs(normal(1, 2, 5, 4)) + 0.1,)),
    "lp3d": (lambda x: F.lp_pool3d(x, 2, 2), (normal(1, 1, 4, 4, 4),)),
    "adaptive_avg1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (normal(2, 3, 8),)),
    "adaptive_avg2d": (lambda x: F.adaptive_avg_pool2d(x, (None, 4)), (normal(2, 3, 3, 7),)),
    "adaptive_avg3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)), (normal(1, 2, 3, 4, 5),)),
    "adaptive_max1d": (lambda x: F.adaptive_max_pool1d(x, 3), (normal(2, 3, 8),)),
    "adaptive_max2d": (lambda x: F.adaptive_max_pool2d(x, (4, 3)), (normal(2, 3, 6, 7),)),
    "adaptive_max3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), (normal(1, 2, 3, 4, 5),)),
    "adaptive_places2d": (lambda x: F.adaptive_max_pool2d(x, (4, 3), True)[1], (normal(2, 3, 6, 7),)),
    "adaptive_places3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2), True)[1], (normal(1, 2, 3, 4, 5),)),
}
