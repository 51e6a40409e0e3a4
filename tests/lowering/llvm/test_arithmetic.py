"""Arithmetic of compiled kernels against NumPy, for every element type, scalar and vector."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.kernel.builder import INDEX, KernelBuilder
from firebox.dtypes import DType
from firebox.runtime.target import Target
from tests.lowering.llvm.kernel_runner import Array, Compiled, run_maps

INTS = [d.name for d in dtypes.INTS]
SOFTWARE = Target.parse("x86-64")
needs_x86 = pytest.mark.skipif(Target.host().arch != "x86_64", reason="runs code of another x86 level")


def pairs(values: Array) -> list[Array]:
    """All ordered pairs."""
    grid = np.meshgrid(values, values)
    return [grid[1].ravel(), grid[0].ravel()]


def edges(dtype: DType) -> Array:
    """The ends of an integer's range, numbers around zero, and a few between."""
    info = np.iinfo(dtype.long)
    rng = np.random.default_rng(1)
    some = rng.integers(info.min, info.max, 12, dtype=dtype.numpy, endpoint=True)
    near = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 5, 7, 8, 100]
    below = [-1, -2, -3, -8] if dtype.is_signed else []
    return np.concatenate([np.array(near + below, dtype.numpy), some])


def special_floats(dtype: DType) -> Array:
    """Zeros, infinities, NaN, the largest, the smallest, and ordinary numbers."""
    info = np.finfo(dtype.long)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 7.25, 1e9, -1e9, 1e30]
    tiny = [info.max, -info.max, info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 0.1, -0.3, 1e-5]
    return np.array(numbers + tiny, dtype.numpy)


BINARY_INT: dict[str, tuple[Any, Any]] = {
    "add": (lambda b, x, y: b.add(x, y), np.add),
    "sub": (lambda b, x, y: b.sub(x, y), np.subtract),
    "mul": (lambda b, x, y: b.mul(x, y), np.multiply),
    "min": (lambda b, x, y: b.min(x, y), np.minimum),
    "max": (lambda b, x, y: b.max(x, y), np.maximum),
    "and": (lambda b, x, y: b.and_(x, y), np.bitwise_and),
    "or": (lambda b, x, y: b.or_(x, y), np.bitwise_or),
    "xor": (lambda b, x, y: b.xor(x, y), np.bitwise_xor),
    "floordiv": (lambda b, x, y: b.floordiv(x, y), np.floor_divide),
    "mod": (lambda b, x, y: b.mod(x, y), np.mod),
    "shl": (lambda b, x, y: b.shl(x, y), np.left_shift),
    "shr": (lambda b, x, y: b.shr(x, y), np.right_shift),
    "neg": (lambda b, x, y: b.neg(x), lambda x, y: np.negative(x)),
    "abs": (lambda b, x, y: b.abs(x), lambda x, y: np.abs(x)),
    "sign": (lambda b, x, y: b.sign(x), lambda x, y: np.sign(x)),
    "not": (lambda b, x, y: b.not_(x), lambda x, y: np.invert(x)),
    "mod7": (lambda b, x, y: b.mod(x, 7), lambda x, y: np.mod(x, x.dtype.type(7))),
    "div8": (lambda b, x, y: b.floordiv(x, 8), lambda x, y: np.floor_divide(x, x.dtype.type(8))),
    "shl3": (lambda b, x, y: b.shl(x, 3), lambda x, y: np.left_shift(x, x.dtype.type(3))),
    "fma": (lambda b, x, y: b.fma(x, y, x), lambda x, y: x * y + x),
    "cube": (lambda b, x, y: b.pow(x, 3), lambda x, y: x**3),
}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", INTS)
def test_integer_arithmetic_is_numpys(name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    x, y = pairs(edges(dtype))
    found = run_maps({n: body for n, (body, _) in BINARY_INT.items()}, [x, y], name, lanes)
    with np.errstate(all="ignore"):
        for op, (_, reference) in BINARY_INT.items():
            np.testing.assert_array_equal(found[op], reference(x, y), err_msg=f"{op} {name} x{lanes}")


@pytest.mark.parametrize("name", ["i8", "i32", "u32", "i64"])
def test_integer_power(name: str) -> None:
    dtype = dtypes.as_dtype(name)
    x, y = pairs(np.arange(0 if not dtype.is_signed else -5, 12).astype(dtype.numpy))
    found = run_maps({"pow": lambda b, x, y: b.pow(x, y)}, [x, y], name, 8)["pow"]
    with np.errstate(all="ignore"):
        positive = np.power(x, np.abs(y))
        expected = np.where(y >= 0, positive, np.where(np.abs(x) == 1, positive, 0))
    np.testing.assert_array_equal(found, expected)


def test_division_by_constants_that_need_care() -> None:
    x = edges(dtypes.i32)
    bodies = {
        "by0": lambda b, x: b.floordiv(x, 0),
        "mod0": lambda b, x: b.mod(x, 0),
        "by-1": lambda b, x: b.floordiv(x, -1),
        "mod-1": lambda b, x: b.mod(x, -1),
        "by-3": lambda b, x: b.floordiv(x, -3),
    }
    found = run_maps(bodies, [x], "i32", 4)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found["by0"], np.zeros_like(x))
        np.testing.assert_array_equal(found["mod0"], np.zeros_like(x))
        np.testing.assert_array_equal(found["by-1"], -x)
        np.testing.assert_array_equal(found["mod-1"], np.zeros_like(x))
        np.testing.assert_array_equal(found["by-3"], np.floor_divide(x, np.int32(-3)))


