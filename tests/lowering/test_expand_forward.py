"""Forward mode and batching, expanded: against differences, against slices, and nested."""

from collections.abc import Sequence

import numpy as np
import pytest

from firebox.dialects.nd.base import Array, lookup
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import verify
from firebox.lowering.expand import expand
from firebox.lowering.interpret import interpret
from tests.lowering.expansion import CT, X, check_gradients, cube_sine, expanded, matmul
from tests.lowering.ir_tools import (
    Function,
    arrays,
    checkpoint,
    f64,
    grad,
    here,
    jvp,
    module,
    number,
    ops,
    parse,
    vmap,
)

# ---- forward mode ------------------------------------------------------------------------------------------------


def check_jvp(function: Function, x: Array, tangent: Array) -> None:
    program = module(lambda a, t: jvp(function, [a], [t]), f64(*x.shape), f64(*x.shape))
    value, found = expanded(program, [x, tangent])
    step = 1e-5
    plain = module(function, f64(*x.shape))
    up, down = (interpret(plain, [x + s * tangent])[0] for s in (step, -step))
    np.testing.assert_array_equal(value, interpret(plain, [x])[0])
    np.testing.assert_allclose(found, (up - down) / (2 * step), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "function",
    [
        cube_sine,
        lambda a: (a * a).sum() * a.exp(),
        lambda a: a.max() - a,
        lambda a: a.reshape((3, 1)).broadcast_to((3, 2)).transpose().cumsum(1),
        lambda a: matmul(a.reshape((1, 3)), a.reshape((3, 1)).tanh()),
        lambda a: a.pad((1,), (2,)).slice((1,), (5,), (2,)),
        lambda a: checkpoint(lambda b: b.tanh() * here(a), a)[0],
    ],
)
def test_forward_mode_agrees_with_finite_differences(function: Function) -> None:
    check_jvp(function, X, CT)


def test_a_tangent_of_what_depends_on_no_input_is_zero() -> None:
    program = module(lambda x, t: jvp(lambda a: (number(2.0).exp(), a), [x], [t], seeds=2), f64(3), f64(3))
    constant, same, zero, tangent = expanded(program, [X, CT])
    assert constant == np.exp(2.0)
    assert zero == 0.0
    np.testing.assert_array_equal(same, X)
    np.testing.assert_array_equal(tangent, CT)


def test_hessian_vector_products_forward_over_reverse_and_reverse_over_forward() -> None:
    def energy(a: Value) -> Value:
        return (cube_sine(a) * a.sum()).sum()

    def gradient(a: Value) -> Value:
        return grad(energy, [a], [a.literal(1.0)])[0]

    def slope(a: Value, t: Value) -> Value:
        return jvp(energy, [a], [here(t)])[1]

    over = module(lambda x, t: jvp(gradient, [x], [t])[1], f64(3), f64(3))
    under = module(lambda x, t: grad(lambda a: slope(a, t), [x], [x.literal(1.0)])[0], f64(3), f64(3))
    first, second = (expanded(p, [X, CT], rtol=1e-12)[0] for p in (over, under))
    np.testing.assert_allclose(first, second, rtol=1e-11)
    step = 1e-5
    up, down = (interpret(module(gradient, f64(3)), [X + s * CT])[0] for s in (step, -step))
    np.testing.assert_allclose(first, (up - down) / (2 * step), rtol=1e-7)


def test_a_forward_rule_of_an_op_class_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(tangents: Sequence[Value], operands: Sequence[Value], results: Sequence[Value]) -> list[Value]:
        return [tangents[0] * 7.0]

    monkeypatch.setattr(lookup("nd.exp"), "jvp", staticmethod(rule), raising=False)
    _, tangent = expanded(module(lambda x, t: jvp(lambda a: a.exp(), [x], [t]), f64(3), f64(3)), [X, CT])
    np.testing.assert_array_equal(tangent, 7 * CT)


# ---- batching ----------------------------------------------------------------------------------------------------


