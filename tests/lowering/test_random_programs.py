"""Random programs: compiled equals interpreted, and every phase keeps the meaning."""

import numpy as np
import pytest

from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import PHASES, run_to
from firebox.runtime.target import Target
from tests.lowering.random_programs import random_program
from tests.programs import DEVICES, device_named, program, run_native

SPECS = ("f32[6, 5]", "f32[5]", "f32[6, 1]")
RUNS = [(name, seed) for name in DEVICES for seed in range(30 if name == "cpu" else 6)]
TENSOR_PHASES = PHASES[1 : PHASES.index("schedule") + 1]


def inputs(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal(s).astype(np.float32) for s in ((6, 5), (5,), (6, 1))]


@pytest.mark.parametrize(("device", "seed"), RUNS)
def test_compiled_equals_interpreted(device: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    function = random_program(rng, int(rng.integers(3, 25)))
    arrays = inputs(rng)
    expected = interpret(main_function(program(function, *SPECS)), arrays)
    found = run_native(program(function, *SPECS), arrays, device=device_named(device))
    for e, f in zip(expected, found, strict=True):
        assert e.shape == f.shape
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_other_targets_compute_the_same(name: str) -> None:
    target = Target.parse(name)
    if target.arch != Target.host().arch or target.missing_on_host():
        pytest.skip("this machine cannot run it")
    for seed in range(200, 206):
        rng = np.random.default_rng(seed)
        function = random_program(rng, 20)
        arrays = inputs(rng)
        expected = interpret(main_function(program(function, *SPECS)), arrays)
        found = run_native(program(function, *SPECS), arrays, target=target)
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_allclose(f, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("phase", TENSOR_PHASES)
def test_every_phase_keeps_the_meaning(phase: str) -> None:
    for seed in range(100, 106):
        rng = np.random.default_rng(seed)
        function = random_program(rng, 12)
        arrays = inputs(rng)
        expected = interpret(main_function(program(function, *SPECS)), arrays)
        module = run_to(program(function, *SPECS), Target.host(), phase)
        module.verify()
        found = interpret(main_function(module), arrays)
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_allclose(f, e, rtol=2e-5, atol=2e-5)
