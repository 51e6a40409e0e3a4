"""Scans in native code: the three forms, their edges, and values that say in which order elements were combined."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.scan import schedule_scan
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target
from tests.programs import check_native, program, run_native

Array = np.ndarray[Any, Any]


def scan(name: str, spec: str, x: Array, axis: int, reverse: bool = False, **dim_values: int) -> Array:
    module = program(lambda v: v.one(name, v, axis=axis, reverse=reverse), spec)
    return run_native(module, [x], dim_values)[0]


def schedule_of(spec: str, axis: int, target: str = "x86-64-v4") -> Schedule:
    module = program(lambda v: v.one("cumsum", v, axis=axis, reverse=False), spec)
    run_to(module, Target.host(), "order")
    (group,) = (op for op in main_function(module).body.block.ops if isinstance(op, GroupOp))
    return schedule_scan(group, Target.parse(target))


def test_the_form_follows_the_memory() -> None:
    assert schedule_of("f32[8, 1000]", 1) == Schedule("scan", "d1", 16, grain=16)
    assert schedule_of("f32[8, 1000]", 0) == Schedule("scan", "d1", 16, 64, 4, 32)
    assert schedule_of("f32[1000, 4]", 1) == Schedule("scan", grain=4096)
    assert schedule_of("f64[2, 9, 3]", 1) == Schedule("scan", "d2", 8, 8, 1, 227)


def test_symbolic_extents_count_as_long() -> None:
    assert schedule_of("f32[b, n]", 1).lane == "d1"
    assert schedule_of("f32[b, n]", 0).block == 64


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 16), (3, 15), (3, 17), (2, 64), (5, 7), (2, 1000)], ids=str)
def test_rows_of_any_length(shape: tuple[int, ...], reverse: bool) -> None:
    x = np.random.default_rng(3).integers(-100, 100, shape).astype(np.int32)
    ordered = np.flip(x, 1) if reverse else x
    expected = np.cumsum(ordered, axis=1, dtype=np.int32)
    found = scan("cumsum", f"i32[{shape[0]}, {shape[1]}]", x, 1, reverse)
    np.testing.assert_array_equal(found, np.flip(expected, 1) if reverse else expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [2, 15, 16, 64, 65, 127, 200])
def test_columns_of_any_number(width: int, reverse: bool) -> None:
    x = np.random.default_rng(4).integers(-100, 100, (3, 9, width)).astype(np.int32)
    ordered = np.flip(x, 1) if reverse else x
    expected = np.cumsum(ordered, axis=1, dtype=np.int32)
    found = scan("cumsum", f"i32[3, 9, {width}]", x, 1, reverse)
    np.testing.assert_array_equal(found, np.flip(expected, 1) if reverse else expected)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 70, 1), (2, 5, 33), (3, 0, 2), (0, 4, 2)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_symbolic_extents(sizes: tuple[int, int, int], axis: int) -> None:
    x = np.random.default_rng(5).integers(-9, 9, sizes).astype(np.int64)
    found = scan("cumsum", "i64[a, b, c]", x, axis, a=sizes[0], b=sizes[1], c=sizes[2])
    np.testing.assert_array_equal(found, np.cumsum(x, axis=axis))


def test_integers_wrap() -> None:
    x = np.full(200, 100, np.int8)
    np.testing.assert_array_equal(scan("cumsum", "i8[200]", x, 0), np.cumsum(x, dtype=np.int8))
    np.testing.assert_array_equal(scan("cumprod", "i8[200]", x, 0), np.cumprod(x, dtype=np.int8))


def test_narrow_floats_are_rounded_once() -> None:
    """256 + 1 is 256 in bf16: only a sum in f32 gets anywhere."""
    x = np.ones(600, ml_dtypes.bfloat16)
    x[0] = 256
    expected = np.cumsum(x.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(scan("cumsum", "bf16[600]", x, 0), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_nan_wins_from_where_it_stands(reverse: bool) -> None:
    x = np.random.default_rng(6).normal(size=100).astype(np.float32)
    x[37] = np.nan
    ordered = x[::-1] if reverse else x
    expected = np.maximum.accumulate(ordered)
    np.testing.assert_array_equal(scan("cummax", "f32[100]", x, 0, reverse), expected[::-1] if reverse else expected)


def test_unsigned_and_bool_extremes() -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2**64, 90, np.uint64)
    np.testing.assert_array_equal(scan("cummin", "u64[90]", x, 0), np.minimum.accumulate(x))
    flags = rng.integers(0, 8, (5, 90)) == 0
    np.testing.assert_array_equal(scan("cummax", "bool[5, 90]", flags, 1), np.logical_or.accumulate(flags, axis=1))


def test_float_sums_are_close_to_the_exact_ones() -> None:
    """A prefix over lanes rounds log2(16) times within a vector and once for each vector before it."""
    x = np.random.default_rng(8).uniform(0.0, 1.0, 10_000).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    found = scan("cumsum", "f32[10000]", x, 0).astype(np.float64)
    assert np.max(np.abs(found - exact) / exact) < 640 * 2.0**-24


def test_producers_and_consumers() -> None:
    """A scan of something computed, used twice."""
    x = np.random.default_rng(9).integers(-5, 5, (6, 40)).astype(np.float32)
    check_native(
        lambda v: (
            (s := (v * 2.0).transpose((1, 0)).one("cumsum", (v * 2.0).transpose((1, 0)), axis=0, reverse=True))
            + s.sum((0,))
        ),
        ["f32[6, 40]"],
        [x],
        rtol=0.0,
        atol=0.0,
    )
