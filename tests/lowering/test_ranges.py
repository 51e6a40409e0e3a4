"""Intervals of index values: what is proven to be in range is not checked, all else is, and values stay right."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.ops.monoids import dtype_limits
from firebox.dialects.nd.value import Value
from firebox.errors import IndexRangeError
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import lower, run_to
from firebox.lowering.ranges import IN_RANGE, Ranges, prove_indices
from firebox.lowering.stores import may_fault
from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.target import Target
from tests.programs import Array, check_native, parse_aval, program, run_native

Build = Callable[..., Value | Sequence[Value]]


def counted(x: Value, size: int) -> Value:
    return x.one("iota", shape=(size,), axis=0, dtype=dtypes.i64)


def ordered(x: Value, axis: int) -> Sequence[Value]:
    return x.apply(lookup("nd.sort"), (x,), {"axis": axis, "descending": False})


def wrapped(indices: Value, size: int) -> Value:
    """As indexing from the end does it."""
    return ((indices < 0) & (indices >= -size)).where(indices + size, indices)


PROVEN: dict[str, tuple[Build, tuple[str, ...]]] = {
    "clamped": (lambda x, i: x.take(i.maximum(0).minimum(9), 0), ("f32[10, 4]", "i64[6]")),
    "clamped_in_i32": (lambda x, i: x.take(i.maximum(0).minimum(9).astype(dtypes.i64), 0), ("f32[10]", "i32[6]")),
    "counted": (lambda x: x.take(counted(x, 5) * 2 + 1, 0), ("f32[10, 4]",)),
    "counted_down": (lambda x: x.take(9 - counted(x, 10), 0), ("f32[10, 4]",)),
    "modulo": (lambda x, i: x.take(i % 10, 0), ("f32[10, 4]", "i64[6]")),
    "quotient": (lambda x: x.take(counted(x, 20) // 2, 0), ("f32[10]",)),
    "masked": (lambda x, i: x.take(i & 7, 0), ("f32[8]", "i64[6]")),
    "bytes": (lambda x, i: x.take(i, 0), ("f32[256]", "u8[6]")),
    "argmax": (lambda x, s: x.take(s.argmax(1), 0), ("f32[10, 4]", "f32[6, 10]")),
    "argsort": (lambda x: x.take_along_axis(ordered(x, 1)[1], 1), ("f32[3, 10]",)),
    "sorted_counts": (lambda x, i: x.take(ordered(i % 10, 0)[0], 0), ("f32[10]", "i64[6]")),
    "wrapped_argmax": (lambda x, s: x.take(wrapped(s.argmax(1), 10), 0), ("f32[10, 4]", "f32[6, 10]")),
    "wrapped_clamp": (lambda x, i: x.take(wrapped(i.maximum(-10).minimum(9), 10), 0), ("f32[10]", "i64[6]")),
    "chosen": (lambda x, i, c: x.take(c.where(i % 10, counted(x, 6)), 0), ("f32[10]", "i64[6]", "bool[6]")),
    "asked": (lambda x, i: x.take((i < 10).where(i, 9).maximum(0), 0), ("f32[10]", "i64[6]")),
    "compared": (lambda x, i: x.take(wrapped(i.maximum(-20).minimum(4) + 10, 10) % 10, 0), ("f32[10]", "i64[6]")),
    "moved": (
        lambda x, i: x.take((i % 9).reshape((2, 3)).T.pad((1, 0), (0, 0), 9), 0),
        ("f32[10]", "i64[6]"),
    ),
    "joined": (lambda x, i: x.take(x.one("concat", i % 10, counted(x, 4), axis=0), 0), ("f32[10]", "i64[6]")),
    "picked_again": (lambda x, i, j: x.take((i % 10).take(j % 6, 0), 0), ("f32[10]", "i64[6]", "i64[3]")),
    "largest": (lambda x, i: x.take((i % 10).max(0), 0), ("f32[10, 3]", "i64[6]")),
    "scatter": (lambda x, i, u: x.scatter_add(i % 10, u, 0), ("f32[10, 4]", "i64[6]", "f32[6, 4]")),
    "counted_dim": (lambda x: x.take(x.one("iota", shape=x.shape[:1], axis=0, dtype=dtypes.i64), 0), ("f32[b, 4]",)),
    "sorted_dim": (lambda x: x.take_along_axis(ordered(x, 0)[1], 0), ("f32[b]",)),
}

OPEN: dict[str, tuple[Build, tuple[str, ...]]] = {
    "data": (lambda x, i: x.take(i, 0), ("f32[10, 4]", "i64[6]")),
    "one_too_many": (lambda x, i: x.take(i.maximum(0).minimum(10), 0), ("f32[10]", "i64[6]")),
    "not_below_0": (lambda x, i: x.take(i.minimum(9), 0), ("f32[10]", "i64[6]")),
    "modulo_data": (lambda x, i, j: x.take(i % j, 0), ("f32[10]", "i64[6]", "i64[6]")),
    "other_extent": (lambda x, s: x.take(s.argmax(1), 0), ("f32[9]", "f32[6, 10]")),
    "wrapped_data": (lambda x, i: x.take(wrapped(i, 10), 0), ("f32[10]", "i64[6]")),
    "asked_of_another": (lambda x, i: x.take((i < 0).where(i.flip(0) + 10, 0), 0), ("f32[10]", "i64[6]")),
    "overflow": (lambda x, i: x.take((i % 100).astype(dtypes.i8) * 2, 0), ("f32[200]", "i64[6]")),
    "empty_dim": (lambda x, s: x.take(s.argmax(1), 0), ("f32[b]", "f32[6, b]")),
    "scatter": (lambda x, i, u: x.scatter_add(i, u, 0), ("f32[10, 4]", "i64[6]", "f32[6, 4]")),
}


def arrays(specs: Sequence[str], seed: int = 0) -> list[Array]:
    """Data of any sign, with values of the types' limits among the integers."""
    rng = np.random.default_rng(seed)
    return [_array(rng, parse_aval(spec)) for spec in specs]


