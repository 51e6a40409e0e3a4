"""Cases of attention; the names are those of `tests/frontend/test_attention.py`."""

import importlib
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def attention(**options: Any) -> Any:
    return lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options)


NONE_SEEN = np.array([[True, False, True], [False, False, False]])
HEADS = RNG.uniform(size=(4, 2, 3)) < 0.7
QKV = (normal(2, 4, 2, 3), normal(2, 4, 3, 3), normal(2, 4, 3, 5))
GROUPED = (normal(2, 4, 2, 3), normal(2, 2, 3, 3), normal(2, 2, 3, 5))

CASES: dict[str, Any] = {
    "plain": (attention(scale=0.3), QKV),
    "flat": (attention(), (normal(2, 3), normal(4, 3), normal(4, 2))),
    "causal": (attention(is_causal=True), QKV),
    "nothing_seen": (attention(), (*QKV, NONE_SEEN)),
    "heads_mask": (attention(), (*QKV, HEADS)),
    "float_mask": (attention(), (*QKV, normal(2, 1, 2, 3))),
    "grouped": (attention(enable_gqa=True), GROUPED),
    "grouped_causal": (attention(enable_gqa=True, is_causal=True), GROUPED),
    "grouped_mask": (attention(enable_gqa=True), (*GROUPED, HEADS)),
    "grouped_one_mask": (attention(enable_gqa=True), (*GROUPED, normal(2, 1, 2, 3))),
}
