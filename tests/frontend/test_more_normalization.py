"""Normalisation and dropout of channels, against recorded values of PyTorch and by what they promise on average."""

from collections.abc import Callable

import numpy as np
import pytest

from firebox.errors import ShapeError, UserError
from firebox.frontend.functions import dropout as R
from firebox.frontend.functions import normalization as F
from firebox.frontend.random import Generator
from firebox.frontend.tensor import Tensor, tensor
from tests.frontend import recorded

CASES: dict[str, Callable[..., Tensor]] = {
    "local_response_odd": lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0),
    "local_response_even": lambda x: F.local_response_norm(x, 4),
    "instance": F.instance_norm,
    "group3d": lambda x, w, b: F.group_norm(x, 2, w, b),
    "weight_norm": F.weight_norm,
    "weight_norm_last": lambda v, g: F.weight_norm(v, g, 1),
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("normalization"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("normalization", name, CASES[name])


def test_no_channels_to_normalise_over() -> None:
    with pytest.raises(ShapeError, match="no channels"):
        F.local_response_norm(tensor(np.ones(3)), 2)


# ---- dropout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dropout_of_channels(rank: int, frontend: None) -> None:
    function = {1: R.dropout1d, 2: R.dropout2d, 3: R.dropout3d}[rank]
    x = np.ones((40, 50, *(2,) * rank))
    found = function(tensor(x), 0.25, True, Generator(1)).numpy().reshape(40, 50, -1)
    assert (found == found[:, :, :1]).all()
    assert set(np.unique(found)) == {0.0, 1 / 0.75} and 0.2 < (found == 0).mean() < 0.3
    assert function(tensor(x), 0.25, False).numpy().min() == 1.0
    with pytest.raises(ShapeError, match="wrong number of dims"):
        function(tensor(x[0]), 0.5)


def test_alpha_dropout_keeps_mean_and_variance(frontend: None) -> None:
    x = np.random.default_rng(0).normal(size=(200, 100))
    found = R.alpha_dropout(tensor(x), 0.3, True, Generator(2)).numpy()
    assert abs(found.mean()) < 0.03 and abs(found.std() - 1) < 0.03
    values, counts = np.unique(found, return_counts=True)
    assert values[counts.argmax()] < -1.0 and 0.27 < counts.max() / found.size < 0.33
    rows = R.feature_alpha_dropout(tensor(x[:, :, None]), 0.3, True, Generator(2)).numpy()
    np.testing.assert_allclose(rows[:, :, 0], found, rtol=1e-12)
    assert not R.alpha_dropout(tensor(x), 1.0).numpy().any()


def test_gaussian_noise(frontend: None) -> None:
    x = tensor(np.full((100, 100), 2.0, np.float32))
    found = R.gaussian_noise(x, 0.5, True, Generator(4)).numpy()
    assert abs(found.mean() - 2.0) < 0.02 and abs(found.std() - 0.5) < 0.02
    assert R.gaussian_noise(x, 0.5, False) is x
    with pytest.raises(UserError, match="bad std"):
        R.gaussian_noise(x, -1.0)
