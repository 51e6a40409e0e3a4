"""Pass slim: what readers can compute again from less memory is not stored, and the program means the same."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd.aval import aval_of
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.value import Value
from firebox.lowering import slim as pass_
from firebox.lowering.interpret import interpret
from firebox.lowering.module import groups_in, main_function
from firebox.lowering.pipeline import lower, run_to
from firebox.lowering.slim import slim
from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.target import Target
from tests.programs import program

Result = Value | Sequence[Value]
Function = Callable[..., Result]
ROWS, WIDTH = 256, 128  # 128 KB in f32
X, W, B = f"f32[{ROWS}, {WIDTH}]", f"f32[{WIDTH}, {WIDTH}]", f"f32[{WIDTH}]"
NN = "m k, k n -> m n"


def groups(function: Function, *specs: str) -> tuple[list[GroupOp], list[GroupOp]]:
    """The groups before and after the pass; both modules compute the same."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(_shape(spec), np.float32) for spec in specs]
    before, after = (run_to(program(function, *specs), Target.host(), "fuse") for _ in range(2))
    slim(after)
    after.verify()
    expected = interpret(main_function(before), arrays)
    for wanted, found in zip(expected, interpret(main_function(after), arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    first, second = (list(groups_in(main_function(module).body.block)) for module in (before, after))
    return first, second


def _shape(spec: str) -> tuple[int, ...]:
    return tuple(int(size) for size in spec[4:-1].split(","))


def moved(found: Sequence[GroupOp]) -> int:
    """Bytes of operands and results."""
    sizes = [aval_of(value.type).nbytes for group in found for value in (*group.operands, *group.results)]
    return sum(size for size in sizes if isinstance(size, int))


def product(x: Value, w: Value) -> Value:
    return x.one("contract", x, w, spec=NN, sizes=(ROWS, WIDTH, WIDTH))


def gelu_and_slope(x: Value, w: Value, b: Value, g: Value) -> Result:
    """A product with GELU, and what its gradient reads of it, behind another product."""
    h = product(x, w) + b
    t = (h * 0.7978845608).tanh()
    y = h * 0.5 * (t + 1.0)
    back = product(g, w)
    return y, back * (t + 1.0) * 0.5 + back * h * 0.5 * (1.0 - t * t)


def test_the_gradient_of_an_activation_reads_one_value() -> None:
    before, after = groups(gelu_and_slope, X, W, B, X)
    assert len(before[0].results) > 3
    assert [len(group.results) for group in after] == [2, 1]  # the result, and the sum before the activation
    assert moved(after) < moved(before) - 2 * 4 * ROWS * WIDTH
    names = [op.name for op in after[1].members]
    assert names.count("nd.tanh") == 1 and names.index("nd.contract") < len(names) - 1


def test_values_for_contractions_and_results_of_the_program_stay() -> None:
    def function(x: Value, w: Value) -> Result:
        y = x.exp() + 1.0
        return product(y, w), y

    before, after = groups(function, X, W)
    assert [len(group.results) for group in after] == [len(group.results) for group in before]
    assert moved(after) == moved(before)


def test_what_is_read_elsewhere_than_it_is_made_stays() -> None:
    def function(x: Value, w: Value) -> Result:
        y = product(x, w).exp() * 2.0
        return y.transpose() + 1.0, y.sum(0)

    before, after = groups(function, X, W)
    assert moved(after) == moved(before)


def test_a_long_way_back_is_not_gone_again() -> None:
    def function(x: Value, w: Value, g: Value) -> Result:
        y = h = product(x, w)
        for _ in range(20):
            y = (y * 0.5).tanh() + h
        return [product(g, w) * y]

    before, after = groups(function, X, W, X)
    assert moved(after) == moved(before)


def test_small_values_are_left_alone() -> None:
    specs = ("f32[16, 128]", W, B, "f32[16, 128]")

    def function(x: Value, w: Value, b: Value, g: Value) -> Result:
        h = x.one("contract", x, w, spec=NN, sizes=(16, WIDTH, WIDTH)) + b
        t = h.tanh()
        return h * t, x.one("contract", g, w, spec=NN, sizes=(16, WIDTH, WIDTH)) * (1.0 - t * t) * h

    before, after = groups(function, *specs)
    assert [len(group.results) for group in after] == [len(group.results) for group in before]


def test_reasons_at_borders_follow_their_operands() -> None:
    _, after = groups(gelu_and_slope, X, W, B, X)
    for group in after:
        borders: Any = group.attributes.get("borders")
        numbers = [int(border.data.partition(":")[0]) for border in borders.data] if borders else []
        assert all(number < len(group.operands) for number in numbers)


def test_devices_store_less_than_the_processor() -> None:
    specs = (X, W, B, X)
    here = run_to(program(gelu_and_slope, *specs), Target.host(), "fuse")
    there = run_to(program(gelu_and_slope, *specs), OpenClTarget.generic(), "fuse")
    cpu, device = (moved(list(groups_in(main_function(module).body.block))) for module in (here, there))
    assert device < cpu
    assert lower(program(gelu_and_slope, *specs), OpenClTarget.generic()).kernels


OPS: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "tanh": lambda a, b: a.tanh() - b,
    "row": lambda a, b: a - b.mean(-1, True),
    "relu": lambda a, b: a.maximum(0.0) + b * 0.5,
}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 20), st.integers(0, 20)), max_size=10))
def test_random_programs_mean_the_same(steps: list[tuple[str, int, int]]) -> None:
    def function(x: Value, w: Value, b: Value) -> Result:
        values = [product(x, w) + b, x]
        for name, left, right in steps:
            values.append(OPS[name](values[left % len(values)], values[right % len(values)]))
        late = product(x * 2.0, w)
        return [sum((late * value for value in values[2:]), late), values[-1].sum(0), (late * values[-1]).sum(-1)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pass_, "SMALL", 0)
        before, after = groups(function, X, W, B)
    assert moved(after) <= moved(before)
