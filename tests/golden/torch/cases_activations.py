"""Cases of activations; the names are those of `tests/frontend/test_activations.py`."""

import importlib
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
X = np.array([-7.0, -4.0, -1.5, -0.5, -0.3, 0.2, 0.5, 0.9, 2.5, 4.0])

CASES: dict[str, Any] = {
    "threshold": (lambda x: F.threshold(x, 0.3, -2.0), (X,)),
    "tanh_shrink": (F.tanhshrink, (X,)),
    "hard_shrink": (lambda x: F.hardshrink(x, 0.4), (X,)),
    "soft_shrink": (lambda x: F.softshrink(x, 0.4), (X,)),
    "hard_sigmoid": (F.hardsigmoid, (X,)),
    "hard_swish": (F.hardswish, (X,)),
    "rrelu_eval": (F.rrelu, (X,)),
    "softmin": (lambda x: F.softmin(x, 1), (X.reshape(2, 5),)),
    "prelu": (F.prelu, (X.reshape(2, 5), np.array([0.1, 0.2, 0.3, 0.4, 0.5]))),
    "glu": (lambda x: F.glu(x, 0), (X.reshape(2, 5),)),
    "swiglu": (lambda x: F.silu(x[:1]) * x[1:], (X.reshape(2, 5),)),
    "gelu": (F.gelu, (X,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "mish": (F.mish, (X,)),
    "celu": (lambda x: F.celu(x, 0.7), (X,)),
    "log_sigmoid": (F.logsigmoid, (X,)),
}
