"""Cases of convolutions, and of what moves windows; the names are those of `tests/frontend/test_convolution.py`."""

import importlib
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(1)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


CASES = {
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2, 2), (normal(2, 4, 9), normal(6, 2, 3), normal(6))),
    "conv2d_depthwise": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3), (normal(1, 3, 4, 5), normal(6, 1, 3, 3))),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b), (normal(2, 2, 3, 4, 5), normal(3, 2, 2, 3, 2), normal(3))),
    "conv3d_all": (
        lambda x, w, b: F.conv3d(x, w, b, (2, 1, 2), (1, 0, 1), (1, 2, 1), 2),
        (normal(1, 4, 4, 5, 4), normal(4, 2, 2, 2, 3), normal(4)),
    ),
    "conv3d_same": (lambda x, w: F.conv3d(x, w, padding="same"), (normal(1, 1, 3, 4, 3), normal(2, 1, 2, 3, 3))),
    "conv2d_asymmetric": (
        lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 3)), w, stride=(2, 1)),
        (normal(1, 2, 4, 5), normal(3, 2, 3, 2)),
    ),
    "conv2d_reflect": (
        lambda x, w: F.conv2d(F.pad(x, (1, 1, 2, 2), mode="reflect"), w),
        (normal(1, 2, 4, 5), normal(3, 2, 5, 3)),
    ),
    "conv_transpose1d": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, 3, 1, 2, 2, 2),
        (normal(2, 4, 5), normal(4, 3, 3), normal(6)),
    ),
    "conv_transpose2d_groups": (
        lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
        (normal(1, 4, 3, 3), normal(4, 2, 3, 2)),
    ),
    "conv_transpose3d": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, (2, 1, 2), 1, (1, 0, 0)),
        (normal(1, 2, 3, 3, 2), normal(2, 2, 3, 2, 3), normal(2)),
    ),
    "pad_reflect": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), (normal(1, 2, 3, 4),)),
    "pad_replicate": (lambda x: F.pad(x, (2, 0, 1, 3), mode="replicate"), (normal(1, 2, 3, 4),)),
    "pad_circular": (lambda x: F.pad(x, (4, 1, 0, 3), mode="circular"), (normal(1, 2, 3, 4),)),
    "pad_replicate3d": (lambda x: F.pad(x, (1, 2, 2, 1, 0, 1), mode="replicate"), (normal(1, 1, 2, 2, 3),)),
    "unfold": (lambda x: F.unfold(x, (3, 2), (1, 2), (2, 1), (2, 1)), (normal(2, 3, 5, 6),)),
    "fold": (lambda x: F.fold(x, (5, 6), (3, 2), (1, 2), (2, 1), (2, 1)), (normal(2, 18, 24),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (normal(2, 8, 2, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (normal(2, 2, 4, 6),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), (normal(2, 6, 2, 2),)),
}
