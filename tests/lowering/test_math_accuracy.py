"""Math functions of compiled programs on each device, against exact values, and against each other bit by bit."""

import functools
from typing import Any

import numpy as np
import pytest

from firebox.dialects.nd.value import Value
from firebox.dtypes import as_dtype
from firebox.runtime.device import Device
from tests.lowering.llvm import test_math, test_math_f64
from tests.lowering.llvm.ulp import REFERENCES, SPECIALS, assert_signs, assert_within
from tests.op_checks import plain_ops
from tests.programs import program, run_native

Array = np.ndarray[Any, Any]

LIMIT = 2.0
POW_LIMIT = 4.0
WIDER: dict[str, type[np.generic]] = {"f32": np.float64, "f64": np.longdouble}
needs_extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as reference")
both_types = pytest.mark.parametrize("dtype", ["f32", pytest.param("f64", marks=needs_extended)])


@functools.cache
def arguments(dtype: str) -> Array:
    """Special values, numbers of all magnitudes, and numbers of common ranges."""
    numbers = test_math.samples()[::5] if dtype == "f32" else test_math_f64.samples(20_000)
    return np.concatenate([np.array(SPECIALS, numbers.dtype), numbers])


@functools.cache
def powers(dtype: str) -> tuple[Array, Array]:
    """Bases and exponents: of all magnitudes, of common ranges, whole numbers, and all pairs of special values."""
    rng = np.random.default_rng(1)
    n, largest = 20_000, 900.0 if dtype == "f32" else 7000.0
    wide = np.exp(rng.uniform(-80, 80, n)) * rng.choice([-1, 1], n)
    special = np.array([*SPECIALS, 3.0, -2.5])
    y, x = (a.ravel() for a in np.meshgrid(special, special))
    bases = [wide, np.abs(wide), rng.uniform(0.9, 1.1, n), rng.uniform(0, 10, n), rng.integers(-20, 20, n), x]
    exponents = [wide[::-1], *(rng.uniform(-e, e, n) for e in (3, largest, 40)), rng.integers(-20, 20, n), y]
    kind = as_dtype(dtype).numpy
    return np.concatenate(bases).astype(kind), np.concatenate(exponents).astype(kind)


@functools.cache
def computed(dtype: str, device: Device) -> dict[str, Array]:
    """Each function, as a kernel of its own."""
    ops = plain_ops()
    x, pair = arguments(dtype), powers(dtype)

    def function(*inputs: Value) -> list[Value]:
        single = [v.apply(ops[f"nd.{name}"], (v,), {})[0] for name, v in zip(REFERENCES, inputs, strict=False)]
        return [*single, inputs[-2].apply(ops["nd.pow"], inputs[-2:], {})[0]]

    arrays = [*(x for _ in REFERENCES), *pair]
    found = run_native(program(function, *(f"{dtype}[{len(a)}]" for a in arrays)), arrays, device=device)
    return dict(zip([*REFERENCES, "pow"], found, strict=True))


@both_types
def test_every_function_is_accurate(dtype: str, each_device: Device) -> None:
    x = arguments(dtype)
    found = computed(dtype, each_device)
    with np.errstate(all="ignore"):
        for name, reference in REFERENCES.items():
            exact = reference(x.astype(WIDER[dtype]))
            assert_within(found[name], exact, test_math.LIMITS.get(name, LIMIT), (x,), name)
            assert_signs(found[name], exact.astype(x.dtype), name)


@both_types
def test_powers_are_accurate(dtype: str, each_device: Device) -> None:
    x, y = powers(dtype)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(WIDER[dtype]), y.astype(WIDER[dtype]))
    root = (y == 0.5) & ((x == 0) | np.isinf(x))  # np.power takes a square root there, unlike C99
    found = computed(dtype, each_device)["pow"]
    assert_within(found, np.where(root, np.abs(x), exact), POW_LIMIT, (x, y), "pow")


@both_types
def test_bits_are_those_of_the_cpu(dtype: str, each_device: Device) -> None:
    """The formulas are the same and every operation in them is rounded exactly; only which NaN it is may differ."""
    here = computed(dtype, Device("cpu"))
    for name, found in computed(dtype, each_device).items():
        np.testing.assert_array_equal(found, here[name], err_msg=name)
        assert_signs(found, here[name], name)