BINARY_FLOAT: dict[str, tuple[Any, Any]] = {
    "add": (lambda b, x, y: b.add(x, y), np.add),
    "sub": (lambda b, x, y: b.sub(x, y), np.subtract),
    "mul": (lambda b, x, y: b.mul(x, y), np.multiply),
    "div": (lambda b, x, y: b.div(x, y), np.divide),
    "min": (lambda b, x, y: b.min(x, y), np.minimum),
    "max": (lambda b, x, y: b.max(x, y), np.maximum),
    "floordiv": (lambda b, x, y: b.floordiv(x, y), np.floor_divide),
    "mod": (lambda b, x, y: b.mod(x, y), np.mod),
    "neg": (lambda b, x, y: b.neg(x), lambda x, y: -x),
    "abs": (lambda b, x, y: b.abs(x), lambda x, y: np.abs(x)),
    "sign": (lambda b, x, y: b.sign(x), lambda x, y: np.sign(x)),
    "floor": (lambda b, x, y: b.floor(x), lambda x, y: np.floor(x)),
    "ceil": (lambda b, x, y: b.ceil(x), lambda x, y: np.ceil(x)),
    "trunc": (lambda b, x, y: b.trunc(x), lambda x, y: np.trunc(x)),
    "round": (lambda b, x, y: b.round(x), lambda x, y: np.rint(x)),
    "copysign": (lambda b, x, y: b.copysign(x, y), np.copysign),
    "sqrt": (lambda b, x, y: b.sqrt(x), lambda x, y: np.sqrt(x)),
    "square": (lambda b, x, y: b.pow(x, 2.0), lambda x, y: x * x),
    "select": (lambda b, x, y: b.select(b.lt(x, y), x, 2.0), lambda x, y: np.where(x < y, x, 2)),
}


@pytest.mark.parametrize("target", [pytest.param("host"), pytest.param("x86-64", marks=needs_x86)])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_float_arithmetic_is_numpys(name: str, lanes: int, target: str) -> None:
    dtype = dtypes.as_dtype(name)
    values = special_floats(dtype)
    if target != "host":  # without the instruction, a product next to the largest number overflows inside an fma
        values = values[~(np.abs(values) == np.finfo(dtype.long).max)]
    x, y = pairs(values)
    bodies = {n: body for n, (body, _) in BINARY_FLOAT.items()}
    found = run_maps(bodies, [x, y], name, lanes, Target.parse(target))
    with np.errstate(all="ignore"):
        for op, (_, reference) in BINARY_FLOAT.items():
            expected = reference(x, y).astype(dtype.numpy)
            np.testing.assert_array_equal(found[op], expected, err_msg=f"{op} {name} x{lanes}")
            if op in ("floordiv", "mod", "neg", "round", "floor", "ceil", "trunc", "copysign"):
                signs = np.isnan(expected) | (np.signbit(found[op]) == np.signbit(expected))
                assert signs.all(), (op, x[~signs], y[~signs])


def test_fma_rounds_once() -> None:
    x = np.array([1 + 2.0**-12, 3.0, np.inf], np.float32)
    found = run_maps({"fma": lambda b, x: b.fma(x, x, -1.0)}, [x], "f32", 4)["fma"]
    exact = (x.astype(np.float64) ** 2 - 1).astype(np.float32)
    np.testing.assert_array_equal(found, exact)
    assert exact[0] != np.float32(x[0] * x[0]) - np.float32(1)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", ["bool", "i8", "u8", "i64", "u64", "f32", "f64", "bf16"])
