"""Optimizers against the same formulas written for one NumPy array, flat storage, schedules, clipping, state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firebox import dtypes
from firebox.errors import InputError, ShapeError, UserError
from firebox.frontend import nn, optim
from firebox.frontend.nn import functional as F
from firebox.frontend.optim import Optimizer
from firebox.frontend.stats import reset_stats, stats
from firebox.frontend.tensor import tensor
from tests.frontend.optimizing import loss_of, make_params

Array = npt.NDArray[Any]
STEPS = 5


def sgd(
    lr: float, momentum: float, dampening: float, decay: float, nesterov: bool
) -> Callable[[], Callable[..., Array]]:
    def make() -> Callable[..., Array]:
        velocity: Array | None = None

        def step(p: Array, g: Array, t: int) -> Array:
            nonlocal velocity
            g = g + decay * p
            if momentum:
                velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
                g = g + momentum * velocity if nesterov else velocity
            return p - lr * g

        return step

    return make


def adam(lr: float, decay: float, decoupled: bool) -> Callable[[], Callable[..., Array]]:
    def make() -> Callable[..., Array]:
        m: Any = 0.0
        v: Any = 0.0

        def step(p: Array, g: Array, t: int) -> Array:
            nonlocal m, v
            if decoupled:
                p = p * (1 - lr * decay)
            else:
                g = g + decay * p
            m = 0.9 * m + 0.1 * g
            v = 0.99 * v + 0.01 * g * g
            return np.asarray(p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6))

        return step

    return make


def rmsprop(lr: float, momentum: float, centered: bool) -> Callable[[], Callable[..., Array]]:
    def make() -> Callable[..., Array]:
        v: Any = 0.0
        mean: Any = 0.0
        buffer: Any = 0.0

        def step(p: Array, g: Array, t: int) -> Array:
            nonlocal v, mean, buffer
            v = 0.9 * v + 0.1 * g * g
            mean = 0.9 * mean + 0.1 * g
            d = g / (np.sqrt(v - mean * mean if centered else v) + 1e-6)
            buffer = momentum * buffer + d
            return np.asarray(p - lr * (buffer if momentum else d))

        return step

    return make


RULES: dict[str, tuple[Callable[[Any], Optimizer], Callable[[], Callable[..., Array]]]] = {
    "sgd": (lambda p: optim.SGD(p, 0.1), sgd(0.1, 0, 0, 0, False)),
    "momentum": (lambda p: optim.SGD(p, 0.1, 0.9, weight_decay=0.01), sgd(0.1, 0.9, 0, 0.01, False)),
    "dampening": (lambda p: optim.SGD(p, 0.1, 0.9, 0.5), sgd(0.1, 0.9, 0.5, 0, False)),
    "nesterov": (lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True), sgd(0.1, 0.9, 0, 0, True)),
    "adam": (lambda p: optim.Adam(p, 0.1, (0.9, 0.99), 1e-6, 0.02), adam(0.1, 0.02, False)),
    "adamw": (lambda p: optim.AdamW(p, 0.1, (0.9, 0.99), 1e-6, 0.02), adam(0.1, 0.02, True)),
    "rmsprop": (lambda p: optim.RMSprop(p, 0.1, 0.9, 1e-6), rmsprop(0.1, 0.0, False)),
    "centered": (lambda p: optim.RMSprop(p, 0.1, 0.9, 1e-6, 0.0, 0.8, True), rmsprop(0.1, 0.8, True)),
}


@pytest.mark.parametrize("name", list(RULES))
def test_rules(name: str) -> None:
    make, reference = RULES[name]
    params = make_params()
    expected = [p.numpy().copy() for p in params]
    updates = [reference() for _ in params]
    optimizer = make(params)
    for t in range(STEPS):
        loss_of(params, t).backward()
        optimizer.step()
        expected = [u(p, (t + 1) * p * p, t + 1) for u, p in zip(updates, expected, strict=True)]
        for param, value in zip(params, expected, strict=True):
            np.testing.assert_allclose(param.numpy(), value, rtol=1e-9, atol=1e-12)


def test_step_consumes_the_gradients() -> None:
    params = make_params()
    optimizer = optim.SGD(params, 0.1)
    loss_of(params, 0).backward()
    assert all(p.grad is not None for p in params)
    optimizer.step()
    assert all(p.grad is None for p in params)
    before = [p.numpy().copy() for p in params]
    optimizer.step()
    for p, value in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), value)


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_parameters_without_a_gradient_stay_as_they_are(name: str) -> None:
    """Neither weight decay nor momentum touches them, nor their state."""
    make, reference = RULES[name]
    params = make_params()
    optimizer = make(params)
    updates = [reference() for _ in params]
    expected = [p.numpy().copy() for p in params]
    for t in range(3):
        used = [k for k in range(4) if k != 1 or t == 0]
        loss_of([params[k] for k in used], t).backward()
        optimizer.step()
        for k in used:
            expected[k] = updates[k](expected[k], (t + 1) * expected[k] ** 2, t + 1)
        for p, value in zip(params, expected, strict=True):
            np.testing.assert_allclose(p.numpy(), value, rtol=1e-9)
    state = {key: value.numpy() for key, value in optimizer.state_dict().items()}
    slot = "momentum" if name == "momentum" else "exp_avg"
    assert np.abs(state[f"1.{slot}"]).sum() > 0


def test_frozen_parameters_stay_as_they_are() -> None:
    params = make_params()
    optimizer = optim.AdamW(params, 0.1, weight_decay=0.5)
    params[0].requires_grad = False
    before = params[0].numpy().copy()
    loss_of(params, 0).backward()
    optimizer.step()
    np.testing.assert_array_equal(params[0].numpy(), before)
    params[0].requires_grad = True
    loss_of(params, 0).backward()
    optimizer.step()
    assert not np.array_equal(params[0].numpy(), before)


def test_groups_have_settings_of_their_own() -> None:
    params = make_params()
    before = [p.numpy().copy() for p in params]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.01, "weight_decay": 0.0}]
    optimizer = optim.SGD(groups, 0.1, weight_decay=0.5)
    assert [g.lr for g in optimizer.groups] == [0.1, 0.01]
    loss_of(params, 0).backward()
    optimizer.step()
    for k, (p, value) in enumerate(zip(params, before, strict=True)):
        lr, decay = (0.1, 0.5) if k < 2 else (0.01, 0.0)
        np.testing.assert_allclose(p.numpy(), value - lr * (value**2 + decay * value), rtol=1e-12)
    optimizer.lr = 0.5
    assert [g.lr for g in optimizer.groups] == [0.5, 0.5]


def test_what_is_no_parameter_is_refused() -> None:
    params = make_params()
    with pytest.raises(UserError, match="not a parameter"):
        optim.SGD([tensor(1.0)])
    with pytest.raises(UserError, match="in two groups"):
        optim.SGD([{"params": params}, {"params": params[:1]}])
    with pytest.raises(UserError, match="without parameters"):
        optim.SGD([])
    with pytest.raises(UserError, match="no such setting"):
        optim.SGD([{"params": params, "beta": 1.0}])
    with pytest.raises(UserError, match="only floats"):
        optim.SGD([nn.Param(np.arange(3))])
    bad: dict[str, dict[str, Any]] = {
        "lr": {"lr": -1.0},
        "momentum": {"momentum": -0.1},
        "Nesterov": {"nesterov": True},
    }
    for name, settings in bad.items():
        with pytest.raises(UserError, match=name):
            optim.SGD(params, **settings)


def test_parameters_lie_in_one_flat_array_at_256_bytes() -> None:
    params = make_params(np.float32)
    (unit,) = optim.Adam(params).groups[0].units
    assert unit.storage.offsets == (0, 64, 128, 192)
    assert unit.storage.size == 256
    assert all(cell.shape == (256,) for cell in unit.state.values())
    mixed = [nn.Param(np.ones(2, np.float32)), nn.Param(np.ones(2)), nn.Param(np.ones(2, np.float32))]
    units = optim.Adam(mixed).groups[0].units
    assert [[path for path, _ in u.named] for u in units] == [["0", "2"], ["1"]]


def test_a_second_optimizer_goes_on_with_the_same_storage() -> None:
    params = make_params()
    first = optim.SGD(params, 0.1)
    loss_of(params, 0).backward()
    first.step()
    second = optim.SGD([params[3], params[1]], 0.5)
    before = [p.numpy().copy() for p in params]
    loss_of(params, 0).backward()
    second.step()
    for k, (p, value) in enumerate(zip(params, before, strict=True)):
        expected = value - 0.5 * value**2 if k in (1, 3) else value
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-12)


def test_a_parameter_set_by_hand_is_what_the_next_step_starts_from() -> None:
    params = make_params()
    optimizer = optim.SGD(params, 0.1)
    params[1].value = np.ones(5)
    loss_of(params, 0).backward()
    optimizer.step()
    np.testing.assert_allclose(params[1].numpy(), np.full(5, 0.9), rtol=1e-12)


def train_steps(
    optimizer: Optimizer, params: list[nn.Param], count: int, schedule: optim.Schedule | None = None
) -> None:
    for _ in range(count):
        loss = loss_of(params, 0)
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        loss.item()


def test_one_program_a_step_and_none_compiled_after_the_first_ones() -> None:
    """Whatever the schedule does."""
    params = make_params(np.float32)
    optimizer = optim.AdamW(params, 1e-3, max_norm=1.0)
    schedule = optim.CosineSchedule(optimizer, 100, 10)
    train_steps(optimizer, params, 2, schedule)
    reset_stats()
    train_steps(optimizer, params, 5, schedule)
    assert stats()["programs_run"] == 5
    assert stats()["programs_compiled"] == 0
    assert stats()["nodes_recomputed"] == 0


def test_the_update_is_as_many_ops_for_many_parameters_as_for_few() -> None:
    counts = []
    for size in (2, 40):
        params = [nn.Param(np.ones(3, np.float32)) for _ in range(size)]
        optimizer = optim.AdamW(params, max_norm=1.0)
        for p in params:
            p.grad = tensor(np.ones(3, np.float32))
        reset_stats()
        optimizer.step()
        counts.append(stats()["nodes_run"])
    assert counts[1] - counts[0] <= 1


def test_half_precision_parameters_have_state_in_single() -> None:
    params = make_params(np.float16)
    optimizer = optim.Adam(params, 0.01)
    loss_of(params, 0).backward()
    optimizer.step()
    assert params[0].dtype is dtypes.f16
    assert optimizer.state_dict()["0.exp_avg"].dtype is dtypes.f32


# ---- clipping ----------------------------------------------------------------------------------------------------


def norm_of(params: list[nn.Param]) -> float:
    return float(np.sqrt(sum((p.numpy().astype(np.float64) ** 4).sum() for p in params)))


def test_max_norm_limits_the_norm_of_all_gradients_together() -> None:
    params = make_params()
    optimizer = optim.SGD([{"params": params[:1]}, {"params": params[1:]}], 1.0, max_norm=0.5)
    before = [p.numpy().copy() for p in params]
    total = norm_of(params)
    assert total > 0.5
    loss_of(params, 0).backward()
    optimizer.step()
    assert optimizer.grad_norm is not None
    np.testing.assert_allclose(optimizer.grad_norm.numpy(), total, rtol=1e-12)
    for p, value in zip(params, before, strict=True):
        np.testing.assert_allclose(p.numpy(), value - value**2 * 0.5 / (total + 1e-6), rtol=1e-10)


def test_small_gradients_are_not_scaled_up() -> None:
    params = make_params()
    optimizer = optim.SGD(params, 1.0, max_norm=1e6)
    before = params[0].numpy().copy()
    loss_of(params, 0).backward()
    optimizer.step()
    np.testing.assert_allclose(params[0].numpy(), before - before**2, rtol=1e-13)


def test_clip_grad_norm_and_value_by_hand() -> None:
    params = make_params()
    loss_of(params, 0).backward()
    total = norm_of(params)
    np.testing.assert_allclose(optim.clip_grad_norm_(params, 0.5).numpy(), total, rtol=1e-12)
    np.testing.assert_allclose(optim.grad_norm(params).numpy(), 0.5, rtol=1e-5)
    optim.clip_grad_value_(params, 0.01)
    assert all(np.abs(p.grad.numpy()).max() <= 0.01 for p in params if p.grad is not None)
    with pytest.raises(UserError, match="no parameter has a gradient"):
        optim.grad_norm(make_params())


# ---- state -------------------------------------------------------------------------------------------------------


def model_and_optimizer() -> tuple[nn.Module, Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4, dtype="f64"), nn.Tanh(), nn.Linear(4, 2, dtype="f64"))
    return model, optim.AdamW(model, 0.05)


def run(model: nn.Module, optimizer: Optimizer, steps: int) -> None:
    x, y = np.linspace(-1, 1, 15).reshape(5, 3), np.array([0, 1, 1, 0, 1])
    for _ in range(steps):
        F.cross_entropy(model(tensor(x)), tensor(y)).backward()
        optimizer.step()


def test_training_goes_on_from_a_saved_state_as_if_never_stopped() -> None:
    model, optimizer = model_and_optimizer()
    run(model, optimizer, 3)
    saved = {key: value.numpy().copy() for key, value in optimizer.state_dict().items()}
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    run(model, optimizer, 3)
    other, resumed = model_and_optimizer()
    other.load_state_dict(weights)
    resumed.load_state_dict(saved)
    run(other, resumed, 3)
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[key].numpy(), value.numpy())
    assert list(saved)[:3] == ["group.0.step", "group.0.lr", "0.weight.exp_avg"]
    assert saved["group.0.step"] == 3.0


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    model, optimizer = model_and_optimizer()
    run(model, optimizer, 2)
    before = {key: value.numpy().copy() for key, value in optimizer.state_dict().items()}
    state = dict(before)
    state["0.weight.exp_avg"] = np.zeros((3, 3))
    with pytest.raises(ShapeError, match=r"0.weight.exp_avg"):
        optimizer.load_state_dict(state)
    del state["0.weight.exp_avg"]
    with pytest.raises(InputError, match=r"missing: 0.weight.exp_avg"):
        optimizer.load_state_dict(state)
    for key, value in optimizer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
