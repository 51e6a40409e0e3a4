"""`backward` and the functional derivatives; expected values are closed forms."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, TraceError, UserError
from firebox.frontend import build, compiler

pytestmark = pytest.mark.usefixtures("frontend")


def grad_of(leaf: fb.Tensor) -> fb.Tensor:
    """The leaf's gradient, which must be there."""
    assert leaf.grad is not None
    return leaf.grad


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """For each program that is compiled: how many ops of each name its module has, regions included."""
    found: list[Counter[str]] = []
    plain = build.build

    def counting(*args: Any, **kwargs: Any) -> Any:
        module = plain(*args, **kwargs)
        found.append(Counter(op.name for op in module.walk()))
        return module

    monkeypatch.setattr(compiler, "build", counting)
    fb.frontend.execute.forget_programs()
    return found


# ---- backward ----------------------------------------------------------------------------------------------------


def test_gradients_land_in_the_leaves() -> None:
    w, b = fb.Param([[1.0, 2.0], [3.0, 4.0]]), fb.tensor([1.0, 1.0], requires_grad=True)
    x = fb.tensor([1.0, 2.0])
    ((x @ w + b) ** 2).sum().backward()
    out = np.array([1.0, 2.0]) @ np.array([[1.0, 2.0], [3.0, 4.0]]) + 1
    np.testing.assert_allclose(grad_of(w).numpy(), np.outer([1, 2], 2 * out))
    np.testing.assert_allclose(grad_of(b).numpy(), 2 * out)
    assert x.grad is None


def test_gradients_accumulate_until_they_are_cleared() -> None:
    w = fb.Param([1.0, 2.0])
    (w * 3).sum().backward()
    (w * w).sum().backward()
    assert grad_of(w).tolist() == [5, 7]
    w.grad = None
    (w * 3).sum().backward()
    assert grad_of(w).tolist() == [3, 3]


def test_the_type_of_a_gradient_is_that_of_its_leaf() -> None:
    w = fb.Param(fb.ones(3, dtype=fb.bfloat16))
    (w.float() * 2.0).sum().backward()
    assert grad_of(w).dtype is fb.bfloat16


def test_a_step_is_one_program_and_computes_nothing_twice(programs: list[Counter[str]]) -> None:
    w1, w2 = fb.Param(np.ones((3, 4), np.float32)), fb.Param(np.ones((4, 2), np.float32))
    x, y = fb.tensor(np.ones((5, 3), np.float32)), fb.tensor(np.zeros((5, 2), np.float32))
    logits = (x @ w1).relu() @ w2
    loss = ((logits - y) ** 2).mean()
    loss.backward()
    with fb.no_grad():
        for w in (w1, w2):
            assert w.grad is not None
            w.value = w - w.grad * 0.1
    w1.grad = w2.grad = None
    fb.flush(w1, w2)
    assert loss.item() == 144
    assert logits.tolist() == [[12.0, 12.0]] * 5
    assert fb.stats()["programs_run"] == 1
    assert fb.stats()["nodes_recomputed"] == 0
    (ops,) = programs
    assert ops["nd.contract"] == 2  # the forward ones; the backward ones appear when nd.grad is expanded
    assert ops["nd.grad"] == 1


def test_values_of_the_slice_come_out_of_the_gradient_op(programs: list[Counter[str]]) -> None:
    w = fb.Param([2.0, 3.0])
    hidden = w.exp()
    loss = hidden.sum()
    other = hidden.detach() * 10  # depends on the slice, is no part of it
    loss.backward()
    fb.flush()
    assert programs[0]["nd.exp"] == 1
    np.testing.assert_allclose(other.numpy(), 10 * np.exp([2, 3]), rtol=1e-6)
    np.testing.assert_allclose(loss.numpy(), np.exp([2, 3]).sum(), rtol=1e-6)
    assert fb.stats()["programs_run"] == 1


def test_a_second_backward_of_the_same_value_is_an_error() -> None:
    w = fb.Param([1.0])
    loss = (w * 2).sum()
    loss.backward()
    with pytest.raises(TraceError, match="retain_graph=True"):
        loss.backward()
    fb.flush()
    with pytest.raises(TraceError, match="retain_graph=True"):
        loss.backward()


def test_retain_graph_allows_a_second_backward() -> None:
    w = fb.Param([1.0, 2.0])
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert grad_of(w).tolist() == [4, 8]


