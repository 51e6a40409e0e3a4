"""The code that docs/control-flow.md shows."""

from typing import Any

import numpy as np
import pytest

import firebox as fb


def test_a_condition_chooses_a_function() -> None:
    @fb.jit
    def clipped(gradient: fb.Tensor) -> Any:
        norm = (gradient * gradient).sum().sqrt()
        return fb.cond(norm > 1.0, lambda g: g / norm, lambda g: g, gradient)  # one of the two runs

    assert clipped(fb.tensor([3.0, 4.0])).tolist() == pytest.approx([0.6, 0.8])
    assert clipped(fb.tensor([0.3, 0.4])).tolist() == pytest.approx([0.3, 0.4])


def test_a_loop_runs_while_a_condition_holds() -> None:
    @fb.jit
    def root(a: fb.Tensor) -> Any:
        def far(x: fb.Tensor) -> fb.Tensor:
            return abs(x * x - a) > 1e-6 * a

        return fb.while_loop(far, lambda x: (x + a / x) / 2, a)  # Newton's steps; a comes in by itself

    assert root(fb.tensor(2.0)).item() == pytest.approx(2**0.5)
    value, slope = fb.jvp(root, (fb.tensor(4.0),), (fb.tensor(1.0),))
    assert (value.item(), slope.item()) == (pytest.approx(2.0), pytest.approx(0.25, rel=1e-3))


def test_a_recurrence_is_a_scan() -> None:
    cell, out = fb.nn.Linear(3 + 8, 8), fb.nn.Linear(8, 1)

    def step(state: fb.Tensor, x: fb.Tensor) -> tuple[Any, Any]:
        state = fb.tanh(cell(fb.concat([x, state], axis=1)))
        return state, out(state)  # what is carried, and what is stacked

    def loss(xs: fb.Tensor) -> Any:
        last, rows = fb.scan(step, fb.zeros(2, 8), xs)
        return (rows**2).mean() + last.mean()

    loss(fb.randn(100, 2, 3)).backward()  # back through all steps; parameters used inside get gradients
    assert all(p.grad is not None for p in cell.parameters())


def test_a_loop_with_numbers() -> None:
    def power(x: fb.Tensor, n: int | fb.Tensor) -> Any:
        return fb.fori_loop(0, n, lambda i, v: v * x, fb.ones_like(x))

    x = fb.tensor(3.0)
    assert power(x, 4).item() == power(x, fb.tensor(4)).item() == 81.0
    assert fb.grad(lambda x: power(x, 4))(x).item() == 4 * 27.0  # with a tensor as bound: forward mode only


def test_random_numbers_are_drawn_outside() -> None:
    fb.manual_seed(0)
    noise = fb.randn(100)
    walk = fb.scan(lambda at, step: (at + step, at + step), fb.tensor(0.0), noise)[1]
    np.testing.assert_allclose(walk.numpy(), np.cumsum(noise.numpy()), rtol=1e-4, atol=1e-5)
