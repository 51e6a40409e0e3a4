"""Sorting as OpenCL kernels: order, stability, what comes last, rows within a tile and beyond."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.ops.sort import Sort
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.sort import GPU_SORT
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import groups_of, run
from tests.programs import program

Array = np.ndarray[Any, Any]
TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "i64": np.int64,
    "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip


def sort(axis: int, descending: bool) -> Any:
    return lambda v: v.apply(Sort, (v,), {"axis": axis, "descending": descending})


def check(spec: str, x: Array, axis: int, descending: bool = False, items: int = 0, **sizes: int) -> None:
    """The order of NumPy's stable sort; values are those elements, bit by bit."""

    def choose(group: GroupOp) -> Schedule:
        schedule = GPU_SORT.schedule(group, OpenClTarget.generic())
        return replace(schedule, group=items or schedule.group)

    values, order = run(GPU_SORT, sort(axis, descending), [spec], [x], None, choose, **sizes)
    keys = x.astype(np.float32) if x.dtype in (np.float16, ml_dtypes.bfloat16) else x
    if descending:
        keys = -keys if np.issubdtype(keys.dtype, np.floating) else np.invert(keys)
    expected = np.argsort(keys, axis=axis, kind="stable")
    np.testing.assert_array_equal(order, expected)
    assert values.tobytes() == np.take_along_axis(x, expected, axis).tobytes()


def with_ties(shape: tuple[int, ...], dtype: str = "i32") -> Array:
    rng = np.random.default_rng(1)
    return rng.integers(0 if dtype.startswith("u") else -20, 20, shape).astype(TYPES.get(dtype, np.int32))


def test_work_items_follow_the_length() -> None:
    def items(spec: str, axis: int = 0) -> int:
        (group,) = groups_of(program(sort(axis, False), spec))
        return GPU_SORT.schedule(group, OpenClTarget.h200()).group

    assert items("f32[8, 100]", 1) == 128
    assert items("f32[8, 2000]", 1) == 256
    assert items("f32[1000000]") == 512
    assert items("f32[n]") == 512


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_types_with_ties(dtype: str, descending: bool) -> None:
    check(f"{dtype}[3, 333]", with_ties((3, 333), dtype), 1, descending)


@pytest.mark.parametrize("dtype", ["i8", "i64", "u8", "u64"])
@pytest.mark.parametrize("descending", [False, True])
def test_extremes_of_integers(dtype: str, descending: bool) -> None:
    info = np.iinfo(TYPES[dtype])
    x = np.array([0, info.max, info.min, 1, info.max, info.min, info.max - 1], TYPES[dtype])
    check(f"{dtype}[7]", x, 0, descending)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("descending", [False, True])
def test_special_floats(dtype: str, descending: bool) -> None:
    """NaN last in either direction, zeros of either sign equal, infinities and denormals in order."""
    tiny = np.finfo(TYPES[dtype]).smallest_subnormal
    x = np.array([np.nan, 1.0, -np.inf, -0.0, np.nan, np.inf, 0.0, tiny, -0.0, -tiny, 0.0, -1.0], TYPES[dtype])
    check(f"{dtype}[12]", x, 0, descending)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((8,), 0), ((300, 9), 1), ((2, 1025), 1), ((1025, 3), 0), ((9, 300), 0), ((3, 4, 5), 1), ((2, 2100), 1),
     ((2, 0), 1), ((0, 2), 1), ((2, 0), 0)],
    ids=str,
)  # fmt: skip
def test_rows_and_columns(shape: tuple[int, ...], axis: int) -> None:
    check(f"i32[{', '.join(map(str, shape))}]", with_ties(shape), axis)


@settings(max_examples=3, deadline=None)
@given(rows=st.integers(1, 3), size=st.integers(1, 1500), dtype=st.sampled_from(["i32", "f64"]), flipped=st.booleans())
def test_long_rows_are_merged(rows: int, size: int, dtype: str, flipped: bool) -> None:
    """With groups of 8 work-items a tile has 64 words."""
    shape, axis = ((size, rows), 0) if flipped else ((rows, size), 1)
    check(f"{dtype}[{shape[0]}, {shape[1]}]", with_ties(shape, dtype), axis, items=8)


@pytest.mark.parametrize(("b", "n"), [(0, 3), (3, 0), (1, 1), (2, 64), (3, 65), (2, 1000)])
def test_symbolic_extents(b: int, n: int) -> None:
    check("i32[b, n]", with_ties((b, n)), 1, items=8, b=b, n=n)


def test_a_result_that_nobody_reads() -> None:
    x = with_ties((5, 40))
    (order,) = run(GPU_SORT, lambda v: sort(1, False)(v)[1], ["i32[5, 40]"], [x])
    np.testing.assert_array_equal(order, np.argsort(x, axis=1, kind="stable"))
