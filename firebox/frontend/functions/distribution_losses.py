"""Losses that are log-likelihoods and distances of distributions; semantics are PyTorch's."""

import math
from typing import Literal

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.support import (
    A,
    Reduction,
    equals,
    one_node,
    reduce_loss,
    require_float,
    require_same_shape,
    shape_text,
)


@one_node
def kl_div(
    log_input: A, target: A, reduction: Reduction | Literal["batchmean"] = "mean", log_target: bool = False
) -> A:
    """target * (log(target) - log_input) with 0 where the target is 0.

    Args:
        reduction: also ``"batchmean"``, the sum divided by the size of axis 0: the divergence itself.
        log_target: ``target`` holds logarithms.
    """
    require_same_shape("kl_div", log_input, target)
    if log_target:
        losses = target.exp() * (target - log_input)
    else:
        zero = equals(target, 0)
        losses = zero.where(0.0, target * (zero.where(1.0, target).log() - log_input))
    if reduction != "batchmean":
        return reduce_loss("kl_div", losses, reduction)
    return losses.sum() / losses.size_of(losses.shape[0] if losses.rank else 1)


@one_node
def poisson_nll_loss(
    input: A,
    target: A,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> A:
    """-log of the Poisson probability of ``target``: exp(input) - target * input, or with rates as ``input``.

    Args:
        log_input: ``input`` are logarithms of rates; else input - target * log(input + eps).
        full: with Stirling's approximation of log(target!), where the target is above 1.
    """
    require_float("poisson_nll_loss", input)
    require_same_shape("poisson_nll_loss", input, target)
    goal = target.astype(input.dtype)
    losses = input.exp() - goal * input if log_input else input - goal * (input + eps).log()
    if full:
        large = goal > 1.0
        safe = large.where(goal, 1.0)
        losses = losses + large.where(safe * safe.log() - safe + (safe * (2.0 * math.pi)).log() * 0.5, 0.0)
    return reduce_loss("poisson_nll_loss", losses, reduction)


@one_node
def gaussian_nll_loss(
    input: A, target: A, variance: A, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean"
) -> A:
    """(log(variance) + (input - target)^2 / variance) / 2, the variance held at ``eps`` or above.

    Args:
        variance: of the shape of ``input``, or of 1 in the last dim, or without it.
        full: with the constant log(2 pi) / 2.

    Raises:
        ShapeError: shapes that do not fit. UserError: ``eps`` is not positive. DTypeError: the input is not floating.
    """
    op = "gaussian_nll_loss"
    require_float(op, input)
    require_same_shape(op, input, target)
    if eps <= 0:
        raise UserError("bad eps", op=op, expected="a positive number", found=eps)
    if variance.shape == input.shape[:-1] and input.rank:
        variance = variance.expand_dims(-1)
    if variance.shape not in (input.shape, (*input.shape[:-1], 1)):
        expected = f"{shape_text(input)}, 1 in the last dim, or without it"
        raise ShapeError("the variance does not fit", op=op, expected=expected, found=shape_text(variance))
    held = variance.maximum(eps)
    difference = input - target
    losses = (held.log() + difference * difference / held) * 0.5
    return reduce_loss(op, losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)
