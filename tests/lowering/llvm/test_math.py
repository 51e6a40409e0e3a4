"""f32 math of compiled kernels: at most 2 ULP over the whole range, IEEE special cases, on every instruction level."""

import functools

import numpy as np
import pytest

from firebox.runtime.target import Target
from tests.lowering.llvm.kernel_runner import Array, Body, run_maps
from tests.lowering.llvm.ulp import REFERENCES, SPECIALS, assert_signs, assert_within

LIMIT = 2.0
LIMITS = {"tan": 2.5}
"""Near its poles tan magnifies the rounding of an angle that was reduced from beyond 2^16; elsewhere it is within 2."""
RANGES = [(-1, 1), (-1e-3, 1e-3), (-10, 10), (-104, 90), (-20, 20), (0.5, 2), (0.99, 1.01), (-1e3, 1e3), (-1e5, 1e5)]
BODIES: dict[str, Body] = {name: (lambda b, x, n=name: getattr(b, n)(x)) for name in REFERENCES}
LEVELS = [
    name
    for name in ("host", "x86-64-v4", "x86-64-v3", "x86-64")
    if name == "host" or (Target.host().arch == "x86_64" and not Target.parse(name).missing_on_host())
]


@functools.cache
def samples() -> Array:
    """Numbers from all of f32 at a fixed stride of their bits (both signs, denormals, NaN), and from common ranges."""
    every = np.arange(0, 1 << 32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    rng = np.random.default_rng(0)
    near = [rng.uniform(low, high, 30_000).astype(np.float32) for low, high in RANGES]
    # Neighbours of multiples of pi/2, where sin or cos nearly vanish.
    zeros = (np.arange(1, 20_000) * (np.pi / 2)).astype(np.float32)
    return np.concatenate([every, *near, zeros, np.nextafter(zeros, np.float32(0))])


@functools.cache
def exact(name: str) -> Array:
    """The values of a function at the samples, in f64."""
    with np.errstate(all="ignore"):
        values: Array = REFERENCES[name](samples().astype(np.float64))
    return values


@pytest.mark.parametrize("level", LEVELS)
def test_every_function_is_within_two_ulp(level: str) -> None:
    target = Target.parse(level)
    x = samples()
    found = run_maps(BODIES, [x], "f32", target.lanes(4), target)
    for name in REFERENCES:
        assert_within(found[name], exact(name), LIMITS.get(name, LIMIT), (x,), name)


@pytest.mark.parametrize("lanes", [1, 2, 4, 32])
def test_results_do_not_depend_on_the_width(lanes: int) -> None:
    x = samples()[::101]
    wide = run_maps(BODIES, [x], "f32", Target.host().lanes(4))
    narrow = run_maps(BODIES, [x], "f32", lanes)
    for name in BODIES:
        np.testing.assert_array_equal(narrow[name], wide[name], err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
def test_special_values(level: str) -> None:
    x = np.array(SPECIALS, np.float32)
    found = run_maps(BODIES, [x], "f32", 4, Target.parse(level))
    with np.errstate(all="ignore"):
        for name, reference in REFERENCES.items():
            values = reference(x.astype(np.float64))
            assert_within(found[name], values, LIMITS.get(name, LIMIT), (x,), name)
            assert_signs(found[name], values.astype(np.float32), name)


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("exp", -1e30, 0.0),
        ("exp", np.inf, np.inf),
        ("exp", 88.8, np.inf),
        ("exp", -103.5, 1e-45),
        ("log", 0.0, -np.inf),
        ("log", -1.0, np.nan),
        ("log", 1e-45, -103.27893),
        ("log1p", -1.0, -np.inf),
        ("tanh", -0.0, -0.0),
        ("tanh", 1e30, 1.0),
        ("erf", -np.inf, -1.0),
        ("sin", np.inf, np.nan),
        ("expm1", -np.inf, -1.0),
        ("sigmoid", -1e30, 0.0),
        ("sigmoid", -100.0, 3.8e-44),
    ],
)
def test_chosen_values(name: str, x: float, value: float) -> None:
    found = run_maps({name: BODIES[name]}, [np.array([x], np.float32)], "f32", 1)[name]
    np.testing.assert_array_equal(found, np.array([value], np.float32))
    assert np.signbit(found[0]) == np.signbit(np.float32(value)) or np.isnan(value)


POW: dict[str, Body] = {"pow": lambda b, x, y: b.pow(x, y)}


@pytest.mark.parametrize("level", LEVELS)
def test_pow_is_within_two_ulp(level: str) -> None:
    rng = np.random.default_rng(1)
    n = 60_000
    bits = rng.integers(0, 1 << 32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    bases = [bits[0], np.abs(bits[0]), rng.uniform(0.9, 1.1, n), rng.uniform(0, 10, n), rng.integers(-20, 20, n)]
    powers = [bits[1], rng.uniform(-3, 3, n), rng.uniform(-900, 900, n), rng.uniform(-40, 40, n)]
    x = np.concatenate([b.astype(np.float32) for b in bases])
    y = np.concatenate([p.astype(np.float32) for p in (*powers, rng.integers(-20, 20, n))])
    target = Target.parse(level)
    found = run_maps(POW, [x, y], "f32", target.lanes(4), target)["pow"]
    with np.errstate(all="ignore"):
        assert_within(found, np.power(x.astype(np.float64), y.astype(np.float64)), LIMIT, (x, y), "pow")


def c99_pow(x: Array, y: Array) -> Array:
    """np.power in f64, which follows C99 except that it takes square roots for the power 1/2."""
    with np.errstate(all="ignore"):
        result = np.power(x.astype(np.float64), y.astype(np.float64))
    half = (y == 0.5) & ((x == 0) | np.isinf(x))
    return np.where(half, np.abs(x), result)


def test_pow_of_special_values() -> None:
    numbers = np.array([*SPECIALS, 3.0, -2.5, 2.0**24 + 2, -2.0], np.float32)
    grid = np.meshgrid(numbers, numbers)
    x, y = grid[1].ravel(), grid[0].ravel()
    found = run_maps(POW, [x, y], "f32", 8)["pow"]
    values = c99_pow(x, y)
    assert_within(found, values, LIMIT, (x, y), "pow")
    with np.errstate(all="ignore"):
        assert_signs(found, values.astype(np.float32), "pow")
