"""The code that docs/autodiff.md shows."""

import numpy as np
import pytest

import firebox as fb
from firebox.errors import TraceError
from firebox.frontend.source import trace
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target


@pytest.fixture(autouse=True)
def _fresh() -> None:
    fb.flush()
    fb.reset_stats()


def test_a_step_is_one_program() -> None:
    x, y = fb.tensor(np.eye(3, dtype=np.float32)), fb.tensor([1.0, 2.0, 3.0])
    w = fb.Param(fb.zeros(3))
    optimizer = fb.optim.SGD([w], lr=0.1)
    fb.flush()
    fb.reset_stats()

    for _ in range(10):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()  # records one nd.grad
        optimizer.step()  # ends the program

    assert fb.stats()["programs_run"] == 10
    assert fb.stats()["nodes_recomputed"] == 0


def test_reading_first_computes_twice() -> None:
    w = fb.Param([1.0, 2.0])
    loss = (w * w).sum()
    assert loss.item() == 5.0  # runs the forward part now
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]  # runs it again, with its derivative
    assert fb.stats()["nodes_recomputed"] == 2
    with pytest.raises(TraceError, match="used up"):
        loss.backward()


def test_functions_of_functions() -> None:
    def f(x: fb.Tensor) -> fb.Tensor:
        return (x**3).sum()

    x = fb.tensor([1.0, 2.0])
    assert fb.grad(f)(x).tolist() == [3.0, 12.0]
    value, gradient = fb.value_and_grad(f)(x)
    assert value.item() == 9.0 and gradient.tolist() == [3.0, 12.0]
    assert fb.jvp(f, (x,), (fb.tensor([0.0, 1.0]),))[1].item() == 12.0
    assert fb.jacobian(lambda x: x * x)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert fb.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert fb.vmap(fb.grad(f))(fb.tensor([[1.0, 2.0], [0.0, 1.0]])).tolist() == [[3.0, 12.0], [0.0, 3.0]]


def test_higher_order() -> None:
    x = fb.tensor(2.0, requires_grad=True)
    (slope,) = fb.vjp(lambda x: x**4, x)[1](1.0)
    slope.backward()
    assert x.grad is not None and x.grad.item() == 48.0  # 12 x^2


def test_gradient_penalty() -> None:
    w = fb.Param([3.0])
    loss = (w**3).sum()
    loss.backward(create_graph=True)
    assert w.grad is not None
    penalty = (w.grad**2).sum()  # (3 w^2)^2
    w.grad = None
    penalty.backward()
    np.testing.assert_array_equal(w.grad, [36 * 27.0])


def test_recomputation() -> None:
    @fb.checkpoint
    def block(x: fb.Tensor) -> fb.Tensor:
        return x.sin().exp()

    def loss(x: fb.Tensor) -> fb.Tensor:
        return block(block(x)).sum()

    module = trace(lambda x: fb.grad(loss)(x), "x: f64[1000]").module
    expanded = str(run_to(module, Target.parse("x86-64-v3"), "canonicalize"))
    assert "recompute = 1" in expanded and "recompute = 2" in expanded


def test_a_budget() -> None:
    def loss(x: fb.Tensor) -> fb.Tensor:
        for _ in range(8):
            x = x * x.sin()
        return x.sum()

    x = fb.tensor(np.linspace(0.0, 1.0, 100_000))  # 781 KiB
    expected = fb.jit(fb.grad(loss))(x)
    for wanted in ("balanced", "budget:1MiB", 1 << 20):
        np.testing.assert_allclose(fb.jit(fb.grad(loss), checkpoint=wanted)(x), expected, rtol=1e-12)


def test_own_derivative() -> None:
    @fb.custom_vjp
    def clipped(x: fb.Tensor) -> fb.Tensor:
        return x.clip(-1.0, 1.0)

    def forward(x: fb.Tensor) -> tuple[fb.Tensor, None]:
        return x.clip(-1.0, 1.0), None

    def backward(residuals: None, cotangent: fb.Tensor) -> fb.Tensor:
        return cotangent  # straight through, also where the value is clipped

    clipped.defvjp(forward, backward)
    assert fb.grad(lambda x: (clipped(x) * 2.0).sum())(fb.tensor([0.5, 3.0])).tolist() == [2.0, 2.0]


def test_own_forward_derivative() -> None:
    @fb.custom_jvp
    def softplus(x: fb.Tensor) -> fb.Tensor:
        return (1.0 + x.exp()).log()  # overflows, and so does its own derivative

    @softplus.defjvp
    def _(primals: tuple[fb.Tensor], tangents: tuple[fb.Tensor]) -> tuple[fb.Tensor, fb.Tensor]:
        (x,), (t,) = primals, tangents
        return softplus(x), x.sigmoid() * t

    x = fb.tensor(1000.0)
    assert fb.jvp(softplus, (x,), (fb.tensor(1.0),))[1].item() == 1.0
    assert fb.grad(softplus)(x).item() == 1.0


def test_gradients_of_one_backward() -> None:
    weight = fb.tensor([1.0, 2.0]).require_grad()  # a new tensor; the old one stays without gradients
    loss = (weight * weight).sum()
    grads = loss.backward()
    found = grads.get(weight)
    assert found is not None and found.tolist() == [2.0, 4.0]
    assert weight.is_require_grad() and loss.is_tracked() and not loss.is_require_grad()
    assert weight.grad_remove(grads) is not None and grads.get(weight) is None


def test_where_derivatives_end() -> None:
    x = fb.tensor([2.0], requires_grad=True)
    y = x * x.detach()  # the second factor is a constant
    with fb.no_grad():
        z = x * 5.0
    (y + z).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0]