def test_comparisons(name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    if dtype.is_bool:
        values = np.array([False, True])
    elif dtype.is_int:
        values = edges(dtype)
    else:
        with np.errstate(all="ignore"):
            values = special_floats(dtypes.f32).astype(dtype.numpy)
    x, y = pairs(values)
    names = ["eq", "ne", "lt", "le", "gt", "ge"]
    bodies = {n: (lambda b, x, y, n=n: getattr(b, n)(x, y)) for n in names}
    found = run_maps(bodies, [x, y], "bool", lanes)
    references = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    for op, reference in zip(names, references, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found[op], reference(x, y), err_msg=f"{op} {name}")


def test_bool_arithmetic_is_logical() -> None:
    x, y = pairs(np.array([False, True]))
    bodies = {
        "add": lambda b, x, y: b.add(x, y),
        "mul": lambda b, x, y: b.mul(x, y),
        "xor": lambda b, x, y: b.xor(x, y),
        "not": lambda b, x, y: b.not_(x),
        "max": lambda b, x, y: b.max(x, y),
    }
    found = run_maps(bodies, [x, y], "bool", 4)
    for op, expected in {"add": x | y, "mul": x & y, "xor": x ^ y, "not": ~x, "max": x | y}.items():
        np.testing.assert_array_equal(found[op], expected, err_msg=op)


def test_classification() -> None:
    x = special_floats(dtypes.f32)
    names = ["isnan", "isinf", "isfinite"]
    found = run_maps({n: (lambda b, x, n=n: getattr(b, n)(x)) for n in names}, [x], "bool", 8)
    for name in names:
        np.testing.assert_array_equal(found[name], getattr(np, name)(x), err_msg=name)
    whole = run_maps({n: (lambda b, x, n=n: getattr(b, n)(x)) for n in names}, [edges(dtypes.i32)], "bool", 8)
    assert not whole["isnan"].any() and not whole["isinf"].any() and whole["isfinite"].all()


def cast_reference(x: Array, goal: DType) -> Array:
    """x as the goal type; float to integer saturates with NaN as 0, which NumPy leaves open."""
    if goal.is_int and x.dtype.kind not in "iub":
        info = np.iinfo(goal.long)
        numbers = [0.0 if np.isnan(v) else min(max(float(v), -1e30), 1e30) for v in x]
        return np.array([min(max(int(v), int(info.min)), int(info.max)) for v in numbers], goal.numpy)
    return x.astype(goal.numpy)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", [d.name for d in dtypes.ALL])
def test_casts_between_all_types(name: str, lanes: int) -> None:
    source = dtypes.as_dtype(name)
    if source.is_bool:
        x: Array = np.array([False, True])
    elif source.is_int:
        x = edges(source)
    else:
        x = np.concatenate([special_floats(dtypes.f64), [255.7, -128.9, 127.99, 2**31, -(2**31), 2**63, 2.0**64]])
        with np.errstate(all="ignore"):
            x = x.astype(source.numpy)
    for goal in dtypes.ALL:
        found = run_maps({"cast": lambda b, x, g=goal: b.cast(x, g)}, [x], goal, lanes)["cast"]
        with np.errstate(all="ignore"):
            expected = cast_reference(x, goal)
        same = (found == expected) | ((found != found) & (expected != expected))
        assert same.all(), (name, goal.name, x[~same], found[~same], expected[~same])


@pytest.mark.parametrize("target", [pytest.param("host"), pytest.param("x86-64", marks=needs_x86)])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_floats_load_exactly_and_store_to_the_nearest(name: str, target: str) -> None:
    dtype = dtypes.as_dtype(name)
    machine = Target.parse(target)
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.numpy)
    found = run_maps({"up": lambda b, x: b.mul(x, 1.0)}, [every], "f32", 16, machine)["up"]
    np.testing.assert_array_equal(found, every.astype(np.float32))

    patterns = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    halfway = every[::7].astype(np.float32).view(np.uint32)
    ulp = 1 << (12 if name == "f16" else 15)
    x = np.concatenate([patterns, halfway + ulp, halfway + ulp - 1, halfway + ulp + 1]).view(np.float32)
    found = run_maps({"down": lambda b, x: b.cast(x, dtypes.f32)}, [x], name, 16, machine)["down"]
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.numpy)
    nan = np.isnan(x)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(found[nan].astype(np.float32)).all()


def test_f64_rounds_to_f16_once() -> None:
    # Just above a tie of f16; through f32 the excess is lost and the tie goes to even, which is down.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-40], np.float64)
    found = run_maps({"down": lambda b, x: b.cast(b.cast(x, dtypes.f16), dtypes.f64)}, [x], "f64", 1)["down"]
    np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float64))
    assert found[0] == 1 + 2.0**-10


def test_a_cast_to_bf16_rounds_the_value() -> None:
    x = np.array([1.003, 257.0, 3.14159], np.float32)
    found = run_maps({"round": lambda b, x: b.cast(x, dtypes.bf16)}, [x], "f32", 1)["round"]
    np.testing.assert_array_equal(found, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_bitcast() -> None:
    x = special_floats(dtypes.f32)
    found = run_maps({"bits": lambda b, x: b.bitcast(x, dtypes.u32)}, [x], "u32", 8)["bits"]
    np.testing.assert_array_equal(found, x.view(np.uint32))


def test_index_arithmetic() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i64], n_dims=2)
    n, m = b.dims
    offset = b.sub(n, m)
    values = [
        b.floordiv(offset, 4),
        b.mod(offset, 4),
        b.floordiv(n, m),
        b.mod(n, m),
        b.floordiv(n, b.sub(m, m)),
        b.min(n, m),
        b.max(offset, 0),
        b.cast(b.cast(n, dtypes.f64), INDEX),
        b.add(b.cast(n, dtypes.i32), offset),
    ]
    for k, value in enumerate(values):
        b.store(b.buffers[0], k, b.cast(value, dtypes.i64))
    out = np.zeros(len(values), np.int64)
    Compiled([b.finish()])("k", [out], dims=[3, 10])
    assert out.tolist() == [-2, 1, 0, 3, 3, 3, 0, 3, -4]
