"""Strategies for whole programs: the planned arena shrinks as asked for, and gradients stay what they were."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import dims
from firebox.dialects import plan
from firebox.errors import UserError
from firebox.lowering.bufferize import THREADS
from firebox.lowering.options import Options
from firebox.lowering.pipeline import run_to

ROWS, WIDTH, LAYERS = 256, 64, 6
VALUE = ROWS * WIDTH * 8
"""Bytes of one hidden value."""
RNG = np.random.default_rng(7)
WEIGHTS = [RNG.normal(0, 0.1, (WIDTH, WIDTH)) for _ in range(LAYERS)]
X = RNG.normal(size=(ROWS, WIDTH))


def loss(weights: list[fb.Tensor], x: fb.Tensor) -> fb.Tensor:
    """A residual network, whose values all wait for backward."""
    for w in weights:
        x = x + (x @ w).gelu()
    return (x * x).mean()


def arguments() -> tuple[list[fb.Tensor], fb.Tensor]:
    return [fb.tensor(w) for w in WEIGHTS], fb.tensor(X)


def arena(jitted: Any) -> int:
    """The bytes that the program is planned with."""
    module = run_to(jitted.lower(*arguments()).module(), fb.Device("cpu").target, "bufferize", jitted.options)
    (entry,) = (op for op in module.body.block.ops if isinstance(op, plan.ProgramOp))
    return dims.evaluate(entry.dim("arena"), {THREADS: 1})


def jitted(checkpoint: str | int) -> Any:
    return fb.jit(fb.grad(loss), checkpoint=checkpoint)


@pytest.fixture(scope="module")
def plain() -> tuple[int, list[Any]]:
    """The arena and the gradients without recomputation."""
    function = jitted("none")
    with fb.device("cpu"):
        return arena(function), [g.numpy() for g in function(*arguments())]


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Any:
    with fb.device("cpu"):
        yield


def check_gradients(function: Any, expected: list[Any]) -> None:
    for found, wanted in zip(function(*arguments()), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-15)


def test_balanced_keeps_what_is_bound_by_arithmetic(plain: tuple[int, list[Any]]) -> None:
    """Some three values a layer wait for backward otherwise; the products and the sums are left."""
    before, expected = plain
    function = jitted("balanced")
    assert before > 3 * LAYERS * VALUE
    assert arena(function) < 0.6 * before
    check_gradients(function, expected)


def test_a_budget_holds_for_the_planned_arena(plain: tuple[int, list[Any]]) -> None:
    before, expected = plain
    for part in (0.75, 0.5):
        budget = int(part * before)
        function = jitted(budget)
        assert 0.5 * budget < arena(function) <= budget  # and not much more is repeated than needed
        if part == 0.5:
            check_gradients(function, expected)


def test_a_budget_that_is_large_enough_changes_nothing(plain: tuple[int, list[Any]]) -> None:
    assert arena(jitted(f"budget:{plain[0]}B")) == plain[0]
    assert arena(jitted("budget:1GiB")) == plain[0]


def test_a_budget_out_of_reach_names_the_smallest_arena(plain: tuple[int, list[Any]]) -> None:
    with pytest.raises(UserError, match="the budget is out of reach") as caught:
        jitted("budget:64KiB")(*arguments())
    text = str(caught.value)
    assert "expected: an arena of at most 65536 bytes" in text
    smallest = int(text.split("found:")[1].split()[0])
    assert VALUE < smallest < plain[0] and f"a budget of {smallest} bytes or more" in text
    assert arena(jitted(smallest)) <= smallest  # what it says holds


def test_a_training_step_is_a_program_like_others() -> None:
    """Forward, backward and the update of the parameters under one strategy: the same losses, less memory."""
    found, arenas = {}, {}
    for strategy in ("none", "balanced"):
        params = [fb.Param(w) for w in WEIGHTS]
        optimizer = fb.optim.SGD(params, lr=0.1)

        def step(x: fb.Tensor, params: Any = params, optimizer: Any = optimizer) -> fb.Tensor:
            value = loss(params, x)
            value.backward()
            optimizer.step()
            return value

        compiled = fb.jit(step, checkpoint=strategy)
        x = fb.tensor(X)
        found[strategy] = [compiled(x).item() for _ in range(3)]
        module = run_to(compiled.lower(x).module(), fb.Device("cpu").target, "bufferize", compiled.options)
        (entry,) = (op for op in module.body.block.ops if isinstance(op, plan.ProgramOp))
        arenas[strategy] = dims.evaluate(entry.dim("arena"), {THREADS: 1})
    assert found["none"][2] < found["none"][0]
    np.testing.assert_allclose(found["balanced"], found["none"], rtol=1e-12)
    assert arenas["balanced"] < 0.7 * arenas["none"]


def test_a_budget_keeps_sizes_fixed() -> None:
    """A second size is compiled for itself, as what an arena of unknown sizes takes is not known."""
    function = fb.jit(fb.grad(lambda x: (x.sin().exp() * x).sum()), checkpoint="budget:1MiB")
    for size in (64, 128):
        x = np.linspace(0.0, 1.0, size)
        expected = np.exp(np.sin(x)) * (1 + x * np.cos(x))
        np.testing.assert_allclose(function(fb.tensor(x)).numpy(), expected, rtol=1e-14)
    with pytest.raises(UserError, match=r"sizes that are known[\s\S]*found:    n[\s\S]*balanced"):
        fb.compile(lambda x: x.exp(), "x: f32[n]", checkpoint=1024)


def test_budgets_are_read_in_units() -> None:
    for text, count in (("64MiB", 64 << 20), ("1.5 KiB", 1536), ("2kB", 2000), ("7", 7), ("3B", 3), ("1GB", 10**9)):
        options = Options(checkpoint=f"budget:{text}")
        assert (options.budget, options.strategy, options.checkpoint) == (count, "budget", f"budget:{count}")
    assert Options(checkpoint=1 << 20) == Options(checkpoint="budget:1MiB")
    assert Options().budget is None and Options(checkpoint="balanced").strategy == "balanced"
    for wrong in ("budget", "budget:", "budget:many", "budget:-1", "budget:5TB", 0, -3, True, 1.5):
        with pytest.raises(UserError, match="checkpoint: not a budget"):
            Options(checkpoint=wrong)  # type: ignore[arg-type]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(UserError, match="checkpoint: no such strategy\n  expected: balanced, budget, none"):
        jitted("some")(*arguments())
