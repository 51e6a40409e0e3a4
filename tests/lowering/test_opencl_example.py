"""What the compiler makes of one example for an OpenCL device: the IR and the texts that docs/opencl.md shows."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from firebox.frontend.irtext import parse_module
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.options import Options
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.target import Target
from tests.conftest import GOLDEN, Golden
from tests.programs import opencl_device, run_native

TARGET = OpenClTarget.h200(Target.parse("x86-64-v3"))


def example() -> ModuleOp:
    return parse_module((GOLDEN / "opencl" / "input.mlir").read_text(), "input.mlir")


@pytest.mark.parametrize("phase", ["schedule", "bufferize", "generate"])
def test_the_example_after_the_phases_that_differ(phase: str, golden: Golden) -> None:
    golden(f"opencl/{phase}.mlir", str(run_to(example(), TARGET, phase, Options(verify=True))) + "\n")


def test_the_texts_of_the_example(golden: Golden) -> None:
    lowered = lower(example(), TARGET)
    golden("opencl/kernels.cl", lowered.source)
    golden("opencl/host.ll", lowered.text)


def test_the_example_is_a_softmax() -> None:
    x = np.random.default_rng(0).standard_normal((300, 64)).astype(np.float32)
    (found,) = run_native(example(), [x], device=opencl_device())
    (expected,) = interpret(main_function(example()), [x])
    np.testing.assert_allclose(found, expected, rtol=2e-6)
