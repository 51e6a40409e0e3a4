"""Random programs: compiled equals interpreted on every device, and every phase keeps the meaning.

A program that fails is made as small as possible and printed as MLIR; it and its inputs are kept in files that the
message names. `FIREBOX_TEST_CASES=all` tries thousands of programs, other ones each time.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from firebox.frontend.irtext import print_module
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import PHASES, run_to
from firebox.runtime.target import Target
from tests.lowering.random_programs import Drawn, programs
from tests.programs import DEVICES, Array, device_named, run_native

EVERYTHING = os.environ.get("FIREBOX_TEST_CASES") == "all"
TENSOR_PHASES = PHASES[1 : PHASES.index("schedule") + 1]


def tries(few: int, many: int) -> settings:
    """So many programs; where thousands are tried, they differ from run to run."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=many if EVERYTHING else few,
        deadline=None,
        derandomize=not EVERYTHING,
        database=None,
        suppress_health_check=checks,
        phases=(Phase.generate, Phase.shrink),
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs that fail are kept."""
    return tmp_path_factory.mktemp("programs")


def check(drawn: Drawn, run: Callable[[], Sequence[Array]], folder: Path) -> None:
    """What ``run`` gives is what the interpreter gives, as near as the program allows.

    Raises:
        AssertionError: it is not; holds the program.
    """
    with np.errstate(all="ignore"):
        expected = interpret(main_function(drawn.module), drawn.arrays, drawn.sizes)
    try:
        for e, f, error in zip(expected, run(), drawn.errors, strict=True):
            assert e.shape == f.shape and e.dtype == f.dtype, (e.shape, f.shape, e.dtype, f.dtype)
            found, exact = (f, e) if e.dtype.kind in "iub" else (f.astype(np.float64), e.astype(np.float64))
            if error == 0.0:
                np.testing.assert_array_equal(found, exact)
            else:
                np.testing.assert_allclose(found, exact, rtol=0, atol=2 * error)
    except Exception as fault:
        text = print_module(drawn.module)
        (folder / "reproducer.mlir").write_text(text)
        np.savez(folder / "inputs.npz", *map(_plain, drawn.arrays))
        where = f"{folder}/reproducer.mlir, inputs.npz; sizes {drawn.sizes}, allowed errors {drawn.errors}"
        raise AssertionError(f"{type(fault).__name__}: {fault}\n{where}\n{text}") from fault


def _plain(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


@pytest.mark.timeout(3600 if EVERYTHING else 300)
@pytest.mark.parametrize("device", DEVICES)
def test_compiled_equals_interpreted(device: str, folder: Path) -> None:
    used = device_named(device)

    @tries(*((100, 4000) if device == "cpu" else (6, 400)))
    @given(programs())
    def every(drawn: Drawn) -> None:
        check(drawn, lambda: run_native(drawn.module.clone(), drawn.arrays, drawn.sizes, device=used), folder)

    every()


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_other_targets_compute_the_same(name: str, folder: Path) -> None:
    target = Target.parse(name)
    if target.arch != Target.host().arch or target.missing_on_host():
        pytest.skip("this machine cannot run it")

    @tries(10, 1000)
    @given(programs())
    def every(drawn: Drawn) -> None:
        check(drawn, lambda: run_native(drawn.module.clone(), drawn.arrays, drawn.sizes, target=target), folder)

    every()


@pytest.mark.parametrize("phase", TENSOR_PHASES)
def test_every_phase_keeps_the_meaning(phase: str, folder: Path) -> None:
    @tries(12, 1000)
    @given(programs())
    def every(drawn: Drawn) -> None:
        def run() -> list[Array]:
            module = run_to(drawn.module.clone(), Target.host(), phase)
            module.verify()
            with np.errstate(all="ignore"):
                return interpret(main_function(module), drawn.arrays, drawn.sizes)

        check(drawn, run, folder)

    every()
