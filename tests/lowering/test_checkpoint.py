"""Checkpoint: strategies that recompute change no value and free memory; unknown ones are refused."""

import numpy as np
import pytest

from firebox.dialects.nd.value import Value
from firebox.errors import UserError
from firebox.lowering.canonicalize import canonicalize
from firebox.lowering.checkpoint import CheckpointPass, checkpoint
from firebox.lowering.checkpoint_budget import peak_bytes
from firebox.lowering.interpret import interpret
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