def test_a_value_read_before_its_backward_is_computed_again_and_counted() -> None:
    w = fb.Param([1.0, 2.0])
    loss = (w * w).sum()
    assert loss.item() == 5
    loss.backward()
    assert grad_of(w).tolist() == [2, 4]
    assert fb.stats()["nodes_recomputed"] == 2


def test_backward_of_several_elements_takes_a_gradient() -> None:
    w = fb.Param([1.0, 2.0])
    with pytest.raises(ShapeError, match="gradient="):
        (w * w).backward()
    (w * w).backward(fb.tensor([1.0, 10.0]))
    assert grad_of(w).tolist() == [2, 40]
    w.grad = None
    (w * w)[:1].backward()
    assert grad_of(w).tolist() == [2, 0]
    with pytest.raises(ShapeError, match="does not fit"):
        (w * w).backward(fb.ones(3))


def test_what_has_no_derivative_says_why() -> None:
    with pytest.raises(UserError, match="requires_grad=True"):
        fb.tensor(1.0).backward()
    with pytest.raises(DTypeError, match="only floats"):
        fb.tensor(1).backward()
    with pytest.raises(DTypeError, match="only floats have gradients"):
        fb.tensor([1]).requires_grad_()
    with pytest.raises(DTypeError, match="only floats have gradients"):
        fb.Param([1], requires_grad=True)
    with pytest.raises(UserError, match="detach"):
        (fb.Param([1.0]) * 2).requires_grad_()
    w = fb.Param([1.0])
    with fb.no_grad():
        loss = w.sum()
    with pytest.raises(UserError, match="no_grad"):
        loss.backward()
    assert fb.Param([1, 2]).requires_grad is False


def test_create_graph_gives_derivatives_of_gradients() -> None:
    w = fb.Param([1.0, 2.0])
    (w**3).sum().backward(create_graph=True)
    first = w.grad
    assert first is not None
    w.grad = None
    (first * first).sum().backward()
    np.testing.assert_allclose(grad_of(w).numpy(), 36 * np.array([1.0, 8.0]))


def test_derivatives_end_at_detach_and_no_grad() -> None:
    w = fb.Param([3.0])
    with fb.no_grad():
        scale = w * 2
        twice = scale + w
    (w * scale * w.detach() + twice).sum().backward()
    assert grad_of(w).tolist() == [18]
    assert not scale.requires_grad
    assert (w * scale).requires_grad
    with fb.no_grad(), fb.enable_grad():
        assert (w * 2).requires_grad


def test_frozen_parameters_take_no_gradient() -> None:
    v, w = fb.Param([1.0]), fb.Param([2.0])
    v.requires_grad = False
    (v * w).sum().backward()
    assert v.grad is None
    assert grad_of(w).tolist() == [1]
    v.requires_grad = True
    (v * w).sum().backward()
    assert grad_of(v).tolist() == [2]


def test_two_backwards_that_want_values_of_each_other() -> None:
    """Neither region can wait for the other's values: they are computed outside."""
    a, b = fb.Param([1.0]), fb.Param([2.0])
    c = b.detach().exp()
    v = a.exp()
    first = (v * c).sum()
    second = (b * c * v.detach()).sum()
    first.backward()
    second.backward()
    fb.flush()
    np.testing.assert_allclose(grad_of(a).numpy(), [np.e**3], rtol=1e-6)
    np.testing.assert_allclose(grad_of(b).numpy(), [np.e**3], rtol=1e-6)
    np.testing.assert_allclose(second.numpy(), 2 * np.e**3, rtol=1e-6)
    assert fb.stats()["programs_run"] == 1


def test_backward_through_an_earlier_update_in_the_same_program() -> None:
    w = fb.Param([1.0])
    for _ in range(3):
        (w * w).sum().backward()
        with fb.no_grad():
            w.value = w - grad_of(w) * 0.25
        w.grad = None
    assert w.tolist() == [0.125]
    assert fb.stats()["programs_run"] == 1


# ---- functional --------------------------------------------------------------------------------------------------

X = np.array([0.5, 1.5, -1.0], np.float32)


def cubes(x: fb.Tensor) -> fb.Tensor:
    return (x**3).sum()


def test_grad_and_value_and_grad() -> None:
    np.testing.assert_allclose(fb.grad(cubes)(fb.tensor(X)).numpy(), 3 * X**2)
    value, gradient = fb.value_and_grad(lambda x, k: (cubes(x) * k, {"k": k}), has_aux=True)(fb.tensor(X), 2.0)
    np.testing.assert_allclose(value[0].numpy(), 2 * (X**3).sum(), rtol=1e-6)
    assert value[1] == {"k": 2.0}
    np.testing.assert_allclose(gradient.numpy(), 6 * X**2)


