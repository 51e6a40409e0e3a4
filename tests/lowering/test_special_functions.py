"""Special functions of compiled programs on each device, against recorded values of higher precision."""

import functools
import math
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.runtime.device import Device
from tests.conftest import GOLDEN
from tests.lowering.llvm.ulp import SPECIALS, ulps

Array = np.ndarray[Any, Any]

LIMIT = 4.0
LIMITS = {"polygamma3": 5.0}
FUNCTIONS: dict[str, Any] = {
    **{name: getattr(fb, name) for name in ["erfc", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e"]},
    "polygamma1": lambda x: fb.polygamma(1, x),
    "polygamma3": lambda x: fb.polygamma(3, x),
}
needs_extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as reference")


@functools.cache
def recorded() -> dict[str, list[tuple[float, str]]]:
    """Arguments and exact values of each function."""
    found: dict[str, list[tuple[float, str]]] = {}
    for line in (GOLDEN / "math" / "special.csv").read_text().splitlines()[1:]:
        name, x, value = line.split(",")
        found.setdefault(name, []).append((float(x), value))
    return found


def cases(name: str, dtype: type[np.generic]) -> tuple[Array, Array]:
    """Those arguments that the type has exactly."""
    rows = [(x, value) for x, value in recorded()[name] if float(np.dtype(dtype).type(x)) == x]
    return np.array([x for x, _ in rows], dtype), np.array([np.longdouble(v) for _, v in rows])


@needs_extended
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_accurate(dtype: type[np.generic], each_device: Device) -> None:
    given = {name: cases(name, dtype) for name in FUNCTIONS}
    with fb.device(each_device):
        found = {name: f(fb.tensor(given[name][0])) for name, f in FUNCTIONS.items()}
    for name, (x, exact) in given.items():
        assert len(x) > 40
        distance = ulps(found[name].numpy(), exact)
        worst = int(np.argmax(distance))
        assert distance[worst] <= LIMITS.get(name, LIMIT), f"{name}({x[worst]!r}): {distance[worst]} units off"


def test_special_values(each_device: Device) -> None:
    x = np.array(SPECIALS)
    inf, nan = math.inf, math.nan
    expected = {
        "erfc": {0.0: 1.0, inf: 0.0, -inf: 2.0, 800.0: 0.0, -800.0: 2.0, 1e30: 0.0},
        "erfinv": {0.0: 0.0, 1.0: inf, -1.0: -inf, 2.0: nan, inf: nan, 1e-40: 1e-40 * math.sqrt(math.pi) / 2},
        "lgamma": {0.0: inf, inf: inf, -inf: inf, 1.0: 0.0, 2.0: 0.0, -1.0: inf, -3.0: inf, 800.0: math.lgamma(800)},
        "digamma": {0.0: -inf, inf: inf, -inf: nan, -1.0: nan, -3.0: nan, 1e-40: -1e40},
        "i0": {0.0: 1.0, inf: inf, -inf: inf, 800.0: inf, 1e30: inf},
        "i0e": {0.0: 1.0, inf: 0.0, -inf: 0.0, 1e30: 1 / math.sqrt(2 * math.pi * 1e30)},
        "i1": {0.0: 0.0, inf: inf, -inf: -inf, -800.0: -inf, 1e-40: 5e-41},
        "i1e": {0.0: 0.0, inf: 0.0, -1e30: -1 / math.sqrt(2 * math.pi * 1e30)},
        "polygamma1": {0.0: inf, inf: 0.0, -1.0: inf, -inf: nan, 0.5: math.pi**2 / 2},
        "polygamma3": {0.0: inf, inf: 0.0, -3.0: inf, 0.5: math.pi**4},
    }
    with fb.device(each_device):
        found = {name: FUNCTIONS[name](fb.tensor(x)) for name in expected}
    for name, values in expected.items():
        result = dict(zip(SPECIALS[::-1], found[name].numpy()[::-1], strict=True))  # 0.0, not -0.0
        assert np.isnan(found[name].numpy()[np.isnan(x)]).all(), name
        for at, value in values.items():
            np.testing.assert_allclose(result[at], value, rtol=1e-15, err_msg=f"{name}({at})")


def test_below_zero_by_reflection() -> None:
    x: Any = np.array([-0.25, -1.5, -2.25, -7.75, -30.5])
    expected: Any = [math.lgamma(v) for v in x]
    np.testing.assert_allclose(fb.lgamma(x).numpy(), expected, rtol=1e-13)
    step = 1e-6
    slopes: Any = [(math.lgamma(v + step) - math.lgamma(v - step)) / (2 * step) for v in x]
    np.testing.assert_allclose(fb.digamma(x).numpy(), slopes, rtol=1e-8)
    for order in (1, 2, 5):
        recurrence = fb.polygamma(order, x + 1).numpy() - (-1.0) ** order * math.factorial(order) / x ** (order + 1)
        np.testing.assert_allclose(fb.polygamma(order, x).numpy(), recurrence, rtol=1e-10)
