"""Losses and distances against recorded values and gradients of PyTorch; the transducer's against all its paths."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions import distances as D
from firebox.frontend.functions import distribution_losses as P
from firebox.frontend.functions import losses as F
from firebox.frontend.functions import margin_losses as M
from firebox.frontend.functions.matrices import cosine_similarity
from firebox.frontend.functions.normalization import log_softmax
from firebox.frontend.functions.sequence_losses import ctc_loss, rnnt_loss
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

Array = npt.NDArray[Any]
RNG = np.random.default_rng(29)


def ctc(reduction: Any, zero: bool = False) -> Callable[..., Tensor]:
    def loss(x: Tensor, targets: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        return ctc_loss(log_softmax(x, 2), targets, inputs, lengths, 0, reduction, zero)

    return loss


CASES: dict[str, Callable[..., Tensor]] = {
    "soft_cross_entropy": lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2),
    "bce_weighted": lambda p, t, w: F.binary_cross_entropy(p, t, "sum", w),
    "kl_batchmean": lambda x, t: P.kl_div(x, t, "batchmean"),
    "kl_log_target": lambda x, t: P.kl_div(x, t, "none", True),
    "poisson": lambda x, t: P.poisson_nll_loss(x, t, full=True),
    "poisson_rates": lambda x, t: P.poisson_nll_loss(x, t, False, reduction="none"),
    "gaussian": lambda x, t, v: P.gaussian_nll_loss(x, t, v, full=True),
    "gaussian_row": lambda x, t, v: P.gaussian_nll_loss(x, t, v, reduction="none"),
    "margin_ranking": lambda a, b, y: M.margin_ranking_loss(a, b, y, 0.3),
    "hinge_embedding": lambda x, y: M.hinge_embedding_loss(x, y, 0.7, "none"),
    "cosine_embedding": lambda a, b, y: M.cosine_embedding_loss(a, b, y, 0.1, "sum"),
    "soft_margin": M.soft_margin_loss,
    "triplet": M.triplet_margin_loss,
    "triplet_swap": lambda a, p, n: M.triplet_margin_loss(a, p, n, 2.0, 3.0, swap=True, reduction="none"),
    "multi_margin": M.multi_margin_loss,
    "multi_margin_square": lambda x, y, w: M.multi_margin_loss(x, y, 2, 0.5, w, "none"),
    "multilabel_margin": lambda x, y: M.multilabel_margin_loss(x, y, "none"),
    "multilabel_soft_margin": M.multilabel_soft_margin_loss,
    "ctc": ctc("none"),
    "ctc_mean": ctc("mean"),
    "ctc_impossible": ctc("sum", True),
    "cosine_similarity": lambda a, b: cosine_similarity(a, b, 1),
    "pairwise_distance": lambda a, b: D.pairwise_distance(a, b, keepdims=True),
    "pairwise_infinity": lambda a, b: D.pairwise_distance(a, b, math.inf),
    "cdist": D.cdist,
    "cdist_one": lambda a, b: D.cdist(a, b, 1.0),
    "cdist_three": lambda a, b: D.cdist(a, b, 3.0),
    "pdist": D.pdist,
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("losses"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("losses", name, CASES[name])


def test_lp_loss() -> None:
    x, y = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
    found = F.lp_loss(tensor(x), tensor(y), 3.0, "sum")
    np.testing.assert_allclose(found.numpy(), (np.abs(x - y) ** 3).sum(), rtol=1e-12)
    check_gradient(lambda a, b: F.lp_loss(a, b, 3.0), x, y)


def test_distances_of_equal_vectors_have_no_gradient() -> None:
    for p in (1.0, 2.0, 3.0):
        x = tensor(np.ones((2, 3)), requires_grad=True)
        D.cdist(x, tensor(np.ones((1, 3))), p).sum().backward()
        assert x.grad is not None and not x.grad.numpy().any()
    np.testing.assert_array_equal(D.cdist(tensor(np.eye(2)), tensor(np.eye(2)), 0.0).numpy(), [[0, 2], [2, 0]])
    assert D.pdist(tensor(np.ones((1, 3)))).shape == (0,)


def test_impossible_targets_cost_infinity() -> None:
    x = tensor(np.log(np.full((1, 1, 3), 1 / 3)))
    one = tensor(np.array([1]))
    assert ctc_loss(x, tensor(np.array([[1, 2]])), one, one + 1).item() == math.inf


# ---- transducer --------------------------------------------------------------------------------------------------


def all_paths(log_p: Array, labels: Array, steps: int) -> float:
    """-log of the sum over all orders of ``steps`` blanks, the last of which closes, and the labels."""
    total = 0.0
    moves = steps - 1 + len(labels)
    for places in itertools.combinations(range(moves), len(labels)):
        t = u = 0
        score = 0.0
        for k in range(moves):
            if k in places:
                score += log_p[t, u, labels[u]]
                u += 1
            else:
                score += log_p[t, u, 0]
                t += 1
        total += math.exp(score + log_p[t, u, 0])
    return -math.log(total)


def test_rnnt_loss() -> None:
    logits = RNG.normal(size=(3, 4, 3, 4))
    targets, inputs, lengths = np.array([[1, 2], [3, 1], [2, 2]]), np.array([4, 3, 2]), np.array([2, 1, 0])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [all_paths(log_p[n], targets[n, : lengths[n]], inputs[n]) for n in range(3)]

    def loss(x: Tensor) -> Tensor:
        return rnnt_loss(x, tensor(targets), tensor(inputs), tensor(lengths), reduction="none")

    np.testing.assert_allclose(loss(tensor(logits)).numpy(), expected, rtol=1e-10)
    check_gradient(loss, logits)


def test_a_hinge_without_a_side_has_both() -> None:
    found = M.hinge_embedding_loss(tensor(np.array([0.5, 3.0])), tensor(np.zeros(2)), 1.0, "none")
    np.testing.assert_array_equal(found.numpy(), [1.0, 3.0])


# ---- errors ------------------------------------------------------------------------------------------------------


def test_what_does_not_fit() -> None:
    x, ones = tensor(np.ones((2, 3))), tensor(np.ones(2))
    with pytest.raises(ShapeError, match="variance does not fit"):
        P.gaussian_nll_loss(x, x, tensor(np.ones(3)))
    with pytest.raises(UserError, match="bad eps"):
        P.gaussian_nll_loss(x, x, x, eps=0.0)
    with pytest.raises(UserError, match="no such reduction"):
        M.soft_margin_loss(x, x, reduction="batchmean")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="target does not fit"):
        M.cosine_embedding_loss(x, x, tensor(np.ones(3)))
    with pytest.raises(UserError, match="bad p"):
        M.multi_margin_loss(x, tensor(np.array([0, 1])), p=3)
    with pytest.raises(DTypeError, match="class indices"):
        M.multi_margin_loss(x, ones)
    with pytest.raises(ShapeError, match="rows of different sizes"):
        D.cdist(x, tensor(np.ones((2, 2))))
    with pytest.raises(UserError, match="bad p"):
        D.cdist(x, x, -1.0)
    with pytest.raises(ShapeError, match="shapes do not fit"):
        ctc_loss(x, tensor(np.array([[1]])), tensor(np.array([2])), tensor(np.array([1])))
    with pytest.raises(ShapeError, match="shapes do not fit"):
        two, one = tensor(np.array([2])), tensor(np.array([1]))
        rnnt_loss(tensor(np.ones((1, 2, 2, 3))), tensor(np.array([[1, 2]])), two, one)
