"""Arithmetic, comparisons and casts of OpenCL kernels against NumPy, for every element type, scalar and vector."""

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.kernel.builder import INDEX, KernelBuilder
from firebox.errors import CompilerError
from firebox.lowering.opencl.emit import emit_source
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.llvm.test_arithmetic import (
    BINARY_FLOAT,
    BINARY_INT,
    INTS,
    cast_reference,
    edges,
    pairs,
    special_floats,
)
from tests.lowering.opencl.device_runner import Array, Runner

SIGNED_ZEROS = ("floordiv", "mod", "neg", "round", "floor", "ceil", "trunc", "copysign")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", INTS)
def test_integer_arithmetic_is_numpys(device: Runner, name: str, lanes: int) -> None:
    x, y = pairs(edges(dtypes.as_dtype(name)))
    found = device.maps({n: body for n, (body, _) in BINARY_INT.items()}, [x, y], name, lanes)
    with np.errstate(all="ignore"):
        for op, (_, reference) in BINARY_INT.items():
            np.testing.assert_array_equal(found[op], reference(x, y), err_msg=f"{op} {name} x{lanes}")


@pytest.mark.parametrize("name", ["i8", "u32", "i64"])
def test_integer_power(device: Runner, name: str) -> None:
    dtype = dtypes.as_dtype(name)
    x, y = pairs(np.arange(-5 if dtype.is_signed else 0, 12).astype(dtype.numpy))
    found = device.maps({"pow": lambda k, x, y: k.pow(x, y)}, [x, y], name, 2)["pow"]
    with np.errstate(all="ignore"):
        positive = np.power(x, np.abs(y))
    np.testing.assert_array_equal(found, np.where(y >= 0, positive, np.where(np.abs(x) == 1, positive, 0)))


@pytest.mark.parametrize("lanes", [1, 4])
def test_division_by_constants_that_need_care(device: Runner, lanes: int) -> None:
    x = edges(dtypes.i32)
    cases = [("floordiv", 0), ("floordiv", -1), ("floordiv", -3), ("mod", 0), ("mod", -1)]
    bodies = {f"{op}{n}": (lambda k, x, op=op, n=n: getattr(k, op)(x, n)) for op, n in cases}
    found = device.maps(bodies, [x], "i32", lanes)
    with np.errstate(all="ignore"):
        expected = [0 * x, -x, x // np.int32(-3), 0 * x, 0 * x]
    for name, values in zip(bodies, expected, strict=True):
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_float_arithmetic_is_numpys(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    x, y = pairs(special_floats(dtype))
    found = device.maps({n: body for n, (body, _) in BINARY_FLOAT.items()}, [x, y], name, lanes)
    with np.errstate(all="ignore"):
        for op, (_, reference) in BINARY_FLOAT.items():
            expected = reference(x, y).astype(dtype.numpy)
            np.testing.assert_array_equal(found[op], expected, err_msg=f"{op} {name} x{lanes}")
            if op in SIGNED_ZEROS:
                signs = np.isnan(expected) | (np.signbit(found[op]) == np.signbit(expected))
                assert signs.all(), (op, x[~signs], y[~signs])


@pytest.mark.parametrize("lanes", [1, 4])
def test_products_and_sums_round_apart_and_fma_once(device: Runner, lanes: int) -> None:
    rng = np.random.default_rng(5)
    x, y, z = (rng.standard_normal(1000).astype(np.float32) for _ in range(3))
    bodies = {"apart": lambda k, x, y, z: k.add(k.mul(x, y), z), "once": lambda k, x, y, z: k.fma(x, y, z)}
    found = device.maps(bodies, [x, y, z], "f32", lanes)
    np.testing.assert_array_equal(found["apart"], x * y + z)
    exact = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
    np.testing.assert_array_equal(found["once"], exact.astype(np.float32))
    assert (found["apart"] != found["once"]).any()


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["bool", "i8", "u16", "i32", "u64", "f32", "f64", "bf16", "f16"])
def test_comparisons(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    values: Array = np.array([False, True]) if dtype.is_bool else edges(dtype) if dtype.is_int else np.zeros(0)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            values = special_floats(dtypes.f32).astype(dtype.numpy)
    x, y = pairs(values)
    names = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    found = device.maps({n: (lambda k, x, y, n=n: getattr(k, n)(x, y)) for n in names}, [x, y], "bool", lanes)
    for op, reference in names.items():
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found[op], reference(x, y), err_msg=f"{op} {name}")


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_bool_arithmetic_is_logical(device: Runner, lanes: int) -> None:
    x, y = pairs(np.array([False, True]))
    bodies = {
        "add": lambda k, x, y: k.add(x, y),
        "mul": lambda k, x, y: k.mul(x, y),
        "xor": lambda k, x, y: k.xor(x, y),
        "not": lambda k, x, y: k.not_(x),
        "select": lambda k, x, y: k.select(x, y, k.not_(y)),
        "by number": lambda k, x, y: k.gt(k.cast(x, dtypes.i64), k.cast(y, dtypes.i64)),
    }
    found = device.maps(bodies, [x, y], "bool", lanes)
    expected = {"add": x | y, "mul": x & y, "xor": x ^ y, "not": ~x, "select": np.where(x, y, ~y), "by number": x > y}
    for op, values in expected.items():
        np.testing.assert_array_equal(found[op], values, err_msg=op)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["i8", "u16", "i64", "f32", "f64"])
