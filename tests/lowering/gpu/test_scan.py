"""Scans as OpenCL kernels: every division of the work, edges, and the order in which elements are combined."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.scan import GPU_SCAN
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import check, groups_of, run
from tests.programs import program

Array = np.ndarray[Any, Any]
TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u64": np.uint64,
}  # fmt: skip


def scan(name: str, axis: int, reverse: bool = False) -> Any:
    return lambda x: x.one(name, x, axis=axis, reverse=reverse)


def schedule_of(spec: str, axis: int) -> Schedule:
    (group,) = groups_of(program(scan("cumsum", axis), spec))
    return GPU_SCAN.schedule(group, OpenClTarget.h200())


def integers(shape: tuple[int, ...], dtype: str = "i32") -> Array:
    return np.random.default_rng(5).integers(0, 50, shape).astype(TYPES[dtype])


def test_the_form_follows_the_memory() -> None:
    assert schedule_of("f32[4096, 4096]", 1) == Schedule("gpu-scan", "d1", 4, unroll=4, group=256)
    across = Schedule("gpu-scan", "d0", unroll=8, group=1024, rows_per_group=32)
    assert schedule_of("f32[4096, 4096]", 0) == across
    assert schedule_of("f32[100000, 16]", 1) == Schedule("gpu-scan", "d1", 4, unroll=4, group=256, rows_per_group=256)
    assert schedule_of("f32[67108864]", 0) == Schedule("gpu-scan", "d0", 4, unroll=4, group=256, split=528)
    assert schedule_of("bf16[8, 1001]", 1).lanes == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((3, 5), 1), ((300, 7), 1), ((5, 33), 1), ((3, 64), 1), ((2, 1001), 1), ((2, 3000), 1), ((1000, 1), 0),
     ((40, 3), 0), ((2, 100, 5), 1), ((70, 70), 0), ((3, 40, 40), 1), ((2, 0), 1), ((0, 2), 1), ((4, 0), 0)],
    ids=str,
)  # fmt: skip
def test_rows_and_columns(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    check(GPU_SCAN, scan("cumsum", axis, reverse), [f"i32[{', '.join(map(str, shape))}]"], [integers(shape)])


@settings(max_examples=5, deadline=None)
@given(
    outer=st.integers(0, 4), size=st.integers(0, 700), inner=st.integers(1, 70), reverse=st.booleans(),
    name=st.sampled_from(["cumsum", "cumprod", "cummax", "cummin"]),
)  # fmt: skip
def test_any_shape(outer: int, size: int, inner: int, reverse: bool, name: str) -> None:
    check(GPU_SCAN, scan(name, 1, reverse), [f"i64[{outer}, {size}, {inner}]"], [integers((outer, size, inner), "i64")])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "split"), [((40000,), 8), ((2, 9001), 3), ((3, 4097), 5), ((5000, 3), 4), ((1030, 40), 5)], ids=str
)
def test_divided_lines(shape: tuple[int, ...], split: int, reverse: bool) -> None:
    """Parts that are short, uneven or empty."""
    axis = 1 if shape[0] < 5 else 0

    def choose(group: GroupOp) -> Schedule:
        return replace(GPU_SCAN.schedule(group, OpenClTarget.generic()), split=split)

    spec = f"i32[{', '.join(map(str, shape))}]"
    check(GPU_SCAN, scan("cumsum", axis, reverse), [spec], [integers(shape)], choose=choose)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_types(dtype: str, name: str) -> None:
    x = integers((3, 264), dtype) if name != "cumprod" else np.ones((3, 264)).astype(TYPES[dtype])
    rtol = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-6, "f64": 1e-12}.get(dtype, 0.0)
    check(GPU_SCAN, scan(name, 1), [f"{dtype}[3, 264]"], [x], rtol=rtol)


def test_bool_extremes() -> None:
    x = np.random.default_rng(0).integers(0, 20, (4, 100)) == 0
    check(GPU_SCAN, scan("cummax", 1), ["bool[4, 100]"], [x])


@pytest.mark.parametrize("reverse", [False, True])
def test_nan_wins_from_where_it_stands(reverse: bool) -> None:
    x = np.random.default_rng(0).normal(size=(2, 300)).astype(np.float32)
    x[0, 100] = x[1, 299] = np.nan
    check(GPU_SCAN, scan("cummax", 1, reverse), ["f32[2, 300]"], [x])


def test_float_sums() -> None:
    x = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    check(GPU_SCAN, scan("cumsum", 1), ["f32[3, 5000]"], [x], rtol=1e-4)
    (found,) = run(GPU_SCAN, scan("cumsum", 1), ["f32[3, 5000]"], [x])
    (again,) = run(GPU_SCAN, scan("cumsum", 1), ["f32[3, 5000]"], [x])
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize(("b", "n"), [(0, 5), (3, 0), (1, 1), (5, 257), (40, 33)])
@pytest.mark.parametrize("axis", [0, 1])
def test_symbolic_extents(b: int, n: int, axis: int) -> None:
    check(GPU_SCAN, scan("cumsum", axis), ["i32[b, n]"], [integers((b, n))], b=b, n=n)
