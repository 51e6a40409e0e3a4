"""The host's part of OpenCL programs as text: what is refused, and that LLVM takes it."""

import pytest

from firebox.dialects import plan
from firebox.dims import dim
from firebox.dtypes import f32
from firebox.errors import CompilerError
from firebox.lowering.opencl.plan import emit_plan
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.target import Target
from tests.handmade_opencl import CHAIN, GROUP, KERNELS, Plan, chain_steps, entry_text, kernel

B = dim("b")


def text_of(made: Plan, dims: tuple[str, ...] = ()) -> str:
    return emit_plan(made.finish(dims, 0), KERNELS)


def test_text_is_the_same_each_time() -> None:
    assert entry_text(CHAIN, chain_steps) == entry_text(CHAIN, chain_steps)


def test_a_launch_of_nothing_is_left_out() -> None:
    made = Plan(1, 1)
    made.launch("twice", [made.inputs[0], made.outputs[0]], 0)
    assert "call i1 @fb.launch" not in text_of(made)


def test_only_helpers_that_are_called_are_there() -> None:
    made = Plan(1, 1)
    made.block.add_op(plan.CopyOp.make(made.inputs[0], made.outputs[0], 64))
    text = text_of(made)
    assert "@fb.copy" in text and "@fb.launch" not in text and "@fb.fill" not in text
    assert "@fb.fail" not in text_of(Plan(1, 1))


def test_llvm_takes_symbolic_counts_offsets_and_sizes() -> None:
    made = Plan(2, 2)
    part = made.add(plan.ViewOp.make(made.inputs[1], B * 16))
    made.launch("add", [*made.inputs, made.alloc(B * 64, B * 64)], B // 3)
    made.launch("add", [made.inputs[0], part, made.outputs[1]], B * B - 1, at=B * 64)
    made.launch("sum", [part, made.outputs[0]], 5, at=B * 64)
    made.block.add_op(plan.FillOp.make(made.outputs[0], B * 4))
    compile_to_object(text_of(made, ("b",)), Target.host())


def test_dims_are_those_that_the_kernel_takes() -> None:
    made = Plan(3, 0)
    made.launch("k", made.inputs, 1)
    kernels = {"k": kernel("k", [f32] * 3, 2)}
    text = emit_plan(made.finish(("a", "b", "c"), 0), kernels)
    assert "ptr %table, i32 8, i64 1, i64 32)" in text and "ptr %dims, i64 1" in text and "[8 x ptr]" in text


def test_unknown_kernels_and_wrong_groups_are_refused() -> None:
    made = Plan(1, 0)
    made.launch("nobody", made.inputs, 1)
    with pytest.raises(CompilerError, match=r"(?s)no such kernel.*found:    nobody"):
        text_of(made)
    made = Plan(1, 1)
    made.block.add_op(plan.LaunchOp.make("twice", [made.inputs[0], made.outputs[0]], 1, 2 * GROUP, 0, 0))
    with pytest.raises(CompilerError, match=r"kernel twice: launched with another size"):
        text_of(made)
    made = Plan(1, 1)
    made.launch("twice", [made.inputs[0], made.outputs[0]], B)
    with pytest.raises(CompilerError, match="has no value"):
        text_of(made)
