"""Steps that differ in a number alone are one kernel, and their values stay right."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.value import Value
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target
from tests.programs import check_native, opencl_device, program

Build = Callable[[Value, Value], Value]
SPECS = ("f32[4, 8]", "i32[4]")
ARRAYS = (np.linspace(-2, 2, 32).reshape(4, 8).astype(np.float32), np.array([0, 3, -5, 40], np.int32))


def masked_steps(numbers: Sequence[int], dtype: dtypes.DType = dtypes.i32) -> Build:
    """Steps of which each row takes part in those below its length."""

    def build(x: Value, lengths: Value) -> Value:
        lengths = lengths.astype(dtype)
        for number in numbers:
            runs = (lengths > number).reshape((4, 1))
            later = (lengths + number).astype(dtypes.f32).reshape((4, 1))
            x = runs.where(x.flip(1) * 0.4 + x.sum(1, True) * 0.05 + later * 0.01, x)
        return x

    return build


def labels(build: Build) -> list[str]:
    module = run_to(program(build, *SPECS), Target.host(), "order")
    module.verify()
    return [op.label for op in main_function(module).body.block.ops if isinstance(op, GroupOp)]


COUNTED = {"up": range(1, 20), "down": range(30, 2, -3), "below_0": range(-13, -2)}


@pytest.mark.parametrize("numbers", COUNTED.values(), ids=COUNTED)
def test_numbers_at_equal_distances_are_read(numbers: range) -> None:
    assert len(set(labels(masked_steps(numbers)))) <= 4


@pytest.mark.parametrize("numbers", [range(5), [1, 2, 4, 8, 16, 32, 64, 128, 256]], ids=["few", "powers"])
def test_other_numbers_stay_in_their_kernels(numbers: Sequence[int]) -> None:
    assert len(set(labels(masked_steps(numbers)))) >= len(numbers)


@pytest.mark.parametrize("kind", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64, dtypes.i8], ids=str)
@pytest.mark.parametrize("numbers", COUNTED.values(), ids=COUNTED)
def test_values(numbers: range, dtype: dtypes.DType, kind: str) -> None:
    device = "cpu" if kind == "cpu" else opencl_device()
    check_native(masked_steps(numbers, dtype), SPECS, ARRAYS, rtol=1e-4, atol=1e-4, device=device)


def test_a_gather_that_many_steps_take_apart_is_made_once() -> None:
    def build(x: Value, at: Value) -> Value:
        picked = x.reshape((1, 32)).broadcast_to((12, 32)).take(at % 32, 1)
        total = picked.slice((0, 0), (1, 4))
        for k in range(1, 12):
            total = (total.flip(1) + picked.slice((k, 0), (k + 1, 4))).tanh()
        return total

    assert len(set(labels(build))) <= 4
    check_native(build, SPECS, ARRAYS)
