"""`jit` and cells: what is read and written inside, parameters, optimizers, random state."""

import copy
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import UserError
from firebox.frontend.cells import Flat
from tests.frontend.jitted import grad_of, rows, traces

pytestmark = pytest.mark.usefixtures("frontend")


def test_cells_are_hidden_inputs_and_outputs() -> None:
    count, weight = fb.Buffer(fb.tensor(0.0)), fb.Param([2.0])

    @fb.jit
    def f(x: fb.Tensor) -> fb.Tensor:
        count.value = count + x.sum()
        return x * weight

    with fb.no_grad():
        assert f(fb.tensor([1.0])).tolist() == [2]
        weight.value = fb.tensor([10.0])
        assert f(fb.tensor([3.0])).tolist() == [30]
    assert count.item() == 4
    assert traces() == 1


def test_an_error_while_tracing_leaves_the_cells_alone() -> None:
    count = fb.Buffer(fb.tensor(0.0))

    @fb.jit
    def f(x: fb.Tensor) -> fb.Tensor:
        count.value = count + 1
        return x[5]

    with pytest.raises(fb.IndexRangeError):
        f(fb.ones(2))
    assert count.item() == 0
    assert (fb.ones(1) + count).tolist() == [1]


def test_a_cell_of_another_type_is_traced_anew() -> None:
    cell = fb.Buffer(fb.tensor([1.0]))
    f = fb.jit(lambda x: x + cell)
    assert f(fb.ones(1)).tolist() == [2]
    cell.value = fb.tensor([1.0, 2.0])
    assert f(fb.ones(1)).tolist() == [2, 3]
    cell.value = fb.tensor([5.0])
    assert f(fb.ones(1)).tolist() == [6]
    assert traces() == 2


def linear_step(w: fb.Param, compiled: bool) -> Any:
    def step(x: fb.Tensor, y: fb.Tensor) -> fb.Tensor:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with fb.no_grad():
            assert w.grad is not None
            w.value = w - w.grad * 0.1
        w.grad = None
        return loss

    return fb.jit(step) if compiled else step


def test_a_training_step_inside_is_the_same_as_outside() -> None:
    x, y = rows(4), fb.tensor([1.0, -1.0, 2.0, 0.5])
    losses = []
    for compiled in (False, True):
        w = fb.Param([0.1, 0.2])
        step = linear_step(w, compiled)
        losses.append([step(x, y).item() for _ in range(4)])
        assert w.grad is None
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][3] != losses[0][0]
    assert traces() == 1


def test_a_loss_that_was_used_up_inside_has_no_derivative() -> None:
    w = fb.Param([0.1, 0.2])
    loss = linear_step(w, True)(rows(4), fb.ones(4))
    assert not loss.requires_grad
    with pytest.raises(UserError, match="nothing behind"):
        loss.backward()


def test_gradients_made_inside_are_there_outside() -> None:
    w = fb.Param([1.0, 2.0])
    f = fb.jit(lambda x: (x * w).sum().backward())
    f(fb.tensor([3.0, 4.0]))
    assert grad_of(w).tolist() == [3, 4]
    f(fb.tensor([1.0, 1.0]))
    assert grad_of(w).tolist() == [4, 5]
    w.grad = None
    f(fb.tensor([1.0, 1.0]))
    assert grad_of(w).tolist() == [1, 1]
    assert traces() == 2  # without and with a gradient to add to


def test_a_compiled_function_can_be_differentiated() -> None:
    w = fb.Param([1.0, 2.0])
    f = fb.jit(lambda x: (x * x * w).sum())
    x = fb.tensor([3.0, 4.0], requires_grad=True)
    for _ in range(2):
        loss = f(x) * 2
        loss.backward()
    assert grad_of(x).tolist() == [24, 64]
    assert grad_of(w).tolist() == [36, 64]
    assert traces() == 1
    with fb.no_grad():
        assert not f(x).requires_grad


def test_inside_other_transforms_a_compiled_function_is_part_of_them() -> None:
    f = fb.jit(lambda x: (x**3).sum())
    assert fb.grad(f)(fb.tensor([2.0])).tolist() == [12]
    assert fb.jit(fb.grad(f))(fb.tensor([2.0])).tolist() == [12]
    assert fb.jit(lambda x: f(x) + 1)(fb.tensor([2.0])).item() == 9
    assert fb.vmap(f)(fb.tensor([[1.0], [2.0]])).tolist() == [1, 8]


def test_cells_in_flat_storage() -> None:
    a, b = fb.Param([1.0, 2.0]), fb.Param([3.0])
    flat = Flat([a, b])

    @fb.jit
    def step(x: fb.Tensor) -> fb.Tensor:
        loss = (a * x).sum() + b.sum()
        loss.backward()
        with fb.no_grad():
            flat.value = flat.value - flat.pack([grad_of(a), grad_of(b)])
        a.grad = b.grad = None
        return loss

    assert step(fb.ones(2)).item() == 6
    assert (a.tolist(), b.tolist()) == ([0, 1], [2])
    a.value = fb.tensor([10.0, 10.0])
    assert step(fb.ones(2)).item() == 22
    assert (a.tolist(), b.tolist()) == ([9, 9], [1])
    assert traces() == 1
    text = step.lower(fb.ones(2)).mlir()
    assert text.count("tensor<128xf32>)") >= 1
    assert text.partition("->")[0].count("%") == 2  # x and the flat tensor


def test_storage_made_after_tracing_is_noticed() -> None:
    a = fb.Param([1.0])
    f = fb.jit(lambda x: x * a)
    with fb.no_grad():
        f(fb.ones(1))
        Flat([a])
        a.value = fb.tensor([5.0])
        assert f(fb.ones(1)).tolist() == [5]


def test_methods_and_modes() -> None:
    class Model(fb.nn.Module):
        def __init__(self) -> None:
            self.scale = fb.Param([2.0])

        @fb.jit
        def forward(self, x: fb.Tensor) -> fb.Tensor:
            return x * self.scale if self.training else x

    model = Model()
    x = fb.tensor([3.0])
    for _ in range(2):
        assert model(x).tolist() == [6]
        model.eval()
        assert model(x).tolist() == [3]
        model.train()
    assert traces() == 2
    other = copy.deepcopy(model)
    other.scale.value = fb.tensor([10.0])
    assert other(x).tolist() == [30]
    assert model(x).tolist() == [6]


def test_a_model_may_be_an_argument() -> None:
    f = fb.jit(lambda model, x: model(x))
    with fb.no_grad():
        for seed in range(2):
            fb.manual_seed(seed)
            model = fb.nn.Linear(2, 3)
            np.testing.assert_allclose(f(model, rows(4)).numpy(), model(rows(4)).numpy(), rtol=1e-6)
    assert traces() == 2


def test_a_fault_in_a_step_that_replaces_cells_leaves_them_as_they_were() -> None:
    state = fb.Buffer([1.0, 2.0])

    @fb.jit
    def f(i: fb.Tensor) -> None:
        state.value = state * state[i]

    f(fb.tensor([1]))
    assert state.tolist() == [2, 4]
    for _ in range(2):
        with pytest.raises(fb.IndexRangeError):
            f(fb.tensor([7]))
    assert state.tolist() == [2, 4]
    f(fb.tensor([0]))
    assert state.tolist() == [4, 8]
