"""Maps, rows, columns and split reductions on PoCL, against `interpret`; each form also where it is not chosen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox import dims
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.schedule import Schedule
from firebox.dialects.nd.value import Value
from firebox.dtypes import as_dtype, i64
from firebox.errors import CompilerError
from firebox.lowering.generate.gpu.loops import LOOPS
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.gpu.launches import Runner, check
from tests.lowering.random_programs import random_program
from tests.programs import parse_aval, program

GENERIC = OpenClTarget.generic()
SMALL = replace(GENERIC, compute_units=2, max_group=64, local_bytes=4096)
LARGE = replace(OpenClTarget.h200(), features=("fp64",))
TARGETS = {"generic": GENERIC, "small": SMALL, "large": LARGE}
TOLERANCE = {"f16": 2e-3, "bf16": 2e-2, "f32": 2e-5, "f64": 1e-12}


def softmax(x: Value, axis: int = -1) -> Value:
    axis %= x.rank
    e = (x - x.max(axis, True)).exp()
    return e / e.sum(axis, True)


def log_softmax(x: Value) -> Value:
    centred = x - x.max(x.rank - 1, True)
    return centred - centred.exp().sum(x.rank - 1, True).log()


def layer_norm(x: Value, scale: Value, shift: Value) -> list[Value]:
    """The result and the mean, so that one output is full and one is a row."""
    mean = x.mean(x.rank - 1, True)
    centred = x - mean
    variance = (centred * centred).mean(x.rank - 1, True)
    return [centred * (variance + 1e-5).rsqrt() * scale + shift, mean]


def adam(p: Value, g: Value, m: Value, v: Value) -> list[Value]:
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return [p - m / (v.sqrt() + 1e-8) * 0.001, m, v]


def inputs(specs: Sequence[str], sizes: dict[str, int] | None = None, seed: int = 0) -> list[Any]:
    """Random arrays for specs: numbers near 1, small integers, coin flips."""
    rng = np.random.default_rng(seed)
    found = []
    for spec in specs:
        aval = parse_aval(spec)
        shape = tuple(dims.evaluate(d, sizes or {}) for d in aval.shape)
        made: Any = rng.standard_normal(shape)
        if not aval.dtype.is_float:
            made = rng.integers(0, 2 if aval.dtype.is_bool else 9, shape)
        found.append(np.asarray(made).astype(aval.dtype.numpy))
    return found


def agree(
    function: Callable[..., Any],
    specs: Sequence[str],
    target: OpenClTarget = GENERIC,
    choose: Callable[[GroupOp], Schedule] | None = None,
    rtol: float = 2e-5,
    **sizes: int,
) -> None:
    check(LOOPS, function, specs, inputs(specs, sizes), target, rtol, choose, **sizes)


CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "flat": (lambda x: x * 2.0 + 1.0, ("f32[37, 64]",)),
    "ragged": (lambda x: (x * x).tanh(), ("f32[1023]",)),
    "large": (lambda x, y: x * y + 1.0, ("f32[70000]", "f32[70000]")),
    "broadcast": (lambda x, b: (x + b).tanh(), ("f32[6, 5, 7]", "f32[5, 1]")),
    "vectors of a broadcast": (lambda x, b, c: (x + b) * c, ("f32[6, 5, 8]", "f32[8]", "f32[5, 1]")),
    "transposed": (lambda x, y: x.transpose() + y, ("f32[17, 12]", "f32[12, 17]")),
    "scalar": (lambda x: x * 3.0, ("f32[]",)),
    "empty map": (lambda x: x * 3.0, ("f32[0, 4]",)),
    "no loops": (lambda x: x.sum(1), ("f32[1, 1]",)),
    "concat": (lambda x, y: x.one("concat", x, y, axis=1) * 2.0, ("f32[5, 6]", "f32[5, 3]")),
    "pad": (lambda x: x.pad((1, 0), (2, 3)) + 1.0, ("f32[5, 6]",)),
    "pad of nothing": (lambda x: x.pad((1, 0), (2, 3)) + 1.0, ("f32[5, 0]",)),
    "slice": (lambda x: x.slice((1, 0), (6, 9), (1, 2)) * 2.0, ("f32[6, 9]",)),
    "adam": (adam, ("f32[999]", "f32[999]", "f32[999]", "f32[999]")),
    "softmax": (softmax, ("f32[33, 64]",)),
    "softmax of odd rows": (softmax, ("f32[40, 99]",)),
    "softmax of short rows": (softmax, ("f32[140, 4]",)),
    "softmax of long rows": (softmax, ("f32[3, 5000]",)),
    "softmax of one row": (softmax, ("f32[1001]",)),
    "log softmax": (log_softmax, ("f32[9, 10]",)),
    "softmax of columns": (lambda x: softmax(x, 0), ("f32[100, 64]",)),
    "softmax of odd columns": (lambda x: softmax(x, 0), ("f32[10, 65]",)),
    "softmax in the middle": (lambda x: softmax(x, 1), ("f32[3, 20, 12]",)),
    "layer norm": (layer_norm, ("f32[50, 256]", "f32[256]", "f32[256]")),
    "sum": (lambda x: x.sum(), ("f32[1001]",)),
    "sum of columns": (lambda x: x.sum(0), ("f32[700, 36]",)),
    "sum around": (lambda x: x.sum((0, 2)), ("f32[9, 6, 40]",)),
    "sum around odd": (lambda x: x.sum((0, 2)), ("f32[9, 6, 41]",)),
    "sum of narrow columns": (lambda x: x.sum(1), ("f32[5, 70, 4]",)),
    "softmax of narrow columns": (lambda x: softmax(x, 1), ("f32[5, 70, 6]",)),
    "sum inside": (lambda x: x.sum(1), ("f32[9, 46, 41]",)),
    "sum of a broadcast": (lambda x: (x.broadcast_to((10, 65)) * 2.0).exp().sum(0), ("f32[65]",)),
    "sum of nothing": (lambda x: x.sum(1), ("f32[5, 0]",)),
    "no sums": (lambda x: x.sum(1), ("f32[0, 5]",)),
    "max of a map": (lambda x: (x * x - 1.0).max(1), ("f32[7, 130]",)),
    "argmax": (lambda x: x.argmax(1), ("f32[7, 130]",)),
    "argmin of columns": (lambda x: x.argmin(0), ("f32[130, 8]",)),
    "two reductions": (lambda x: [x.sum(1), x.max(1), x - x.min(1, True)], ("f32[30, 70]",)),
    "any": (lambda x: [(x > 1.0).any(1), (x > 1.0).all(0)], ("f32[30, 70]",)),
    "take": (lambda t, i: t.take(i, 0) * 2.0, ("f32[9, 12]", "i64[7]")),
}


ELSEWHERE = ["ragged", "softmax of odd rows", "softmax of long rows", "softmax of columns", "layer norm", "sum around"]
"""Cases that are cut otherwise on other devices."""


@pytest.mark.parametrize("name", CASES)
def test_forms(name: str) -> None:
    function, specs = CASES[name]
    agree(function, specs)


@pytest.mark.parametrize("target", ["small", "large"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_devices(name: str, target: str) -> None:
    function, specs = CASES[name]
    agree(function, specs, TARGETS[target])


def test_cross_entropy_and_its_gradient() -> None:
    """A row output picks one element of a full value, and full outputs follow two reductions."""

    def both(x: Value, labels: Value) -> list[Value]:
        logs = log_softmax(x)
        column = labels.reshape(13, 1)
        picked = logs.take_along_axis(column, 1)
        one_hot = (column == x.one("iota", shape=(1, 11), axis=1, dtype=i64)).astype("f32")
        return [-picked, logs.exp() - one_hot]

    agree(both, ("f32[13, 11]", "i64[13]"))


SYMBOLIC: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[str, int]]] = {
    "map": (lambda x: x * 2.0 + 1.0, ("f32[b, n]",), {"b": 7, "n": 131}),
    "vectors": (lambda x, c: x * 2.0 + c, ("f32[b, 4*n]", "f32[4*n]"), {"b": 5, "n": 9}),
    "no turns": (lambda x: x * 2.0, ("f32[b, n]",), {"b": 0, "n": 5}),
    "softmax": (softmax, ("f32[b, n]",), {"b": 7, "n": 1300}),
    "rows": (softmax, ("f32[b, 96]",), {"b": 131}),
    "length": (softmax, ("f32[17, n]",), {"n": 3}),
    "layer norm": (layer_norm, ("f32[b, 32]", "f32[32]", "f32[32]"), {"b": 5}),
    "sum": (lambda x: x.sum(), ("f32[b, n]",), {"b": 77, "n": 131}),
    "a small sum": (lambda x: x.sum(), ("f32[n]",), {"n": 3}),
    "sum of nothing": (lambda x: x.sum(1), ("f32[b, n]",), {"b": 3, "n": 0}),
    "columns": (lambda x: x.sum(0), ("f32[b, 24]",), {"b": 1003}),
    "columns of nothing": (lambda x: x.sum(0), ("f32[b, 24]",), {"b": 0}),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_dims(name: str) -> None:
    function, specs, sizes = SYMBOLIC[name]
    agree(function, specs, GENERIC, None, 2e-5, **sizes)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_floats(dtype: str) -> None:
    rtol = TOLERANCE[dtype]
    for shape in ("24, 64", "9, 33"):
        agree(lambda x: [x * 2.0 + x.abs(), softmax(x)], (f"{dtype}[{shape}]",), rtol=rtol)
    agree(lambda x: x.max(0), (f"{dtype}[24, 64]",), rtol=rtol)


@pytest.mark.parametrize("dtype", ["bool", "u8", "i16", "i32", "u32", "i64"])
def test_integers(dtype: str) -> None:
    spec = (f"{dtype}[24, 64]",)
    if as_dtype(dtype).is_bool:
        agree(lambda x: [x.any(1), x.all(0), x ^ x.any(1, True)], spec, rtol=0.0)
    else:
        agree(lambda x: [x.max(1), x.sum(1), x * x - x.min(1, True)], spec, rtol=0.0)


def test_mixed_types() -> None:
    agree(
        lambda x, y, m: [m.where(x, y.astype("f32")), (x * y.astype("f32")).sum(1)],
        ("f32[20, 48]", "bf16[20, 48]", "bool[20, 48]"),
    )


# ---- forms that would not be chosen --------------------------------------------------------------------------------


def changed(**fields: Any) -> Callable[[GroupOp], Schedule]:
    """The chosen schedule with some fields replaced, where the group has reductions."""

    def choose(group: GroupOp) -> Schedule:
        schedule = LOOPS.schedule(group, GENERIC)
        return replace(schedule, **fields) if group.axes else schedule

    return choose


REDUCTIONS = ["softmax of odd columns", "layer norm", "sum", "sum around", "argmin of columns"]


@pytest.mark.parametrize("fields", [{"block": 0, "unroll": 3}, {"block": 0, "split": 3, "unroll": 2}])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_loops_and_splits(name: str, fields: dict[str, int]) -> None:
    function, specs = CASES[name]
    agree(function, specs, choose=changed(**fields))


@pytest.mark.parametrize(("items", "rows"), [(1, 64), (2, 16), (32, 4)])
def test_shapes_of_groups(items: int, rows: int) -> None:
    fields = {"block": 0, "group": items * rows, "rows_per_group": rows}
    for name in ("softmax", "softmax of columns"):
        function, specs = CASES[name]
        agree(function, specs, choose=changed(**fields))


def test_a_schedule_that_does_not_fit() -> None:
    function, specs = CASES["softmax"]
    with pytest.raises(CompilerError, match="does not fit"):
        agree(function, specs, choose=changed(block=1, group=8, rows_per_group=1))


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, (1 << 32) + 1])
def test_an_index_out_of_range_is_noted(wrong: int) -> None:
    runner = Runner(LOOPS, GENERIC)
    module = program(lambda t, i: t.take(i, 0) * 2.0, "f32[9, 12]", "i64[7]")
    indices = np.array([0, 1, wrong, 3, 8, 2, 1], np.int64)
    runner.run(module, [np.ones((9, 12), np.float32), indices], {})
    assert runner.status[0] == 1


# ---- any shape -----------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.data())
def test_reductions_of_any_shape(shape: list[int], data: st.DataObject) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    target = TARGETS[data.draw(st.sampled_from(sorted(TARGETS)))]
    spec = (f"f32[{', '.join(map(str, shape))}]",)
    agree(lambda x: [(x - x.max(axes, True)).exp().sum(axes), x - x.mean(axes, True)], spec, target)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int) -> None:
    specs = ("f32[6, 5]", "f32[5]", "f32[6, 1]")
    agree(random_program(np.random.default_rng(seed), 14), specs, list(TARGETS.values())[seed % 3])
