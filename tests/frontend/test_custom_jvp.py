"""`custom_jvp`: every derivative follows from the rule, and wrong rules are named."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError

pytestmark = pytest.mark.usefixtures("frontend")


@fb.custom_jvp
def cubes(x: fb.Tensor) -> fb.Tensor:
    return x * x * x


@cubes.defjvp
def _cubes(primals: tuple[fb.Tensor], tangents: tuple[fb.Tensor]) -> tuple[fb.Tensor, fb.Tensor]:
    (x,), (t,) = primals, tangents
    return cubes(x), 5.0 * x * x * t  # 5 instead of 3: what comes of the rule is told apart


X = [1.0, 2.0]


def test_the_value_is_the_functions() -> None:
    assert cubes(fb.tensor(X)).tolist() == [1.0, 8.0]
    assert fb.jit(cubes)(fb.tensor(X)).tolist() == [1.0, 8.0]


def test_forward_and_backward_take_the_rule() -> None:
    x = fb.tensor(X)
    assert fb.jvp(cubes, (x,), (fb.tensor([1.0, 10.0]),))[1].tolist() == [5.0, 200.0]
    assert fb.grad(lambda t: cubes(t).sum())(x).tolist() == [5.0, 20.0]
    w = fb.Param(X)
    (cubes(w) * 2.0).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [10.0, 40.0]
    assert fb.jacobian(cubes)(x).tolist() == [[5.0, 0.0], [0.0, 20.0]]


def test_derivatives_of_the_derivative_are_those_of_the_rule() -> None:
    x = fb.tensor(X)
    assert fb.hessian(lambda t: cubes(t).sum())(x).tolist() == [[10.0, 0.0], [0.0, 20.0]]
    slope: Any = lambda t: fb.jvp(cubes, (t,), (fb.ones(2),))[1]  # noqa: E731
    assert fb.jvp(slope, (x,), (fb.ones(2),))[1].tolist() == [10.0, 20.0]
    assert fb.grad(lambda t: slope(t).sum())(x).tolist() == [10.0, 20.0]


def test_a_rule_that_uses_its_function_is_followed_in_higher_orders() -> None:
    doubling = fb.custom_jvp(lambda x: x * 0.0)  # derivatives by the rule only: f' = 2 f + 1, whatever f is

    @doubling.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return primals[0], (2.0 * doubling(*primals) + 1.0) * tangents[0]

    x = fb.tensor(1.0)
    first = fb.grad(doubling)
    assert [first(x).item(), fb.grad(first)(x).item(), fb.grad(fb.grad(first))(x).item()] == [1.0, 2.0, 4.0]


def test_vmap_of_and_in_derivatives() -> None:
    rows = fb.tensor([[1.0, 2.0], [3.0, 4.0]])
    per_row = fb.vmap(fb.grad(lambda t: cubes(t).sum()))(rows)
    np.testing.assert_array_equal(per_row, 5 * rows.numpy() ** 2)
    whole = fb.grad(lambda t: fb.vmap(cubes)(t).sum())(rows)
    np.testing.assert_array_equal(whole, 5 * rows.numpy() ** 2)


def test_structures_integers_and_plain_arguments() -> None:
    @fb.custom_jvp
    def scaled(pair: dict[str, fb.Tensor], index: fb.Tensor, factor: float) -> list[fb.Tensor]:
        return [pair["a"][index] * factor, pair["b"].sum()]

    @scaled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        _, index, factor = primals
        move, of_index, of_factor = tangents
        assert of_index is None and of_factor is None
        return scaled(*primals), [move["a"][index] * factor, move["b"].sum() * 7.0]

    index = fb.tensor([1, 1])
    x = {"a": fb.tensor(X), "b": fb.tensor([3.0, 4.0])}
    assert [v.tolist() for v in scaled(x, index, 2.0)] == [[4.0, 4.0], 7.0]
    gradient = fb.grad(lambda p: sum(v.sum() for v in scaled(p, index, 2.0)))(x)
    assert {k: v.tolist() for k, v in gradient.items()} == {"a": [0.0, 4.0], "b": [7.0, 7.0]}


def test_wrong_rules_are_named() -> None:
    bare = fb.custom_jvp(lambda x: x)
    x = fb.tensor(X)
    with pytest.raises(UserError, match=r"no derivative is set[\s\S]*defjvp"):
        bare(x)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda p, t: p[0], UserError, "must return a pair"),
        (lambda p, t: (p[0], [t[0]]), UserError, "differs in structure"),
        (lambda p, t: (p[0], t[0].sum()), ShapeError, "does not fit its value"),
        (lambda p, t: (p[0], fb.ones(2, dtype="i32")), DTypeError, "a tangent is a float"),
    ]
    for rule, error, message in wrong:
        bare.defjvp(rule)
        with pytest.raises(error, match=message):
            bare(x)
    with pytest.raises(DTypeError, match="not a function"):
        fb.custom_jvp(3)  # type: ignore[arg-type]
