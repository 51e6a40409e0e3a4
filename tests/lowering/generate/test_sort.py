"""Sorting in native code: order, stability, what comes last, every length of a row."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox.dialects.nd.ops.sort import Sort
from firebox.lowering.generate.sort import NETWORK, RUN
from tests.programs import program, run_native

Array = np.ndarray[Any, Any]
TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "i64": np.int64,
    "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip


def sort(spec: str, x: Array, axis: int, descending: bool = False, **dim_values: int) -> tuple[Array, Array]:
    params = {"axis": axis, "descending": descending}
    values, order = run_native(program(lambda v: v.apply(Sort, (v,), params), spec), [x], dim_values)
    return values, order


def check(spec: str, x: Array, axis: int, descending: bool = False, **dim_values: int) -> None:
    """The order of NumPy's stable sort; values are those elements, bit by bit."""
    values, order = sort(spec, x, axis, descending, **dim_values)
    keys = x.astype(np.float32) if x.dtype in (np.float16, ml_dtypes.bfloat16) else x
    if descending:
        keys = -keys if np.issubdtype(keys.dtype, np.floating) else np.invert(keys)
    expected = np.argsort(keys, axis=axis, kind="stable")
    np.testing.assert_array_equal(order, expected)
    assert values.tobytes() == np.take_along_axis(x, expected, axis).tobytes()


def test_the_network_sorts_every_sequence_of_bits() -> None:
    """So it sorts everything (D. Knuth's principle of zeros and ones)."""
    for bits in itertools.product((0, 1), repeat=RUN):
        values = list(bits)
        for low, high in NETWORK:
            values[low], values[high] = sorted((values[low], values[high]))
        assert values == sorted(bits)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_types_with_ties(dtype: str, descending: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0 if dtype.startswith("u") else -20, 20, (3, 333)).astype(TYPES[dtype])
    check(f"{dtype}[3, 333]", x, 1, descending)


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


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 31, 32, 33, 64, 65, 127, 129, 500, 1025])
def test_rows_of_any_length(size: int) -> None:
    rng = np.random.default_rng(size)
    check(f"f32[4, {size}]", rng.normal(size=(4, size)).astype(np.float32), 1)
    check(f"i64[2, {size}]", rng.integers(-9, 9, (2, size)), 1)


@pytest.mark.parametrize("pattern", ["sorted", "reversed", "equal", "sawtooth"])
def test_regular_rows(pattern: str) -> None:
    up = np.arange(1000)
    x = {"sorted": up, "reversed": up[::-1], "equal": up * 0, "sawtooth": up % 17}[pattern].astype(np.float64)
    check("f64[1000]", x, 0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    x = np.random.default_rng(5).integers(0, 50, (70, 9, 40)).astype(np.float32)
    check("f32[70, 9, 40]", x, axis, axis == 1)


@pytest.mark.parametrize("sizes", [(3, 5, 1), (2, 300, 3), (1, 64, 1), (4, 1, 2), (2, 0, 3), (0, 9, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_symbolic_extents(dtype: str, sizes: tuple[int, int, int]) -> None:
    x = np.random.default_rng(6).normal(size=sizes).astype(TYPES[dtype])
    check(f"{dtype}[a, b, c]", x, 1, a=sizes[0], b=sizes[1], c=sizes[2])


def test_only_the_values_or_only_the_positions() -> None:
    x = np.random.default_rng(7).normal(size=(3, 50)).astype(np.float32)
    params = {"axis": 1, "descending": True}
    for result, expected in ((0, -np.sort(-x, axis=1)), (1, np.argsort(-x, axis=1, kind="stable"))):
        (found,) = run_native(program(lambda v, r=result: v.apply(Sort, (v,), params)[r], "f32[3, 50]"), [x])
        np.testing.assert_array_equal(found, expected)
