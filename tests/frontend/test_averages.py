"""Exponential averages of parameters against the formula, in place of the parameters, and as state."""

import numpy as np
import pytest

from firebox.errors import InputError, UserError
from firebox.frontend import nn, optim
from firebox.frontend.tensor import tensor


def make_params(seed: int = 0) -> list[nn.Param]:
    rng = np.random.default_rng(seed)
    return [nn.Param(rng.normal(size=shape)) for shape in ((3, 4), (5,), (), (2, 1, 3))]


def test_exponential_average() -> None:
    params = make_params()
    optimizer = optim.SGD(params, 0.1)
    average = optim.ExponentialAverage(params, 0.75)
    expected = [p.numpy().copy() for p in params]
    for t in range(3):
        for p in params:
            p.grad = tensor(np.full(p.shape, t + 1.0))
        optimizer.step()
        average.update()
        expected = [0.75 * a + 0.25 * p.numpy() for a, p in zip(expected, params, strict=True)]
    own = [p.numpy().copy() for p in params]
    with average.applied():
        for p, value in zip(params, expected, strict=True):
            np.testing.assert_allclose(p.numpy(), value, rtol=1e-12)
    for p, value in zip(params, own, strict=True):
        np.testing.assert_array_equal(p.numpy(), value)
    state = {key: value.numpy() for key, value in average.state_dict().items()}
    np.testing.assert_allclose(state["1"], expected[1], rtol=1e-12)
    other = optim.ExponentialAverage(make_params(seed=1), 0.75)
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.state_dict()["3"].numpy(), state["3"])
    with pytest.raises(InputError, match="missing"):
        other.load_state_dict({})


def test_an_average_of_some_parameters_leaves_the_others() -> None:
    params = make_params()
    optim.SGD(params)
    average = optim.ExponentialAverage(params[:2])
    before = [p.numpy().copy() for p in params]
    for p in params:
        p.value = p.numpy() + 1.0
    with average.applied():
        found = [p.numpy().copy() for p in params]
    for k, (value, old) in enumerate(zip(found, before, strict=True)):
        np.testing.assert_array_equal(value, old if k < 2 else old + 1.0)


def test_a_bad_decay_or_no_parameters_is_refused() -> None:
    with pytest.raises(UserError, match="bad decay"):
        optim.ExponentialAverage(make_params(), 1.0)
    with pytest.raises(UserError, match="no parameters"):
        optim.ExponentialAverage([])
