"""Contractions of bf16 on the CPU: in tile registers, by products of pairs, and widened where there is neither."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.schedule import Schedule, ScheduleAttr
from firebox.lowering.generate.contract import contract_schedule
from firebox.lowering.generate.contract_amx_choose import tile_choice
from firebox.lowering.generate.contract_problem import Problem
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime import pool
from firebox.runtime.dispatch import Executable
from firebox.runtime.elf import link_objects
from firebox.runtime.llvm import compile_to_assembly, compile_to_object
from firebox.runtime.memory import Buffer
from firebox.runtime.target import Target
from tests.lowering.generate.contractions import groups, of, shapes, values
from tests.programs import program

Array = np.ndarray[Any, Any]

NN, NT, TN, TT = "m k, k n -> m n", "m k, n k -> m n", "k m, k n -> m n", "k m, n k -> m n"

V4 = Target.parse("x86-64-v4")


def target(cpu: str, *more: str) -> Target:
    return replace(V4, cpu=cpu, features=tuple(sorted({*V4.features, *more})))


TILES = target("sapphirerapids", "amx-bf16", "amx-tile", "avx512bf16")
PAIRS = target("znver4", "avx512bf16")


@pytest.fixture(params=[TILES, PAIRS], ids=["tiles", "pairs"])
def machine(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return runnable(found)


def runnable(machine: Target) -> Target:
    lacks = machine.missing_on_host()
    if lacks:
        pytest.skip(f"this CPU lacks {', '.join(lacks)}")
    return machine


Change = Callable[[Schedule], Schedule]


def run(
    function: Callable[..., Any],
    specs: Sequence[str],
    arrays: Sequence[Array],
    machine: Target,
    change: Change = lambda schedule: schedule,
    threads: int = 1,
    **dims: int,
) -> list[Array]:
    """Results by products of squares, also where another template would be chosen."""

    def impose(phase: str, module: ModuleOp, seconds: float) -> None:
        for group in groups(module) if phase == "order" else ():
            if group.group == "contract":
                found = tile_choice(Problem.of(group), machine)
                assert found is not None
                group.attributes["schedule"] = ScheduleAttr(change(found.schedule))

    lowered = lower(program(function, *specs), machine, observer=impose)
    executable = Executable(lowered.program, link_objects([compile_to_object(lowered.text, machine)]))
    before = pool.get_num_threads()
    pool.set_num_threads(threads)
    try:
        sizes = [dims[name] for name in lowered.program.dims]
        outputs = executable.run([Buffer.from_numpy(a) for a in arrays], sizes)
    finally:
        pool.set_num_threads(before)
    found = []
    for spec, buffer in zip(lowered.program.outputs, outputs, strict=True):
        shape = tuple(d if isinstance(d, int) else dims[str(d)] for d in spec.shape)
        found.append(np.array(buffer.as_numpy(spec.dtype.numpy, shape)))
    return found


def check(function: Callable[..., Any], specs: Sequence[str], machine: Target, **how: Any) -> None:
    """Small integers: every sum is exact, so a wrong element is a wrong number."""
    dims = {name: size for name, size in how.items() if name not in ("change", "threads")}
    arrays = [values(spec, seed, **dims) for seed, spec in enumerate(specs)]
    expected = interpret(main_function(program(function, *specs)), arrays)
    for e, f in zip(expected, run(function, specs, arrays, machine, **how), strict=True):
        assert e.shape == f.shape and e.dtype == f.dtype
        np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol=1e-2, atol=1e-6)


# ---- values ------------------------------------------------------------------------------------------------------


SIZES = [(1, 1, 1), (9, 33, 1), (17, 16, 15), (37, 50, 45), (64, 64, 128), (5, 300, 20), (130, 33, 70), (16, 32, 96)]


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
@pytest.mark.parametrize("spec", [NN, NT, TN, TT])
def test_products(spec: str, size: tuple[int, int, int], machine: Target) -> None:
    if 1 in size:
        size = (size[0], size[1], 2)
    check(of(spec), shapes(spec, *size, "bf16"), machine)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_size(data: Any) -> None:
    machine = runnable(data.draw(st.sampled_from([TILES, PAIRS])))
    spec = data.draw(st.sampled_from([NN, NT, TN, TT]))
    m, k, n = (data.draw(st.integers(2, 70)) for _ in range(3))
    check(of(spec), shapes(spec, m, k, n, "bf16"), machine)


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("m k, k n -> n m", "bf16[20, 40]", "bf16[40, 35]"),
        ("b m k, b k n -> b m n", "bf16[3, 17, 40]", "bf16[3, 40, 21]"),
        ("b m k, b n k -> b m n", "bf16[2, 20, 32]", "bf16[2, 33, 32]"),
        ("b q h d, b k h d -> b h q k", "bf16[2, 10, 3, 32]", "bf16[2, 12, 3, 32]"),
        ("b s k, k n -> b s n", "bf16[3, 5, 24]", "bf16[24, 40]"),
        ("b s i, b s o -> i o", "bf16[3, 5, 24]", "bf16[3, 5, 40]"),
        ("a k b, k n b -> a n", "bf16[20, 3, 35]", "bf16[3, 18, 35]"),
    ],
)
def test_other_contractions(spec: str, left: str, right: str, machine: Target) -> None:
    check(of(spec), [left, right], machine)


@pytest.mark.parametrize("size", [2, 13, 64])
@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        (NN, "bf16[b, 24]", "bf16[24, 40]"),
        (NN, "bf16[40, b]", "bf16[b, 24]"),
        (NT, "bf16[40, b]", "bf16[24, b]"),
        (NT, "bf16[40, 24]", "bf16[b, 24]"),
        ("b m k, b k n -> b m n", "bf16[b, 9, 24]", "bf16[b, 24, 17]"),
    ],
)
def test_symbolic_dims(spec: str, left: str, right: str, size: int, machine: Target) -> None:
    check(of(spec), [left, right], machine, b=size)


def test_a_symbolic_depth_of_several_parts(machine: Target) -> None:
    check(of(NT), ["bf16[20, b]", "bf16[24, b]"], machine, b=1100)


@pytest.mark.parametrize("size", [(0, 4, 5), (3, 0, 5), (3, 4, 0)], ids=str)
def test_empty_dims(size: tuple[int, int, int], machine: Target) -> None:
    check(of(NN), shapes(NN, *size, "bf16"), machine)


def test_sums_are_f32(machine: Target) -> None:
    """Products of full precision: only the result is rounded to bf16, and not at all where it is cast to f32."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((33, 500), (500, 40)))
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def both(x: Any, y: Any) -> Any:
        z = contract(x, y, NN)
        return z, z.astype("f32")

    short, long = run(both, ["bf16[33, 500]", "bf16[500, 40]"], [a, b], machine)
    bound = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(short.astype(np.float64) - exact) <= 2.0**-8 * np.abs(exact) + 500 * 2.0**-24 * bound).all()
    assert (np.abs(long - exact) <= 2.0**-8 * np.abs(exact) + 500 * 2.0**-24 * bound).all()


