"""Schedules of learning rates."""

from collections.abc import Callable

import numpy as np
import pytest

from firebox.errors import UserError
from firebox.frontend import optim
from firebox.frontend.optim import Optimizer
from tests.frontend.optimizing import loss_of, make_params


def rates(make: Callable[[Optimizer], optim.Schedule], count: int) -> list[float]:
    optimizer = optim.SGD(make_params(), 2.0)
    schedule = make(optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.lr)
        schedule.step()
    return found


def test_schedules() -> None:
    assert rates(optim.ConstantSchedule, 3) == [2.0, 2.0, 2.0]
    np.testing.assert_allclose(rates(lambda o: optim.StepSchedule(o, 2, 0.5), 5), [2, 2, 1, 1, 0.5])
    np.testing.assert_allclose(rates(lambda o: optim.ExponentialSchedule(o, 0.5), 3), [2, 1, 0.5])
    np.testing.assert_allclose(rates(lambda o: optim.LinearSchedule(o, 4, 1.0, 0.5), 6), [2, 1.75, 1.5, 1.25, 1, 1])
    found = rates(lambda o: optim.CosineSchedule(o, 6, 2, 0.1), 8)
    cosine = [0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * k / 4)) for k in range(5)]
    np.testing.assert_allclose(found, [1.0, 2.0, *(2 * c for c in cosine), 0.2])
    with pytest.raises(UserError, match="warmup_steps"):
        rates(lambda o: optim.CosineSchedule(o, 6, 7), 1)


def test_the_rate_of_a_schedule_is_the_one_that_is_used() -> None:
    params = make_params()
    optimizer = optim.SGD(params, 1.0)
    schedule = optim.StepSchedule(optimizer, 1, 0.5)
    value = params[1].numpy().copy()
    for k in range(3):
        loss_of(params, 0).backward()
        optimizer.step()
        schedule.step()
        value = value - 0.5**k * value**2
    np.testing.assert_allclose(params[1].numpy(), value, rtol=1e-12)
    again = optim.StepSchedule(optim.SGD(make_params(), 1.0), 1, 0.5)
    again.load_state_dict(schedule.state_dict())
    assert again.optimizer.lr == 0.125
