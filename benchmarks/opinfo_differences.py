"""Where Firebox answers differently from PyTorch on purpose: what of the results is compared, and how near they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def everything(result: Any) -> Any:
    return result


def first(result: Any) -> Any:
    """The first of several results: the values without the indices."""
    return result[0] if isinstance(result, tuple | list) else result


def second(result: Any) -> Any:
    """The second of several results."""
    return result[1]


@dataclass(frozen=True)
class Difference:
    """Why one op is compared in its own way.

    Attributes:
        reason: in words, for the table; "" for the usual comparison.
        values: which of the results are compared.
        near: relative and absolute tolerance.
        gradients: whether gradients are compared.
    """

    reason: str
    values: Callable[[Any], Any] = everything
    near: float = 1e-5
    gradients: bool = True


_UNPOOLED = "PyTorch's samples repeat indices, which have no order; gradients are compared in the variant grad"
_TRIANGLE = "PyTorch's derivative is that by a whole symmetric matrix, of which it reads one triangle"

DIFFERENCES: dict[str, Difference] = {
    "cummax": Difference("values only, no positions", first),
    "cummin": Difference("values only, no positions", first),
    "mode": Difference("values only; the second result is how often, not where", first),
    "nn.functional.max_unpool1d": Difference(_UNPOOLED, gradients=False),
    "nn.functional.max_unpool2d": Difference(_UNPOOLED, gradients=False),
    "nn.functional.max_unpool3d": Difference(_UNPOOLED, gradients=False),
    "svd": Difference("singular values only: vectors have two signs", second),
    "linalg.svd": Difference("singular values only: vectors have two signs", second),
    "linalg.eigh": Difference(f"eigenvalues only: vectors have two signs; {_TRIANGLE}", first, gradients=False),
    "linalg.eigvalsh": Difference(_TRIANGLE, gradients=False),
    "linalg.pinv hermitian": Difference(_TRIANGLE, gradients=False),
    "linalg.lstsq": Difference("the solution only", first),
    "linalg.lstsq grad_oriented": Difference("the solution only", first),
    "nextafter": Difference("made of bits, so no derivative flows", gradients=False),
    "nn.functional.ctc_loss": Difference(
        "values only: PyTorch's derivative is that by the logits before log_softmax", gradients=False
    ),
}