def test_grad_takes_nested_arguments() -> None:
    params = {"w": fb.tensor([1.0, 2.0]), "b": [fb.tensor(3.0), np.float32(4.0)]}
    gradient = fb.grad(lambda p: (p["w"] * p["w"]).sum() * p["b"][0] + p["b"][1])(params)
    assert gradient["w"].tolist() == [6, 12]
    assert [g.item() for g in gradient["b"]] == [5, 1]
    by_a, by_b = fb.grad(lambda a, b: a * b, argnums=(0, 1))(2.0, 3.0)
    assert (by_a.item(), by_b.item()) == (3, 2)


def test_grad_by_a_module_is_a_dict_by_path() -> None:
    model = fb.nn.Linear(2, 1)
    gradient = fb.grad(lambda m, x: m(x).sum())(model, fb.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert gradient["weight"].tolist() == [[4, 6]]
    assert gradient["bias"].tolist() == [2]
    assert model.weight.grad is None


def test_grad_keeps_what_the_function_writes_to_cells() -> None:
    count = fb.Buffer(fb.tensor(0.0))

    def f(x: fb.Tensor) -> fb.Tensor:
        count.value = count + x.sum()
        return (x * x).sum()

    assert fb.grad(f)(fb.tensor([1.0, 2.0])).tolist() == [2, 4]
    assert count.item() == 3


def test_grad_of_unused_and_constant() -> None:
    assert fb.grad(lambda x: fb.tensor(1.0))(fb.ones(2)).tolist() == [0, 0]
    assert fb.grad(lambda x, y: y.sum())(fb.ones(2), fb.ones(2)).tolist() == [0, 0]


def test_grad_refuses_what_has_no_derivative() -> None:
    with pytest.raises(DTypeError, match=r"(?s)floats only.*i64"):
        fb.grad(lambda x: x.float().sum())(fb.tensor([1, 2]))
    with pytest.raises(DTypeError, match="only floats"):
        fb.grad(lambda x: x.argmax())(fb.ones(2))
    with pytest.raises(ShapeError, match=r"fb\.jacobian"):
        fb.grad(lambda x: x)(fb.ones(2))
    with pytest.raises(UserError, match="no such argument"):
        fb.grad(cubes, argnums=1)(fb.ones(2))


def test_higher_derivatives() -> None:
    x = fb.tensor(0.7)
    f = fb.tensor(0.7).sin
    assert f is not None
    third = fb.grad(fb.grad(fb.grad(lambda t: t.sin())))(x)
    np.testing.assert_allclose(third.numpy(), -np.cos(0.7), rtol=1e-6)


def test_grad_inside_a_loss_that_is_differentiated_by_backward() -> None:
    w = fb.Param([2.0])
    penalty = fb.grad(lambda x: (w * x**2).sum())(fb.tensor([3.0]))  # 2 w x
    (penalty**2).sum().backward()
    assert grad_of(w).tolist() == [144]  # 2 * (2 w x) * 2 x


def test_vjp_and_jvp() -> None:
    value, pullback = fb.vjp(lambda x, y: (x * y, x.sin()), fb.tensor([1.0, 2.0]), fb.tensor([3.0, 4.0]))
    assert value[0].tolist() == [3, 8]
    by_x, by_y = pullback((fb.tensor([1.0, 10.0]), fb.zeros(2)))
    assert (by_x.tolist(), by_y.tolist()) == ([3, 40], [1, 20])
    value, tangent = fb.jvp(lambda x: (x.argmax(), x * x), (fb.tensor([1.0, 2.0]),), (fb.tensor([1.0, 0.5]),))
    assert value[0].item() == 1
    assert value[1].tolist() == [1, 4]
    assert tangent[0].item() == 0
    assert tangent[1].tolist() == [2, 2]
    with pytest.raises(ShapeError, match="tangent"):
        fb.jvp(cubes, (fb.ones(2),), (fb.ones(3),))
    with pytest.raises(UserError, match="structure"):
        pullback(fb.ones(2))


def test_vmap_matches_a_loop() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = np.arange(4, dtype=np.float32)
    found = fb.vmap(lambda x, y: (x * y).sum(), (0, None))(fb.tensor(a), fb.tensor(b))
    np.testing.assert_allclose(found.numpy(), a @ b)
    found = fb.vmap(lambda d: d["x"] + 1, in_axes=1, out_axes=-1)({"x": fb.tensor(a)})
    np.testing.assert_allclose(found.numpy(), a + 1)
    twice = fb.vmap(fb.vmap(lambda x: x * 2))(fb.tensor(a))
    np.testing.assert_allclose(twice.numpy(), a * 2)
    per_example = fb.vmap(fb.grad(cubes))(fb.tensor(a))
    np.testing.assert_allclose(per_example.numpy(), 3 * a**2)
    through = fb.grad(lambda x: fb.vmap(cubes)(x).sum())(fb.tensor(a))
    np.testing.assert_allclose(through.numpy(), 3 * a**2)


def test_vmap_refuses_what_it_cannot_map() -> None:
    with pytest.raises(ShapeError, match="differ in size"):
        fb.vmap(lambda x, y: x)(fb.ones(2), fb.ones(3))
    with pytest.raises(ShapeError, match="no such axis"):
        fb.vmap(lambda x: x)(fb.tensor(1.0))
    with pytest.raises(UserError, match="nothing is mapped"):
        fb.vmap(lambda x: x, in_axes=None)(fb.ones(2))
    cell = fb.Buffer(0.0)
    with pytest.raises(TraceError, match="cell is written"):
        fb.vmap(lambda x: cell.set(x))(fb.ones(2))


def test_jacobian_and_hessian() -> None:
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    jacobian = fb.jacobian(lambda x: fb.tensor(a) @ (x * x))(fb.tensor(X))
    np.testing.assert_allclose(jacobian.numpy(), a * (2 * X))
    nested = fb.jacobian(lambda p: {"out": p["x"] * p["y"]})({"x": fb.tensor([1.0, 2.0]), "y": fb.tensor([3.0, 4.0])})
    assert nested["out"]["x"].tolist() == [[3, 0], [0, 4]]
    hessian = fb.hessian(lambda x: (x**3).sum() + x[0] * x[1])(fb.tensor(X))
    expected = np.diag(6 * X) + np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(hessian.numpy(), expected, atol=1e-6)


def test_checkpoint_changes_no_value_and_recomputes(programs: list[Counter[str]]) -> None:
    w = fb.Param([0.5, 1.0])
    block: Any = fb.checkpoint(lambda x: (x * w).sin())
    gradient = fb.grad(lambda x: block(block(x)).sum())(fb.tensor([1.0, 2.0]))
    inner = np.array([0.5, 2.0])
    expected = np.cos(np.sin(inner) * [0.5, 1.0]) * [0.5, 1.0] * np.cos(inner) * [0.5, 1.0]
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6)
    assert programs[0]["nd.checkpoint"] == 2


