"""Canonicalize: every pattern on its own, what must not be merged or folded, and random programs before and after."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, i64

from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.value import Value
from firebox.dialects.xdsl_compat import file_location, location_text
from firebox.dtypes import as_dtype
from firebox.lowering import patterns
from firebox.lowering.canonicalize import CanonicalizePass, canonicalize
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.patterns import Rewriter, pattern
from firebox.lowering.simplify_algebra import holds_all
from tests.lowering.ir_tools import (
    Function,
    arrays,
    aval,
    check_pass,
    checkpoint,
    f64,
    here,
    module,
    names,
    number,
    ops,
    parse,
)
from tests.programs import program

SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])


def simplified(function: Function, *avals: Aval) -> list[str]:
    """Names of the ops left; the pass is also checked for validity, meaning and idempotence on special values."""
    program = module(function, *avals)
    inputs = []
    for a in avals:
        shape = tuple(d for d in a.shape if isinstance(d, int))
        values = np.resize(SPECIAL if a.dtype.is_float else np.array([0, 1, -3, 100]), shape)
        inputs.append(values.astype(a.dtype.numpy))
    return names(check_pass(canonicalize, program, inputs))


X = f64(7)
N = aval("i32", 7)
B = aval("bool", 7)

GONE: dict[str, tuple[Function, Aval]] = {
    "x + -0.0": (lambda x: x + -0.0, X),
    "-0.0 + x": (lambda x: -0.0 + x, X),
    "n + 0": (lambda n: n + 0, N),
    "x - 0.0": (lambda x: x - 0.0, X),
    "x * 1": (lambda x: x * 1.0, X),
    "1 * n": (lambda n: 1 * n, N),
    "x * ones": (lambda x: x * number(1.0).broadcast_to((7,)), X),
    "x / 1": (lambda x: x / 1.0, X),
    "n // 1": (lambda n: n // 1, N),
    "--x": (lambda x: x.one("neg", -x), X),
    "not not b": (lambda b: ~~b, B),
    "~~n": (lambda n: ~~n, N),
    "x ** 1": (lambda x: x.one("pow", x, number(1.0)), X),
    "select true": (lambda x: number(True, "bool").where(x, x * 2.0), X),
    "select false": (lambda x: number(False, "bool").where(x * 2.0, x), X),
    "select x x": (lambda x: (x > 0.0).where(x, x), X),
    "cast to same": (lambda x: x.one("cast", x, dtype=x.dtype), X),
    "cast there and back": (lambda n: n.astype("f64").astype("i32"), N),
    "transpose twice": (lambda x: x.transpose(1, 2, 0).transpose(2, 0, 1), f64(2, 3, 4)),
    "transpose by nothing": (lambda x: x.one("transpose", x, permutation=(0, 1)), f64(2, 3)),
    "reshape there and back": (lambda x: x.reshape((6,)).reshape((2, 3)), f64(2, 3)),
    "broadcast to itself": (lambda x: x.one("broadcast_to", x, shape=(7,)), X),
    "slice of all": (lambda x: x.one("slice", x, start=(0,), stop=(7,), step=(1,)), X),
    "pad by nothing": (lambda x: x.one("pad", x, low=(0,), high=(0,), value=Literal.of(np.ones(()))), X),
    "concat of one": (lambda x: x.one("concat", x, axis=0), X),
    "concat with nothing": (lambda x: x.one("concat", x, x.slice((0,), (0,)), axis=0), X),
    "flip twice": (lambda x: x.flip(0).flip(0), X),
    "flip of one": (lambda x: x.flip(0), f64(1, 3)),
    "stop_gradient": (lambda x: x.one("stop_gradient", x), X),
    "dead code": (lambda x: (x.exp(), x)[1], X),
}


@pytest.mark.parametrize("case", GONE)
def test_what_changes_nothing_goes(case: str) -> None:
    function, shape = GONE[case]
    assert simplified(function, shape) == []


SMALLER: dict[str, tuple[Function, Aval, list[str]]] = {
    "x * -1": (lambda x: x * -1.0, X, ["neg"]),
    "0 - n": (lambda n: 0 - n, N, ["neg"]),
    "n * 0": (lambda n: n * 0, N, ["constant", "broadcast_to"]),
    "|-x|": (lambda x: (-x).abs(), X, ["abs"]),
    "||x||": (lambda x: x.abs().abs(), X, ["abs"]),
    "x ** 0": (lambda x: x.one("pow", x, number(0.0)), X, ["constant", "broadcast_to"]),
    "x ** 2": (lambda x: x.one("pow", x, number(2.0)), X, ["mul"]),
    "x ** -1": (lambda x: x.one("pow", x, number(-1.0)), X, ["constant", "div"]),
    "select not b": (lambda x: (~x.isnan()).where(x, 0.0), X, ["isnan", "constant", "select"]),
    "casts": (lambda n: n.astype("i64").astype("f64"), N, ["cast"]),
    "transposes": (lambda x: x.transpose(1, 2, 0).transpose(1, 0, 2), f64(2, 3, 4), ["transpose"]),
    "transpose of ones": (lambda x: x.transpose(1, 0, 2), f64(1, 3, 2), ["reshape"]),
    "reshapes": (lambda x: x.reshape((6, 4)).reshape((24,)), f64(2, 3, 4), ["reshape"]),
    "broadcasts": (lambda x: x.broadcast_to((2, 7)).broadcast_to((3, 2, 7)), X, ["broadcast_to"]),
    "broadcast of reshape": (lambda x: x.expand_dims(0).broadcast_to((3, 7)), X, ["broadcast_to"]),
    "sum of ones": (lambda x: x.sum((0, 2)), f64(1, 3, 1), ["reshape"]),
    "max of ones": (lambda x: x.max(0, keepdims=True), f64(1, 3), []),
    "broadcast later": (lambda x: x.broadcast_to((3, 7)).exp(), X, ["exp", "broadcast_to"]),
    "move of a number": (
        lambda x: x + number(2.5).broadcast_to((7, 1)).transpose().reshape((7,)),
        X,
        ["constant", "add"],
    ),
    "equal ops": (lambda x: x.exp() + x.exp(), X, ["exp", "add"]),
    "equal up to order": (lambda x: (x + x.exp()) - (x.exp() + x), X, ["exp", "add", "sub"]),
    "equal constants": (lambda x: x * 3.0 + 3.0, X, ["constant", "mul", "add"]),
}


@pytest.mark.parametrize("case", SMALLER)
def test_what_becomes_simpler(case: str) -> None:
    function, shape, left = SMALLER[case]
    assert simplified(function, shape) == left


KEPT: dict[str, tuple[Function, Aval, list[str]]] = {
    "x + 0.0, which makes -0.0 positive": (lambda x: x + 0.0, X, ["constant", "add"]),
    "x * 0.0, for NaN": (lambda x: x * 0.0, X, ["constant", "mul"]),
    "x - x, for NaN": (lambda x: x - x, X, ["sub"]),
    "0.0 - x": (lambda x: 0.0 - x, X, ["constant", "sub"]),
    "x // 1.0": (lambda x: x // 1.0, X, ["constant", "floordiv"]),
    "casts that lose": (lambda x: x.astype("f32").astype("f64"), X, ["cast", "cast"]),
    "a wrapping cast": (lambda n: n.astype("i8").astype("i32"), N, ["cast", "cast"]),
    "max in another order": (lambda x: x.maximum(x.abs()) - x.abs().maximum(x), X, ["abs", "max", "max", "sub"]),
    "a broadcast constant": (lambda x: (number(2.0).broadcast_to((7,)), x)[0], X, ["constant", "broadcast_to"]),
    "ops that do not broadcast": (
        lambda x: x.one("concat", x.broadcast_to((2, 7)), x.broadcast_to((3, 7)), axis=0),
        X,
        ["broadcast_to", "broadcast_to", "concat"],
    ),
    "a row of a broadcast": (
        lambda x: x.broadcast_to((2, 7)).take(x.literal(1, as_dtype("i64")), 0),
        X,
        ["broadcast_to", "constant", "gather"],
    ),
    "an iota": (lambda x: x + x.one("iota", shape=(7,), axis=0, dtype=x.dtype), X, ["iota", "add"]),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_must_stay(case: str) -> None:
    function, shape, left = KEPT[case]
    assert simplified(function, shape) == left


def test_the_cube_in_a_storage_type_is_not_a_product() -> None:
    def cube(x: Value) -> Value:
        return x.one("pow", x, number(3.0, x.dtype.name))

    assert simplified(cube, f64(4)) == ["mul", "mul"]
    assert simplified(cube, aval("bf16", 4)) == ["constant", "pow"]


def test_constants_fold() -> None:
    program = module(lambda x: x + (number(2.0) * 3.0).exp() + number(1.0).astype("f64"), f64(3))
    after = check_pass(canonicalize, program, arrays(0, f64(3)))
    values = [op.values["value"].array() for op in ops(after, "constant")]
    assert [float(v) for v in values] == [float(np.exp(6.0)), 1.0]
    assert names(after) == ["constant", "add", "constant", "add"]


def test_a_static_dim_size_folds() -> None:
    program = module(lambda x: x + x.size_of(7), f64(7))
    after = check_pass(canonicalize, program, arrays(0, f64(7)))
    assert names(after) == ["constant", "add"]


def test_results_that_are_large_or_larger_than_their_operands_are_not_folded() -> None:
    row = Literal.of(np.arange(40.0))
    big = Literal.of(np.arange(2000.0))

    def function(x: Value) -> list[Value]:
        a = x.one("constant", value=row)
        b = x.one("constant", value=big)
        return [a.reshape((40, 1)) * a, b.exp() + x]

    after = check_pass(canonicalize, module(function, f64()), arrays(0, f64()))
    assert names(after) == ["constant", "constant", "constant", "mul", "exp", "add"]


def test_symbolic_shapes_are_simplified_too() -> None:
    program = parse("""
    func.func @main(%x: tensor<?x3xf64, #nd.dims<"b, 3">>) -> tensor<?x3xf64, #nd.dims<"b, 3">> {
      %one = nd.constant {value = #nd.literal<"f64 1.0">} : () -> tensor<f64>
      %full = nd.broadcast_to %one {shape = #nd.dims<"b, 3">} : (tensor<f64>) -> tensor<?x3xf64, #nd.dims<"b, 3">>
      %y = nd.mul %x, %full :
        (tensor<?x3xf64, #nd.dims<"b, 3">>, tensor<?x3xf64, #nd.dims<"b, 3">>) -> tensor<?x3xf64, #nd.dims<"b, 3">>
      %flat = nd.reshape %y {shape = #nd.dims<"3*b">} :
        (tensor<?x3xf64, #nd.dims<"b, 3">>) -> tensor<?xf64, #nd.dims<"3*b">>
      %back = nd.reshape %flat {shape = #nd.dims<"b, 3">} :
        (tensor<?xf64, #nd.dims<"3*b">>) -> tensor<?x3xf64, #nd.dims<"b, 3">>
      func.return %back : tensor<?x3xf64, #nd.dims<"b, 3">>
    }
    """)
    assert names(check_pass(canonicalize, program, [np.ones((2, 3))])) == []


def test_recomputed_ops_are_not_merged_with_the_first_ones() -> None:
    program = module(lambda x: x.exp() + x.one("exp", x) * x.one("exp", x), f64(3))
    first, *rest = ops(program, "exp")
    assert rest == []  # written once: the writer shares equal ops
    copy = first.clone()
    copy.attributes["recompute"] = IntegerAttr(1, i64)
    other = copy.clone()
    block = program.body.block.first_op.regions[0].block  # type: ignore[union-attr]
    block.insert_op_after(copy, first)
    block.insert_op_after(other, copy)
    ops(program, "mul")[0].operands[0] = copy.results[0]
    ops(program, "mul")[0].operands[1] = other.results[0]
    after = check_pass(canonicalize, program, arrays(0, f64(3)))
    assert names(after) == ["exp", "exp", "mul", "add"]


def test_a_simplified_recomputed_op_keeps_its_mark() -> None:
    program = module(lambda x: x.one("pow", x, number(2.0)), f64(3))
    ops(program, "pow")[0].attributes["recompute"] = IntegerAttr(5, i64)
    canonicalize(program)
    assert ops(program, "mul")[0].attributes["recompute"] == IntegerAttr(5, i64)


def test_nothing_is_merged_across_the_border_of_a_region() -> None:
    program = module(lambda x: [x.exp(), *checkpoint(lambda a: here(x).exp() + here(x).exp() * a * 1.0, x)], f64(3))
    canonicalize(program)
    assert names(program) == ["exp", "checkpoint", "exp", "mul", "add", "yield"]


def test_stop_gradient_stays_inside_transforms() -> None:
    program = module(lambda x: checkpoint(lambda a: a.one("stop_gradient", a), x), f64(3))
    canonicalize(program)
    assert names(program) == ["checkpoint", "stop_gradient", "yield"]


def test_new_ops_have_the_location_of_the_old() -> None:
    program = module(lambda x: x.one("pow", x, number(3.0)), f64(3))
    ops(program, "pow")[0].location = file_location("model.py", 5)
    canonicalize(program)
    assert [location_text(op.location) for op in ops(program)] == ["model.py:5", "model.py:5"]


def test_patterns_of_plugins_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_PATTERNS", {k: [*v] for k, v in patterns._PATTERNS.items()})

    @pattern("nd.sin")
    def odd(op: NdOp, rw: Rewriter) -> Value | None:
        inner = patterns.defined_by(op.operands[0], "nd.neg")
        return None if inner is None else -rw.value(inner.operands[0]).sin()

    assert simplified(lambda x: (-x).sin(), f64(3)) == ["sin", "neg"]


def test_patterns_that_never_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_PATTERNS", {})

    @pattern("nd.sub")
    def swap(op: NdOp, rw: Rewriter) -> Value:
        return rw.operand(1) - rw.operand(0)

    program = module(lambda x, y: x - y, f64(3), f64(3))
    CanonicalizePass(max_sweeps=3).apply(None, program)  # type: ignore[arg-type]
    assert names(program) == ["sub"]
    assert [a.name_hint for a in ops(program, "sub")[0].operands] == [None, None]


def test_golden() -> None:
    program = parse("""
    func.func @main(%x: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
      %two = nd.constant {value = #nd.literal<"f32 2.0">} : () -> tensor<f32>
      %half = nd.constant {value = #nd.literal<"f32 0.5">} : () -> tensor<f32>
      %one = nd.mul %two, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %wide = nd.broadcast_to %b {shape = #nd.dims<"3, 4">} : (tensor<4xf32>) -> tensor<3x4xf32>
      %s = nd.add %x, %wide : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      %t = nd.mul %s, %one : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
      %u = nd.pow %t, %two : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
      func.return %u : tensor<3x4xf32>
    }
    """)
    after = check_pass(canonicalize, program, arrays(0, aval("f32", 3, 4), aval("f32", 4)))
    assert (
        str(after)
        == """\
builtin.module {
  func.func @main(%x: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
    %s = nd.add %x, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    %u = nd.mul %s, %s : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    func.return %u : tensor<3x4xf32>
  }
}"""
    )


@pytest.mark.parametrize("source", ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("target", ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "f16", "bf16", "f32", "f64"])
def test_a_type_that_holds_all_values_of_another_gives_them_back(source: str, target: str) -> None:
    a, b = as_dtype(source), as_dtype(target)
    if a.is_float:
        values = np.array([0.0, 1.0, -1.5, 2.0**-14, 2.0**15, -(2.0**15), 1 + 2.0**-7, 1 + 2.0**-10, 1 + 2.0**-20])
        values = np.append(values, [1e38, 1e300, 1e-300])
    else:
        limits = np.iinfo(a.long) if a.is_int else None
        values = np.array([0, 1]) if limits is None else np.array([0, 1, limits.max, limits.min, limits.max - 1])
    with np.errstate(all="ignore"):
        values = values.astype(a.numpy)
        values = values[np.isfinite(values.astype(np.float64))]
        there = values.astype(b.numpy)
        kept = bool((there.astype(a.numpy) == values).all() and (there.astype(np.longdouble) == values).all())
    assert holds_all(a, b) == kept


# ---- random programs ---------------------------------------------------------------------------------------------

SHAPES: tuple[tuple[int, ...], ...] = ((), (4,), (3, 1), (3, 4), (1, 4))
BINARY = ("add", "sub", "mul", "max", "min")
FLOAT_UNARY = ("neg", "abs", "exp", "sin", "sign", "floor")
INT_UNARY = ("neg", "abs", "bitwise_not")
CONSTANTS = (0, 1, -1, 2, 3)

Step = tuple[int, int, int, int]
STEPS = st.lists(st.tuples(*[st.integers(0, 63)] * 4), min_size=1, max_size=14)


def random_program(steps: list[Step]) -> Callable[..., list[Value]]:
    """A program over a growing pool of values of one type; each step picks an op and operands by number."""

    def function(*inputs: Value) -> list[Value]:
        pool = list(inputs)
        for which, a, b, c in steps:
            x, y = pool[a % len(pool)], pool[b % len(pool)]
            pool.append(_step(which % 12, x, y, c))
        return pool[-3:]

    return function


def _step(which: int, x: Value, y: Value, c: int) -> Value:
    is_float = x.dtype.is_float
    unary = FLOAT_UNARY if is_float else INT_UNARY
    if which < 4:
        return x.one(BINARY[c % len(BINARY)], x, y)
    if which < 6:
        return x.one(BINARY[c % 3], x, x.literal(CONSTANTS[c % len(CONSTANTS)]))
    if which == 6:
        return x.one(unary[c % len(unary)], x)
    if which == 7:
        return x.broadcast_to((3, 4)) if c % 2 else x.literal(CONSTANTS[c % len(CONSTANTS)]).broadcast_to((3, 4))
    if which == 8:
        return x.transpose().transpose() if c % 2 else x.reshape((x.size,)).reshape(x.shape)
    if which == 9:
        return (x < y).where(x, y) if c % 2 else (~(x == x)).where(x.broadcast_to((3, 4)), y)
    if which == 10:
        return x.sum(axis=0, keepdims=True).astype(x.dtype) if x.rank == 2 else x
    return x.astype(("i64", "f32", "f64", "i8")[c % 4]).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["f64", "i32"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=STEPS)
def test_random_programs_mean_the_same_afterwards(dtype: str, steps: list[Step]) -> None:
    avals = [aval(dtype, *shape) for shape in SHAPES]
    program = module(random_program(steps), *avals)
    inputs = arrays(len(steps), *avals)
    inputs[1][:2] = [0, -0.0]
    check_pass(canonicalize, program, inputs)


def test_windows_without_overlap_fold_by_moving() -> None:
    geometry = {
        "axes": (1, 2),
        "sizes": (2, 3),
        "strides": (2, 3),
        "dilations": (1, 1),
        "low": (0, 0),
        "high": (0, 0),
    }

    def function(x: Value) -> Value:
        return x.one("fold_window", x, shape=(5, 4, 9), **geometry)

    module = program(function, "f32[5, 2, 3, 2, 3]")
    x = np.random.default_rng(0).standard_normal((5, 2, 3, 2, 3)).astype(np.float32)
    expected = interpret(main_function(module), [x])
    canonicalize(module)
    names = [op.name for op in main_function(module).body.block.ops]
    assert names == ["nd.transpose", "nd.reshape", "func.return"]
    np.testing.assert_array_equal(interpret(main_function(module), [x])[0], expected[0])


def test_a_part_of_a_broadcast_array_keeps_its_rank() -> None:
    """The bounds of a slice belong to the shape that was broadcast to, also where they begin at 0."""
    program = module(lambda x: x.broadcast_to((2, 3)).slice((0, 0), (1, 3)) * 2.0, f64(3))
    check_pass(canonicalize, program, [np.array([1.0, 2.0, 3.0])])
