"""Values and gradients that PyTorch gave, from `tests/golden/torch` (see ``make.py`` there), and the comparison."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firebox.frontend import execute
from firebox.frontend.tensor import Tensor, tensor

Array = npt.NDArray[Any]
_FOLDER = Path(__file__).parents[1] / "golden" / "torch"


@lru_cache
def _arrays(topic: str) -> dict[str, Array]:
    with np.load(_FOLDER / f"{topic}.npz") as file:
        return dict(file)


def cases(topic: str) -> list[str]:
    """The names of all recorded cases of a topic."""
    return list(dict.fromkeys(key.split("/")[0] for key in _arrays(topic)))


def check(topic: str, name: str, function: Callable[..., Tensor], rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Assert that a function gives the recorded value, and for the recorded cotangent the recorded gradients."""
    arrays = _arrays(topic)
    operands: list[Tensor] = []
    while f"{name}/{len(operands)}" in arrays:
        array = arrays[f"{name}/{len(operands)}"]
        operands.append(tensor(array, requires_grad=array.dtype == np.float64))
    result = function(*operands)
    expected = arrays[f"{name}/result"]
    assert result.shape == expected.shape
    if f"{name}/ct" in arrays:
        (result * tensor(arrays[f"{name}/ct"])).sum().backward()
        grads = [operand.grad for operand in operands]
        execute.flush()  # values and gradients as one program
        for k, grad in enumerate(grads):
            wanted = arrays.get(f"{name}/grad{k}")
            assert (grad is None) <= (wanted is None or not wanted.any()), f"operand {k} has no gradient"
            if grad is not None and wanted is not None:
                np.testing.assert_allclose(grad.numpy(), wanted, rtol, atol, err_msg=f"gradient of operand {k}")
    np.testing.assert_allclose(result.numpy(), expected, rtol, atol)
