"""Distances in units in the last place, and references for them, for the tests of math."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.lowering.llvm.kernel_runner import Array

Function = Callable[[Array], Array]

SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 1e30, -1e30, 0.5, 2.0, -3.0, 800.0, -800.0)


def ulps(found: Array, exact: Array) -> Array:
    """|found - exact| in units of the last place of `exact`; 0 for equal infinities and NaN, inf for wrong ones."""
    kind = found.dtype
    with np.errstate(all="ignore"):
        nearest = exact.astype(kind)
        unit = np.spacing(np.minimum(np.abs(exact), np.finfo(kind).max).astype(kind)).astype(np.longdouble)
        distance = np.abs(found.astype(np.longdouble) - exact.astype(np.longdouble)) / unit
    right = ((found == nearest) & ~np.isfinite(nearest)) | (np.isnan(found) & np.isnan(exact))
    distance = np.where(right, 0, distance)
    return np.where(np.isnan(distance), np.inf, distance).astype(np.float64)


def assert_within(found: Array, exact: Array, limit: float, inputs: tuple[Array, ...], name: str) -> None:
    """Every distance is at most `limit`; the message names the worst input."""
    distance = ulps(found, exact)
    worst = int(np.argmax(distance))
    where = ", ".join(repr(x[worst]) for x in inputs)
    assert distance[worst] <= limit, (
        f"{name}({where}) is {found[worst]!r}, {distance[worst]:.2f} ULP off {exact[worst]!r}"
    )


def assert_signs(found: Array, exact: Array, name: str) -> None:
    """Signs agree, of zeros too, where the result is a number."""
    number = ~np.isnan(exact)
    assert (np.signbit(found) == np.signbit(exact))[number].all(), name


def erf(x: Array) -> Array:
    """The error function: 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, where all terms are positive.

    Extended arguments give a reference for f64, f64 arguments one for f32. Source: Abramowitz and Stegun, 7.1.6.
    """
    end, terms = (4.5, 110) if x.dtype == np.float64 else (7, 260)
    small = np.abs(x) < end
    magnitude = np.abs(x[small])
    square = 2 * magnitude * magnitude
    term = magnitude.copy()
    total = magnitude.copy()
    for n in range(1, terms):
        term *= square / (2 * n + 1)
        total += term
    unit = 2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
    result = np.where(np.isnan(x), x, np.ones_like(x))
    result[small] = unit.astype(x.dtype) * np.exp(-magnitude * magnitude) * total
    signed: Array = np.copysign(result, x)
    return signed


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    result: Array = np.where(x < 0, e, 1) / (1 + e)
    return result


REFERENCES: dict[str, Any] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sigmoid": sigmoid,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
"""By function: the value in a wider type than the argument's own."""
