"""The accuracy that docs/numerics.md states is the accuracy that is measured; and what it says of sums holds."""

import functools
from collections.abc import Iterator

import numpy as np
import pytest

import firebox as fb
from firebox.runtime import device, pool
from firebox.runtime.target import Target
from tests.conftest import GOLDEN
from tests.lowering.llvm import test_math, test_math_f64
from tests.lowering.llvm.kernel_runner import Array, run_maps
from tests.lowering.llvm.ulp import REFERENCES, ulps

TABLE = GOLDEN / "math" / "accuracy.csv"
TARGET = Target.parse("x86-64-v3")


def _worst(x: Array, wide: type[np.generic], name: str) -> dict[str, float]:
    """Largest distance of each function from its exact value, in units in the last place."""
    found = run_maps(test_math.BODIES, [x], name, TARGET.lanes(x.dtype.itemsize), TARGET)
    with np.errstate(all="ignore"):
        exact = {n: reference(x.astype(wide)) for n, reference in REFERENCES.items()}
    return {n: float(ulps(found[n], exact[n]).max()) for n in REFERENCES}


@pytest.mark.skipif(bool(TARGET.missing_on_host()), reason="runs code for AVX2 with fused multiply-add")
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as reference")
def test_the_table_of_accuracy(request: pytest.FixtureRequest) -> None:
    """A tenth of a unit apart at most: the exact maximum depends on which of all numbers are tried."""
    single = _worst(test_math.samples(), np.float64, "f32")
    double = _worst(test_math_f64.samples(20_000), np.longdouble, "f64")
    if request.config.getoption("--update-golden"):
        TABLE.parent.mkdir(exist_ok=True)
        lines = (f"{name},{single[name]:.2f},{double[name]:.2f}" for name in REFERENCES)
        TABLE.write_text("\n".join(["function,f32,f64", *lines]) + "\n")
    rows = [line.split(",") for line in TABLE.read_text().splitlines()[1:]]
    assert [row[0] for row in rows] == list(REFERENCES)
    for name, stated32, stated64 in rows:
        assert abs(single[name] - float(stated32)) < 0.1, name
        assert abs(double[name] - float(stated64)) < 0.1, name


# ---- sums --------------------------------------------------------------------------------------------------------


@functools.cache
def _data() -> Array:
    return np.random.default_rng(0).normal(size=(3, 300_000)).astype(np.float32)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    before = pool.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            pool.set_num_threads(threads)
            x = fb.tensor(_data())
            found.append((x.sum().numpy(), x.mean(1).numpy(), fb.softmax(x, 0).numpy(), (x @ x.T).numpy()))
    finally:
        pool.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_narrow_floats_are_summed_in_f32_and_rounded_once() -> None:
    ones = fb.ones(1000, dtype=fb.bfloat16)
    assert ones.sum().item() == 1000.0  # adding one by one in bf16 stops at 256
    third = fb.tensor(np.full(3, 1 / 3, np.float32)).astype(fb.bfloat16)
    exact = np.float32(third.numpy().astype(np.float32).sum())
    assert third.sum().item() == float(exact.astype(third.numpy().dtype))


def test_narrow_floats_are_rounded_where_they_are_stored() -> None:
    x = np.linspace(0.1, 10.0, 1000).astype(np.float16)
    product = x.astype(np.float32) * np.float32(3.0)
    once = (product + np.float32(-8.0)).astype(np.float16)
    twice = (product.astype(np.float16).astype(np.float32) + np.float32(-8.0)).astype(np.float16)
    assert (once != twice).any()

    given = fb.tensor(x)
    np.testing.assert_array_equal(given * 3.0 - 8.0, once)  # one kernel: f32 in between
    held = given * 3.0
    fb.flush()
    np.testing.assert_array_equal(held - 8.0, twice)  # two: the product is in memory
    cast = (given.astype(fb.float32) * 3.0).astype(fb.float16)
    np.testing.assert_array_equal(cast - 8.0, twice)  # a cast rounds wherever it stands


def test_products_and_sums_are_not_contracted() -> None:
    x = np.float32(1 + 2.0**-12)
    given = fb.tensor(x)
    assert (given * given - 1.0).item() == float(x * x - np.float32(1))
    assert float(x) * float(x) - 1.0 != float(x * x - np.float32(1))  # what a fused multiply-add would round


def test_special_cases_are_those_of_numpy() -> None:
    nan, inf = np.nan, np.inf
    x = fb.tensor([nan, inf, 1.0])
    assert np.isnan(x.max().item()) and np.isnan(x.sum().item())
    assert fb.tensor([0.0, -0.0]).sum().item() == 0.0
    i = fb.tensor([5, -5, 5])
    assert (i // fb.tensor([0, 2, -2])).tolist() == [0, -3, -3]
    assert fb.tensor([nan, 3e9, -3e9, 2.9]).astype(fb.int32).tolist() == [0, 2**31 - 1, -(2**31), 2]
    assert (fb.tensor([127], dtype=fb.int8) + 1).tolist() == [-128]


@pytest.fixture
def unused_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices as they are when a program starts."""
    fb.set_default_device(None)
    monkeypatch.setattr(device, "_open", {})
    yield
    fb.flush()


def test_defaults_of_a_device(unused_devices: None) -> None:
    fb.Device("cpu").configure(float_dtype="f64", int_dtype="i32")
    assert fb.tensor([0.1]).dtype is fb.float64 and fb.tensor(0.1).item() == 0.1
    assert fb.nn.Linear(2, 2).weight.dtype is fb.float64
    assert (fb.arange(3).dtype, (fb.arange(3) / 2).dtype) == (fb.int32, fb.float64)
    assert fb.zeros(2, dtype="f32").dtype is fb.float32


def test_derivatives_where_there_is_none() -> None:
    grad = fb.grad
    x = fb.tensor([0.0, 2.0, 2.0])
    assert grad(lambda x: x.abs().sum())(x).tolist() == [0.0, 1.0, 1.0]
    assert grad(lambda x: x.round().sum())(x).tolist() == [0.0, 0.0, 0.0]
    assert grad(lambda x: x.maximum(2.0).sum())(x).tolist() == [0.0, 0.5, 0.5]
    assert grad(lambda x: x.max())(x).tolist() == [0.0, 0.5, 0.5]
    assert grad(lambda x: x.prod())(x).tolist() == [4.0, 0.0, 0.0]
    assert np.isnan(grad(lambda x: fb.where(x > 0, x.log(), 0.0).sum())(x).numpy()[0])
    guarded = grad(lambda x: fb.where(x > 0, fb.where(x > 0, x, 1.0).log(), 0.0).sum())(x)
    assert guarded.tolist() == [0.0, 0.5, 0.5]
