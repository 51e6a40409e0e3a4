"""Derivatives and batches of control flow: against differences, against the loop written out, nested in any order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(5)
XS = RNG.standard_normal((4, 3))
W = RNG.standard_normal((3, 3)) * 0.5
Function = Callable[..., Any]


def recurrent(xs: fb.Tensor, w: fb.Tensor) -> Any:
    """Uses the weight in every step, and both what is carried and what is stacked."""

    def step(state: fb.Tensor, x: fb.Tensor) -> tuple[Any, Any]:
        state = fb.tanh(state @ w + x)
        return state, state * x

    last, rows = fb.scan(step, xs[0] * 0.1, xs)
    return last + rows.sum(0)


def recurrent_loop(xs: fb.Tensor, w: fb.Tensor) -> Any:
    state, total = xs[0] * 0.1, xs[0] * 0
    for k in range(int(xs.shape[0])):
        state = fb.tanh(state @ w + xs[k])
        total = total + state * xs[k]
    return state + total


def checkpointed(xs: fb.Tensor, w: fb.Tensor) -> Any:
    def step(state: fb.Tensor, x: fb.Tensor) -> tuple[fb.Tensor, None]:
        return fb.tanh(fb.exp(state * 0.1) @ w + x), None

    return fb.scan(fb.checkpoint(step), xs[0], xs)[0]


def backwards(xs: fb.Tensor, w: fb.Tensor) -> Any:
    return fb.scan(lambda c, x: (fb.sin(c @ w) * x, c), xs[1], xs, reverse=True)[1].sum(0)


def in_steps_of_two(xs: fb.Tensor, w: fb.Tensor) -> Any:
    return fb.scan(lambda c, x: (fb.sin(c @ w) + x, c * x), xs[1], xs, unroll=3)[1].sum(0)


def branches(xs: fb.Tensor, w: fb.Tensor) -> Any:
    first = fb.cond(xs.sum() > w.sum(), lambda: fb.sin(xs) @ w, lambda: xs * 3.0)
    return fb.cond(xs.sum() <= w.sum(), lambda a: a @ w, lambda a: fb.exp(a * 0.1), first)


def branch_in_a_loop(xs: fb.Tensor, w: fb.Tensor) -> Any:
    def step(i: fb.Tensor, v: fb.Tensor) -> Any:
        return fb.cond(v.sum() > 0, lambda u: fb.sin(u @ w), lambda u: u * w[0] + i, v)

    return fb.fori_loop(0, 5, step, xs[0])


def loop_in_a_loop(xs: fb.Tensor, w: fb.Tensor) -> Any:
    def outer(total: fb.Tensor, x: fb.Tensor) -> tuple[Any, Any]:
        inner, rows = fb.scan(lambda c, y: (fb.sin(c + x * y), c), total, w)
        return inner, rows.sum(0) * x

    last, rows = fb.scan(outer, xs[0], xs)
    return last + rows.sum(0)


def no_step(xs: fb.Tensor, w: fb.Tensor) -> Any:
    return fb.fori_loop(0, 0, lambda i, v: v @ w, xs) * 2


FUNCTIONS: list[Function] = [
    recurrent,
    checkpointed,
    backwards,
    in_steps_of_two,
    branches,
    branch_in_a_loop,
    loop_in_a_loop,
    no_step,
]
each = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


@each
def test_gradients_are_those_of_differences(function: Function) -> None:
    check_gradient(function, XS, W, rtol=1e-5)


@each
def test_the_other_branch_and_other_sizes(function: Function) -> None:
    check_gradient(function, -XS[:2], W, rtol=1e-5)
    check_gradient(fb.jit(function), XS[:2], W, rtol=1e-5)


def directional(function: Function, x: np.ndarray, w: np.ndarray, dx: np.ndarray, dw: np.ndarray) -> np.ndarray:
    step = 1e-6
    ends = [function(fb.tensor(x + s * step * dx), fb.tensor(w + s * step * dw)).numpy() for s in (1, -1)]
    found: np.ndarray = (ends[0] - ends[1]) / (2 * step)
    return found


@each
def test_forward_mode_is_that_of_differences(function: Function) -> None:
    dx, dw = RNG.standard_normal(XS.shape), RNG.standard_normal(W.shape)
    _, found = fb.jvp(function, (fb.tensor(XS), fb.tensor(W)), (fb.tensor(dx), fb.tensor(dw)))
    np.testing.assert_allclose(found.numpy(), directional(function, XS, W, dx, dw), rtol=1e-5, atol=1e-7)


@each
def test_batches_are_slices_put_together(function: Function) -> None:
    """Each operand batched or not; slices take different branches."""
    xs, ws = np.stack([XS, -XS, XS * 2]), np.stack([W, W.T, W * 0.5])
    for axes in [(0, None), (None, 0), (0, 0)]:
        given = (xs if axes[0] == 0 else XS, ws if axes[1] == 0 else W)
        found = fb.vmap(function, in_axes=axes)(*map(fb.tensor, given)).numpy()
        for k in range(3):
            one = function(fb.tensor(xs[k] if axes[0] == 0 else XS), fb.tensor(ws[k] if axes[1] == 0 else W))
            np.testing.assert_allclose(found[k], one.numpy(), rtol=1e-12, atol=1e-14)


@each
def test_gradients_of_batches_and_batches_of_gradients(function: Function) -> None:
    xs = np.stack([XS, -XS])

    def loss(x: fb.Tensor, w: fb.Tensor) -> Any:
        return (function(x, w) ** 2).sum()

    each_of = fb.vmap(fb.grad(loss, (0, 1)), in_axes=(0, None))(fb.tensor(xs), fb.tensor(W))
    whole = fb.grad(lambda x, w: fb.vmap(loss, in_axes=(0, None))(x, w).sum(), (0, 1))(fb.tensor(xs), fb.tensor(W))
    np.testing.assert_allclose(each_of[0].numpy(), whole[0].numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(each_of[1].numpy().sum(0), whole[1].numpy(), rtol=1e-10, atol=1e-12)


@each
def test_second_derivatives(function: Function) -> None:
    """Backward of backward is forward of backward, and a difference of gradients."""
    w = fb.tensor(W)

    def loss(x: fb.Tensor) -> Any:
        return (function(x, w) ** 2).sum()

    direction = RNG.standard_normal(XS.shape)
    x, v = fb.tensor(XS), fb.tensor(direction)
    twice = fb.grad(lambda x: (fb.grad(loss)(x) * v).sum())(x).numpy()
    over = fb.jvp(fb.grad(loss), (x,), (v,))[1].numpy()
    step = 1e-5
    ends = [fb.grad(loss)(fb.tensor(XS + s * step * direction)).numpy() for s in (1, -1)]
    np.testing.assert_allclose(twice, over, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(over, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-5)


def test_a_loop_is_the_loop_written_out() -> None:
    xs, w = fb.tensor(XS), fb.tensor(W)
    np.testing.assert_allclose(recurrent(xs, w).numpy(), recurrent_loop(xs, w).numpy(), rtol=1e-12)
    found = fb.jacobian(lambda w: recurrent(xs, w))(w).numpy()
    np.testing.assert_allclose(found, fb.jacobian(lambda w: recurrent_loop(xs, w))(w).numpy(), rtol=1e-10)


def test_forward_through_a_loop_of_unknown_length() -> None:
    def root(a: fb.Tensor) -> Any:
        """Newton's steps towards the square root."""
        close = lambda x: (x * x - a).abs() > 1e-12 * a  # noqa: E731
        return fb.while_loop(close, lambda x: (x + a / x) * 0.5, a)

    a = fb.tensor(np.array(7.0))
    value, slope = fb.jvp(root, (a,), (fb.ones_like(a),))
    np.testing.assert_allclose([value.item(), slope.item()], [7**0.5, 0.5 / 7**0.5], rtol=1e-10)
    second = fb.jvp(lambda a: fb.jvp(root, (a,), (fb.ones_like(a),))[1], (a,), (fb.ones_like(a),))[1]
    np.testing.assert_allclose(second.item(), -0.25 / 7**1.5, rtol=1e-6)
    several = np.array([1.0, 2.0, 1e6])
    np.testing.assert_allclose(fb.vmap(root)(fb.tensor(several)).numpy(), several**0.5, rtol=1e-10)


