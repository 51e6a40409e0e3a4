"""Expands programs for tests: the values must stay what they were."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.base import Array
from firebox.dialects.nd.value import Value
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.expand import expand
from firebox.lowering.interpret import interpret
from tests.lowering.ir_tools import (
    Function,
    check_pass,
    f64,
    grad,
    module,
    numeric_gradient,
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


def cube_sine(x: Value) -> Value:
    return x * x * x * x.sin()
