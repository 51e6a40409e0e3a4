"""Losses of scores and distances that must differ by a margin; semantics are PyTorch's."""

from collections.abc import Callable
from typing import Any

from firebox.dtypes import i64
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.activations import log_sigmoid, softplus
from firebox.frontend.functions.distances import pairwise_distance
from firebox.frontend.functions.matrices import cosine_similarity
from firebox.frontend.functions.support import (
    A,
    Reduction,
    arange_like,
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
def margin_ranking_loss(first: A, second: A, target: A, margin: float = 0.0, reduction: Reduction = "mean") -> A:
    """max(0, margin - target * (first - second)); a target of 1 wants ``first`` larger, of -1 ``second``."""
    require_same_shape("margin_ranking_loss", first, second)
    return reduce_loss("margin_ranking_loss", _above_zero(margin - target * (first - second)), reduction)


@one_node
def hinge_embedding_loss(input: A, target: A, margin: float = 1.0, reduction: Reduction = "mean") -> A:
    """The input where the target is 1, max(0, margin - input) where it is -1; their sum where it is neither."""
    require_same_shape("hinge_embedding_loss", input, target)
    losses = equals(target, -1).where(0.0, input) + equals(target, 1).where(0.0, _above_zero(margin - input))
    return reduce_loss("hinge_embedding_loss", losses, reduction)


@one_node
def cosine_embedding_loss(first: A, second: A, target: A, margin: float = 0.0, reduction: Reduction = "mean") -> A:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1; of (N, D) and (N,), or (D,) and ()."""
    require_same_shape("cosine_embedding_loss", first, second)
    if first.rank not in (1, 2) or target.shape != first.shape[:-1]:
        expected, found = "(N, D), (N, D) and (N,)", f"{shape_text(first)} and a target {shape_text(target)}"
        raise ShapeError("the target does not fit", op="cosine_embedding_loss", expected=expected, found=found)
    cosine = cosine_similarity(first, second, -1)
    losses = equals(target, 1).where(1.0 - cosine, 0.0) + equals(target, -1).where(_above_zero(cosine - margin), 0.0)
    return reduce_loss("cosine_embedding_loss", losses, reduction)


@one_node
def soft_margin_loss(input: A, target: A, reduction: Reduction = "mean") -> A:
    """log(1 + exp(-target * input)), without overflow; targets are 1 and -1."""
    require_same_shape("soft_margin_loss", input, target)
    return reduce_loss("soft_margin_loss", softplus(-(target * input)), reduction)


@one_node
def triplet_margin_loss(
    anchor: A,
    positive: A,
    negative: A,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> A:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with d = `pairwise_distance`.

    Args:
        swap: the negative's distance is the smaller one to the anchor and to the positive (Balntas et al. 2016).
    """

    def distance(a: A, b: A) -> A:
        return pairwise_distance(a, b, p, eps)

    return triplet_margin_with_distance_loss(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: A,
    positive: A,
    negative: A,
    distance: Callable[[Any, Any], Any] = pairwise_distance,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> A:
    """`triplet_margin_loss` with any distance, a function of two arrays."""
    require_same_shape("triplet_margin_loss", anchor, positive)
    require_same_shape("triplet_margin_loss", anchor, negative)
    near: A = distance(anchor, positive)
    far: A = distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduce_loss("triplet_margin_loss", _above_zero(near - far + margin), reduction)


@one_node
def multi_margin_loss(
    input: A, target: A, p: int = 1, margin: float = 1.0, weight: A | None = None, reduction: Reduction = "mean"
) -> A:
    """sum over the other classes j of max(0, margin - x[y] + x[j])^p, divided by the number of classes.

    Args:
        input: (N, C) or (C,). target: (N,) or (), class indices y.
        p: 1 or 2.
        weight: a factor for each class, taken at y before the power.

    Raises:
        ShapeError: shapes that do not fit. UserError: another p. DTypeError: targets that are no integers.
    """
    op = "multi_margin_loss"
    require_int(op, target, "targets (class indices)")
    if p not in (1, 2):
        raise UserError("bad p", op=op, expected="1 or 2", found=p)
    if input.rank not in (1, 2) or any(differ(a, b) for a, b in zip(target.shape, input.shape[:-1], strict=False)):
        expected, found = "(N, C) and (N,)", f"{shape_text(input)} and {shape_text(target)}"
        raise ShapeError("the target does not fit", op=op, expected=expected, found=found)
    wide = target.astype(i64).expand_dims(-1)
    short = _above_zero(margin - input.take_along_axis(wide, -1) + input)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * weight.take(wide)
    others = ~equals(arange_like(input, input.shape[-1]), wide)
    return reduce_loss(op, others.where(short, 0.0).mean(-1), reduction)


@one_node
def multilabel_margin_loss(input: A, target: A, reduction: Reduction = "mean") -> A:
    """sum over labels y and other classes j of max(0, 1 - (x[y] - x[j])), divided by the number of classes.

    Args:
        input: (N, C) or (C,).
        target: of the same shape: the labels of a sample, then -1; what follows the first -1 does not count.
    """
    op = "multilabel_margin_loss"
    require_int(op, target, "targets (class indices)")
    require_same_shape(op, input, target)
    wide = target.astype(i64)
    counts = (wide >= 0).astype(i64).cumprod(-1) > 0
    labels = counts.where(wide, 0)
    classes = arange_like(input, input.shape[-1])
    is_label = (equals(labels.expand_dims(-1), classes) & counts.expand_dims(-1)).any(-2)
    scores = input.take_along_axis(labels, -1).expand_dims(-1)
    short = _above_zero(1.0 - (scores - input.expand_dims(-2)))
    paired = counts.expand_dims(-1) & ~is_label.expand_dims(-2)
    total = paired.where(short, 0.0).sum((-2, -1)) / input.size_of(input.shape[-1])
    return reduce_loss(op, total, reduction)


@one_node
def multilabel_soft_margin_loss(input: A, target: A, weight: A | None = None, reduction: Reduction = "mean") -> A:
    """Binary cross-entropy of every class, (N, C) with targets 0 and 1, averaged over the classes.

    Args:
        weight: a factor for each class.
    """
    op = "multilabel_soft_margin_loss"
    require_float(op, input)
    require_same_shape(op, input, target)
    goal = target.astype(input.dtype)
    losses = -(goal * log_sigmoid(input) + (1.0 - goal) * log_sigmoid(-input))
    return reduce_loss(op, (losses if weight is None else losses * weight).mean(-1), reduction)


def _above_zero(x: A) -> A:
    """max(x, 0) with gradient 0 at 0."""
    return (x > 0).where(x, 0.0)
