"""scatter_add in native code: the order of sums, every partition of the work, indices out of range."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dialects.nd.value import Value
from firebox.errors import IndexRangeError
from firebox.lowering.generate.scatter import launch_scatter, schedule_scatter
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import run_to
from firebox.runtime.memory import Buffer
from firebox.runtime.target import Target
from tests.programs import compiled, program, run_native

Array = np.ndarray[Any, Any]


def scatter(specs: list[str], arrays: list[Array], axis: int = 0, **dim_values: int) -> Array:
    module = program(lambda x, i, u: x.scatter_add(i, u, axis), *specs)
    return run_native(module, arrays, dim_values)[0]


def expected(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
    """Sums in the order of the indices; in f32 for bf16."""
    total = x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x.copy()
    where: Any = (*(slice(None),) * axis, indices)
    np.add.at(total, where, updates.astype(total.dtype))
    return total.astype(x.dtype)


def group_of(*specs: str) -> GroupOp:
    module = program(lambda x, i, u: x.scatter_add(i, u, 0), *specs)
    run_to(module, Target.host(), "order")
    (group,) = (op for op in main_function(module).body.block.ops if isinstance(op, GroupOp))
    return group


def test_rows_are_divided_where_copying_is_most_of_the_work() -> None:
    target = Target.parse("x86-64-v4")
    embedding = group_of("f32[50000, 768]", "i64[1000]", "f32[1000, 768]")
    schedule = schedule_scatter(embedding, target)
    assert schedule == Schedule("scatter", lanes=16, tile=(64, 768))
    assert launch_scatter(embedding, schedule)[0].count == 64
    many = group_of("f32[500, 4096]", "i64[1000]", "f32[1000, 4096]")
    schedule = schedule_scatter(many, target)
    assert schedule.tile == (1, 256)
    assert launch_scatter(many, schedule)[0].count == 16


def test_narrow_types_have_scratch_for_their_sums() -> None:
    target = Target.parse("x86-64-v4")
    group = group_of("bf16[50000, 768]", "i64[1000]", "bf16[1000, 768]")
    assert launch_scatter(group, schedule_scatter(group, target))[0].scratch == 65536 // 768 * 768 * 4


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize("shape", [(5000, 33, 40), (40, 200, 400), (9000, 20, 1), (300, 500, 3)], ids=str)
def test_repeated_indices_add_up_in_order(dtype: str, shape: tuple[int, int, int]) -> None:
    rows, count, columns = shape
    rng = np.random.default_rng(1)
    numpy_type = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "f64": np.float64}[dtype]
    x = (rng.normal(size=(rows, columns)) * 9).astype(numpy_type)
    updates = (rng.normal(size=(count, columns)) * 9).astype(numpy_type)
    indices = rng.integers(0, min(rows, 60), count) * (rows // min(rows, 60))
    specs = [f"{dtype}[{rows}, {columns}]", f"i64[{count}]", f"{dtype}[{count}, {columns}]"]
    np.testing.assert_array_equal(scatter(specs, [x, indices, updates]), expected(x, indices, updates))


def test_bf16_is_rounded_once() -> None:
    """256 + 1 is 256 in bf16; 256 + 64 * 1 is not."""
    x = np.full((3,), 256, ml_dtypes.bfloat16)
    indices = np.repeat(np.array([2, 0]), 64)
    found = scatter(["bf16[3]", "i64[128]", "bf16[128]"], [x, indices, np.ones(128, ml_dtypes.bfloat16)])
    np.testing.assert_array_equal(found.astype(np.float32), [320.0, 256.0, 320.0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_and_rank_of_indices(axis: int) -> None:
    rng = np.random.default_rng(2)
    shape = [4, 5, 6]
    x = rng.integers(-9, 9, shape).astype(np.int32)
    indices = rng.integers(0, shape[axis], (3, 2)).astype(np.uint8)
    taken = (*shape[:axis], 3, 2, *shape[axis + 1 :])
    updates = rng.integers(-9, 9, taken).astype(np.int32)
    specs = ["i32[4, 5, 6]", "u8[3, 2]", f"i32[{', '.join(map(str, taken))}]"]
    np.testing.assert_array_equal(scatter(specs, [x, indices, updates], axis), expected(x, indices, updates, axis))


@pytest.mark.parametrize("sizes", [(7, 3, 5), (700, 90, 1), (20, 0, 4), (2, 40, 2100), (0, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_symbolic_extents(dtype: str, sizes: tuple[int, int, int]) -> None:
    rows, count, columns = sizes
    rng = np.random.default_rng(3)
    numpy_type = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    x, updates = (
        rng.normal(size=(rows, columns)).astype(numpy_type),
        rng.normal(size=(count, columns)).astype(numpy_type),
    )
    indices = rng.integers(0, max(rows, 1), count).astype(np.int32)
    found = scatter([f"{dtype}[r, c]", "i32[n]", f"{dtype}[n, c]"], [x, indices, updates], r=rows, n=count, c=columns)
    np.testing.assert_array_equal(found, expected(x, indices, updates))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_constant_operand_is_not_in_memory(dtype: str) -> None:
    """The gradient of an embedding adds to zeros: one kernel of two operands, and no buffer of zeros."""
    rng = np.random.default_rng(4)
    indices = rng.integers(0, 50, 80)
    updates = rng.normal(size=(80, 33)).astype(np.float32 if dtype == "f32" else ml_dtypes.bfloat16)

    def embedding(i: Value, u: Value) -> Value:
        return u.literal(2).broadcast_to((1650,)).reshape((50, 33)).scatter_add(i, u, 0)

    executable, lowered = compiled(program(embedding, "i64[80]", f"{dtype}[80, 33]"))
    (kernel,) = lowered.program.kernels
    assert kernel.ops[-1] == "nd.scatter_add"
    outputs = executable.run([Buffer.from_numpy(indices), Buffer.from_numpy(updates)])
    found = outputs[0].as_numpy(updates.dtype, (50, 33))
    np.testing.assert_array_equal(found, expected(np.full((50, 33), 2, updates.dtype), indices, updates))


@pytest.mark.parametrize("bad", [-1, 6, 2**40, -(2**40)])
@pytest.mark.parametrize("place", [0, 8, 12])
def test_an_index_out_of_range_is_reported(bad: int, place: int) -> None:
    indices = np.zeros(13, np.int64)
    indices[place] = bad
    with pytest.raises(IndexRangeError, match=str(bad)):
        scatter(
            ["f32[6, 2]", "i64[13]", "f32[13, 2]"],
            [np.zeros((6, 2), np.float32), indices, np.ones((13, 2), np.float32)],
        )
