"""f64 math of compiled kernels against extended precision: at most 4 ULP (2 ULP hold), special cases, large angles."""

import numpy as np
import pytest

from firebox.runtime.target import Target
from tests.lowering.llvm.kernel_runner import Array, Body, run_maps
from tests.lowering.llvm.test_math import BODIES, LEVELS, POW, c99_pow
from tests.lowering.llvm.ulp import REFERENCES, SPECIALS, assert_signs, assert_within

LIMIT = 2.0
RANGES = [(-1, 1), (-1e-3, 1e-3), (-10, 10), (-745, 710), (-40, 40), (0.99, 1.01), (-6, 6), (-1e5, 1e5), (-1e9, 1e9)]

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as reference")


def samples(count: int) -> Array:
    """Random bits (all magnitudes), and common ranges."""
    rng = np.random.default_rng(0)
    every = rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    near = [rng.uniform(low, high, count // 2) for low, high in RANGES]
    return np.concatenate([every, *near])


@pytest.mark.parametrize("level", LEVELS)
def test_every_function_is_accurate(level: str) -> None:
    target = Target.parse(level)
    x = samples(20_000)
    found = run_maps(BODIES, [x], "f64", target.lanes(8), target)
    with np.errstate(all="ignore"):
        for name, reference in REFERENCES.items():
            assert_within(found[name], reference(x.astype(np.longdouble)), LIMIT, (x,), name)


def test_special_values() -> None:
    x = np.array([*SPECIALS, 5e-324, -5e-324, 1.7976931348623157e308, 1e-308], np.float64)
    found = run_maps(BODIES, [x], "f64", 4)
    with np.errstate(all="ignore"):
        for name, reference in REFERENCES.items():
            exact = reference(x.astype(np.longdouble))
            assert_within(found[name], exact, LIMIT, (x,), name)
            assert_signs(found[name], exact, name)


def test_sin_and_cos_of_the_largest_angles() -> None:
    rng = np.random.default_rng(5)
    # 6381956970095103 * 2^797 is the double that comes closest to a multiple of pi/2 (W. Kahan).
    hardest = 6381956970095103.0 * 2.0**797
    x = np.concatenate([np.exp(rng.uniform(20, 709, 5000)), [hardest, -hardest, 2.0**1023, 1e22, 2.0**30, 2.0**31]])
    found = run_maps({n: BODIES[n] for n in ("sin", "cos", "tan")}, [x], "f64", 8)
    for name in ("sin", "cos", "tan"):
        assert_within(found[name], REFERENCES[name](x.astype(np.longdouble)), LIMIT, (x,), name)
    # cos(6381956970095103 * 2^797) to 17 digits: J.-M. Muller, Elementary Functions, 3rd ed., section 11.
    np.testing.assert_allclose(found["cos"][5000], -4.6871659242546276e-19, rtol=1e-15)


@pytest.mark.parametrize("level", LEVELS)
def test_pow_is_accurate(level: str) -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    bits = rng.integers(0, 1 << 64, (2, n), dtype=np.uint64).view(np.float64)
    bases = [bits[0], np.abs(bits[0]), rng.uniform(0.9, 1.1, n), rng.uniform(0, 10, n), rng.integers(-20, 20, n)]
    powers = [bits[1], rng.uniform(-3, 3, n), rng.uniform(-7000, 7000, n), rng.uniform(-300, 300, n)]
    x = np.concatenate([b.astype(np.float64) for b in bases])
    y = np.concatenate([p.astype(np.float64) for p in (*powers, rng.integers(-20, 20, n))])
    target = Target.parse(level)
    found = run_maps(POW, [x, y], "f64", target.lanes(8), target)["pow"]
    with np.errstate(all="ignore"):
        assert_within(found, np.power(x.astype(np.longdouble), y.astype(np.longdouble)), LIMIT, (x, y), "pow")


def test_pow_of_special_values() -> None:
    numbers = np.array([*SPECIALS, 3.0, -2.5, 2.0**53 + 2, 5e-324], np.float64)
    grid = np.meshgrid(numbers, numbers)
    x, y = grid[1].ravel(), grid[0].ravel()
    found = run_maps(POW, [x, y], "f64", 8)["pow"]
    exact = c99_pow(x, y)
    assert_within(found, exact, LIMIT, (x, y), "pow")
    assert_signs(found, exact, "pow")


def test_remainders_are_exact_for_any_quotient() -> None:
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 1 << 64, (2, 20_000), dtype=np.uint64).view(np.float64)
    body: Body = lambda b, x, y: b.mod(x, y)  # noqa: E731
    found = run_maps({"mod": body}, list(bits), "f64", 8)["mod"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, np.mod(*bits))
