"""Cases of normalisation; the names are those of `tests/frontend/test_more_normalization.py`."""

import importlib
from typing import Any

import numpy as np

torch: Any = importlib.import_module("torch")
F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(6)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


CASES: dict[str, Any] = {
    "local_response_odd": (lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0), (normal(2, 5, 3),)),
    "local_response_even": (lambda x: F.local_response_norm(x, 4), (normal(2, 5, 3, 2),)),
    "instance": (lambda x, w, b: F.instance_norm(x, None, None, w, b), (normal(2, 3, 4, 2), normal(3), normal(3))),
    "group3d": (lambda x, w, b: F.group_norm(x, 2, w, b), (normal(2, 4, 2, 3, 2), normal(4), normal(4))),
    "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), (normal(3, 4, 2), normal(3, 1, 1))),
    "weight_norm_last": (lambda v, g: torch._weight_norm(v, g, 1), (normal(3, 4), normal(1, 4))),
}
