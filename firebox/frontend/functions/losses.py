"""Losses. Input first, target second; ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; semantics are PyTorch's."""

from typing import Any

from firebox.dialects.nd.array import ArrayLike, normalize_axis
from firebox.dtypes import i64
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.activations import softplus
from firebox.frontend.functions.normalization import finite_max, log_softmax
from firebox.frontend.functions.support import (
    A,
    Reduction,
    check_reduction,
    differ,
    equals,
    one_node,
    reduce_loss,
    require_float,
    require_int,
    require_same_shape,
    shape_text,
)


@one_node
def cross_entropy(
    logits: A,
    target: A,
    weight: A | None = None,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    axis: int = 1,
) -> A:
    """-log(softmax(logits)) at the target class, averaged over the targets that are not ignored.

    Args:
        logits: floats, the classes at ``axis`` (axis 1 as in PyTorch; the only axis of a 1-D input).
        target: class indices, of the shape of ``logits`` without ``axis``; or floats of its
            shape, which are probabilities as in `soft_cross_entropy`.
        weight: a factor for each class; the mean then divides by the sum of the target's factors.
        label_smoothing: part of the target's probability that is spread evenly over all classes, in [0, 1].
        ignore_index: targets of this value count for nothing.

    Raises:
        DTypeError: ``logits`` is not floating, or the classes are no integers. ShapeError: the shapes do not fit.
    """
    if target.dtype.is_float and target.shape == logits.shape:
        return soft_cross_entropy(logits, target, reduction, axis, weight, label_smoothing)
    require_float("cross_entropy", logits, "logits")
    hint = "for probabilities as targets use soft_cross_entropy"
    require_int("cross_entropy", target, "targets (class indices)", hint)
    _check_smoothing("cross_entropy", label_smoothing)
    check_reduction("cross_entropy", reduction)
    at = _class_axis("cross_entropy", logits, target, axis)
    # log(softmax) is as large as the logits and is not formed. Less the maximum, the sum does not overflow and the
    # difference does not cancel.
    wide = logits.astype(logits.dtype.compute)
    top = finite_max(wide, at)
    log_sum = (wide - top).exp().sum(at, keepdims=True).log()
    targets = _Targets(target, ignore_index, at)
    losses = log_sum - (wide.take_along_axis(targets.index, at) - top)
    if weight is not None:
        losses = losses * weight.take(targets.index)
    if label_smoothing:
        every = log_sum - (wide - top)
        spread = every if weight is None else every * weight.reshape((-1, *(1,) * (logits.rank - 1 - at)))
        losses = losses * (1.0 - label_smoothing) + spread.mean(at, keepdims=True) * label_smoothing
    return targets.reduce(losses, weight, reduction).astype(logits.dtype)


@one_node
def nll_loss(
    log_probabilities: A,
    target: A,
    weight: A | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    axis: int = 1,
) -> A:
    """-log_probabilities at the target class; arguments as in `cross_entropy`."""
    require_float("nll_loss", log_probabilities)
    require_int("nll_loss", target, "targets (class indices)")
    check_reduction("nll_loss", reduction)
    at = _class_axis("nll_loss", log_probabilities, target, axis)
    targets = _Targets(target, ignore_index, at)
    losses = -log_probabilities.take_along_axis(targets.index, at)
    if weight is not None:
        losses = losses * weight.take(targets.index)
    return targets.reduce(losses, weight, reduction)


@one_node
def soft_cross_entropy(
    logits: A,
    target: A,
    reduction: Reduction = "mean",
    axis: int = 1,
    weight: A | None = None,
    label_smoothing: float = 0.0,
) -> A:
    """-sum(target * log_softmax(logits)) over the classes; ``target`` are probabilities in the shape of ``logits``.

    Args:
        weight: a factor for each class; the mean divides by the number of samples all the same, as in PyTorch.
        label_smoothing: part of the target's probability that is spread evenly over all classes, in [0, 1].
    """
    require_float("soft_cross_entropy", logits, "logits")
    require_same_shape("soft_cross_entropy", logits, target)
    _check_smoothing("soft_cross_entropy", label_smoothing)
    at = normalize_axis(axis if logits.rank > 1 else 0, logits.rank)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / target.size_of(logits.shape[at])
    if weight is not None:
        target = target * weight.reshape((-1, *(1,) * (logits.rank - 1 - at)))
    return reduce_loss("soft_cross_entropy", -(log_softmax(logits, at) * target).sum(at), reduction)