def test_custom_vjp() -> None:
    @fb.custom_vjp
    def clipped(x: fb.Tensor, limit: float) -> fb.Tensor:
        return x * x

    def forward(x: fb.Tensor, limit: float) -> tuple[fb.Tensor, fb.Tensor]:
        return x * x, x

    def backward(x: fb.Tensor, cotangent: fb.Tensor) -> tuple[fb.Tensor, None]:
        return (2 * x * cotangent).clip(-3, 3), None

    with pytest.raises(UserError, match="defvjp"):
        clipped(fb.ones(1), 1.0)
    clipped.defvjp(forward, backward)
    x = fb.tensor([1.0, 5.0])
    assert clipped(x, 3.0).tolist() == [1, 25]
    assert fb.grad(lambda t: clipped(t, 3.0).sum())(x).tolist() == [2, 3]
    w = fb.Param([1.0, 5.0])
    clipped(w, 3.0).sum().backward()
    assert grad_of(w).tolist() == [2, 3]


def test_stop_gradient() -> None:
    gradient = fb.grad(lambda x: (fb.stop_gradient({"x": x})["x"] * x).sum())(fb.tensor([2.0, 3.0]))
    assert gradient.tolist() == [2, 3]


def test_a_value_of_a_traced_function_cannot_leave_it() -> None:
    leaked: list[fb.Tensor] = []
    fb.grad(lambda x: leaked.append(x * 2) or x.sum())(fb.ones(2))  # type: ignore[func-returns-value]
    assert repr(leaked[0]) == "Tensor(f32[2], traced)"
    with pytest.raises(TraceError, match="outside of it"):
        (leaked[0] + 1).numpy()
    assert (fb.ones(2) * 2).tolist() == [2, 2]  # the leaked value does not stop others


def test_functional_derivatives_work_inside_no_grad() -> None:
    with fb.no_grad():
        assert fb.grad(cubes)(fb.tensor([2.0])).tolist() == [12]
