"""Training keeps nothing: with Python's collector off, neither live bytes nor objects grow, and buffers are reused."""

import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import IndexRangeError
from firebox.runtime.memory import POOL

pytestmark = pytest.mark.usefixtures("frontend")

_STEPS = 30
_STEADY = 8  # objects that a run may leave: caches of the interpreter, not of ours


@pytest.fixture(autouse=True)
def no_collector(frontend: None) -> Iterator[None]:
    """On native code: the reference interpreter makes IR, objects that refer to each other, and donates nothing."""
    fb.set_default_device("cpu")
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Training:
    """A small model, its data, and an optimizer."""

    def __init__(self, max_norm: float | None = None) -> None:
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = optim.AdamW(self.model, 1e-3, max_norm=max_norm)
        generator = np.random.default_rng(0)
        self.x = fb.tensor(generator.standard_normal((5, 8)).astype(np.float32))
        self.y = fb.tensor(generator.integers(0, 4, 5))

    def loss(self) -> fb.Tensor:
        logits: fb.Tensor = self.model(self.x)
        return fb.cross_entropy(logits, self.y)

    def plain(self) -> None:
        self.loss().backward()
        self.optimizer.step()

    def read(self) -> None:
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        loss.item()

    def read_before_backward(self) -> None:
        loss = self.loss()
        loss.item()
        loss.backward()
        self.optimizer.step()

    def two_backwards(self) -> None:
        hidden = self.model(self.x)
        fb.cross_entropy(hidden, self.y).backward(retain_graph=True)
        (hidden * hidden).mean().backward()
        self.optimizer.step()

    def dropped_gradients(self) -> None:
        loss = self.loss()
        loss.backward()
        self.optimizer.zero_grad()
        loss.item()

    def without_backward(self) -> None:
        self.loss().item()


def growth(step: Callable[[], None]) -> tuple[int, int]:
    """Bytes and objects that ``_STEPS`` steps leave, after some that fill the caches."""
    for _ in range(5):
        step()
    gc.collect()
    live, objects = POOL.statistics().live, len(gc.get_objects())
    for _ in range(_STEPS):
        step()
    return POOL.statistics().live - live, len(gc.get_objects()) - objects


@pytest.mark.parametrize(
    "name",
    ["plain", "read", "read_before_backward", "two_backwards", "dropped_gradients", "without_backward"],
)
def test_steps_leave_nothing(name: str) -> None:
    live, objects = growth(getattr(Training(), name))
    assert live == 0
    assert objects <= _STEADY


def test_clipped_steps_leave_nothing() -> None:
    live, objects = growth(Training(max_norm=1.0).plain)
    assert live == 0
    assert objects <= _STEADY


def test_parameters_and_state_are_updated_in_place() -> None:
    """Flat parameters, two flat moments and the step count of each step are donated to the next."""
    training = Training()
    for _ in range(5):
        training.read()
    fb.reset_stats()
    for _ in range(_STEPS):
        training.read()
    assert fb.stats()["programs_run"] == _STEPS
    assert fb.stats()["buffers_donated"] == 4 * _STEPS


def test_a_compiled_step_updates_in_place_too() -> None:
    training = Training()
    step = fb.jit(training.plain)
    live, objects = growth(step)
    assert (live, objects <= _STEADY) == (0, True)
    fb.reset_stats()
    for _ in range(_STEPS):
        step()
    assert fb.stats()["buffers_donated"] == 4 * _STEPS


def test_a_parameter_that_is_held_is_not_written() -> None:
    training = Training()
    for _ in range(3):
        training.plain()
    weight = training.model[0].weight
    kept, before = weight.value, weight.numpy().copy()
    training.plain()
    np.testing.assert_array_equal(kept.numpy(), before)
    assert not np.array_equal(weight.numpy(), before)


def test_what_uses_a_failed_value_raises_its_error() -> None:
    """Whether it is read, called with, or part of a program."""
    bad = fb.tensor([1.0, 2.0])[fb.tensor([5])]
    later = bad * 2
    with pytest.raises(IndexRangeError):
        bad.item()
    double = fb.jit(lambda value: value * 2)
    for use in (later.item, (bad + 1).item, lambda: double(bad).item(), bad.numpy):
        with pytest.raises(IndexRangeError):
            use()


@pytest.mark.parametrize(
    "use",
    [
        lambda cell: cell.value.numpy(),
        lambda cell: (cell + 1).numpy(),
        lambda cell: fb.jit(lambda: cell + 1)(),
        lambda cell: fb.flush(),
    ],
)
def test_a_cell_whose_program_failed_raises_once_and_keeps_its_value(
    use: Callable[[fb.Cell], object],
) -> None:
    cell = fb.Cell(fb.tensor([1.0, 2.0]))
    cell.value = cell[fb.tensor([0, 5])]
    fb.flush()
    with pytest.raises(IndexRangeError):
        use(cell)
    assert cell.value.tolist() == [1, 2]