def _check_smoothing(op: str, label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise UserError("bad label_smoothing", op=op, expected="0 to 1", found=label_smoothing)


def _class_axis(op: str, scores: A, target: A, axis: int) -> int:
    at = normalize_axis(axis if scores.rank > 1 else 0, scores.rank)
    wanted = scores.shape[:at] + scores.shape[at + 1 :]
    if len(wanted) != target.rank or any(differ(a, b) for a, b in zip(wanted, target.shape, strict=True)):
        raise ShapeError(
            "targets do not fit the scores",
            op=op,
            expected=f"({', '.join(map(str, wanted))}): the scores without the class axis {at}",
            found=f"{shape_text(target)} for scores {shape_text(scores)}",
        )
    return at


class _Targets:
    """Class indices with the class axis (of size 1) put in, and which of them count."""

    def __init__(self, target: ArrayLike, ignore_index: int, axis: int) -> None:
        wide: Any = target.astype(i64).expand_dims(axis)  # ignore_index must not wrap around in a small type
        self.axis = axis
        self.ignored = equals(wide, ignore_index)
        self.index = self.ignored.where(0, wide)

    def reduce(self, losses: A, weight: A | None, reduction: Reduction) -> A:
        """Losses without those that do not count; the mean divides by the weights of the targets that do."""
        kept: A = self.ignored.where(0.0, losses)
        if reduction == "none":
            return kept.squeeze(self.axis)
        if reduction == "sum":
            return kept.sum()
        share: A = (~self.ignored).astype(losses.dtype) if weight is None else weight.take(self.index)
        count: A = self.ignored.where(0.0, share).sum()
        return kept.sum() / count


@one_node
def mse_loss(input: A, target: A, reduction: Reduction = "mean") -> A:
    """(input - target)^2."""
    require_same_shape("mse_loss", input, target)
    difference = input - target
    return reduce_loss("mse_loss", difference * difference, reduction)


@one_node
def l1_loss(input: A, target: A, reduction: Reduction = "mean") -> A:
    """|input - target|."""
    require_same_shape("l1_loss", input, target)
    return reduce_loss("l1_loss", (input - target).abs(), reduction)


@one_node
def smooth_l1_loss(input: A, target: A, reduction: Reduction = "mean", beta: float = 1.0) -> A:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; ``beta`` 0 is `l1_loss`."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    return reduce_loss("smooth_l1_loss", huber_loss(input, target, "none", beta) / beta, reduction)


@one_node
def huber_loss(input: A, target: A, reduction: Reduction = "mean", delta: float = 1.0) -> A:
    """d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2)."""
    require_same_shape("huber_loss", input, target)
    difference = input - target
    size = difference.abs()
    losses = (size <= delta).where(difference * difference * 0.5, (size - 0.5 * delta) * delta)
    return reduce_loss("huber_loss", losses, reduction)


@one_node
def lp_loss(input: A, target: A, p: float = 2.0, reduction: Reduction = "mean") -> A:
    """|input - target|^p, without a root.

    Raises:
        UserError: ``p`` is not positive.
    """
    require_same_shape("lp_loss", input, target)
    if p <= 0:
        raise UserError("bad p", op="lp_loss", expected="a positive number", found=p)
    return reduce_loss("lp_loss", (input - target).abs() ** p, reduction)


@one_node
def bce_with_logits(
    logits: A, target: A, weight: A | None = None, reduction: Reduction = "mean", pos_weight: A | None = None
) -> A:
    """Binary cross-entropy of sigmoid(logits) and targets in [0, 1], without overflow.

    Args:
        weight: a factor for each element (broadcasts).
        pos_weight: a factor for the positive part of each (broadcasts).
    """
    require_float("bce_with_logits", logits, "logits")
    require_same_shape("bce_with_logits", logits, target)
    goal = target.astype(logits.dtype)
    if pos_weight is None:
        losses = softplus(logits) - logits * goal
    else:
        losses = (1.0 - goal) * logits + ((pos_weight - 1.0) * goal + 1.0) * softplus(-logits)
    return reduce_loss("bce_with_logits", losses if weight is None else losses * weight, reduction)


@one_node
def binary_cross_entropy(probability: A, target: A, reduction: Reduction = "mean", weight: A | None = None) -> A:
    """-(y log p + (1 - y) log(1 - p)), the logarithms held at -100; prefer `bce_with_logits`.

    Args:
        weight: a factor for each element (broadcasts).
    """
    require_float("binary_cross_entropy", probability, "probabilities")
    require_same_shape("binary_cross_entropy", probability, target)
    goal = target.astype(probability.dtype)
    positive = probability.log().maximum(-100.0)
    negative = (-probability).log1p().maximum(-100.0)
    losses = -(goal * positive + (1.0 - goal) * negative)
    return reduce_loss("binary_cross_entropy", losses if weight is None else losses * weight, reduction)
