"""A loss over two devices, and how its values are compared."""

from typing import Any

import numpy as np

import firebox as fb

HERE = fb.Device("cpu")
XS = np.array([0.1, 0.2, 0.3], np.float32)
WS = np.array([0.5, -0.4, 0.7], np.float32)
VS = np.array([1.0, 2.0, 0.3], np.float32)


def on_both(x: Any, w: Any, v: Any) -> Any:
    """A loss whose values go to the device of ``v`` and back; ``h`` is used on both sides."""
    h = (x * w).tanh()
    y = h.to(v.device) * v
    z = y.exp().to(x.device) + h
    return (z * w).sum()


def tensors(there: fb.Device, requires_grad: bool = False) -> list[fb.Tensor]:
    places = (HERE, HERE, there)
    return [fb.tensor(a, device=d, requires_grad=requires_grad) for a, d in zip((XS, WS, VS), places, strict=True)]


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