def test_a_slice_does_not_fail_in_a_branch_that_it_does_not_take() -> None:
    x = fb.tensor([10.0, 20.0, 30.0])

    def pick(i: fb.Tensor) -> Any:
        return fb.cond(i < 3, lambda: fb.take(x, i), lambda: x.sum())

    assert fb.vmap(pick)(fb.tensor([0, 7, 2, 99])).tolist() == [10.0, 60.0, 30.0, 60.0]
    assert fb.vmap(pick)(fb.tensor([5, 7])).tolist() == [60.0, 60.0]


def test_what_is_not_float_has_no_gradient() -> None:
    """Counters and masks are carried beside what is differentiated."""

    def f(x: fb.Tensor) -> Any:
        def step(i: fb.Tensor, s: tuple[fb.Tensor, ...]) -> tuple[fb.Tensor, ...]:
            value, count, mask = s
            return fb.where(mask, value * x, value + i), count + 1, ~mask

        return fb.fori_loop(0, 5, step, (x, fb.tensor(0), fb.tensor(True)))[0]

    a = 1.5  # ((x * x + 1) * x + 3) * x
    assert f(fb.tensor(a)).item() == pytest.approx(a**4 + a**2 + 3 * a)
    assert fb.grad(f)(fb.tensor(a)).item() == pytest.approx(4 * a**3 + 2 * a + 3)


def test_a_checkpoint_keeps_less() -> None:
    """Peak memory of a gradient grows with what each step keeps; a checkpoint keeps the carry only."""
    pool = fb.Device("cpu").backend.pool

    def peak(wrap: Callable[[Function], Function]) -> int:
        def step(c: fb.Tensor, _: Any) -> tuple[fb.Tensor, None]:
            for _ in range(4):
                c = fb.sin(fb.exp(c * 0.1) @ fb.tensor(weights))
            return c, None

        weights = np.eye(64, dtype=np.float32)
        x = fb.ones(64, 64)
        gradient = fb.jit(fb.grad(lambda x: fb.scan(wrap(step), x, length=50)[0].sum()))
        gradient(x).numpy()
        pool.reset_peak()
        live = pool.statistics().live
        gradient(x).numpy()
        return int(pool.statistics().peak - live)

    assert peak(fb.checkpoint) < 0.5 * peak(lambda step: step)