def test_what_lies_past_the_end_does_not_matter(machine: Target) -> None:
    """Operands that are parts of larger arrays full of NaN: padding must be zeros, not what is there."""
    m, k, n = 21, 45, 19
    big = [np.full((64, 64), np.nan, ml_dtypes.bfloat16) for _ in range(2)]
    a, b = values(f"bf16[{m}, {k}]", 0), values(f"bf16[{k}, {n}]", 1)
    flat = [x.reshape(-1) for x in big]
    flat[0][: a.size], flat[1][: b.size] = a.ravel(), b.ravel()
    arrays = [flat[0][: a.size].reshape(a.shape), flat[1][: b.size].reshape(b.shape)]
    (found,) = run(of(NN), shapes(NN, m, k, n, "bf16"), arrays, machine)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2.0**-8)


def test_rows_of_nan_stay_in_their_row(machine: Target) -> None:
    a, b = values("bf16[40, 33]", 0), values("bf16[33, 20]", 1)
    a[7] = np.nan
    (found,) = run(of(NN), shapes(NN, 40, 33, 20, "bf16"), [a, b], machine)
    assert np.isnan(found[7].astype(np.float32)).all()
    assert not np.isnan(np.delete(found, 7, 0).astype(np.float32)).any()


# ---- what follows ------------------------------------------------------------------------------------------------


def gate(a: Any, b: Any, c: Any) -> Any:
    y = contract(a, b, NN) + c
    return y * y.sigmoid(), y.astype("f32")


@pytest.mark.parametrize("size", [(19, 24, 35), (64, 64, 48), (40, 1100, 20)], ids=str)
def test_maps_join_the_product(size: tuple[int, int, int], machine: Target) -> None:
    m, k, n = size
    specs = [*shapes(NN, m, k, n, "bf16"), f"bf16[{n}]"]
    check(gate, specs, machine)
    module = program(gate, *specs)
    run_to(module, machine, "order")
    assert len(groups(module)) == 1


# ---- schedules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blocks",
    ["", "d0:32,d1:32", "d0:64,d1:64,r0:32", "d0:32,d1:128,r0:96", "d1:32", "d0:96", "r0:64", "d0:64,d1:32,r0:160"],
)
@pytest.mark.parametrize("spec", [NN, NT, TN])
def test_every_way_of_cutting_gives_the_product(spec: str, blocks: str, machine: Target) -> None:
    check(of(spec), shapes(spec, 101, 150, 118, "bf16"), machine, change=lambda s: replace(s, blocks=blocks))


