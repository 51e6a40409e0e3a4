"""Dropout, the one function that draws random numbers."""

from firebox.dtypes import u32
from firebox.errors import UserError
from firebox.frontend import random
from firebox.frontend.functions.support import require_float
from firebox.frontend.random import Generator
from firebox.frontend.tensor import Tensor

_WORDS = 1 << 32


def dropout(x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Each element 0 with probability ``p``, else scaled by 1 / (1 - p); the input itself when not training.

    Raises:
        UserError: ``p`` is not a probability. DTypeError: x is not floating.
    """
    check_probability("dropout", p)
    if not training or p == 0:
        return x
    require_float("dropout", x)
    threshold = round(p * _WORDS)
    if threshold >= _WORDS:
        return x * 0.0
    words = random.bits(x.shape, x.device, generator)
    kept = words >= words.literal(threshold, u32)
    return kept.where(x * (1.0 / (1.0 - p)), 0.0)


def check_probability(op: str, p: float) -> None:
    """Raises UserError unless ``0 <= p <= 1``."""
    if not 0.0 <= p <= 1.0:
        raise UserError("not a probability", op=op, expected="0 <= p <= 1", found=p)
