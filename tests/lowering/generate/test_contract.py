"""Contractions in native code: products of all layouts, sizes, types and epilogues, under all kinds of schedules."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.contract import contract_schedule
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime.llvm import compile_to_assembly
from firebox.runtime.target import Target
from tests.lowering.generate.contractions import check, groups, of, scheduled, shapes, values
from tests.programs import program, run_native

NN, NT, TN, TT = "m k, k n -> m n", "m k, n k -> m n", "k m, k n -> m n", "k m, n k -> m n"
SIZES = [(1, 1, 1), (1, 40, 7), (9, 1, 33), (17, 16, 15), (37, 50, 45), (64, 64, 128), (5, 300, 20), (130, 33, 70)]


# ---- layouts and sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("spec", [NN, NT, TN, TT])
def test_products(spec: str, size: tuple[int, int, int]) -> None:
    check(of(spec), *shapes(spec, *size))


@pytest.mark.parametrize("spec", ["m k, k n -> n m", "m k, n k -> n m", "k m, k n -> n m"])
def test_transposed_results(spec: str) -> None:
    check(of(spec), *shapes(spec, 19, 24, 35))


@pytest.mark.parametrize("size", [(0, 4, 5), (3, 0, 5), (3, 4, 0)], ids=str)
def test_empty_dims(size: tuple[int, int, int]) -> None:
    m, k, n = size
    module = program(of(NN), *shapes(NN, m, k, n))
    (found,) = run_native(module, [np.ones((m, k), np.float32), np.ones((k, n), np.float32)])
    np.testing.assert_array_equal(found, np.zeros((m, n), np.float32))


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("k, k -> ", "f32[1000]", "f32[1000]"),
        ("m k, k -> m", "f32[70, 133]", "f32[133]"),
        ("k, k n -> n", "f32[133]", "f32[133, 70]"),
        ("m, n -> m n", "f32[12]", "f32[33]"),
        ("i j, i j -> i j", "f32[9, 20]", "f32[9, 20]"),
        ("i j, i j -> ", "f32[9, 20]", "f32[9, 20]"),
        ("i j, k -> k", "f32[3, 5]", "f32[40]"),
        ("i i, i j -> j", "f32[6, 6]", "f32[6, 20]"),
        ("b m k, b k n -> b m n", "f32[3, 17, 9]", "f32[3, 9, 21]"),
        ("b m k, b n k -> b m n", "f32[4, 20, 32]", "f32[4, 33, 32]"),
        ("b h q d, b h k d -> b h q k", "f32[2, 3, 10, 16]", "f32[2, 3, 12, 16]"),
        ("b q h d, b k h d -> b h q k", "f32[2, 10, 3, 16]", "f32[2, 12, 3, 16]"),
        ("b s k, k n -> b s n", "f32[3, 5, 24]", "f32[24, 40]"),
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
        (NN, "f32[40, b]", "f32[b, 24]"),
        (TN, "f32[b, 40]", "f32[b, 24]"),
        (NT, "f32[40, b]", "f32[24, b]"),
        (NN, "f32[40, 24]", "f32[24, b]"),
        (NT, "f32[40, 24]", "f32[b, 24]"),
        ("b m k, b k n -> b m n", "f32[b, 9, 24]", "f32[b, 24, 17]"),
        ("b s k, k n -> b s n", "f32[b, 6, 24]", "f32[24, 17]"),
        (NN, "f32[b, b]", "f32[b, b]"),
    ],
)
@pytest.mark.parametrize("size", [1, 13, 64])
def test_symbolic_dims(spec: str, left: str, right: str, size: int) -> None:
    check(of(spec), left, right, b=size)


# ---- types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [NN, NT, TN])
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "u32"])
def test_types(dtype: str, spec: str) -> None:
    check(of(spec), *shapes(spec, 10, 21, 19, dtype), tolerance=1e-2 if "16" in dtype else 1e-12)


def test_short_floats_add_up_in_f32() -> None:
    """4096 ones: in bf16 the sum would stop at 256."""
    module = program(of(NN), "bf16[1, 4096]", "bf16[4096, 1]")
    (found,) = run_native(module, [np.ones((1, 4096), ml_dtypes.bfloat16), np.ones((4096, 1), ml_dtypes.bfloat16)])
    assert float(found[0, 0]) == 4096.0


def test_integers_wrap() -> None:
    module = program(of(NN), "i8[1, 3]", "i8[3, 1]")
    (found,) = run_native(module, [np.full((1, 3), 100, np.int8), np.full((3, 1), 2, np.int8)])
    assert int(found[0, 0]) == 600 - 2 * 256


# ---- epilogues ---------------------------------------------------------------------------------------------------


def bias_and_gate(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NN) + c
    return y * y.sigmoid()


def residual(a: Any, b: Any, c: Any) -> Any:
    return contract(a, b, NN) + c


def several(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NN)
    z = y * 0.5 + c
    return [y, z, z.exp()]


def only_derived(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NT) - c
    return [y.tanh(), y.abs()]


@pytest.mark.parametrize("size", [(4, 8, 16), (19, 24, 35), (64, 32, 10)], ids=str)
def test_epilogues(size: tuple[int, int, int]) -> None:
    m, k, n = size
    check(bias_and_gate, *shapes(NN, m, k, n), f"f32[{n}]")
    check(residual, *shapes(NN, m, k, n), f"f32[{m}, {n}]")
    check(several, *shapes(NN, m, k, n), f"f32[{m}, 1]")
    check(only_derived, *shapes(NT, m, k, n), f"f32[{m}, {n}]")


def test_epilogue_with_symbolic_rows_and_another_type() -> None:
    check(lambda a, b, c: (contract(a, b, NN) + c).astype("f64").exp(), "f32[b, 24]", "f32[24, 20]", "f32[20]", b=11)


def test_epilogue_reads_its_position() -> None:
    check(lambda a, b, c: contract(a, b, NT) * c.swapaxes(0, 1), "f32[9, 16]", "f32[21, 16]", "f32[21, 9]")


# ---- schedules ---------------------------------------------------------------------------------------------------


def choice(spec: str, m: int, k: int, n: int, target: str = "x86-64-v4") -> Schedule:
    module = program(of(spec), *shapes(spec, m, k, n))
    run_to(module, Target.host(), "order")
    return contract_schedule(groups(module)[0], Target.parse(target))


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "lane=d1 lanes=8 tile=8",
        "lane=d1 lanes=16 tile=5x16 rows=d0",
        "lane=d1 lanes=16 tile=4x32 rows=d0 unroll=4",
        "lane=d1 lanes=16 tile=4x32 rows=d0 blocks=d0:8,d1:32",
        "lane=d1 lanes=16 tile=4x32 rows=d0 blocks=d0:8 pack=1",
        "lane=d1 lanes=16 tile=4x32 rows=d0 blocks=d1:32 pack=0x1",
        "lane=d1 lanes=16 tile=4x32 rows=d0 blocks=d0:12,d1:32,r0:10 pack=0x1x2",
        "lane=d1 lanes=16 tile=4x32 rows=d0 blocks=d0:4,r0:7 pack=2",
        "lane=d0 lanes=16 tile=3x32 rows=d1 pack=0",
        "lane=d0 lanes=16 tile=3x32 rows=d1 blocks=d0:32,d1:6 pack=0x2",
        "lane=d0 lanes=16 tile=3x16 rows=d1 blocks=r0:16 pack=2",
        "lane=r0 lanes=16 tile=16",
        "lane=r0 lanes=16 tile=3x64 rows=d0 blocks=d0:6,d1:1",
        "lane=r0 lanes=16 tile=2x4x16 rows=d0,d1 blocks=d0:2",
    ],
)
@pytest.mark.parametrize("spec", [NN, NT])
def test_every_way_of_cutting_gives_the_product(spec: str, schedule: str) -> None:
    specs = shapes(spec, 37, 53, 45)
    a, b = values(specs[0], 0), values(specs[1], 1)
    expected = np.einsum(a.astype(np.float64), [0, 2], b.astype(np.float64), [2, 1] if spec == NN else [1, 2], [0, 1])
    (found,) = scheduled(of(spec), specs, schedule)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_epilogue_from_scratch() -> None:
    specs = [*shapes(NN, 20, 24, 35), "f32[20, 1]"]
    found = scheduled(several, specs, "lane=d0 lanes=16 tile=4x16 rows=d1 blocks=d1:8,r0:8 pack=0x2")
    a, b, c = (values(s, k).astype(np.float64) for k, s in enumerate(specs))
    for f, e in zip(found, (a @ b, a @ b * 0.5 + c, np.exp(a @ b * 0.5 + c)), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("schedule", ["lane=d1 lanes=16 tile=4x16 rows=d0 blocks=d0:4,r0:64 pack=0x1x2"])
def test_the_number_of_threads_does_not_change_a_bit(schedule: str) -> None:
    specs = shapes(NT, 64, 200, 48)
    one, two = (scheduled(of(NT), specs, schedule, threads)[0] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_lanes_follow_the_memory() -> None:
    assert choice(NN, 256, 256, 256).lane == "d1"
    assert choice(NN, 256, 256, 256).pack == ()
    assert 1 in choice(NT, 256, 256, 256).pack  # rows of the second operand become columns
    assert choice(NT, 1, 512, 512).lane == "r0"  # each element is read once: copying would not pay
    assert choice(NN, 64, 64, 10).tile[-1] == 16


def test_tiles_fit_the_registers() -> None:
    for target, registers in (("x86-64-v4", 32), ("x86-64-v3", 16), ("x86-64", 16), ("aarch64", 32)):
        schedule = choice(NN, 512, 512, 512, target)
        rows, columns = schedule.tile
        vectors = columns // schedule.lanes
        assert schedule.lanes == Target.parse(target).lanes(4)
        assert rows * vectors >= 8
        assert rows * vectors + vectors + 1 <= registers


def test_large_operands_are_cut() -> None:
    schedule = choice(NT, 512, 4096, 512)
    sizes = dict(part.split(":") for part in schedule.blocks.split(","))
    assert int(sizes[schedule.lane]) * int(sizes.get("r0", 4096)) * 4 <= Target.parse("x86-64-v4").l2_bytes // 2


@pytest.mark.parametrize("spec", [NN, NT, TN])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_the_inner_loop_keeps_its_sums_in_registers(spec: str, target: str) -> None:
    machine = Target.parse(target)
    text = lower(program(of(spec), *shapes(spec, 256, 256, 256)), machine).text
    blocks = re.split(r"\n(?=\.LBB)", compile_to_assembly(text, machine))
    hot = max(blocks, key=lambda block: block.count("vfmadd"))
    assert hot.count("vfmadd") >= 8
    loop = hot[: hot.index("\tj")]  # up to the first jump: one turn
    assert not re.findall(r"\(%rsp\).*%[xyz]mm|%[xyz]mm.*\(%rsp\)", loop)


# ---- long epilogues ----------------------------------------------------------------------------------------------


def gated(spec: str) -> Any:
    """A product followed by maps that are too long to be written out for every vector."""

    def build(a: Any, b: Any) -> Any:
        y = of(spec)(a, b) * 0.1
        return y.tanh() * y.sigmoid() + (y * y).sin(), y.exp()

    return build


@pytest.mark.parametrize("size", [*SIZES, (48, 64, 48), (33, 40, 16), (2, 30, 5)], ids=str)
@pytest.mark.parametrize("spec", [NN, "m k, k n -> n m"])
def test_long_epilogues(spec: str, size: tuple[int, int, int]) -> None:
    check(gated(spec), *shapes(spec, *size))


def test_a_long_epilogue_is_written_once_for_a_tile() -> None:
    """Not for each of the 16 vectors of a tile."""
    text = lower(program(gated(NN), *shapes(NN, 64, 64, 128)), Target.parse("x86-64-v3")).text
    assert text.count("@llvm.copysign") <= 4