def _array(rng: np.random.Generator, aval: Aval) -> Array:
    shape = tuple(dims.evaluate(d, {"b": 10}) for d in aval.shape)
    if aval.dtype.is_int:
        least, most = dtype_limits(aval.dtype)
        values = rng.integers(least, most, shape, aval.dtype.numpy, endpoint=True)
        return np.where(rng.random(shape) < 0.5, values, values % 23).astype(aval.dtype.numpy)
    return rng.standard_normal(shape).astype(aval.dtype.numpy) if aval.dtype.is_float else rng.random(shape) < 0.5


def marks(build: Build, specs: Sequence[str]) -> list[bool]:
    """For every op with indices, whether they are proven."""
    module = run_to(program(build, *specs), Target.host(), "fuse")
    return [IN_RANGE in op.attributes for op in module.walk() if isinstance(op, NdOp) and op.checks_indices]


@pytest.mark.parametrize("name", PROVEN)
def test_indices_that_are_in_range_for_any_data(name: str) -> None:
    build, specs = PROVEN[name]
    assert marks(build, specs) and all(marks(build, specs))
    check_native(build, specs, arrays(specs), b=10)


@pytest.mark.parametrize("name", PROVEN)
def test_a_program_without_checks_reports_no_faults(name: str) -> None:
    build, specs = PROVEN[name]
    module = run_to(program(build, *specs), Target.host(), "schedule")
    assert not any(may_fault(op) for op in module.walk() if isinstance(op, NdOp))
    lowered = lower(program(build, *specs), OpenClTarget.generic())
    assert not lowered.faults and "atomic_cmpxchg" not in lowered.source


@pytest.mark.parametrize("name", OPEN)
def test_other_indices_are_checked(name: str) -> None:
    build, specs = OPEN[name]
    assert False in marks(build, specs)
    assert lower(program(build, *specs), OpenClTarget.generic()).faults


@pytest.mark.parametrize("name", ["data", "one_too_many", "not_below_0", "scatter"])
def test_a_fault_is_still_found(name: str) -> None:
    build, specs = OPEN[name]
    values = arrays(specs)
    values[1] = np.array([0, 1, 2, 10 if name == "one_too_many" else -1, 4, 5])
    with pytest.raises(IndexRangeError):
        run_native(program(build, *specs), values)


def test_two_uses_of_one_kernel_are_told_apart() -> None:
    """One gather is proven and its twin is not, so they are two kernels."""

    def picks(x: Value, s: Value, j: Value) -> tuple[Value, Value]:
        return x.take(s.argmax(1), 0), x.take(j, 0)

    specs = ("f32[10, 4]", "f32[6, 10]", "i64[6]")
    assert sorted(marks(picks, specs)) == [False, True]
    values = arrays(specs)
    values[2] = np.array([0, 9, 3, 1, 2, 5])
    check_native(picks, specs, values)
    values[2][3] = 10
    with pytest.raises(IndexRangeError):
        run_native(program(picks, *specs), values)


UNARY: tuple[Callable[[Value], Value], ...] = (
    lambda v: v + 3,
    lambda v: 5 - v,
    lambda v: v * -2,
    lambda v: -v,
    lambda v: v.abs(),
    lambda v: v % 7,
    lambda v: v // 3,
    lambda v: v & 12,
    lambda v: v.minimum(6),
    lambda v: v.maximum(-4),
    lambda v: v.flip(0),
    lambda v: (v < 2).where(v + 4, v),
    lambda v: (v >= 3).where(1 - v, v * 2),
    lambda v: ((v < 5) & (v >= -5)).where(v + 2, v - 1),
    lambda v: ((v < 5) & (v.flip(0) > 1)).where(v.flip(0), v * 2),
    lambda v: (v > -1).where(v.flip(0), 2),
    lambda v: (v <= 0).astype(dtypes.i64),
    lambda v: v.astype(dtypes.i8).astype(dtypes.i64),
    lambda v: v.slice((1,), (6,)).pad((2,), (0,), -9),
)


@given(st.lists(st.integers(0, len(UNARY) - 1), max_size=6), st.integers(0, 2**16))
def test_every_value_lies_in_its_interval(steps: list[int], seed: int) -> None:
    def build(x: Value) -> Value:
        for step in steps:
            x = UNARY[step](x)
        return x

    module = program(build, "i16[7]" if seed % 2 else "i64[7]")
    function = main_function(module)
    (value,) = function.body.block.last_op.operands  # type: ignore[union-attr]
    found = Ranges().of(value)
    assert found is not None and isinstance(found.low, int) and isinstance(found.high, int)
    (result,) = interpret(function, arrays(["i16[7]" if seed % 2 else "i64[7]"], seed))
    assert found.low <= int(result.min()) and int(result.max()) <= found.high


def test_long_chains_are_followed() -> None:
    def build(x: Value, i: Value) -> Value:
        i = i % 2
        for _ in range(3000):
            i = (i + 1) % 10
        return x.take((i < 5).where(i + i, i), 0)

    module = program(build, "f32[10]", "i64[6]")
    prove_indices(main_function(module).body.block)
    assert [IN_RANGE in op.attributes for op in module.walk() if op.name == "nd.gather"] == [True]