@pytest.mark.parametrize("tile", [(16, 64), (64, 16), (32, 32)], ids=str)
@pytest.mark.parametrize("pack", [(1, 2), (0, 1, 2)], ids=str)
def test_tiles_of_every_form(tile: tuple[int, int], pack: tuple[int, ...]) -> None:
    specs = shapes(NN, 80, 64, 144, "bf16")
    check(of(NN), specs, runnable(TILES), change=lambda s: replace(s, tile=tile, pack=pack, blocks="d0:64,d1:64"))


@pytest.mark.parametrize("blocks", ["d0:32,d1:32", "d0:32,d1:32,r0:64"])
def test_the_number_of_threads_does_not_change_a_bit(blocks: str, machine: Target) -> None:
    rng = np.random.default_rng(0)
    specs = shapes(NT, 128, 200, 96, "bf16")
    arrays = [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((128, 200), (96, 200))]
    one, two = (
        run(of(NT), specs, arrays, machine, lambda s: replace(s, blocks=blocks, grain=1), threads)[0]
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.view(np.uint16), two.view(np.uint16))


def choice(spec: str, specs: Sequence[str], machine: Target) -> Schedule:
    module = program(of(spec), *specs)
    run_to(module, machine, "order")
    return contract_schedule(groups(module)[0], machine)


def test_the_target_decides() -> None:
    specs = shapes(NN, 256, 256, 256, "bf16")
    assert choice(NN, specs, TILES).template == "tiles"
    assert choice(NN, specs, PAIRS).template == "pairs"
    assert choice(NN, specs, V4).template == "contract"
    assert choice(NN, specs, replace(PAIRS, cpu="icelake-server")).template == "contract"


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        (NN, "f32[256, 256]", "f32[256, 256]"),  # another type
        (NN, "bf16[1, 256]", "bf16[256, 256]"),  # no rows
        (NN, "bf16[5, 7]", "bf16[7, 9]"),  # too small
        ("k, k -> ", "bf16[1000]", "bf16[1000]"),
        ("i j, i j -> i j", "bf16[90, 200]", "bf16[90, 200]"),
    ],
)
def test_other_products_stay_as_they_were(spec: str, left: str, right: str) -> None:
    assert choice(spec, [left, right], TILES).template == "contract"


def test_rows_are_read_in_place_where_they_are_squares() -> None:
    assert choice(NN, shapes(NN, 64, 64, 64, "bf16"), TILES).pack == (1, 2)
    assert choice(NN, shapes(NN, 64, 65, 64, "bf16"), TILES).pack == (0, 1, 2)
    assert choice(TN, shapes(TN, 64, 64, 64, "bf16"), TILES).pack == (0, 1, 2)


# ---- code --------------------------------------------------------------------------------------------------------


def kernel(spec: str, machine: Target, size: int = 256) -> tuple[str, str]:
    """The IR and the assembly of a product."""
    seen: list[str] = []

    def note(phase: str, module: ModuleOp, seconds: float) -> None:
        if phase == "generate":
            seen.append(str(module))

    lowered = lower(program(of(spec), *shapes(spec, size, size, size, "bf16")), machine, observer=note)
    return seen[0], compile_to_assembly(lowered.text, machine)


@pytest.mark.parametrize("spec", [NN, NT, TN, TT])
def test_tiles_are_in_the_ir_and_stay_in_registers(spec: str) -> None:
    """Each step of a product loads four tiles and multiplies four times; only sums are stored, once."""
    ir, assembly = kernel(spec, TILES)
    assert ir.count("kernel.tile_config") == ir.count("kernel.tile_release") == 1
    assert ir.count("kernel.tile_dot") == 4 * 2 == assembly.count("tdpbf16ps")
    assert ir.count("kernel.tile_load") == 4 * 2 == assembly.count("tileload")
    assert ir.count("kernel.tile_store") == 4 == assembly.count("tilestored")
    assert assembly.count("ldtilecfg") == assembly.count("tilerelease") == 1


def test_pairs_stay_in_registers() -> None:
    ir, assembly = kernel(NN, PAIRS)
    assert "kernel.dot_pairs" in ir and "tile" not in assembly
    loops = [block[: block.index("\tj")] for block in assembly.split("\n.LBB") if "vdpbf16ps" in block]
    assert loops and all(loop.count("vdpbf16ps") == 16 for loop in loops)
    assert not any("rsp" in line for loop in loops for line in loop.splitlines() if "mm" in line)


def test_a_target_without_tiles_refuses_them() -> None:
    from firebox.dialects.kernel.builder import KernelBuilder
    from firebox.errors import CompilerError
    from firebox.lowering.llvm.emit import emit_kernels

    k = KernelBuilder.kernel("tiles", [], 0)
    k.tile_config()
    with pytest.raises(CompilerError, match="no tile registers"):
        emit_kernels([k.finish()], V4)
