"""Expand: derivatives against closed forms and finite differences, batching against a loop, and what is kept apart."""

from collections.abc import Sequence

import numpy as np
import pytest

from firebox.dialects.nd.base import Array
from firebox.dialects.nd.transform import GradOp
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import file_location, location_text
from firebox.errors import DTypeError
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.expand import expand
from tests.conftest import Golden
from tests.lowering.expansion import CT, X, check_gradients, cube_sine, expanded, matmul
from tests.lowering.ir_tools import (
    arrays,
    aval,
    checkpoint,
    custom_vjp,
    f64,
    grad,
    here,
    jvp,
    module,
    names,
    number,
    ops,
    vmap,
)

# ---- reverse mode ------------------------------------------------------------------------------------------------


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
