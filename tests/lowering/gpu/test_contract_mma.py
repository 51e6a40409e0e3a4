"""Tensor cores: the layouts of copies, fragments and sums, with the instructions acted out in plain OpenCL C."""

from typing import Any

import pytest

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.schedule import Schedule
from firebox.errors import CompilerError
from firebox.lowering.generate.gpu.contract import CONTRACT
from firebox.lowering.opencl.emit import emit_source
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.generate.contractions import of, shapes
from tests.lowering.gpu import launches
from tests.lowering.gpu.contractions import check, chosen
from tests.lowering.gpu.ptx import without_ptx
from tests.programs import program

NN, NT, TN, TT = "m k, k n -> m n", "m k, n k -> m n", "k m, k n -> m n", "k m, n k -> m n"
SMALL = "template=gpu-mma tile=16x32x32x16x16 group=64 stages=3"


@pytest.fixture(autouse=True)
def _act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "emit_source", lambda functions, target: without_ptx(emit_source(functions, target)))


@pytest.mark.parametrize("spec", [NN, NT, TN, TT])
def test_products(spec: str) -> None:
    check(of(spec), *shapes(spec, 40, 72, 48, "bf16"), schedule=SMALL, tolerance=1e-2)


@pytest.mark.parametrize(
    "schedule",
    [
        "tile=32x32x32x32x16 group=64 stages=2",
        "tile=16x16x64x16x16 group=32 stages=4",
        "tile=16x64x32x16x32 group=64 stages=2 split=2",
    ],
)
def test_other_tiles(schedule: str) -> None:
    check(of(NN), *shapes(NN, 40, 136, 48, "bf16"), schedule=f"template=gpu-mma {schedule}", tolerance=1e-2)
    check(of(NT), *shapes(NT, 40, 136, 48, "bf16"), schedule=f"template=gpu-mma {schedule}", tolerance=1e-2)


@pytest.mark.parametrize("spec", [NN, NT, TN, TT])
@pytest.mark.parametrize("schedule", ["tile=32x32x64x32x16 group=64 stages=3", "tile=16x16x64x16x16 group=32 stages=2"])
def test_whole_tiles(spec: str, schedule: str) -> None:
    """Copies at constant distances, also where those are not whole periods of the permutation."""
    check(of(spec), *shapes(spec, 32, 192, 32, "bf16"), schedule=f"template=gpu-mma {schedule}", tolerance=1e-2)


def test_whole_tiles_in_parts() -> None:
    schedule = "template=gpu-mma tile=32x32x32x16x16 group=128 stages=4 split=2"
    check(of("b m k, b k n -> b m n"), "bf16[2, 32, 160]", "bf16[2, 160, 32]", schedule=schedule, tolerance=1e-2)


def test_work_items_that_cannot_share_a_tile() -> None:
    (group,) = launches.groups_of(program(of(NN), *shapes(NN, 64, 64, 64, "bf16")))
    schedule = Schedule.parse("template=gpu-mma tile=16x16x32x16x16 group=96 stages=2")
    with pytest.raises(CompilerError, match="share a tile"):
        CONTRACT.generate(group, schedule, OpenClTarget.h200(), (), {})


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("b m k, b n k -> b m n", "bf16[3, 24, 64]", "bf16[3, 24, 64]"),
        ("b q h d, b k h d -> b h q k", "bf16[2, 10, 3, 16]", "bf16[2, 16, 3, 16]"),
        ("b h q k, b k h d -> b q h d", "bf16[2, 3, 16, 24]", "bf16[2, 24, 3, 16]"),
        (NT, "bf16[33, 48]", "bf16[13, 48]"),
    ],
)
def test_batches_and_edges(spec: str, left: str, right: str) -> None:
    check(of(spec), left, right, schedule=SMALL, tolerance=1e-2)


def test_symbolic_rows() -> None:
    check(of(NN), "bf16[b, 48]", "bf16[48, 40]", schedule=SMALL, tolerance=1e-2, b=37)


def test_convolution_with_channels_last() -> None:
    spec = "n y0+k0-1 y1+k1-1 c, o k0 k1 c -> n y0 y1 o"
    known = {"y0": 5, "y1": 6}
    check(
        lambda x, w: contract(x, w, spec, known),
        "bf16[2, 5, 6, 16]",
        "bf16[24, 3, 3, 16]",
        schedule=SMALL,
        tolerance=1e-2,
    )


def test_epilogue() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return (contract(x, w, NN) + b).tanh()

    check(layer, "bf16[40, 48]", "bf16[48, 40]", "bf16[40]", schedule=SMALL, tolerance=1e-2)


def test_instructions() -> None:
    """Whole chunks of 16 bytes, turned fragments exactly where the depth is not along memory."""
    target = OpenClTarget.h200()
    for spec, turned in ((NN, 4), (NT, 0), (TT, 4), (TN, 8)):
        (group,) = launches.groups_of(program(of(spec), *shapes(spec, 256, 256, 256, "f16")), target)
        schedule = chosen(of(spec), *shapes(spec, 4096, 4096, 4096, "f16"))
        assert schedule.template == "gpu-mma"
        source = emit_source(CONTRACT.generate(group, schedule, target, (), {}).mains, target)
        steps = schedule.tile[2] // 16
        loads = steps + 1  # those of the first step also stand before the loop
        assert source.count("m16n8k16.row.col.f32.f16.f16.f32") == 4 * 8 * steps
        assert source.count("ldmatrix") == 8 * loads and source.count(".trans") == turned * loads
