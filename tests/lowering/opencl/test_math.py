"""Math of OpenCL kernels: at most 2 ULP in f32 and 4 in f64 over the whole range, and IEEE's special cases."""

import functools

import numpy as np
import pytest

from tests.lowering.llvm import test_math, test_math_f64
from tests.lowering.llvm.ulp import REFERENCES, SPECIALS, assert_signs, assert_within
from tests.lowering.opencl.device_runner import Array, Runner

BODIES = {name: (lambda k, x, n=name: getattr(k, n)(x)) for name in REFERENCES}
LIMITS = {"f32": 2.0, "f64": 4.0}
TYPES = ["f32", "f64"]
needs_extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as reference")


@functools.cache
def arguments(name: str) -> Array:
    """Special values, then numbers of all magnitudes and of common ranges."""
    numbers = test_math.samples()[::7] if name == "f32" else test_math_f64.samples(20_000)
    return np.concatenate([np.array(SPECIALS, numbers.dtype), numbers])


def exact(name: str, *operands: Array) -> Array:
    """The values of a function in a wider type."""
    wide = np.float64 if operands[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        values: Array = {**REFERENCES, "pow": np.power}[name](*(x.astype(wide) for x in operands))
    return values


def limit(name: str, dtype: str) -> float:
    return max(LIMITS[dtype], test_math.LIMITS.get(name, 0.0))


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
def test_every_function_is_close(device: Runner, dtype: str) -> None:
    x = arguments(dtype)
    found = device.maps(BODIES, [x], dtype)
    for name in REFERENCES:
        assert_within(found[name], exact(name, x), limit(name, dtype), (x,), name)


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values(device: Runner, dtype: str) -> None:
    x = np.array(SPECIALS, np.float32 if dtype == "f32" else np.float64)
    found = device.maps(BODIES, [x], dtype)
    for name in REFERENCES:
        values = exact(name, x)
        assert_within(found[name], values, limit(name, dtype), (x,), name)
        with np.errstate(all="ignore"):
            assert_signs(found[name], values.astype(x.dtype), name)


@pytest.mark.parametrize("dtype", TYPES)
def test_vectors_give_what_scalars_give(device: Runner, dtype: str) -> None:
    x = arguments(dtype)[::101]
    one, four = device.maps(BODIES, [x], dtype), device.maps(BODIES, [x], dtype, 4)
    for name in BODIES:
        np.testing.assert_array_equal(one[name], four[name], err_msg=name)


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
def test_power(device: Runner, dtype: str) -> None:
    kind = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(1)
    special = np.array([*SPECIALS, 3.0, -2.5], kind)
    y, x = (a.ravel() for a in np.meshgrid(special, special))
    bases = np.concatenate(
        [x, np.exp(rng.uniform(-30, 30, 20_000)).astype(kind), rng.integers(-8, 0, 500).astype(kind)]
    )
    powers = np.concatenate([y, rng.uniform(-3, 3, 20_000).astype(kind), rng.integers(-20, 20, 500).astype(kind)])
    found = device.maps({"pow": lambda k, x, y: k.pow(x, y)}, [bases, powers], dtype)["pow"]
    assert_within(found, exact("pow", bases, powers), LIMITS[dtype], (bases, powers), "pow")


@needs_extended
@pytest.mark.parametrize("dtype", TYPES)
def test_the_largest_angles(device: Runner, dtype: str) -> None:
    """6381956970095103 * 2^797 is the double that comes closest to a multiple of pi/2 (W. Kahan)."""
    rng = np.random.default_rng(7)
    if dtype == "f32":
        x: Array = np.exp(rng.uniform(10, 88.7, 20_000)).astype(np.float32)
    else:
        hardest = 6381956970095103.0 * 2.0**797
        x = np.concatenate([np.exp(rng.uniform(20, 709, 5000)), [hardest, -hardest, 2.0**1023, 1e22, 2.0**30]])
    x = np.concatenate([x, np.negative(x)])
    found = device.maps({n: BODIES[n] for n in ("sin", "cos")}, [x], dtype)
    for name in ("sin", "cos"):
        assert_within(found[name], exact(name, x), LIMITS[dtype], (x,), name)
