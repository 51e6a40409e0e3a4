"""Products on GPUs: all layouts, sizes, types and epilogues, in every form and under many schedules."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd.ops.contract import contract
from firebox.lowering.generate.gpu.contract import CONTRACT
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.generate.contractions import of, shapes, values
from tests.lowering.gpu import launches
from tests.lowering.gpu.contractions import check, chosen
from tests.lowering.gpu.launches import run

NN, NT, TN, TT = "m k, k n -> m n", "m k, n k -> m n", "k m, k n -> m n", "k m, n k -> m n"
SPECS = [NN, NT, TN, TT]
SIZES = [(1, 1, 1), (1, 40, 7), (9, 1, 33), (17, 16, 15), (64, 64, 128), (5, 300, 20), (130, 33, 70)]


# ---- layouts and sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_products(spec: str, size: tuple[int, int, int]) -> None:
    check(of(spec), *shapes(spec, *size))


@settings(max_examples=12, deadline=None)
@given(spec=st.sampled_from(SPECS), size=st.tuples(*[st.integers(1, 70)] * 3))
def test_any_size(spec: str, size: tuple[int, int, int]) -> None:
    check(of(spec), *shapes(spec, *size))


@pytest.mark.parametrize("spec", ["m k, k n -> n m", "m k, n k -> n m", "k m, k n -> n m"])
def test_transposed_results(spec: str) -> None:
    check(of(spec), *shapes(spec, 19, 24, 35))


@pytest.mark.parametrize("size", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (30, 0, 50)], ids=str)
def test_empty_dims(size: tuple[int, int, int]) -> None:
    check(of(NN), *shapes(NN, *size))


@pytest.mark.parametrize("b", [0, 1, 40])
def test_a_depth_that_may_be_empty(b: int) -> None:
    check(of(NN), "f32[30, b]", "f32[b, 50]", b=b)
    check(of(NN), "f32[3, b]", "f32[b, 50]", b=b)


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("k, k -> ", "f32[1000]", "f32[1000]"),
        ("m k, k -> m", "f32[70, 133]", "f32[133]"),
        ("m k, k -> m", "f32[70, 256]", "f32[256]"),
        ("k, k n -> n", "f32[133]", "f32[133, 70]"),
        ("k, k n -> n", "f32[133]", "f32[133, 68]"),
        ("m, n -> m n", "f32[12]", "f32[32]"),
        ("i j, i j -> i j", "f32[9, 20]", "f32[9, 20]"),
        ("i j, i j -> ", "f32[9, 20]", "f32[9, 20]"),
        ("i j, k -> k", "f32[3, 5]", "f32[40]"),
        ("i i, i j -> j", "f32[6, 6]", "f32[6, 20]"),
        ("b m k, b k n -> b m n", "f32[3, 17, 9]", "f32[3, 9, 21]"),
        ("b m k, b n k -> b m n", "f32[4, 20, 32]", "f32[4, 33, 32]"),
        ("b m k, k n -> b m n", "f32[4, 20, 32]", "f32[32, 33]"),
        ("b h q d, b h k d -> b h q k", "f32[2, 3, 10, 16]", "f32[2, 3, 12, 16]"),
        ("b q h d, b k h d -> b h q k", "f32[2, 10, 3, 16]", "f32[2, 12, 3, 16]"),
        ("b s i, b s o -> i o", "f32[3, 5, 24]", "f32[3, 5, 40]"),
        ("a b c, c b d -> d a", "f32[7, 3, 5]", "f32[5, 3, 18]"),
    ],
)
def test_other_contractions(spec: str, left: str, right: str) -> None:
    check(of(spec), left, right)


def test_loop_names_that_occur_nowhere() -> None:
    check(lambda a, b: contract(a, b, "i, j -> i j t", {"t": 5}), "f32[3]", "f32[20]")


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        (NN, "f32[b, 24]", "f32[24, 40]"),
        (NT, "f32[b, 24]", "f32[40, 24]"),
        (TN, "f32[b, 40]", "f32[b, 24]"),
        (NT, "f32[40, b]", "f32[24, b]"),
        (NN, "f32[40, 24]", "f32[24, b]"),
        ("b m k, b k n -> b m n", "f32[b, 9, 24]", "f32[b, 24, 17]"),
        (NN, "f32[b, b]", "f32[b, b]"),
    ],
)
@pytest.mark.parametrize("size", [1, 37])
def test_symbolic_dims(spec: str, left: str, right: str, size: int) -> None:
    check(of(spec), left, right, b=size)


# ---- types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(20, 21, 19), (20, 24, 20), (3, 64, 40)], ids=str)
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "u32"])
def test_types(dtype: str, size: tuple[int, int, int]) -> None:
    tolerance = 1e-2 if "16" in dtype else 1e-12
    check(of(NT), *shapes(NT, *size, dtype), tolerance=tolerance)


def test_short_floats_add_up_in_f32() -> None:
    """4096 ones: in bf16 the sum would stop at 256."""
    ones = np.ones((16, 4096), ml_dtypes.bfloat16)
    (found,) = run(CONTRACT, of(NT), ["bf16[16, 4096]", "bf16[16, 4096]"], [ones, ones])
    assert (found.astype(np.float32) == 4096.0).all()


def test_what_is_outside_counts_as_nothing() -> None:
    """Infinities next to the end of the depth do not reach the sums: a tile is filled up with zeros, not with them."""
    a, b = np.ones((20, 18), np.float32), np.ones((18, 20), np.float32)
    a[:, -1] = np.inf
    (found,) = run(CONTRACT, of(NN), ["f32[20, 18]", "f32[18, 20]"], [a, b])
    assert (found == np.inf).all()


# ---- epilogues ---------------------------------------------------------------------------------------------------


def bias_and_gate(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NN) + c
    return y * y.sigmoid()


def several(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NN)
    z = y * 0.5 + c
    return [y, z, z.exp()]


def only_derived(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NT) - c
    return [y.tanh(), y.abs()]


@pytest.mark.parametrize("size", [(4, 8, 16), (19, 24, 35), (64, 32, 12)], ids=str)
def test_epilogues(size: tuple[int, int, int]) -> None:
    m, k, n = size
    check(bias_and_gate, *shapes(NN, m, k, n), f"f32[{n}]")
    check(several, *shapes(NN, m, k, n), f"f32[{m}, 1]")
    check(only_derived, *shapes(NT, m, k, n), f"f32[{m}, {n}]")


def test_epilogue_with_symbolic_rows_and_another_type() -> None:
    check(lambda a, b, c: (contract(a, b, NN) + c).astype("f64").exp(), "f32[b, 24]", "f32[24, 20]", "f32[20]", b=11)


def test_epilogue_reads_its_position() -> None:
    check(lambda a, b, c: contract(a, b, NT) * c.swapaxes(0, 1), "f32[9, 16]", "f32[21, 16]", "f32[21, 9]")


def test_epilogue_of_an_uneven_slice() -> None:
    """A vector of it would not be aligned."""
    check(lambda a, b, c: contract(a, b, NN) + c.slice((0, 1), (24, 21)), "f32[24, 16]", "f32[16, 20]", "f32[24, 22]")


@pytest.mark.parametrize("axis", [0, 1])
def test_epilogue_looks_elements_up(axis: int) -> None:
    """Where the index varies along the lanes, elements are loaded one by one."""
    shape = [20, 24]
    shape[axis] = 50
    specs = ["f32[20, 16]", "f32[16, 24]", f"f32[{shape[0]}, {shape[1]}]", f"i32[{(20, 24)[axis]}]"]
    arrays = [values(s, k) for k, s in enumerate(specs)]
    arrays[3] = np.arange((20, 24)[axis], dtype=np.int32) * 2
    launches.check(CONTRACT, lambda a, b, c, i: contract(a, b, NN) + c.take(i, axis), specs, arrays, rtol=1e-5)


# ---- schedules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule",
    [
        "template=gpu-contract tile=64x64x16x8x4 group=128",
        "template=gpu-contract tile=128x64x8x8x8 group=128",
        "template=gpu-contract tile=16x64x16x2x4 group=128",
        "template=gpu-contract tile=64x16x16x4x2 group=128",
        "template=gpu-contract tile=16x16x32x2x2 group=64",
        "template=gpu-contract tile=16x16x8x1x1 group=256",
        "template=gpu-contract tile=32x32x16x4x4 group=64 split=2",
        "template=gpu-contract tile=32x32x16x4x4 group=64 split=7",
        "template=gpu-window group=64",
    ],
)
@pytest.mark.parametrize("spec", [NN, NT])
def test_every_tile_gives_the_product(spec: str, schedule: str) -> None:
    check(of(spec), *shapes(spec, 37, 53, 45), schedule=schedule)
    check(only_derived if spec == NT else several, *shapes(spec, 36, 52, 44), "f32[36, 1]", schedule=schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        "template=gpu-dot group=256 rows_per_group=8",
        "template=gpu-dot group=64 rows_per_group=64",
        "template=gpu-dot group=128 rows_per_group=1 split=3",
        "template=gpu-dot group=256 rows_per_group=32 split=5",
    ],
)
@pytest.mark.parametrize("spec", [NN, NT])
def test_every_way_of_sharing_gives_the_product(spec: str, schedule: str) -> None:
    check(of(spec), *shapes(spec, 3, 1000, 44), schedule=schedule)
    check(bias_and_gate, *shapes(NN, 3, 203, 45), "f32[45]", schedule=schedule)


@pytest.mark.parametrize("b", [1, 500])
def test_parts_of_a_symbolic_depth(b: int) -> None:
    """Of one turn all parts but one are empty."""
    schedule = "template=gpu-contract tile=32x32x16x4x4 group=64 split=4"
    check(of(TN), "f32[b, 20]", "f32[b, 24]", schedule=schedule, b=b)


def test_large_products_use_large_tiles() -> None:
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 4096)).tile[:2] == (128, 128)
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 4096, "bf16")).template == "gpu-mma"
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 4095, "bf16")).template == "gpu-contract"
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 4096), target=OpenClTarget.generic()).template == "gpu-contract"


def test_a_long_depth_is_shared() -> None:
    assert chosen(of(NN), *shapes(NN, 64, 65536, 64)).split > 8
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 4096)).split == 1
    assert chosen(of("k, k -> "), "f32[1048576]", "f32[1048576]").split > 8


def test_few_rows_are_no_tile() -> None:
    assert chosen(of(NT), *shapes(NT, 1, 4096, 4096)).template == "gpu-dot"
    assert chosen(of(NN), *shapes(NN, 4096, 4096, 8)).template == "gpu-dot"
    assert chosen(of("m, n -> m n"), "f32[4096]", "f32[4096]").template == "gpu-window"