def test_selection_by_a_comparison_of_another_width(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    x = np.arange(-8, 8).astype(np.float32)
    bodies = {"chosen": lambda k, x: k.select(k.lt(x, 0.0), k.const(1, dtype), k.const(2, dtype))}
    np.testing.assert_array_equal(device.maps(bodies, [x], name, lanes)["chosen"], np.where(x < 0, 1, 2))


def test_classification(device: Runner) -> None:
    x = special_floats(dtypes.f32)
    names = ["isnan", "isinf", "isfinite"]
    found = device.maps({n: (lambda k, x, n=n: getattr(k, n)(x)) for n in names}, [x], "bool", 4)
    for name in names:
        np.testing.assert_array_equal(found[name], getattr(np, name)(x), err_msg=name)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", [d.name for d in dtypes.ALL])
def test_casts_between_all_types(device: Runner, name: str, lanes: int) -> None:
    """All goals in one kernel: every result is stored as its own type."""
    source = dtypes.as_dtype(name)
    x: Array = np.array([False, True]) if source.is_bool else edges(source) if source.is_int else np.zeros(0)
    if source.is_float:
        x = np.concatenate([special_floats(dtypes.f64), [255.7, -128.9, 127.99, 2**31, -(2**31), 2**63, 2.0**64]])
        with np.errstate(all="ignore"):
            x = x.astype(source.numpy)
    x = np.resize(x, -(-len(x) // lanes) * lanes)
    k = KernelBuilder.device_kernel("casts", [source, *dtypes.ALL], group=1, narrow=False)
    at = k.mul(k.group_id(), lanes)
    value = k.load(k.buffers[0], at, lanes)
    for ref, goal in zip(k.buffers[1:], dtypes.ALL, strict=True):
        k.store(ref, at, k.cast(value, goal))
    outs = [np.zeros(len(x), goal.numpy) for goal in dtypes.ALL]
    device.compile(k.finish())("casts", [x, *outs], groups=len(x) // lanes)
    for goal, found in zip(dtypes.ALL, outs, strict=True):
        with np.errstate(all="ignore"):
            expected = cast_reference(x, goal)
        same = (found == expected) | ((found != found) & (expected != expected))
        assert same.all(), (name, goal.name, x[~same], found[~same], expected[~same])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_floats_load_exactly_and_store_to_the_nearest(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.numpy)
    found = device.maps({"up": lambda k, x: k.mul(x, 1.0)}, [every], "f32", lanes)["up"]
    np.testing.assert_array_equal(found, every.astype(np.float32))

    patterns = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    halfway = every[::7].astype(np.float32).view(np.uint32)
    unit = 1 << (12 if name == "f16" else 15)
    x = np.concatenate([patterns, halfway + unit, halfway + unit - 1, halfway + unit + 1]).view(np.float32)
    found = device.maps({"down": lambda k, x: k.cast(x, dtypes.f32)}, [x], name, lanes)["down"]
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.numpy)
    nan = np.isnan(x)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(found[nan].astype(np.float32)).all()


def test_f64_rounds_to_f16_once(device: Runner) -> None:
    # Just above a tie of f16; through f32 the excess is lost and the tie goes to even, which is down.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-40], np.float64)
    found = device.maps({"down": lambda k, x: k.cast(k.cast(x, dtypes.f16), dtypes.f64)}, [x], "f64")["down"]
    np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float64))
    assert found[0] == 1 + 2.0**-10


@pytest.mark.parametrize("lanes", [1, 4])
def test_bitcast(device: Runner, lanes: int) -> None:
    x = special_floats(dtypes.f32)
    found = device.maps({"bits": lambda k, x: k.bitcast(x, dtypes.u32)}, [x], "u32", lanes)["bits"]
    np.testing.assert_array_equal(found, x.view(np.uint32))
    back = device.maps({"real": lambda k, x: k.bitcast(x, dtypes.f32)}, [found], "f32", lanes)["real"]
    np.testing.assert_array_equal(back.view(np.uint32), found)


@pytest.mark.parametrize("narrow", [True, False])
def test_index_arithmetic(device: Runner, narrow: bool) -> None:
    k = KernelBuilder.device_kernel("index", [dtypes.i64], n_dims=2, group=1, narrow=narrow)
    n, m = k.dims
    offset = k.sub(n, m)
    values = [
        k.floordiv(offset, 4),
        k.mod(offset, 4),
        k.floordiv(n, m),
        k.mod(n, m),
        k.floordiv(n, k.sub(m, m)),
        k.min(n, m),
        k.max(offset, 0),
        k.cast(k.cast(n, dtypes.f64), INDEX),
        k.add(k.cast(n, dtypes.i32), offset),
        k.floordiv(m, 8),
        k.mod(m, 8),
        k.floordiv(m, 3),
        k.floordiv(offset, 3),
    ]
    for position, value in enumerate(values):
        k.store(k.buffers[0], position, k.cast(value, dtypes.i64))
    out = np.zeros(len(values), np.int64)
    device.compile(k.finish())("index", [out], dims=[3, 10])
    assert out.tolist() == [-2, 1, 0, 3, 3, 3, 0, 3, -4, 1, 2, 3, -3]


def test_wide_indices_hold_more_than_32_bits(device: Runner) -> None:
    k = KernelBuilder.device_kernel("wide", [dtypes.i64], n_dims=1, group=1, narrow=False)
    k.store(k.buffers[0], 0, k.cast(k.mul(k.dims[0], 3), dtypes.i64))
    out = np.zeros(1, np.int64)
    device.compile(k.finish())("wide", [out], dims=[1 << 40])
    assert out[0] == 3 << 40


def test_a_device_without_f64_is_told_so() -> None:
    k = KernelBuilder.device_kernel("k", [dtypes.f64], group=1, narrow=True)
    k.store(k.buffers[0], 0, 1.0)
    generic = OpenClTarget.generic()
    small = OpenClTarget("opencl", "generic", "generic", (), 1, 64, 1 << 14, 1 << 20, 1, generic.host)
    with pytest.raises(CompilerError, match="no 64-bit floats"):
        emit_source([k.finish()], small)
