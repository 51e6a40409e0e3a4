"""scatter_add as OpenCL kernels: sums in the order of the indices, atomics for integers, indices out of range."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dtypes import as_dtype
from firebox.lowering.generate.body import INDEX_FAULT
from firebox.lowering.generate.gpu.scatter import GPU_SCATTER
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import Runner, groups_of, run
from tests.programs import program

Array = np.ndarray[Any, Any]
TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "i32": np.int32,
    "i64": np.int64, "u32": np.uint32,
}  # fmt: skip


def scatter(axis: int = 0) -> Any:
    return lambda x, i, u: x.scatter_add(i, u, axis)


def expected(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
    """Sums in the order of the indices; in f32 for f16 and bf16."""
    wide = x.dtype in (np.float16, ml_dtypes.bfloat16)
    total = x.astype(np.float32) if wide else x.copy()
    where: Any = (*(slice(None),) * axis, indices)
    np.add.at(total, where, updates.astype(total.dtype))
    return total.astype(x.dtype)


def data(dtype: str, rows: int, count: int, inner: int, outer: int = 1) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(rows + count)
    x, updates = ((rng.normal(size=(outer, n, inner)) * 9).astype(TYPES[dtype]) for n in (rows, count))
    return x, rng.integers(0, max(rows, 1), count), updates


def check(dtype: str, outer: int, rows: int, count: int, inner: int, items: int = 0) -> None:
    """The same bits as sums in sequence."""

    def choose(group: GroupOp) -> Schedule:
        schedule = GPU_SCATTER.schedule(group, OpenClTarget.generic())
        return replace(schedule, block=items) if items and schedule.block else schedule

    x, indices, updates = data(dtype, rows, count, inner, outer)
    specs = [f"{dtype}[{outer}, {rows}, {inner}]", f"i64[{count}]", f"{dtype}[{outer}, {count}, {inner}]"]
    (found,) = run(GPU_SCATTER, scatter(1), specs, [x, indices, updates], choose=choose)
    assert found.tobytes() == expected(x, indices, updates, 1).tobytes()


def test_integers_are_added_by_atomics() -> None:
    def kernels(dtype: str, target: OpenClTarget) -> int:
        (group,) = groups_of(program(scatter(), f"{dtype}[500, 8]", "i64[100]", f"{dtype}[100, 8]"))
        schedule = GPU_SCATTER.schedule(group, target)
        return 0 if schedule.block else len(GPU_SCATTER.launch(group, schedule))

    assert kernels("i32", OpenClTarget.generic()) == 2
    assert kernels("i64", OpenClTarget.h200()) == 2
    assert kernels("i64", OpenClTarget.generic()) == kernels("f32", OpenClTarget.h200()) == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: str) -> None:
    check(dtype, 2, 7, 50, 12)


@settings(max_examples=4, deadline=None)
@given(
    outer=st.integers(1, 3), rows=st.integers(1, 600), count=st.integers(0, 400), inner=st.integers(1, 20),
    dtype=st.sampled_from(["f32", "bf16", "i32"]),
)  # fmt: skip
def test_any_shape(outer: int, rows: int, count: int, inner: int, dtype: str) -> None:
    """With groups of 16 work-items for sorting a tile has 128 words."""
    check(dtype, outer, rows, count, inner, items=16)


@pytest.mark.parametrize("inner", [1, 3, 384, 1030])
def test_rows_of_any_length(inner: int) -> None:
    check("f32", 1, 20, 30, inner)


def test_one_row_gets_everything() -> None:
    x, updates = np.ones((5, 4), np.float32), np.random.default_rng(0).normal(size=(999, 4)).astype(np.float32)
    indices = np.full(999, 3)
    specs = ["f32[5, 4]", "i64[999]", "f32[999, 4]"]
    (found,) = run(GPU_SCATTER, scatter(), specs, [x, indices, updates])
    np.testing.assert_array_equal(found, expected(x, indices, updates))


def test_into_zeros() -> None:
    """The number that all of x is comes without memory."""
    _, indices, updates = data("f32", 9, 40, 4)
    (found,) = run(
        GPU_SCATTER,
        lambda i, u: u.literal(0).broadcast_to((9, 4)).scatter_add(i, u, 0),
        ["i64[40]", "f32[40, 4]"],
        [indices, updates[0]],
    )
    np.testing.assert_array_equal(found, expected(np.zeros((9, 4), np.float32), indices, updates[0]))


@pytest.mark.parametrize("index_type", ["u8", "i32", "u32", "u64"])
def test_types_of_indices(index_type: str) -> None:
    x, indices, updates = data("f32", 9, 40, 4)
    arrays = [x[0], indices.astype(as_dtype(index_type).numpy), updates[0]]
    (found,) = run(GPU_SCATTER, scatter(), ["f32[9, 4]", f"{index_type}[40]", "f32[40, 4]"], arrays)
    np.testing.assert_array_equal(found, expected(x[0], indices, updates[0]))


@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_an_index_out_of_range_is_a_fault(dtype: str, bad: int) -> None:
    x, indices, updates = data(dtype, 5, 40, 4)
    indices[17] = bad
    runner = Runner(GPU_SCATTER, OpenClTarget.generic())
    module = program(scatter(), f"{dtype}[5, 4]", "i64[40]", f"{dtype}[40, 4]")
    runner.run(module, [x[0], indices, updates[0]], {})
    assert int(runner.status[0]) == INDEX_FAULT and list(runner.status[2:]) == [bad, 5]


@pytest.mark.parametrize(("s", "n"), [(3, 0), (1, 1), (50, 300), (2, 129)])
def test_symbolic_extents(s: int, n: int) -> None:
    x, indices, updates = data("f32", s, n, 3)

    def choose(group: GroupOp) -> Schedule:
        return replace(GPU_SCATTER.schedule(group, OpenClTarget.generic()), block=16)

    specs = ["f32[s, 3]", "i64[n]", "f32[n, 3]"]
    (found,) = run(GPU_SCATTER, scatter(), specs, [x[0], indices, updates[0]], choose=choose, s=s, n=n)
    np.testing.assert_array_equal(found, expected(x[0], indices, updates[0]))
