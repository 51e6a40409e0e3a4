"""Functions recorded as one node: counted, differentiated, batched, located; with values checked against NumPy."""

import inspect
from collections.abc import Sequence

import numpy as np
import pytest

import firebox as fb
from firebox import nn, optim
from firebox.errors import CompilerError
from firebox.frontend import locations
from firebox.frontend.calls import record_call
from firebox.frontend.graph import Var
from firebox.frontend.plan import Planner
from firebox.frontend.tensor import wrap

pytestmark = pytest.mark.usefixtures("frontend")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def grad_of(leaf: fb.Tensor) -> np.ndarray:
    assert leaf.grad is not None
    return leaf.grad.numpy()


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def test_a_loss_is_one_node() -> None:
    x, y = numbers(4, 3), np.array([0, 2, 1, 1])
    loss = fb.cross_entropy(fb.tensor(x), fb.tensor(y))
    np.testing.assert_allclose(loss.item(), -log_softmax(x)[np.arange(4), y].mean(), rtol=1e-5)
    assert fb.stats()["nodes_run"] == 1


def test_an_update_is_one_node_whatever_the_rule() -> None:
    """Besides it: the step count, the packed gradient and one view a parameter."""
    for make in (optim.SGD, optim.AdamW, optim.RMSprop):
        params = [nn.Param(numbers(3)), nn.Param(numbers(2))]
        optimizer = make(params, 0.1)
        fb.flush()
        for p in params:
            p.grad = fb.tensor(np.ones(p.shape, np.float32))
        fb.reset_stats()
        optimizer.step()
        assert fb.stats()["nodes_run"] == 3


def test_equal_rules_share_a_trace_and_others_do_not() -> None:
    found = []
    for rate, decay in ((0.1, 0.0), (0.1, 0.0), (0.1, 0.5)):
        p = nn.Param(np.ones(2, np.float32))
        optimizer = optim.SGD([p], rate, weight_decay=decay)
        p.grad = fb.ones(2)
        optimizer.step()
        found.append(p.tolist())
    np.testing.assert_allclose(found, [[0.9, 0.9], [0.9, 0.9], [0.85, 0.85]], rtol=1e-6)


def test_derivatives_flow_through_a_call_and_end_where_its_trace_says() -> None:
    x = fb.tensor([0.5, -2.0], requires_grad=True)

    def half(places: Sequence[Var]) -> list[Var]:
        value = wrap(places[0])
        inner = value.exp()
        return [(inner * inner.detach())._var, (value * 3).detach()._var]

    first, fixed = map(wrap, record_call("half", half, [x._var], x.device))
    assert (first.requires_grad, fixed.requires_grad) == (True, False)
    (first * fixed).sum().backward()
    given = np.array([0.5, -2.0])
    np.testing.assert_allclose(grad_of(x), np.exp(given) ** 2 * given * 3, rtol=1e-5)


def test_second_derivatives_go_through_calls() -> None:
    square = fb.grad(fb.grad(lambda x: nn.functional.softplus(x)))(fb.tensor(0.3))
    sigmoid = 1 / (1 + np.exp(-0.3))
    np.testing.assert_allclose(square.item(), sigmoid * (1 - sigmoid), rtol=1e-5)


def test_calls_are_batched_and_nested() -> None:
    x = numbers(5, 4)
    rows = fb.vmap(lambda row: nn.functional.mse_loss(nn.functional.relu(row), row * 0.0))(fb.tensor(x))
    np.testing.assert_allclose(rows.numpy(), (np.maximum(x, 0) ** 2).mean(1), rtol=1e-5)
    query, key, value = (numbers(2, 3, seed=k) for k in range(3))
    attention = nn.functional.scaled_dot_product_attention(fb.tensor(query), fb.tensor(key), fb.tensor(value))
    expected = np.exp(log_softmax(query @ key.T / np.sqrt(3.0))) @ value
    np.testing.assert_allclose(attention.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_jit_puts_the_bodies_of_calls_in_their_place() -> None:
    x, y = numbers(4, 3), np.array([0, 2, 1, 1])
    step = fb.jit(lambda a, b: fb.cross_entropy(nn.functional.relu(a), b))
    expected = -log_softmax(np.maximum(x, 0))[np.arange(4), y].mean()
    for _ in range(2):
        np.testing.assert_allclose(step(fb.tensor(x), fb.tensor(y)).item(), expected, rtol=1e-5)


def test_numbers_of_a_call_stay_slots() -> None:
    x = fb.tensor([-1.0, 2.0])
    for k in range(1, 6):
        np.testing.assert_allclose(nn.functional.leaky_relu(x, k / 10).numpy(), [-k / 10, 2.0], rtol=1e-6)
    assert fb.stats()["programs_compiled"] == 2


def test_settings_that_are_equal_but_not_the_same_have_traces_of_their_own() -> None:
    x = fb.tensor([-1.0])
    assert str(nn.functional.leaky_relu(x, 0.0).item()) == "-0.0"
    assert str(nn.functional.leaky_relu(x, -0.0).item()) == "0.0"


def test_the_line_of_a_call_is_the_one_of_its_ops() -> None:
    x = fb.tensor(numbers(2, 3))
    for _ in range(2):
        y = nn.functional.gelu(x)
        plan = Planner().make([y._var])
        lines = [locations.text(step.node.location) for step in plan.steps]
        assert [step.entry.op.name for step in plan.recorded] == ["nd.checkpoint"]
        assert len(lines) > 3
        assert set(lines) == {f"{__file__}:{y_line()}"}


def y_line() -> int:
    """The line of the call in the test above."""
    test = test_the_line_of_a_call_is_the_one_of_its_ops
    source, first = inspect.getsourcelines(test)
    return first + next(k for k, text in enumerate(source) if "gelu(x)" in text)


def test_a_target_out_of_range_names_the_line_of_the_loss() -> None:
    for _ in range(2):  # the second time the trace is known already
        with pytest.raises(fb.IndexRangeError) as caught:
            fb.cross_entropy(fb.tensor(numbers(2, 3)), fb.tensor([0, 7])).item()
        assert __file__.rpartition("/")[2] in str(caught.value)


def test_a_function_that_is_not_pure_is_refused() -> None:
    other, x = fb.tensor([1.0]), fb.tensor([2.0])
    cell = fb.Cell(x)

    def captures(places: Sequence[Var]) -> list[Var]:
        return [(wrap(places[0]) + other)._var]

    def writes(places: Sequence[Var]) -> list[Var]:
        cell.value = wrap(places[0])
        return list(places)

    for function in (captures, writes):
        with pytest.raises(CompilerError, match="not pure"):
            record_call(function, function, [x._var], x.device)
    assert cell.tolist() == [2]