def test_batching_agrees_with_a_loop() -> None:
    def function(a: Value, w: Value, b: Value) -> list[Value]:
        hidden = (matmul(a, w) + b).tanh()
        return [hidden, hidden.sum(axis=0), w * 2.0]

    program = module(
        lambda x, w, b: vmap(function, [x, w, b], [1, -1, 0], [2, 0, 1], 4), f64(2, 4, 3), f64(3, 5), f64(4, 5)
    )
    inputs = arrays(5, f64(2, 4, 3), f64(3, 5), f64(4, 5))
    found = expanded(program, inputs, rtol=1e-14)
    assert [y.shape for y in found] == [(2, 5, 4), (4, 5), (3, 4, 5)]
    expected = np.tanh(np.einsum("mbk,kn->mnb", inputs[0], inputs[1]) + inputs[2].T)
    np.testing.assert_allclose(found[0], expected, rtol=1e-13)


def test_nested_batching_and_captured_values() -> None:
    def inner(a: Value, b: Value) -> Value:
        return a * b.sum()

    def outer(row: Value, x: Value) -> Value:
        return vmap(lambda b: inner(here(row), b * here(x)), [x], [0], [0], 3)[0]

    program = module(lambda x, y: vmap(lambda r, s: outer(r, s), [x, y], [0, 1], [0], 2), f64(2, 4), f64(3, 2))
    inputs = arrays(6, f64(2, 4), f64(3, 2))
    (found,) = expanded(program, inputs, rtol=1e-14)
    x, y = inputs
    expected = np.stack([np.stack([x[i] * (y[j, i] * y[:, i]).sum() for j in range(3)]) for i in range(2)])
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_gradients_per_example() -> None:
    def loss(w: Value, x: Value) -> Value:
        return (w * x).tanh().sum()

    def one(w: Value, x: Value) -> Value:
        return grad(lambda v: loss(v, here(x)), [w], [w.literal(1.0)])[0]

    program = module(lambda w, x: vmap(one, [w, x], [-1, 0], [0], 2), f64(3), f64(2, 3))
    rows = np.stack([CT, X])
    (found,) = expanded(program, [X, rows], rtol=1e-14)
    np.testing.assert_allclose(found, rows * (1 - np.tanh(X * rows) ** 2), rtol=1e-14)


def test_the_gradient_of_a_batched_function() -> None:
    def function(a: Value) -> Value:
        return vmap(lambda r: checkpoint(lambda s: s.tanh() * s.sum(), r)[0], [a], [1], [0], 3)[0]

    check_gradients(function, *arrays(7, f64(2, 3)))


def test_marks_of_recomputed_ops_survive_batching() -> None:
    def one(a: Value) -> Value:
        return grad(lambda b: checkpoint(lambda c: c.tanh(), b)[0], [a], [a])[0]

    program = module(lambda x: vmap(one, [x], [0], [0], 2), f64(2, 3))
    expand(program)
    assert ["recompute" in op.attributes for op in ops(program, "tanh")] == [True]


def test_an_empty_batch() -> None:
    program = module(lambda x: vmap(lambda a: a.sum() * a, [x], [0], [1], 0), f64(0, 3))
    (found,) = expanded(program, [np.zeros((0, 3))])
    assert found.shape == (3, 0)


def test_a_symbolic_batch() -> None:
    text = """
    func.func @main(%x: tensor<?x3xf64, #nd.dims<"b, 3">>) -> tensor<?x3xf64, #nd.dims<"b, 3">> {
      %y = nd.vmap %x {in_axes = array<i64: 0>, out_axes = array<i64: 0>, size = #nd.dims<"b">} :
        (tensor<?x3xf64, #nd.dims<"b, 3">>) -> tensor<?x3xf64, #nd.dims<"b, 3">> {
      ^bb0(%a: tensor<3xf64>):
        %s = nd.reduce_sum %a {axes = array<i64: 0>, keepdims = false} : (tensor<3xf64>) -> tensor<f64>
        %m = nd.mul %a, %s : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
        nd.yield %m : tensor<3xf64>
      }
      func.return %y : tensor<?x3xf64, #nd.dims<"b, 3">>
    }
    """
    (found,) = expanded(parse(text), [np.stack([X, CT])])
    np.testing.assert_allclose(found, np.stack([X * X.sum(), CT * CT.sum()]), rtol=1e-15)


def test_expanding_leaves_no_dead_op() -> None:
    program = module(lambda x, c: grad(lambda a: (a * 2.0).exp(), [x], [c])[0], f64(3), f64(3))
    expand(program)
    verify(program)
    assert all(any(True for _ in r.uses) for op in ops(program) for r in op.results)
