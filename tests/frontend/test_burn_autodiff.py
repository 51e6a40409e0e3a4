"""Burn's names on tensors: leaves as values, the states of a tensor, and what one backward found."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.gradients import Gradients

pytestmark = pytest.mark.usefixtures("frontend")


def values(tensor: fb.Tensor | None) -> Any:
    assert tensor is not None
    return tensor.tolist()


def test_require_grad_gives_a_leaf_and_leaves_the_tensor_as_it_is() -> None:
    x = fb.tensor([1.0, 2.0])
    w = x.require_grad()
    assert (x.is_require_grad(), w.is_require_grad()) == (False, True)
    assert w.require_grad() is w
    assert not w.set_require_grad(False).is_require_grad() and w.is_require_grad()
    (w * w).sum().backward()
    assert values(w.grad) == [2.0, 4.0] and x.grad is None


def test_tracked_and_require_grad_are_two_states() -> None:
    w = fb.tensor([1.0]).require_grad()
    y = w * 2.0
    states = [(t.is_tracked(), t.is_require_grad()) for t in (w, y, y.detach(), fb.ones(1))]
    assert states == [(True, True), (True, False), (False, False), (False, False)]
    with fb.no_grad():
        assert not (w * 2.0).is_tracked()


def test_backward_gives_the_gradients_of_that_backward_alone() -> None:
    w, b, other = (fb.tensor([1.0, 2.0]).require_grad() for _ in range(3))
    first = (w * 3.0 + b).sum().backward()
    second = (w * w).sum().backward()
    assert isinstance(first, Gradients) and (len(first), len(second)) == (2, 1)
    assert values(first.get(w)) == [3.0, 3.0] and values(second.get(w)) == [2.0, 4.0]
    assert values(w.grad) == [5.0, 7.0]
    assert second.get(b) is None and first.get(other) is None and other not in first and b in first
    assert first.get(fb.ones(2)) is None
    assert repr(first) == "Gradients(of 2 leaves)"


def test_gradients_are_found_by_parameter_also_after_its_update() -> None:
    w = fb.Param([1.0, 2.0])
    grads = (w * w).sum().backward()
    w.value = w.value - 1.0
    assert values(grads.get(w)) == [2.0, 4.0]
    frozen = fb.Param([1.0], requires_grad=False)
    assert grads.get(frozen) is None


def test_remove_and_replace() -> None:
    w = fb.Param([1.0, 2.0])
    grads = (w * w).sum().backward()
    w.grad_replace(grads, fb.tensor([9.0, 9.0]))
    assert values(grads.get(w)) == [9.0, 9.0]
    assert values(w.grad_remove(grads)) == [9.0, 9.0]
    assert w not in grads and w.grad_remove(grads) is None
    with pytest.raises(ShapeError, match="does not fit"):
        grads.replace(w, fb.ones(3))
    with pytest.raises(DTypeError, match=r"astype\('f32'\)"):
        grads.replace(w, fb.ones(2, dtype="f64"))
    with pytest.raises(UserError, match=r"only leaves have gradients[\s\S]*require_grad\(\)"):
        grads.replace(fb.ones(2), fb.ones(2))


def test_gradients_by_results_are_not_kept_and_it_says_so() -> None:
    w = fb.Param([1.0, 2.0])
    y = w * 2.0
    grads = y.sum().backward()
    with pytest.raises(UserError, match=r"not kept[\s\S]*expected: a leaf[\s\S]*x\.detach\(\)\.require_grad\(\)"):
        grads.get(y)
    with pytest.raises(UserError, match="not a leaf"):
        y.require_grad()


def test_a_gradient_that_is_dropped_costs_nothing_more() -> None:
    """One program a step, whether the container is kept or not."""
    w = fb.Param([1.0, 2.0])
    optimizer = fb.optim.SGD([w], lr=0.5)
    fb.flush()
    for keep in (True, False):
        fb.reset_stats()
        before = w.tolist()
        grads = (w * w).sum().backward()
        held = grads if keep else None
        del grads
        optimizer.step()
        fb.flush()
        if held is not None:
            assert values(held.get(w)) == [2 * v for v in before]
        assert fb.stats()["programs_run"] == 1 and fb.stats()["nodes_recomputed"] == 0


def test_without_autodiff_is_refused_as_a_leaf_until_autodiff() -> None:
    w = fb.tensor([1.0, 2.0]).require_grad()
    inner = (w * 2.0).without_autodiff()
    assert w.is_autodiff() and not inner.is_autodiff() and not inner.is_tracked()
    for wrong in (inner.require_grad, inner.requires_grad_):
        with pytest.raises(UserError, match=r"without autodiff[\s\S]*autodiff\(\)"):
            wrong()
    leaf = inner.autodiff().require_grad()
    grads = (w * leaf * inner).sum().backward()  # inner is a constant
    assert values(grads.get(w)) == [4.0, 16.0] and values(grads.get(leaf)) == [2.0, 8.0]
    assert w.autodiff() is w
    assert fb.tensor([1]).is_autodiff() and not fb.tensor([1]).without_autodiff().is_autodiff()


def test_a_copy_on_another_device_keeps_the_mark() -> None:
    w = fb.tensor([1.0, 2.0])
    for x, expected in ((w, True), (w.without_autodiff(), False)):
        moved = x.to(device="cpu")
        assert moved.is_autodiff() is expected and moved.tolist() == [1.0, 2.0]
        assert (x * 2.0).is_autodiff()  # a result is a value of its own


def test_memory_stays_flat_over_steps_that_read_their_gradients() -> None:
    with fb.device("cpu"):
        w = fb.Param([[1.0] * 64] * 64)
        pool = fb.Device("cpu").backend.pool
        live = []
        for _ in range(12):
            grads = ((w * w).sum() * 0.5).backward()
            gradient = grads.get(w)
            assert gradient is not None
            w.value = w - 0.1 * gradient
            fb.flush()
            live.append(pool.statistics().live)
        assert live[3] == live[-1]
        np.testing.assert_allclose(w.numpy(), np.full((64, 64), 0.9**12), rtol=1e-5)


def test_without_autodiff_inside_a_function_cuts() -> None:
    gradient = fb.grad(lambda x: (x * x.without_autodiff()).sum())
    assert gradient(fb.tensor([3.0])).tolist() == [3.0]
    jitted = fb.jit(lambda x: x.without_autodiff() * 2.0 + x)
    np.testing.assert_array_equal(jitted(fb.tensor([3.0])), [9.0])


def test_a_parameter_stays_the_same_place() -> None:
    w = fb.Param([1.0])
    assert w.set_require_grad(False) is w and not w.is_require_grad() and w.is_autodiff()
    assert w.require_grad() is w and w.is_require_grad()


def test_integers_take_no_gradients() -> None:
    for wrong in (fb.tensor([1]).require_grad, fb.tensor([True]).require_grad):
        with pytest.raises(DTypeError, match=r"require_grad: only floats have gradients[\s\S]*a float type"):
            wrong()
    with pytest.raises(UserError, match=r"cannot be written to[\s\S]*x\.at"):
        fb.tensor([1.0]).require_grad()[0] = 2.0
