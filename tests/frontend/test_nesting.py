"""Transforms of transforms, in every order: each adds a derivative or changes nothing, whatever is inside of it."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb

pytestmark = pytest.mark.usefixtures("frontend")
Function = Callable[[fb.Tensor], fb.Tensor]
X = np.array([0.3, -1.2, 2.0])


def function(x: fb.Tensor) -> fb.Tensor:
    return x * x.sin()


def derivative(order: int) -> Any:
    """Of x sin(x), in closed form."""
    quarter = np.pi / 2
    return X * np.sin(X + order * quarter) + order * np.sin(X + (order - 1) * quarter)


def by_backward(f: Function) -> Function:
    def found(x: fb.Tensor) -> fb.Tensor:
        leaf = x.detach().require_grad()
        gradient = f(leaf).sum().backward().get(leaf)
        assert gradient is not None
        return gradient

    return found


def by_custom_vjp(f: Function) -> Function:
    """The function with a derivative of its own that is the right one."""
    own = fb.custom_vjp(f)
    own.defvjp(lambda x: (f(x), x), lambda x, c: fb.vjp(f, x)[1](c)[0])
    return own


def by_custom_jvp(f: Function) -> Function:
    own = fb.custom_jvp(f)
    own.defjvp(lambda primals, tangents: fb.jvp(f, primals, tangents))
    return own


def rows(f: Function) -> Function:
    return lambda x: fb.vmap(lambda one: f(one.reshape(1))[0])(x)


ADD_ONE: dict[str, Callable[[Function], Function]] = {
    "grad": lambda f: fb.grad(lambda x: f(x).sum()),
    "value_and_grad": lambda f: lambda x: fb.value_and_grad(lambda x: f(x).sum())(x)[1],
    "vjp": lambda f: lambda x: fb.vjp(f, x)[1](fb.ones_like(x))[0],
    "jvp": lambda f: lambda x: fb.jvp(f, (x,), (fb.ones_like(x),))[1],
    "jacobian": lambda f: lambda x: fb.jacobian(f)(x).sum(-1),
}
ADD_NONE: dict[str, Callable[[Function], Function]] = {
    "vmap": rows,
    "checkpoint": fb.checkpoint,
    "custom_vjp": by_custom_vjp,
    "custom_jvp": by_custom_jvp,
    "jit": fb.jit,
}
ALL = {**ADD_ONE, **ADD_NONE}


def check(names: tuple[str, ...], outermost: Callable[[Function], Function] = lambda f: f, order: int = 0) -> None:
    found: Function = function
    for name in reversed(names):
        found = ALL[name](found)
    result = outermost(found)(fb.tensor(X))
    expected = derivative(order + sum(name in ADD_ONE for name in names))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("names", list(itertools.product(ALL, repeat=2)), ids="-of-".join)
def test_two(names: tuple[str, str]) -> None:
    check(names)


THREE = [
    ("vmap", "grad", "jvp"),
    ("grad", "vmap", "jvp"),
    ("jvp", "vmap", "grad"),
    ("jvp", "jacobian", "vjp"),
    ("jacobian", "vmap", "jacobian"),
    ("vmap", "jacobian", "checkpoint"),
    ("grad", "custom_jvp", "jvp"),
    ("jvp", "custom_vjp", "grad"),
    ("vmap", "custom_jvp", "grad"),
    ("grad", "checkpoint", "vmap"),
    ("jit", "grad", "custom_jvp"),
    ("grad", "jit", "jvp"),
]


@pytest.mark.parametrize("names", THREE, ids="-of-".join)
def test_three(names: tuple[str, ...]) -> None:
    check(names)


@pytest.mark.parametrize("name", ALL)
def test_backward_through_each(name: str) -> None:
    check((name,), by_backward, 1)


@pytest.mark.parametrize("name", ALL)
def test_hessian_of_each(name: str) -> None:
    inner = ALL[name](function)
    found = fb.hessian(lambda x: inner(x).sum())(fb.tensor(X))
    np.testing.assert_allclose(found.numpy(), np.diag(derivative(2 + (name in ADD_ONE))), rtol=1e-12, atol=1e-12)
