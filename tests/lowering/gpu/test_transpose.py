"""Transposing maps as OpenCL kernels: permutations, edges of tiles, pairs of small elements, maps around them."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.lowering.generate.gpu.transpose import GPU_TRANSPOSE, is_transposing
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import check, groups_of
from tests.programs import program

TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i64": np.int64, "bool": np.bool_,
}  # fmt: skip


def transposes(function: Any, *specs: str) -> bool:
    return all(is_transposing(group, OpenClTarget.h200()) for group in groups_of(program(function, *specs)))


def values(shape: tuple[int, ...], dtype: str = "f32") -> Any:
    return np.random.default_rng(2).integers(0, 100, shape).astype(TYPES[dtype])


def test_what_transposes() -> None:
    turned = lambda x: x.transpose((1, 0))  # noqa: E731
    assert transposes(turned, "f32[64, 64]") and transposes(turned, "f32[b, n]")
    assert transposes(lambda x, y: x.transpose((1, 0)) * 2 + y, "f32[64, 32]", "f32[32, 64]")
    assert not transposes(turned, "f32[64, 3]")
    assert not transposes(lambda x: x + 1, "f32[64, 64]")
    assert not transposes(lambda x: x.transpose((1, 0, 2)), "f32[64, 64, 8]")
    assert not transposes(lambda x, y: x * y, "f32[64, 64]", "f32[64, 1]")


def test_pairs_where_they_are_aligned() -> None:
    def lanes(spec: str) -> int:
        (group,) = groups_of(program(lambda x: x.transpose((1, 0)), spec))
        return GPU_TRANSPOSE.schedule(group, OpenClTarget.h200()).lanes

    assert [lanes(s) for s in ("bf16[64, 34]", "bf16[63, 34]", "bf16[64, 33]", "f32[64, 64]", "bf16[b, 64]")] == [
        2, 1, 1, 1, 1
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(64, 64), (33, 65), (70, 8), (8, 130)], ids=str)
def test_types(dtype: str, shape: tuple[int, int]) -> None:
    spec = f"{dtype}[{shape[0]}, {shape[1]}]"
    check(GPU_TRANSPOSE, lambda x: x.transpose((1, 0)), [spec], [values(shape, dtype)])


@pytest.mark.parametrize("order", [p for p in itertools.permutations(range(4)) if p[3] != 3], ids=str)
def test_permutations(order: tuple[int, ...]) -> None:
    check(GPU_TRANSPOSE, lambda x: x.transpose(order), ["f32[8, 9, 10, 11]"], [values((8, 9, 10, 11))])


@settings(max_examples=5, deadline=None)
@given(b=st.integers(1, 3), rows=st.integers(8, 80), columns=st.integers(8, 80), dtype=st.sampled_from(["f32", "bf16"]))
def test_any_shape(b: int, rows: int, columns: int, dtype: str) -> None:
    shape = (b, rows, columns)
    check(GPU_TRANSPOSE, lambda x: x.transpose((0, 2, 1)), [f"{dtype}[{b}, {rows}, {columns}]"], [values(shape, dtype)])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_maps_around_it(dtype: str) -> None:
    """Two transposed operands, one that is not, a row and a column."""

    def function(x: Any, y: Any, z: Any, row: Any, column: Any) -> Any:
        return (x * y).transpose((1, 0)) + z * row + column

    specs = [f"{dtype}[{s}]" for s in ("40, 70", "40, 70", "70, 40", "1, 40", "70, 1")]
    arrays = [values(s, dtype) for s in ((40, 70), (40, 70), (70, 40), (1, 40), (70, 1))]
    check(GPU_TRANSPOSE, function, specs, arrays, rtol=1e-2 if dtype == "bf16" else 1e-6)


@pytest.mark.parametrize(("b", "n"), [(8, 8), (33, 5), (1, 100), (0, 3), (64, 64)])
def test_symbolic_extents(b: int, n: int) -> None:
    check(GPU_TRANSPOSE, lambda x: x.transpose((1, 0)), ["f32[b, n]"], [values((b, n))], b=b, n=n)
