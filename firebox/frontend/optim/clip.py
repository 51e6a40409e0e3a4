"""Limits for gradients, for loops that step by hand; an optimizer's ``max_norm`` does the same on the flat gradient."""

from collections.abc import Iterable

from firebox.errors import UserError
from firebox.frontend.cells import Param
from firebox.frontend.tensor import Tensor

_EPSILON = 1e-6


def grad_norm(params: Iterable[Param]) -> Tensor:
    """The 2-norm of all gradients together, 0-d.

    Raises:
        UserError: no parameter has a gradient.
    """
    grads = [param.grad for param in params]
    squares = [(grad * grad).sum() for grad in grads if grad is not None]
    if not squares:
        raise UserError("no parameter has a gradient", op="grad_norm", hint="call backward() first")
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return total.sqrt()


def clip_grad_norm_(params: Iterable[Param], max_norm: float) -> Tensor:
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)), as PyTorch; returns the norm before.

    Raises:
        UserError: no parameter has a gradient.
    """
    held = list(params)
    norm = grad_norm(held)
    scale = (max_norm / (norm + _EPSILON)).minimum(1.0)
    for param in held:
        if param.grad is not None:
            param.grad = param.grad * scale.astype(param.dtype)
    return norm


def clip_grad_value_(params: Iterable[Param], limit: float) -> None:
    """Hold each element of the gradients between -limit and limit."""
    for param in params:
        if param.grad is not None:
            param.grad = param.grad.clip(-limit, limit)
