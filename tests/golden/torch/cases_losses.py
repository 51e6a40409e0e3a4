"""Cases of losses; the names are those of `tests/frontend/test_more_losses.py`."""

import importlib
from typing import Any

import numpy as np

F: Any = importlib.import_module("torch.nn.functional")
RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def uniform(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, size=shape)


def signs(*shape: int) -> Any:
    return RNG.choice([-1, 1], size=shape)


LABELS = np.array([[1, 3, -1, 2], [0, -1, -1, -1], [3, 2, 1, 0]])
LENGTHS = (np.array([8, 7, 5]), np.array([3, 0, 2]))
CTC_TARGETS = np.array([[1, 2, 2, 0], [3, 3, 3, 3], [2, 1, 1, 1]])
SOFT = F.softmax(importlib.import_module("torch").tensor(normal(4, 3, 2)), 1).numpy()


def ctc(reduction: str, zero: bool = False) -> Any:
    def loss(x: Any, targets: Any, inputs: Any, lengths: Any) -> Any:
        return F.ctc_loss(F.log_softmax(x, 2), targets, inputs, lengths, 0, reduction, zero)

    return loss


def smooth(x: Any, t: Any, w: Any) -> Any:
    return F.cross_entropy(x, t, w, label_smoothing=0.2)


CASES: dict[str, Any] = {
    "soft_cross_entropy": (smooth, (normal(4, 3, 2), SOFT, uniform(3))),
    "bce_weighted": (
        lambda p, t, w: F.binary_cross_entropy(p, t, w.detach(), reduction="sum"),
        (uniform(4), uniform(4), uniform(4)),
    ),
    "kl_batchmean": (lambda x, t: F.kl_div(x, t, reduction="batchmean"), (normal(3, 4), uniform(3, 4))),
    "kl_log_target": (lambda x, t: F.kl_div(x, t, reduction="none", log_target=True), (normal(3, 4), normal(3, 4))),
    "poisson": (
        lambda x, t: F.poisson_nll_loss(x, t, full=True),
        (normal(6), np.array([0.1, 1.0, 2.0, 3.0, 0.5, 7.0])),
    ),
    "poisson_rates": (lambda x, t: F.poisson_nll_loss(x, t, False, reduction="none"), (uniform(5), uniform(5))),
    "gaussian": (lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True), (normal(3, 4), normal(3, 4), uniform(3, 4))),
    "gaussian_row": (
        lambda x, t, v: F.gaussian_nll_loss(x, t, v, reduction="none"),
        (normal(3, 4), normal(3, 4), uniform(3)),
    ),
    "margin_ranking": (
        lambda a, b, y: F.margin_ranking_loss(a, b, y, 0.3),
        (normal(8), normal(8), signs(8)),
    ),
    "hinge_embedding": (lambda x, y: F.hinge_embedding_loss(x, y, 0.7, reduction="none"), (normal(8), signs(8))),
    "cosine_embedding": (
        lambda a, b, y: F.cosine_embedding_loss(a, b, y, 0.1, reduction="sum"),
        (normal(6, 3), normal(6, 3), signs(6)),
    ),
    "soft_margin": (F.soft_margin_loss, (normal(8), signs(8))),
    "triplet": (F.triplet_margin_loss, (normal(5, 3), normal(5, 3), normal(5, 3))),
    "triplet_swap": (
        lambda a, p, n: F.triplet_margin_loss(a, p, n, 2.0, 3.0, swap=True, reduction="none"),
        (normal(5, 3), normal(5, 3), normal(5, 3)),
    ),
    "multi_margin": (F.multi_margin_loss, (normal(5, 4), RNG.integers(0, 4, 5))),
    "multi_margin_square": (
        lambda x, y, w: F.multi_margin_loss(x, y, 2, 0.5, w.detach(), reduction="none"),
        (normal(5, 4), RNG.integers(0, 4, 5), uniform(4)),
    ),
    "multilabel_margin": (lambda x, y: F.multilabel_margin_loss(x, y, reduction="none"), (normal(3, 4), LABELS)),
    "multilabel_soft_margin": (
        lambda x, y, w: F.multilabel_soft_margin_loss(x, y, w.detach()),
        (normal(3, 4), RNG.integers(0, 2, (3, 4)), uniform(4)),
    ),
    "ctc": (ctc("none"), (normal(8, 3, 4), CTC_TARGETS, *LENGTHS)),
    "ctc_mean": (ctc("mean"), (normal(8, 3, 4), CTC_TARGETS, *LENGTHS)),
    "ctc_impossible": (
        ctc("sum", True),
        (normal(4, 3, 4), CTC_TARGETS, np.array([4, 4, 2]), np.array([4, 2, 2])),
    ),
    "cosine_similarity": (lambda a, b: F.cosine_similarity(a, b, 1), (normal(3, 4, 2), normal(1, 4, 2))),
    "pairwise_distance": (lambda a, b: F.pairwise_distance(a, b, 2.0, keepdim=True), (normal(3, 4), normal(3, 4))),
    "pairwise_infinity": (lambda a, b: F.pairwise_distance(a, b, float("inf")), (normal(3, 4), normal(3, 4))),
    "cdist": (lambda a, b: importlib.import_module("torch").cdist(a, b), (normal(2, 3, 4), normal(2, 5, 4))),
    "cdist_one": (lambda a, b: importlib.import_module("torch").cdist(a, b, 1.0), (normal(3, 4), normal(2, 4))),
    "cdist_three": (lambda a, b: importlib.import_module("torch").cdist(a, b, 3.0), (normal(3, 4), normal(2, 4))),
    "pdist": (F.pdist, (normal(4, 3),)),
}
