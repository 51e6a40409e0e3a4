"""Losses that sum over all alignments of a sequence with a shorter one: CTC and the transducer's.

Their recurrences over time are recorded step by step, so the number of steps must be known when traced.
"""

from typing import Literal

from firebox.dtypes import i64
from firebox.errors import ShapeError
from firebox.frontend.functions.normalization import log_softmax
from firebox.frontend.functions.shape import concat, narrow, stack
from firebox.frontend.functions.support import (
    A,
    arange_like,
    check_reduction,
    differ,
    equals,
    one_node,
    require_float,
    require_int,
    shape_text,
    static_size,
    stop_gradient,
)

_NEVER = -1e30
"""The logarithm of a probability of 0, finite so that differences of two of them are no NaN."""


@one_node
def ctc_loss(
    log_probabilities: A,
    targets: A,
    input_lengths: A,
    target_lengths: A,
    blank: int = 0,
    reduction: Literal["mean", "sum", "none"] = "mean",
    zero_infinity: bool = False,
) -> A:
    """-log of the probability of all alignments of the targets with the input (Graves et al. 2006).

    Args:
        log_probabilities: (T, N, C), from `log_softmax`.
        targets: (N, S), class indices; what lies behind ``target_lengths`` does not count.
        input_lengths, target_lengths: (N,) integers.
        blank: the class that stands for nothing.
        reduction: ``"mean"`` divides each loss by its target's length first.
        zero_infinity: targets that are too long for their input give 0, without a gradient, instead of infinity.

    Raises:
        ShapeError: shapes that do not fit, or a symbolic T. DTypeError: integers that are none.
    """
    op = "ctc_loss"
    _check_ctc(op, log_probabilities, targets, input_lengths, target_lengths)
    check_reduction(op, reduction)
    steps = static_size(op, log_probabilities, 0)
    labels = _with_blanks(targets.astype(i64), blank)
    wide = log_probabilities.astype(log_probabilities.dtype.compute)
    emitted = wide.take_along_axis(labels.expand_dims(0), 2)  # (T, N, 2 S + 1)
    skips = ~equals(labels, blank) & ~equals(labels, _shifted(labels, 2, -1))
    lengths, ends = input_lengths.astype(i64), target_lengths.astype(i64).expand_dims(1)
    state = (arange_like(labels, labels.shape[1]) < 2).where(_at(emitted, 0), _NEVER)
    for t in range(1, steps):
        two = _shifted(state, 1, _NEVER)
        three = skips.where(_shifted(state, 2, _NEVER), _NEVER)
        moved = _log_sum(state, two, three) + _at(emitted, t)
        state = (lengths > t).expand_dims(1).where(moved.maximum(_NEVER), state)
    last = state.take_along_axis(ends * 2, 1)
    before = (ends > 0).where(state.take_along_axis((ends * 2 - 1).maximum(0), 1), _NEVER)
    total = _log_sum(last, before).squeeze(1)
    losses = _finished(-total, zero_infinity).astype(log_probabilities.dtype)
    if reduction == "mean":
        return (losses / target_lengths.astype(losses.dtype).maximum(1.0)).mean()
    return losses.sum() if reduction == "sum" else losses


def _check_ctc(op: str, log_probabilities: A, targets: A, input_lengths: A, target_lengths: A) -> None:
    require_float(op, log_probabilities)
    named = ((targets, "targets"), (input_lengths, "input_lengths"), (target_lengths, "target_lengths"))
    for x, what in named:
        require_int(op, x, what)
    ranks = (log_probabilities.rank, *(x.rank for x, _ in named))
    batch = log_probabilities.shape[1] if log_probabilities.rank > 1 else 0
    if ranks != (3, 2, 1, 1) or any(differ(x.shape[0], batch) for x, _ in named):
        found = ", ".join(map(shape_text, (log_probabilities, targets, input_lengths, target_lengths)))
        raise ShapeError("shapes do not fit", op=op, expected="(T, N, C), (N, S), (N,), (N,)", found=found)


def _with_blanks(targets: A, blank: int) -> A:
    """Blanks before, between and after the labels: (N, 2 S + 1)."""
    count, size = targets.shape
    blanks = targets.literal(blank).broadcast_to((count, size))
    pairs = stack([blanks, targets], 2).flatten(1, 2)
    return concat([pairs, targets.literal(blank).broadcast_to((count, 1))], 1)


