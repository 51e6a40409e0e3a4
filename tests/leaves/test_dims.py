"""Symbolic dims: the normal form means what the expression means, decides equality, and prints as it parses."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firebox import dims
from firebox.dims import Dim, DimLike, dim
from firebox.errors import UserError

A, B, C = dim("a"), dim("b"), dim("c")
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Expression:
    """A symbolic value, and the same computed on numbers."""

    value: DimLike
    number: Callable[[dict[str, int]], int]

    def __repr__(self) -> str:
        return str(self.value)


_BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (dims.multiply, operator.mul),
    "min": (dims.minimum, min),
    "max": (dims.maximum, max),
}
_DIVIDE: dict[str, tuple[Callable[[Any, int], Any], Callable[[int, int], int]]] = {
    "//": (dims.floordiv, operator.floordiv),
    "%": (dims.mod, operator.mod),
    "ceil": (dims.ceildiv, lambda p, by: -(-p // by)),
}


def _binary(name: str, x: Expression, y: Expression) -> Expression:
    symbolic, numeric = _BINARY[name]
    return Expression(symbolic(x.value, y.value), lambda env: numeric(x.number(env), y.number(env)))


def _divide(name: str, x: Expression, by: int) -> Expression:
    symbolic, numeric = _DIVIDE[name]
    return Expression(symbolic(x.value, by), lambda env: numeric(x.number(env), by))


def _leaf(item: str | int) -> Expression:
    if isinstance(item, int):
        return Expression(item, lambda env: item)
    return Expression(dim(item), lambda env: env[item])


leaves = st.one_of(st.sampled_from(NAMES), st.integers(0, 9)).map(_leaf)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(_binary, st.sampled_from(list(_BINARY)), inner, inner),
        st.builds(_divide, st.sampled_from(list(_DIVIDE)), inner, st.integers(1, 9)),
    ),
    max_leaves=8,
)
environments = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})


@given(expressions, environments)
def test_the_normal_form_has_the_value_of_the_expression(expression: Expression, env: dict[str, int]) -> None:
    assert dims.evaluate(expression.value, env) == expression.number(env)


@given(expressions)
def test_text_round_trips(expression: Expression) -> None:
    again = dims.parse(str(expression.value))
    assert again == expression.value
    assert hash(again) == hash(expression.value)


@given(expressions, environments)
def test_substitution_in_two_steps_is_evaluation(expression: Expression, env: dict[str, int]) -> None:
    partly = dims.substitute(expression.value, {"a": env["a"]})
    assert dims.evaluate(partly, env) == dims.evaluate(expression.value, env)


@given(expressions, expressions)
def test_sums_and_products_commute(x: Expression, y: Expression) -> None:
    assert dims.multiply(x.value, y.value) == dims.multiply(y.value, x.value)
    assert x.value + y.value == y.value + x.value
    assert x.value + y.value - y.value == x.value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (A + A, A * 2),
        (A - A, 0),
        ((A + B) * (A - B), A * A - B * B),
        ((A * 4 + 3) // 4, A),
        ((A * 4 + 3) % 4, 3),
        (A * B // A, B),
        (A * B % B, 0),
        (A // A, 1),
        (dims.ceildiv(A * 8, 8), A),
        (dims.minimum(A, A + 1), A),
        (dims.maximum(A, A + 1), A + 1),
        (dims.minimum(A, B), dims.minimum(B, A)),
        (dims.product([2, A, 3, B]), A * B * 6),
        (dims.product([]), 1),
        (7 - A + A, 7),
    ],
)
def test_simplifications(value: DimLike, expected: DimLike) -> None:
    assert value == expected


def test_different_forms_differ() -> None:
    assert A != B
    assert A + 1 != A
    assert A // 2 != A // 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(A * 2 + 1, "2*a + 1"), (B * A, "a*b"), (-A, "-a"), ((A + 1) // 2, "((a + 1) // 2)"), (1 - A, "-a + 1")],
)
def test_printing(value: DimLike, text: str) -> None:
    assert str(value) == text


@pytest.mark.parametrize("text", ["", "a +", "a b", "(a", "a)", "a ** 2", "1.5", "min(a)", "é b", "a / 2", "min"])
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        dims.parse(text)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "min", "a b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        dim(name)


def test_names_in_order_of_appearance() -> None:
    assert dims.names(B, A + 1, dims.minimum(C, B)) == ("b", "a", "c")


def test_a_dim_is_no_number_and_no_condition() -> None:
    with pytest.raises(UserError):
        bool(A)
    with pytest.raises(UserError):
        range(A)
    with pytest.raises(UserError, match="values for b"):
        dims.evaluate(A + B, {"a": 1})
    with pytest.raises(UserError, match="zero"):
        A // 0


def test_static_shapes() -> None:
    assert dims.is_static((1, 2))
    assert not dims.is_static((1, A))
    assert isinstance(A, Dim)
