"""Expand: derivatives against closed forms and finite differences, batching against a loop, and what is kept apart."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.base import Array, lookup
from firebox.dialects.nd.transform import GradOp
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import file_location, location_text, verify
from firebox.errors import DTypeError
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.expand import expand
from firebox.lowering.interpret import interpret
from tests.conftest import Golden
from tests.lowering.ir_tools import (
    Function,
    arrays,
    aval,
    check_pass,
    checkpoint,
    custom_vjp,
    f64,
    grad,
    here,
    jvp,
    module,
    names,
    number,
    numeric_gradient,
    ops,
    parse,
    vmap,
)

X = np.array([0.3, -1.2, 2.0])
CT = np.array([1.0, -2.0, 0.5])


def expanded(program: ModuleOp, inputs: Sequence[Array], rtol: float = 0.0) -> list[Array]:
    """The values of the program, which must be the same after expand and after canonicalize."""
    after = check_pass(expand, program, inputs, rtol)
    assert not [op for op in after.walk() if op.regions and op.name not in ("builtin.module", "func.func")]
    after = check_pass(canonicalize, after, inputs, rtol=1e-13)
    return interpret(after, inputs)


def check_gradients(function: Function, *inputs: Array) -> None:
    """Gradients of a function of f64 arrays by all of them, against finite differences."""
    avals = [f64(*x.shape) for x in inputs]
    (value,) = interpret(module(function, *avals), inputs)
    cotangent = np.asarray(np.random.default_rng(1).normal(size=value.shape))
    program = module(lambda *v: grad(function, v[:-1], v[-1:]), *avals, f64(*value.shape))
    *gradients, again = expanded(program, [*inputs, cotangent])
    np.testing.assert_array_equal(again, value)
    for position, (x, found) in enumerate(zip(inputs, gradients, strict=True)):

        def alone(changed: Array, position: int = position) -> Array:
            others = [changed if k == position else y for k, y in enumerate(inputs)]
            return interpret(module(function, *avals), others)[0]

        np.testing.assert_allclose(found, numeric_gradient(alone, x, cotangent), rtol=1e-7, atol=1e-8)


def matmul(a: Value, b: Value) -> Value:
    m, k = a.shape
    return a.one("contract", a, b, spec="m k, k n -> m n", sizes=(m, k, b.shape[1]))


# ---- reverse mode ------------------------------------------------------------------------------------------------


def cube_sine(x: Value) -> Value:
    return x * x * x * x.sin()


def test_first_and_second_and_third_derivative_of_a_cube_times_a_sine() -> None:
    def first(x: Value) -> Value:
        return grad(cube_sine, [x], [x.literal(1.0).broadcast_to(x.shape)])[0]

    def second(x: Value) -> Value:
        return grad(first, [x], [x.literal(1.0).broadcast_to(x.shape)])[0]

    def third(x: Value) -> Value:
        return grad(second, [x], [x.literal(1.0).broadcast_to(x.shape)])[0]

    found = expanded(module(lambda x: [first(x), second(x), third(x)], f64(3)), [X], rtol=1e-12)
    s, c = np.sin(X), np.cos(X)
    np.testing.assert_allclose(found[0], 3 * X**2 * s + X**3 * c, rtol=1e-12)
    np.testing.assert_allclose(found[1], 6 * X * s + 6 * X**2 * c - X**3 * s, rtol=1e-12)
    np.testing.assert_allclose(found[2], 6 * s + 18 * X * c - 9 * X**2 * s - X**3 * c, rtol=1e-12)


def test_a_two_layer_perceptron() -> None:
    def mlp(x: Value, w1: Value, b1: Value, w2: Value, b2: Value) -> Value:
        hidden = (matmul(x, w1) + b1).tanh()
        error = matmul(hidden, w2) + b2
        return (error * error).mean()

    check_gradients(mlp, *arrays(0, f64(3, 4), f64(4, 5), f64(5), f64(5, 2), f64(2)))


def test_softmax_cross_entropy() -> None:
    labels = np.array([[2], [0], [1]])

    def loss(logits: Value) -> Value:
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_sum = shifted.exp().sum(axis=1, keepdims=True).log()
        picked = (shifted - log_sum).take_along_axis(one_hot_rows(logits), axis=1)
        return -picked.mean()

    def one_hot_rows(like: Value) -> Value:
        rows = [like.literal(int(k), aval("i64").dtype).reshape((1, 1)) for k in labels[:, 0]]
        return like.one("concat", *rows, axis=0)

    (logits,) = arrays(1, f64(3, 4))
    check_gradients(loss, logits)
    program = module(lambda x, c: grad(loss, [x], [c]), f64(3, 4), f64())
    gradient, _ = expanded(program, [logits, np.asarray(1.0)])
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(gradient, (softmax - np.eye(4)[labels[:, 0]]) / 3, rtol=1e-12, atol=1e-15)


def test_layer_norm() -> None:
    def norm(x: Value, scale: Value, shift: Value) -> Value:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        return centred * (variance + 1e-5).rsqrt() * scale + shift

    check_gradients(norm, *arrays(2, f64(3, 5), f64(5), f64(5)))


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 1, 4), (2, 1, 1), (2, 3, 4)])
def test_cotangents_are_summed_down_broadcasts(shape: tuple[int, ...]) -> None:
    check_gradients(lambda x, y: x * y, *arrays(3, f64(2, 3, 4), f64(*shape)))


def test_an_unused_input_gets_zeros_and_other_yields_pass() -> None:
    program = module(lambda x, y, c: grad(lambda a, b: (a * a, b.exp()), [x, y], [c]), f64(3), f64(2), f64(3))
    dx, dy, first, second = expanded(program, [X, np.array([1.0, 2.0]), CT])
    np.testing.assert_array_equal(dx, CT * X + CT * X)
    np.testing.assert_array_equal(dy, np.zeros(2))
    np.testing.assert_array_equal(first, X * X)
    np.testing.assert_array_equal(second, np.exp([1.0, 2.0]))


def test_an_output_that_is_an_input_or_a_constant() -> None:
    def function(a: Value) -> Sequence[Value]:
        return a, number(2.0).broadcast_to((3,)), a

    program = module(lambda x, c, d, e: grad(function, [x], [c, d, e]), f64(3), f64(3), f64(3), f64(3))
    dx, *_ = expanded(program, [X, CT, X, X])
    np.testing.assert_array_equal(dx, CT + X)


def test_an_outer_value_equal_to_the_input_is_a_constant() -> None:
    program = module(lambda x, c: grad(lambda a: a * here(x), [x], [c]), f64(3), f64(3))
    dx, y = expanded(program, [X, CT])
    np.testing.assert_array_equal(dx, CT * X)
    np.testing.assert_array_equal(y, X * X)


def test_nothing_flows_through_comparisons_integers_and_stop_gradient() -> None:
    def function(a: Value) -> Value:
        kept = (a > 0.0).where(a * a, 3.0)
        return kept + a.astype("i32").astype("f64") + a.one("stop_gradient", a * a * a)

    program = module(lambda x, c: grad(function, [x], [c]), f64(3), f64(3))
    dx, y = expanded(program, [X, CT])
    np.testing.assert_array_equal(dx, np.where(X > 0, 2 * CT * X, 0))
    np.testing.assert_allclose(y, np.where(X > 0, X * X, 3) + np.trunc(X) + X**3, rtol=1e-15)


def test_storage_types_keep_their_type() -> None:
    def function(a: Value, b: Value) -> Value:
        return (a.astype("f32") * b).sum()

    program = module(lambda x, y, c: grad(function, [x, y], [c]), aval("bf16", 3), aval("f32", 3), aval("f32"))
    inputs: list[Array] = [X.astype(aval("bf16").dtype.numpy), X.astype(np.float32), np.full((), 2.0, np.float32)]
    da, db, _ = expanded(program, inputs)
    assert da.dtype == inputs[0].dtype
    np.testing.assert_array_equal(da, (2 * inputs[1]).astype(da.dtype))
    np.testing.assert_array_equal(db, 2 * inputs[0].astype(np.float32))


def test_two_regions_of_one_value_stay_apart() -> None:
    def outer(x: Value, c: Value) -> list[Value]:
        first = grad(lambda a: a * here(x), [x], [c])[0]
        second = grad(lambda a: a * a, [x], [c])[0]
        return [first, second]

    first, second = expanded(module(outer, f64(3), f64(3)), [X, CT])
    np.testing.assert_array_equal(first, CT * X)
    np.testing.assert_array_equal(second, 2 * CT * X)


def test_an_integer_input_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"nd.grad: input 0 cannot be differentiated\n  expected: a float type"):
        module(lambda x, c: grad(lambda a: a.astype("f64"), [x], [c]), aval("i32", 3), f64(3))


def test_the_pass_refuses_an_integer_input_of_unverified_ir() -> None:
    program = module(lambda x, c: grad(lambda a: a * a, [x], [c]), f64(3), f64(3))
    integer = module(lambda x: x, aval("i32", 3)).body.block.first_op
    assert integer is not None
    (op,) = ops(program, "grad")
    assert isinstance(op, GradOp)
    op.location = file_location("model.py", 7)
    other = integer.regions[0].block.args[0]
    op.operands[0] = other
    op.body.block.insert_arg(other.type, 0)
    op.body.block.args[1].replace_all_uses_with(op.body.block.args[0])
    op.body.block.erase_arg(op.body.block.args[1])
    with pytest.raises(DTypeError, match=r"at:       model.py:7"):
        expand(program)


def test_backward_ops_have_the_location_of_their_forward_op() -> None:
    program = module(lambda x, c: grad(lambda a: a.sin().exp(), [x], [c]), f64(3), f64(3))
    for line, name in ((11, "sin"), (12, "exp")):
        ops(program, name)[0].location = file_location("model.py", line)
    expand(program)
    (cosine,) = ops(program, "cos")
    assert location_text(cosine.location) == "model.py:11"
    products = [location_text(op.location) for op in ops(program, "mul")]
    assert products == ["model.py:12", "model.py:11"]


def test_shared_subexpressions_of_the_backward_pass_are_one_op() -> None:
    def function(a: Value) -> Value:
        return a.sin() + a.sin() * 2.0

    program = module(lambda x, c: grad(function, [x], [c]), f64(3), f64(3))
    expand(program)
    assert names(program).count("cos") == 1


def test_golden(golden: Golden) -> None:
    def function(a: Value, w: Value) -> Value:
        return matmul(a, w).tanh().sum()

    program = module(lambda x, w, c: grad(function, [x, w], [c]), f64(2, 3), f64(3, 4), f64())
    before = str(program)
    expand(program)
    golden("lowering/expand_grad.mlir", f"// before\n{before}\n// after\n{program!s}\n")


# ---- checkpoint --------------------------------------------------------------------------------------------------


def test_a_checkpoint_changes_no_value_and_recomputes_its_inside() -> None:
    def block(a: Value, w: Value) -> Value:
        return (a * w).tanh().exp()

    def plain(a: Value, w: Value) -> Value:
        return block(block(a, w), w).sum()

    def saving(a: Value, w: Value) -> Value:
        (first,) = checkpoint(block, a, w)
        (second,) = checkpoint(block, first, w)
        return second.sum()

    avals = (f64(3), f64(3), f64())
    inputs = [X, CT, np.asarray(1.0)]
    expected = expanded(module(lambda x, w, c: grad(plain, [x, w], [c]), *avals), inputs)
    program = module(lambda x, w, c: grad(saving, [x, w], [c]), *avals)
    for a, b in zip(expected, expanded(program, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    expand(program)
    canonicalize(program)
    assert names(program).count("tanh") == 4
    marks = [op.attributes.get("recompute") for op in ops(program, "tanh")]
    assert [None if m is None else str(m) for m in marks] == [None, None, "1 : i64", "2 : i64"]


def test_a_checkpoint_without_a_derivative_is_inlined() -> None:
    program = module(lambda x: checkpoint(lambda a: a.exp() * here(x), x), f64(3))
    np.testing.assert_array_equal(expanded(program, [X])[0], np.exp(X) * X)
    expand(program)
    assert names(program) == ["exp", "mul"]


def test_a_checkpoint_is_differentiated_by_what_it_captures() -> None:
    def function(a: Value) -> Value:
        b = a * a
        (found,) = checkpoint(lambda c: c * here(b).sin(), a)
        return found

    check_gradients(function, X)


def test_nested_checkpoints_and_one_that_yields_its_argument() -> None:
    def inner(a: Value) -> Value:
        return a.tanh()

    def function(a: Value) -> Value:
        first, same = checkpoint(lambda b: (checkpoint(inner, b * 2.0)[0].exp(), b), a)
        return first * same

    check_gradients(function, X)


def test_second_derivative_through_a_checkpoint() -> None:
    def first(x: Value) -> Value:
        return grad(lambda a: checkpoint(cube_sine, a)[0], [x], [x.literal(1.0).broadcast_to(x.shape)])[0]

    check_gradients(first, X)


# ---- custom derivatives ------------------------------------------------------------------------------------------


def test_the_given_backward_region_is_used() -> None:
    def function(a: Value) -> Value:
        (found,) = custom_vjp(lambda b: b, lambda ct: -3.0 * ct, 1, a)
        return found * a

    program = module(lambda x, c: grad(function, [x], [c]), f64(3), f64(3))
    dx, y = expanded(program, [X, CT])
    np.testing.assert_array_equal(y, X * X)
    np.testing.assert_allclose(dx, CT * X - 3 * CT * X, rtol=1e-15)


def exp_with_residual(a: Value) -> Value:
    def forward(b: Value) -> list[Value]:
        y = b.exp()
        return [y, y]

    return custom_vjp(forward, lambda y, ct: ct * y, 1, a)[0]


@pytest.mark.parametrize("wrap", ["plain", "checkpoint"])
def test_residuals_reach_the_backward_region(wrap: str) -> None:
    def function(a: Value) -> Value:
        inner = exp_with_residual(a) if wrap == "plain" else checkpoint(exp_with_residual, a)[0]
        return inner * a

    check_gradients(function, X)


def test_a_backward_region_that_yields_what_it_takes() -> None:
    def function(a: Value, b: Value) -> Value:
        return custom_vjp(lambda p, q: (p + q, q), lambda r, ct: (ct, r), 1, a, b)[0]

    program = module(lambda x, y, c: grad(function, [x, y], [c]), f64(3), f64(3), f64(3))
    da, db, total = expanded(program, [X, CT, X * 2])
    np.testing.assert_array_equal(total, X + CT)
    np.testing.assert_array_equal(da, X * 2)
    np.testing.assert_array_equal(db, CT)


def test_second_derivative_goes_through_both_regions() -> None:
    def first(x: Value) -> Value:
        return grad(lambda a: exp_with_residual(a) * a, [x], [x.literal(1.0).broadcast_to(x.shape)])[0]

    (found,) = expanded(module(first, f64(3)), [X])
    np.testing.assert_allclose(found, np.exp(X) * (1 + X), rtol=1e-14)
    check_gradients(first, X)


def test_an_integer_operand_of_a_custom_derivative_gets_none() -> None:
    def forward(a: Value, k: Value) -> list[Value]:
        return [a * k.astype("f64"), k]

    def function(a: Value, k: Value) -> Value:
        return custom_vjp(forward, lambda k, ct: (ct * k.astype("f64"), k), 1, a, k)[0]

    program = module(lambda x, k, c: grad(lambda a: function(a, here(k)), [x], [c]), f64(3), aval("i64", 3), f64(3))
    dx, _ = expanded(program, [X, np.array([1, 2, 3]), CT])
    np.testing.assert_array_equal(dx, CT * [1, 2, 3])


def test_forward_mode_and_batching_use_the_backward_region() -> None:
    def triple(a: Value) -> Value:
        return custom_vjp(lambda b: b.exp(), lambda ct: 3.0 * ct, 1, a)[0]

    (y, dy) = expanded(module(lambda x, t: jvp(triple, [x], [t]), f64(3), f64(3)), [X, CT])
    np.testing.assert_array_equal(y, np.exp(X))
    np.testing.assert_array_equal(dy, 3 * CT)

    def row(a: Value) -> Value:
        return grad(lambda b: triple(b), [a], [a.literal(1.0).broadcast_to(a.shape)])[0]

    (found,) = expanded(module(lambda x: vmap(row, [x], [0], [0], 2), f64(2, 3)), [np.stack([X, CT])])
    np.testing.assert_array_equal(found, np.full((2, 3), 3.0))
    mapped = module(lambda x, c: grad(lambda a: vmap(triple, [a], [1], [0], 3), [x], [c]), f64(2, 3), f64(3, 2))
    dx, _ = expanded(mapped, [np.stack([X, CT]), np.arange(6.0).reshape(3, 2)])
    np.testing.assert_array_equal(dx, 3 * np.arange(6.0).reshape(3, 2).T)


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