def _at(x: A, t: int) -> A:
    """The slice at a step."""
    return narrow(x, 0, t, t + 1).squeeze(0)


def _shifted(x: A, by: int, fill: float) -> A:
    """Elements moved up along axis 1, with ``fill`` in the places that become free."""
    return narrow(x.pad((0, by), (0, 0), fill), 1, 0, x.shape[1])


def _log_sum(*terms: A) -> A:
    """log of the sum of exp of the terms, all of them finite."""
    top = terms[0]
    for term in terms[1:]:
        top = top.maximum(term)
    top = stop_gradient(top)
    total = (terms[0] - top).exp()
    for term in terms[1:]:
        total = total + (term - top).exp()
    return total.log() + top


def _finished(losses: A, zero_infinity: bool) -> A:
    """Losses of what is impossible as infinity, or as 0."""
    return (losses < -0.5 * _NEVER).where(losses, 0.0 if zero_infinity else float("inf"))


@one_node
def rnnt_loss(
    logits: A,
    targets: A,
    input_lengths: A,
    target_lengths: A,
    blank: int = 0,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> A:
    """-log of the probability of all alignments in a transducer's lattice (Graves 2012).

    Args:
        logits: (N, T, U + 1, C), before softmax. targets: (N, U), class indices.
        input_lengths, target_lengths: (N,) integers, at most T and U.
        blank: the class that goes on to the next step of the input.

    Raises:
        ShapeError: shapes that do not fit, or a symbolic T or U. DTypeError: integers that are none.
    """
    op = "rnnt_loss"
    require_float(op, logits, "logits")
    check_reduction(op, reduction)
    for x, what in ((targets, "targets"), (input_lengths, "input_lengths"), (target_lengths, "target_lengths")):
        require_int(op, x, what)
    if logits.rank != 4 or targets.rank != 2 or differ(logits.shape[2], targets.shape[1] + 1):
        found = f"{shape_text(logits)} and {shape_text(targets)}"
        raise ShapeError("shapes do not fit", op=op, expected="(N, T, U + 1, C) and (N, U)", found=found)
    steps, places = static_size(op, logits, 1), static_size(op, logits, 2)
    log_p = log_softmax(logits.astype(logits.dtype.compute), 3)
    skip = narrow(log_p, 3, blank, blank + 1).squeeze(3)  # (N, T, U + 1): on to the next step
    emit = _emissions(log_p, targets.astype(i64))  # (N, T, U + 1): on to the next label
    state = (arange_like(skip, places) < 1).where(0.0, _NEVER).astype(skip.dtype).broadcast_to(skip.shape[::2])
    diagonals = [state]
    for d in range(1, steps + places - 1):
        waited = state + _diagonal(skip, d - 1, steps)
        labelled = _shifted(state + _diagonal(emit, d - 1, steps), 1, _NEVER)
        state = _log_sum(waited.maximum(_NEVER), labelled.maximum(_NEVER))
        diagonals.append(state)
    ends, last = target_lengths.astype(i64).expand_dims(1), input_lengths.astype(i64).expand_dims(1) - 1
    lattice = stack(diagonals, 1).flatten(1, 2)
    final = lattice.take_along_axis((last + ends) * places + ends, 1)
    closing = skip.flatten(1, 2).take_along_axis(last * places + ends, 1)
    losses = -(final + closing).squeeze(1).astype(logits.dtype)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _emissions(log_p: A, targets: A) -> A:
    """The logarithm of each label's probability at its place; none at the last place."""
    count, steps, places = log_p.shape[:3]
    inner = narrow(log_p, 2, 0, places - 1)
    picked = inner.take_along_axis(targets.reshape((count, 1, -1, 1)), 3).squeeze(3)
    return concat([picked, log_p.literal(_NEVER).broadcast_to((count, steps, 1))], 2)


def _diagonal(x: A, d: int, steps: int) -> A:
    """x[:, d - u, u] for every u; `_NEVER` where there is no such step."""
    step = d - arange_like(x, x.shape[2])
    held = step.maximum(0).minimum(steps - 1).reshape((1, 1, -1))
    inside = (step >= 0) & (step < steps)
    return inside.where(x.take_along_axis(held, 1).squeeze(1), _NEVER)
