"""A training step that fails leaves parameters and optimizer state as they were."""

from collections.abc import Callable

import numpy as np
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import IndexRangeError, TraceError

Step = Callable[[fb.Tensor, fb.Tensor], fb.Tensor]


class Model(nn.Module):
    """Token scores."""

    def __init__(self) -> None:
        self.embedding = nn.Embedding(10, 4)
        self.output = nn.Linear(4, 3)

    def forward(self, tokens: fb.Tensor) -> fb.Tensor:
        scores: fb.Tensor = self.output(self.embedding(tokens))
        return scores


def training(jitted: bool) -> tuple[Model, optim.Optimizer, Step]:
    fb.manual_seed(0)
    model = Model()
    optimizer = optim.AdamW(model, lr=1e-2)

    def step(tokens: fb.Tensor, labels: fb.Tensor) -> fb.Tensor:
        loss: fb.Tensor = fb.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, fb.jit(step) if jitted else step


def values(model: Model, optimizer: optim.Optimizer) -> dict[str, np.ndarray]:
    state = model.state_dict() | optimizer.state_dict()
    return {name: np.array(v.numpy()) for name, v in state.items()}


@pytest.mark.parametrize("jitted", [False, True])
def test_a_bad_batch_changes_nothing(jitted: bool) -> None:
    model, optimizer, step = training(jitted)
    good = fb.tensor([1, 2, 3]), fb.tensor([0, 1, 2])
    bad = fb.tensor([1, 30, 3]), fb.tensor([0, 1, 2])
    losses = [step(*good).item() for _ in range(3)]
    before = values(model, optimizer)
    with pytest.raises(IndexRangeError, match="index"):
        step(*bad).item()
    after = values(model, optimizer)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert step(*good).item() < losses[-1]


@pytest.mark.parametrize("jitted", [False, True])
def test_training_goes_on_as_if_the_bad_batch_had_not_been(jitted: bool) -> None:
    good = fb.tensor([1, 2, 3]), fb.tensor([0, 1, 2])
    results = []
    for spoiled in (False, True):
        model, optimizer, step = training(jitted)
        for k in range(4):
            if spoiled and k == 2:
                with pytest.raises(IndexRangeError):
                    step(fb.tensor([1, 2, 3]), fb.tensor([0, 1, 7])).item()
            step(*good).item()
        results.append(values(model, optimizer))
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value, err_msg=name)


def test_a_step_beside_something_that_cannot_be_computed() -> None:
    """A value that was carried out of a traced function is still held: the step is as if it were not."""
    losses = []
    for leaks in (False, True):
        held: list[fb.Tensor] = []
        model = nn.Linear(2, 1)
        model.weight.set(fb.tensor([[1.0, -2.0]]))
        assert model.bias is not None
        model.bias.set(fb.tensor([0.5]))
        optimizer = optim.SGD(model, lr=0.1)
        for _ in range(3):
            if leaks:
                fb.vmap(lambda v, held=held: held.append(v * 2) or v)(fb.ones(2))
                held.append(held[-1] + 1)
            hidden = model(fb.tensor([[1.0, 2.0], [3.0, -1.0]]))
            loss = (hidden**2).sum()
            loss.backward()
            optimizer.step()
            losses.append([loss.item(), *hidden.flatten().tolist(), *model.weight.value.flatten().tolist()])
        for value in held:
            with pytest.raises(TraceError, match="used outside of it"):
                value.numpy()
    assert losses[:3] == losses[3:]
