"""Losses as modules: the functions of the same names with their options set once.

Options that are arrays, such as ``weight``, are buffers: they move with the module and stand in its state.
"""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from firebox.errors import UserError
from firebox.frontend.cells import Buffer
from firebox.frontend.functions import distances, distribution_losses, losses, margin_losses, matrices, sequence_losses
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor, as_tensor


class Loss(Module):
    """A loss with its options; ``operands`` is the number of arguments that ``forward`` takes.

    Args:
        options: keyword arguments of the function behind it, such as ``reduction``.

    Raises:
        UserError: an option that the function does not have.
    """

    function: ClassVar[Callable[..., Any]]
    operands: ClassVar[int] = 2

    def __init__(self, **options: Any) -> None:
        allowed = list(inspect.signature(type(self).function).parameters)[self.operands :]
        for name in options:
            if name not in allowed:
                expected = ", ".join(allowed)
                raise UserError("no such option", op=type(self).__name__, expected=expected, found=repr(name))
        self.options = {name: _held(name, value) for name, value in options.items()}

    def forward(self, *operands: Any) -> Tensor:
        options = {name: value.value if isinstance(value, Buffer) else value for name, value in self.options.items()}
        result: Tensor = type(self).function(*operands, **options)
        return result

    def extra_repr(self) -> str:
        return ", ".join(f"{n}={v!r}" for n, v in self.options.items() if not isinstance(v, Buffer))


def _held(name: str, value: Any) -> Any:
    """An option as it is kept: what makes an array as a buffer."""
    is_array = name in ("weight", "pos_weight") and value is not None
    return Buffer(as_tensor(value)) if is_array else value


class CrossEntropyLoss(Loss):
    """-log(softmax(logits)) at the target class."""

    function = staticmethod(losses.cross_entropy)


class NLLLoss(Loss):
    """-log_probabilities at the target class."""

    function = staticmethod(losses.nll_loss)


class MSELoss(Loss):
    """(input - target)^2."""

    function = staticmethod(losses.mse_loss)


class L1Loss(Loss):
    """|input - target|."""

    function = staticmethod(losses.l1_loss)


class LpLoss(Loss):
    """|input - target|^p."""

    function = staticmethod(losses.lp_loss)


class SmoothL1Loss(Loss):
    """Squares near 0, absolute values elsewhere."""

    function = staticmethod(losses.smooth_l1_loss)


class HuberLoss(Loss):
    """Squares up to ``delta``, lines beyond."""

    function = staticmethod(losses.huber_loss)


class BCELoss(Loss):
    """Binary cross-entropy of probabilities."""

    function = staticmethod(losses.binary_cross_entropy)


class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of logits."""

    function = staticmethod(losses.bce_with_logits)


class KLDivLoss(Loss):
    """Kullback and Leibler's divergence of log-probabilities from targets."""

    function = staticmethod(distribution_losses.kl_div)


class PoissonNLLLoss(Loss):
    """-log of the Poisson probability."""

    function = staticmethod(distribution_losses.poisson_nll_loss)


class GaussianNLLLoss(Loss):
    """-log of the normal density: of input, target and variance."""

    function = staticmethod(distribution_losses.gaussian_nll_loss)
    operands = 3


class MarginRankingLoss(Loss):
    """Of two scores and which of them should be larger."""

    function = staticmethod(margin_losses.margin_ranking_loss)
    operands = 3


class HingeEmbeddingLoss(Loss):
    """Of distances and whether they should be small."""

    function = staticmethod(margin_losses.hinge_embedding_loss)


class CosineEmbeddingLoss(Loss):
    """Of two vectors and whether they should be alike."""

    function = staticmethod(margin_losses.cosine_embedding_loss)
    operands = 3


class SoftMarginLoss(Loss):
    """log(1 + exp(-target * input))."""

    function = staticmethod(margin_losses.soft_margin_loss)


class TripletMarginLoss(Loss):
    """Of an anchor, a positive and a negative."""

    function = staticmethod(margin_losses.triplet_margin_loss)
    operands = 3


class TripletMarginWithDistanceLoss(Loss):
    """`TripletMarginLoss` with any distance."""

    function = staticmethod(margin_losses.triplet_margin_with_distance_loss)
    operands = 3


class MultiMarginLoss(Loss):
    """How much other classes come too close to the target's score."""

    function = staticmethod(margin_losses.multi_margin_loss)


class MultiLabelMarginLoss(Loss):
    """`MultiMarginLoss` with several labels a sample."""

    function = staticmethod(margin_losses.multilabel_margin_loss)


class MultiLabelSoftMarginLoss(Loss):
    """Binary cross-entropy of every class, averaged over the classes."""

    function = staticmethod(margin_losses.multilabel_soft_margin_loss)


class CTCLoss(Loss):
    """Of log-probabilities, targets and both lengths."""

    function = staticmethod(sequence_losses.ctc_loss)
    operands = 4


class RNNTLoss(Loss):
    """Of a transducer's logits, targets and both lengths."""

    function = staticmethod(sequence_losses.rnnt_loss)
    operands = 4


class CosineSimilarity(Loss):
    """a . b / (|a| |b|) along an axis."""

    function = staticmethod(matrices.cosine_similarity)


class PairwiseDistance(Loss):
    """The p-norm of a - b along the last axis."""

    function = staticmethod(distances.pairwise_distance)
