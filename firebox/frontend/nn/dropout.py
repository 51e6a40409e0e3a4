"""`Dropout`."""

from firebox.frontend.functions.dropout import check_probability, dropout
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class Dropout(Module):
    """In training each element is 0 with probability ``p``, the others are scaled by 1 / (1 - p); else the input."""

    def __init__(self, p: float = 0.5) -> None:
        check_probability("Dropout", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
