"""Checkpoint: strategies that recompute change no value and free memory; unknown ones are refused."""

import numpy as np
import pytest

from firebox.dialects.nd.value import Value
from firebox.errors import UserError
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.checkpoint import CheckpointPass, checkpoint
from firebox.lowering.checkpoint_budget import peak_bytes
from firebox.lowering.interpret import interpret
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.options import Options
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target
from tests.lowering.ir_tools import arrays, f64, module, names, ops

SIZE = 1 << 14  # 128 KiB of f64


def far_use(x: Value) -> Value:
    """A cheap value is used at the start, and again after many ops."""
    kept = x * 3.0
    y = kept + x
    for _ in range(40):
        y = y.sin()
    return y * kept + x


def test_everything_is_kept_by_default() -> None:
    program = module(far_use, f64(SIZE))
    before = str(program)
    checkpoint(program)
    assert str(program) == before


def test_cheap_values_are_computed_again_before_a_far_use() -> None:
    program = module(far_use, f64(SIZE))
    inputs = arrays(0, f64(SIZE))
    (expected,) = interpret(program, inputs)
    checkpoint(program, "recompute-cheap")
    canonicalize(program)  # which must not merge the copy with the original
    found = [op.name.removeprefix("nd.") for op in ops(program)]
    assert found == ["constant", "mul", "add", *["sin"] * 40, "mul", "mul", "add"]
    marked = [op for op in ops(program) if "recompute" in op.attributes]
    assert [str(op.attributes["recompute"]) for op in marked] == ["1 : i64"]
    assert marked[0].next_op is ops(program, "mul")[-1]
    np.testing.assert_array_equal(interpret(program, inputs)[0], expected)


def test_cheap_values_whose_operands_die_early_are_kept() -> None:
    def function(x: Value) -> Value:
        source = x.exp()
        kept = source * 3.0
        y = kept + x
        for _ in range(40):
            y = y.sin()
        return y * kept

    program = module(function, f64(SIZE))
    before = str(program)
    checkpoint(program, "recompute-cheap")
    assert str(program) == before


def test_small_and_expensive_values_are_kept() -> None:
    def expensive(x: Value) -> Value:
        kept = x.exp()
        y = kept + x
        for _ in range(40):
            y = y.sin()
        return y * kept + x

    for function, size in ((far_use, 8), (expensive, SIZE)):
        program = module(function, f64(size))
        before = str(program)
        checkpoint(program, "recompute-cheap")
        assert str(program) == before


def test_a_second_application_changes_nothing() -> None:
    program = module(far_use, f64(SIZE))
    checkpoint(program, "recompute-cheap")
    before = str(program)
    checkpoint(program, "recompute-cheap")
    assert str(program) == before


def ladder(x: Value) -> Value:
    """Four values of x that all wait for the end."""
    kept = [x * float(k) for k in range(2, 6)]
    y = x
    for value in kept:
        y = y.sin() + value
    for value in kept:
        y = y * value
    return y


@pytest.mark.parametrize("budget", [10 * 8 * SIZE, 4 * 8 * SIZE, 3 * 8 * SIZE])
def test_a_budget_is_met(budget: int) -> None:
    program = module(ladder, f64(SIZE))
    inputs = arrays(0, f64(SIZE))
    (expected,) = interpret(program, inputs)
    block = program.body.block.first_op.regions[0].block  # type: ignore[union-attr]
    assert peak_bytes(block) > 4 * 8 * SIZE
    checkpoint(program, "budget", budget + 64)  # 64 bytes for constants
    program.verify()
    assert peak_bytes(block) <= budget + 64
    np.testing.assert_array_equal(interpret(program, inputs)[0], expected)


def test_a_budget_out_of_reach_ends_with_what_is_possible() -> None:
    program = module(ladder, f64(SIZE))
    CheckpointPass("budget", 1).apply(None, program)  # type: ignore[arg-type]
    program.verify()
    assert "recompute" in str(program)


def residual(x: Value) -> Value:
    """Element-wise values of products, that wait for the end."""
    size = x.shape[0]
    kept = []
    for _ in range(6):
        product = x.one("contract", x, x, spec="m k, k n -> m n", sizes=(size, size, size))
        kept.append(((product * 3.0).exp(), product))
        x = x + kept[-1][0]
    for value, product in reversed(kept):
        x = x * value + product
    return x


def test_balanced_repeats_what_is_bound_by_memory_only() -> None:
    program = module(residual, f64(32, 32))
    inputs = [a * 0.01 for a in arrays(0, f64(32, 32))]
    (expected,) = interpret(program, inputs)
    block = program.body.block.first_op.regions[0].block  # type: ignore[union-attr]
    before = peak_bytes(block)
    checkpoint(program, "balanced")
    program.verify()
    assert peak_bytes(block) < 0.7 * before
    repeated = [op.name for op in ops(program) if "recompute" in op.attributes]
    assert repeated and set(repeated) <= {"nd.mul", "nd.exp", "nd.add"}
    np.testing.assert_array_equal(interpret(program, inputs)[0], expected)


def test_copies_run_late_in_kernels_of_the_later_part() -> None:
    """Neither fusion nor the order of the kernels undoes what was decided: memory stays as low as it was counted."""
    found = {}
    for strategy in ("none", "balanced"):
        program = run_to(module(residual, f64(32, 32)), Target.host(), "order", Options(checkpoint=strategy))
        found[strategy] = peak_bytes(main_function(program).body.block)
    assert found["balanced"] < 0.7 * found["none"]


def test_a_group_notes_that_a_copy_stays_apart() -> None:
    program = run_to(module(residual, f64(32, 32)), Target.host(), "fuse", Options(checkpoint="balanced"))
    assert any("recompute" in str(op.attributes.get("borders")) for op in groups_in(main_function(program).body.block))


def test_an_unknown_strategy_is_refused() -> None:
    program = module(lambda x: x, f64(2))
    with pytest.raises(UserError, match=r"expected: balanced, budget, none, recompute-cheap\n  found:    'some'"):
        checkpoint(program, "some")
    with pytest.raises(UserError, match="not negative"):
        checkpoint(program, "budget", -1)


def test_marks_continue_after_those_in_use() -> None:
    program = module(far_use, f64(SIZE))
    other = ops(program, "sin")[0]
    other.attributes["recompute"] = ops(module(lambda x: x.sum(), f64(2)), "reduce_sum")[0].attributes["keepdims"]
    checkpoint(program, "recompute-cheap")
    assert names(program).count("mul") == 3
    assert {str(op.attributes["recompute"]) for op in ops(program) if "recompute" in op.attributes} == {
        str(other.attributes["recompute"]),
        "1 : i64",
    }
