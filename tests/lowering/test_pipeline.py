"""The pipeline as a whole: the IR after each phase of one example, which the docs show; determinism, errors."""

from pathlib import Path

import numpy as np
import pytest

from firebox.errors import UserError
from firebox.frontend.irtext import parse_module
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.options import Options
from firebox.lowering.pipeline import PHASES, lower, run_to
from firebox.runtime.target import Target
from tests.conftest import GOLDEN, Golden
from tests.programs import program, run_native

EXAMPLE = GOLDEN / "pipeline" / "input.mlir"
TARGET = Target.parse("x86-64-v4")


def example(path: Path = EXAMPLE) -> str:
    return path.read_text()


@pytest.mark.parametrize("phase", PHASES[1:-1])
def test_the_example_after_each_phase(phase: str, golden: Golden) -> None:
    module = run_to(parse_module(example(), "input.mlir"), TARGET, phase, Options(verify=True))
    golden(f"pipeline/{PHASES.index(phase):02}_{phase}.mlir", str(module) + "\n")


def test_the_text_of_the_example(golden: Golden) -> None:
    lowered = lower(parse_module(example(), "input.mlir"), TARGET)
    golden("pipeline/11_emit.ll", lowered.text)


def test_the_example_computes_the_gradient() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((9, 16)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    expected = interpret(main_function(parse_module(example(), "input.mlir")), [x, w])
    found = run_native(parse_module(example(), "input.mlir"), [x, w], {"b": 9})
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)


def test_equal_programs_give_equal_text() -> None:
    first = lower(parse_module(example(), "a.mlir"), TARGET)
    second = lower(parse_module(example(), "folder/a.mlir"), TARGET)
    assert first.text == second.text
    assert first.program.without_locations().to_json() == second.program.without_locations().to_json()


def test_an_unknown_phase_is_refused_with_the_list() -> None:
    with pytest.raises(UserError, match="no such phase") as error:
        run_to(program(lambda x: x, "f32[2]"), TARGET, "fusion")
    assert "canonicalize" in str(error.value)


@pytest.mark.parametrize("name", ["d0", "i1", "r12", "v0", "w3", "flat", "block", "threads", "lane0"])
def test_dims_named_like_loops_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="reserved name"):
        lower(program(lambda x: x * 2.0, f"f32[{name}, 4]"), TARGET)


def test_observers_see_every_phase() -> None:
    seen: list[str] = []
    lower(program(lambda x: x * 2.0, "f32[4]"), TARGET, observer=lambda name, module, seconds: seen.append(name))
    assert tuple(seen) == PHASES[1:]
