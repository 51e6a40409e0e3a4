"""The NumPy meaning of ops against values that do not come from the ops: tables, plain loops, published vectors."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.nd.aval import Aval
from firebox.dialects.nd.base import Array, Sample, lookup
from firebox.dialects.nd.ops.random import philox
from firebox.dialects.nd.params import Literal
from firebox.dims import dim
from firebox.errors import DTypeError, FireboxError, IndexRangeError, ShapeError
from tests.op_checks import run_vjp

BF16 = ml_dtypes.bfloat16


def run(name: str, *arrays: Any, **params: Any) -> Any:
    """The single result of an op."""
    return lookup(f"nd.{name}").evaluate_all([np.asarray(a) for a in arrays], params)[0]


def gradients(name: str, *arrays: Any, ct: Any = 1.0, **params: Any) -> list[Array | None]:
    """The vjp rule's values for f64 operands and one cotangent."""
    op = lookup(f"nd.{name}")
    operands = tuple(np.asarray(a) for a in arrays)
    result = op.evaluate_all(operands, params)[0]
    return run_vjp(op, Sample(operands, params), [np.broadcast_to(np.asarray(ct, np.float64), result.shape)])


def i8(*values: int) -> Array:
    return np.array(values, np.int8)


# ---- element-wise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("exp", 1.0, math.e),
        ("expm1", 1e-10, 1.00000000005e-10),
        ("log", 10.0, 2.302585092994046),
        ("log1p", 1e-10, 9.9999999995e-11),
        ("sqrt", 2.0, 1.4142135623730951),
        ("rsqrt", 4.0, 0.5),
        ("sin", 1.0, 0.8414709848078965),
        ("cos", 1.0, 0.5403023058681398),
        ("tanh", 0.5, 0.46211715726000975),
        ("erf", 0.5, 0.5204998778130465),  # DLMF table 7.23
        ("sigmoid", -2.0, 0.11920292202211755),
        ("sign", -0.3, -1.0),
        ("abs", -2.5, 2.5),
        ("round", 2.5, 2.0),
        ("round", -1.5, -2.0),
        ("trunc", -1.7, -1.0),
        ("floor", -1.2, -2.0),
        ("ceil", -1.2, -1.0),
    ],
)
def test_functions_of_one_number(name: str, x: float, expected: float) -> None:
    assert run(name, np.float64(x)) == pytest.approx(expected, rel=1e-15)
    assert run(name, np.float32(x)) == pytest.approx(expected, rel=2e-7)
    assert float(run(name, np.float16(2.0))) == pytest.approx(float(run(name, np.float64(2.0))), rel=1e-3)


def test_sigmoid_and_softmax_do_not_overflow() -> None:
    np.testing.assert_array_equal(run("sigmoid", np.array([-1e4, 0.0, 1e4], np.float32)), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(run("softmax", np.array([1e4, 0.0, -1e4]), axis=0), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(run("log_softmax", np.array([1e4, 0.0]), axis=0), [0.0, -1e4])
    np.testing.assert_allclose(run("softmax", np.log([1.0, 2.0, 5.0]), axis=0), [0.125, 0.25, 0.625], rtol=1e-15)


def test_integers_wrap_and_divide_like_numpy() -> None:
    np.testing.assert_array_equal(run("add", i8(127, -128), i8(1, -1)), i8(-128, 127))
    np.testing.assert_array_equal(run("mul", i8(100), i8(3)), i8(44))
    np.testing.assert_array_equal(run("neg", i8(-128)), i8(-128))
    np.testing.assert_array_equal(run("abs", i8(-128)), i8(-128))
    np.testing.assert_array_equal(
        run("floordiv", i8(7, -7, 7, -7, 5, -128), i8(2, 2, -2, -2, 0, -1)), i8(3, -4, -4, 3, 0, -128)
    )
    np.testing.assert_array_equal(
        run("mod", i8(7, -7, 7, -7, 5, -128), i8(3, 3, -3, -3, 0, -1)), i8(1, 2, -2, -1, 0, 0)
    )
    np.testing.assert_array_equal(run("pow", i8(2, 3, 2, -1, 0), i8(3, 5, -1, -3, 0)), i8(8, -13, 0, -1, 1))
    np.testing.assert_array_equal(run("shift_left", i8(1, 1, 1), i8(3, 8, -1)), i8(8, 0, 0))
    np.testing.assert_array_equal(run("shift_right", i8(-8, -1, 64), i8(1, 9, 7)), i8(-4, -1, 0))


def test_float_division_keeps_the_divisors_sign() -> None:
    a, b = np.array([5.5, -5.5, 5.5, -5.5]), np.array([2.0, 2.0, -2.0, -2.0])
    np.testing.assert_array_equal(run("mod", a, b), [1.5, 0.5, -0.5, -1.5])
    np.testing.assert_array_equal(run("floordiv", a, b), [2.0, -3.0, -3.0, 2.0])
    assert np.isnan(run("mod", 1.0, 0.0))


def test_extremes_propagate_nan() -> None:
    for name in ("max", "min"):
        assert np.isnan(run(name, np.nan, 1.0))
        assert np.isnan(run(name, 1.0, np.nan))
        assert np.isnan(run(f"reduce_{name}", np.array([1.0, np.nan]), axes=(0,), keepdims=False))


def test_narrow_floats_compute_in_f32() -> None:
    a, b = np.float16(0.1), np.float16(3.0)
    assert run("mul", a, b) == np.float16(np.float32(a) * np.float32(b))
    ones = np.ones(4096, np.float16)
    assert run("reduce_sum", ones, axes=(0,), keepdims=False) == 4096  # f16 alone stops at 2048
    assert run("reduce_sum", ones.astype(BF16), axes=(0,), keepdims=False) == 4096  # bf16 alone stops at 256
    assert run("cumsum", ones, axis=0, reverse=False)[-1] == 4096
    spec: dict[str, Any] = {"spec": "k, k -> ", "sizes": (4096,)}
    assert run("contract", ones, ones, **spec) == 4096


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf], np.float32), "i8", [1, -1, 127, -128, 0, 127]),
        (np.array([-1.0, 3e9, 5e9], np.float32), "u32", [0, 3000000000, 4294967295]),
        (np.array([1e19, -1e19, 2.0**63], np.float64), "i64", [2**63 - 1, -(2**63), 2**63 - 1]),
        (np.array([2.0**64, 1.8e19], np.float64), "u64", [2**64 - 1, 18000000000000000000]),
        (np.array([257, -1, 128], np.int32), "i8", [1, -1, -128]),
        (np.array([-1], np.int32), "u16", [65535]),
        (np.array([0.0, -0.0, 0.1, np.nan], np.float32), "bool", [False, False, True, True]),
        (np.array([True, False], np.bool_), "f32", [1.0, 0.0]),
        (np.array([1.00390625, 65520.0], np.float32), "f16", [1.00390625, np.inf]),
        (np.array([1.00390625, 1.01171875], np.float32), "bf16", [1.0, 1.015625]),  # ties to even
    ],
)
def test_casts(source: Array, target: str, expected: list[Any]) -> None:
    dtype = dtypes.as_dtype(target)
    found = run("cast", source, dtype=dtype)
    assert found.dtype == dtype.numpy
    assert found.tolist() == expected


def test_bits() -> None:
    assert int(run("bitcast", np.float32(1.0), dtype=dtypes.u32)) == 0x3F800000
    assert int(run("bitcast", np.float16(-2.0), dtype=dtypes.u16)) == 0xC000
    assert float(run("bitcast", np.uint16(0x3F80), dtype=dtypes.bf16)) == 1.0


# ---- reductions, scans, sorting ----------------------------------------------------------------------------------


def test_arg_reductions_take_the_first() -> None:
    x = np.array([[1.0, 3.0, 3.0], [np.nan, 5.0, np.nan], [-np.inf, -np.inf, -np.inf]])
    np.testing.assert_array_equal(run("argmax", x, axes=(1,), keepdims=False), [1, 0, 0])
    np.testing.assert_array_equal(run("argmin", x, axes=(1,), keepdims=False), [0, 0, 0])
    np.testing.assert_array_equal(run("argmax", np.array([False, True, True]), axes=(0,), keepdims=False), 1)


def test_nothing_reduces_to_the_identity() -> None:
    empty = np.zeros((0, 2), np.float32)
    np.testing.assert_array_equal(run("reduce_sum", empty, axes=(0,), keepdims=False), [0.0, 0.0])
    np.testing.assert_array_equal(run("reduce_prod", empty, axes=(0,), keepdims=True), [[1.0, 1.0]])
    assert not run("reduce_any", np.zeros(0, bool), axes=(0,), keepdims=False)
    assert run("reduce_all", np.zeros(0, bool), axes=(0,), keepdims=False)


def test_scans_in_both_directions() -> None:
    x = np.array([1, 3, 2, 5, 4], np.int32)
    np.testing.assert_array_equal(run("cumsum", x, axis=0, reverse=True), [15, 14, 11, 9, 4])
    np.testing.assert_array_equal(run("cumprod", x, axis=0, reverse=False), [1, 3, 6, 30, 120])
    np.testing.assert_array_equal(run("cummax", x, axis=0, reverse=False), [1, 3, 3, 5, 5])
    np.testing.assert_array_equal(run("cummin", x, axis=0, reverse=True), [1, 2, 2, 4, 4])


def test_sorting_is_stable_with_nan_last() -> None:
    x = np.array([2.0, np.nan, 1.0, 2.0, -np.inf, 1.0])
    sort = lookup("nd.sort")
    values, order = sort.evaluate_all([x], {"axis": 0, "descending": False})
    np.testing.assert_array_equal(values, [-np.inf, 1.0, 1.0, 2.0, 2.0, np.nan])
    np.testing.assert_array_equal(order, [4, 2, 5, 0, 3, 1])
    values, order = sort.evaluate_all([x], {"axis": 0, "descending": True})
    np.testing.assert_array_equal(values, [2.0, 2.0, 1.0, 1.0, -np.inf, np.nan])
    np.testing.assert_array_equal(order, [0, 3, 2, 5, 4, 1])
    lowest = sort.evaluate_all([i8(0, -128, 127)], {"axis": 0, "descending": True})[0]
    np.testing.assert_array_equal(lowest, i8(127, 0, -128))


# ---- movement and indexing ---------------------------------------------------------------------------------------


def test_windows_by_hand() -> None:
    geometry = {"axes": (0,), "sizes": (2,), "strides": (2,), "dilations": (3,), "low": (1,), "high": (1,)}
    minus = Literal.of(np.asarray(-1.0))
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    windows = run("window", x, value=minus, **geometry)
    np.testing.assert_array_equal(windows, [[-1.0, 3.0], [2.0, 5.0]])
    folded = run("fold_window", np.array([[10.0, 1.0], [20.0, 2.0]]), shape=(5,), **geometry)
    np.testing.assert_array_equal(folded, [0.0, 20.0, 1.0, 0.0, 2.0])


def test_scatter_adds_every_time_an_index_occurs() -> None:
    x, indices = np.zeros((2, 3)), np.array([2, 0, 2])
    updates = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    found = run("scatter_add", x, indices, updates, axis=1)
    np.testing.assert_array_equal(found, [[2.0, 0.0, 4.0], [20.0, 0.0, 40.0]])
    # In the order of the indices: 1e8 - 1e8 + 1 is 1 in f32, 1 + 1e8 - 1e8 would be 0.
    ordered = run(
        "scatter_add", np.zeros(1, np.float32), np.array([0, 0, 0]), np.array([1e8, -1e8, 1.0], np.float32), axis=0
    )
    np.testing.assert_array_equal(ordered, [1.0])


def test_gather_puts_the_indices_dims_in_place() -> None:
    x = np.arange(24).reshape(2, 4, 3)
    indices = np.array([[3, 0], [1, 1]])
    found = run("gather", x, indices, axis=1)
    assert found.shape == (2, 2, 2, 3)
    np.testing.assert_array_equal(found[1, 0, 1], x[1, 0])
    np.testing.assert_array_equal(found[0, 1, 0], x[0, 1])


@pytest.mark.parametrize("bad", [-1, 3])
def test_indices_out_of_range_are_errors(bad: int) -> None:
    x, indices = np.zeros((3, 2)), np.array([0, bad])
    for name, operands in (
        ("gather", (x, indices)),
        ("take_along_axis", (x, indices[:, None])),
        ("scatter_add", (x, indices, np.zeros((2, 2)))),
    ):
        with pytest.raises(IndexRangeError) as caught:
            run(name, *operands, axis=0)
        assert (caught.value.op, caught.value.found) == (name, bad)


def test_flat_buffers() -> None:
    flat = np.arange(10.0)
    np.testing.assert_array_equal(run("view", flat, offset=(4,), shape=(2, 2)), [[4.0, 5.0], [6.0, 7.0]])
    packed = run("pack", np.array([[1.0, 2.0]]), np.array(3.0), offsets=(3, 1), size=6)
    np.testing.assert_array_equal(packed, [0.0, 3.0, 0.0, 1.0, 2.0, 0.0])


# ---- random bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Random123, tests/kat_vectors: philox4x32 10
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]) -> None:
    words = philox([np.uint64(c) for c in counter], [np.uint64(k) for k in key])
    assert tuple(int(w) for w in words) == expected


def test_random_bits_are_the_blocks_in_order() -> None:
    key = np.zeros(2, np.uint64)
    assert run("random_bits", key, shape=(3,), offset=0).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C]
    all_ones = np.array([2**64 - 1, 2**64 - 4], np.uint64)
    counter = np.uint64(2**64 - 1)
    block = philox(
        [counter & np.uint64(0xFFFFFFFF), counter >> np.uint64(32), np.uint64(0), np.uint64(0)],
        [np.uint64(0xFFFFFFFF)] * 2,
    )
    assert run("random_bits", all_ones, shape=(2, 2), offset=3).reshape(-1).tolist() == [int(w) for w in block]
    long = run("random_bits", key, shape=(12,), offset=5)
    np.testing.assert_array_equal(run("random_bits", key, shape=(4,), offset=6), long[4:8])
    np.testing.assert_array_equal(run("random_bits", np.array([0, 6], np.uint64), shape=(4,), offset=0), long[4:8])


# ---- gradients where it matters ----------------------------------------------------------------------------------


def test_gradients_at_kinks() -> None:
    np.testing.assert_array_equal(gradients("abs", np.array([-2.0, 0.0, 3.0]))[0], [-1.0, 0.0, 1.0])
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])
    for name, left in (("max", [0.0, 0.5, 1.0]), ("min", [1.0, 0.5, 0.0])):
        found = gradients(name, a, b)
        np.testing.assert_array_equal(found[0], left)
        np.testing.assert_array_equal(found[1], 1.0 - np.array(left))


def test_extreme_reductions_share_evenly() -> None:
    x = np.array([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    (found,) = gradients("reduce_max", x, ct=np.array([1.0, 6.0]), axes=(1,), keepdims=False)
    np.testing.assert_array_equal(found, [[0.5, 0.0, 0.5], [2.0, 2.0, 2.0]])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
        ([2.0, 0.0, 4.0], [0.0, 8.0, 0.0]),
        ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
        ([0.0], [1.0]),
    ],
)
def test_product_gradient_at_zeros(x: list[float], expected: list[float]) -> None:
    (found,) = gradients("reduce_prod", np.array(x), axes=(0,), keepdims=False)
    np.testing.assert_array_equal(found, expected)


def test_cumprod_gradient_at_zeros() -> None:
    x, ct = np.array([2.0, 0.0, 3.0, 0.0, 5.0]), np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    (found,) = gradients("cumprod", x, ct=ct, axis=0, reverse=False)
    jacobian = np.zeros((5, 5))  # d y_j / d x_i: the product of x_0..x_j without x_i
    for i in range(5):
        for j in range(i, 5):
            jacobian[i, j] = np.prod([x[k] for k in range(j + 1) if k != i])
    np.testing.assert_array_equal(found, jacobian @ ct)


def test_cummax_gradient_goes_to_the_latest() -> None:
    x, ct = np.array([2.0, 1.0, 2.0, 0.0]), np.array([1.0, 2.0, 4.0, 8.0])
    (found,) = gradients("cummax", x, ct=ct, axis=0, reverse=False)
    np.testing.assert_array_equal(found, [3.0, 0.0, 12.0, 0.0])
    (back,) = gradients("cummin", np.array([0.0, 2.0, 1.0, 2.0, 1.0]), ct=1.0, axis=0, reverse=True)
    np.testing.assert_array_equal(back, [1.0, 0.0, 2.0, 0.0, 2.0])


def test_power_gradient_at_zero_and_below() -> None:
    bases, exponents = np.array([0.0, 0.0, 0.0, -2.0, -2.0]), np.array([2.0, 1.0, 0.0, 3.0, 2.0])
    by_base, by_exponent = gradients("pow", bases, exponents)
    np.testing.assert_array_equal(by_base, [0.0, 1.0, 0.0, 12.0, -4.0])
    assert by_exponent is not None
    np.testing.assert_array_equal(by_exponent[:3], [0.0, 0.0, 0.0])
    assert np.isnan(by_exponent[3:]).all()


def test_integer_operands_have_no_gradient() -> None:
    x, indices = np.arange(6.0).reshape(3, 2), np.array([0, 2, 2])
    found = gradients("gather", x, indices, axis=0)
    np.testing.assert_array_equal(found[0], [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    assert found[1] is None
    assert gradients("cast", np.arange(3), dtype=dtypes.f64) == [None]


# ---- errors ------------------------------------------------------------------------------------------------------

F32, I32, BOOL = dtypes.f32, dtypes.i32, dtypes.bool_


@pytest.mark.parametrize(
    ("name", "avals", "params", "error", "words"),
    [
        ("add", (Aval(F32, (2,)), Aval(I32, (2,))), {}, DTypeError, ["add", "f32 and i32", "astype"]),
        ("add", (Aval(F32, (2, 3)), Aval(F32, (2, 4))), {}, ShapeError, ["add", "(2, 3) and (2, 4)", "dim -1"]),
        ("mul", (Aval(F32, (dim("n"),)), Aval(F32, (4,))), {}, ShapeError, ["mul", "(n) and (4)"]),
        ("exp", (Aval(I32, ()),), {}, DTypeError, ["exp", "f16, bf16, f32, f64", "i32", "astype"]),
        ("sub", (Aval(BOOL, ()), Aval(BOOL, ())), {}, DTypeError, ["sub", "bool"]),
        ("div", (Aval(I32, ()), Aval(I32, ())), {}, DTypeError, ["div", "i32"]),
        ("select", (Aval(F32, ()), Aval(F32, ()), Aval(F32, ())), {}, DTypeError, ["select", "bool", "f32"]),
        ("bitcast", (Aval(F32, ()),), {"dtype": dtypes.i64}, DTypeError, ["bitcast", "4 bytes", "i64"]),
        (
            "reduce_sum",
            (Aval(F32, (2,)),),
            {"axes": (1,), "keepdims": False},
            IndexRangeError,
            ["reduce_sum", "axis < 1"],
        ),
        ("reduce_max", (Aval(F32, (0,)),), {"axes": (0,), "keepdims": False}, ShapeError, ["reduce_max", "f32[0]"]),
        ("reduce_sum", (Aval(F32, (2, 2)),), {"axes": (0, 0), "keepdims": False}, ShapeError, ["reduce_sum", "twice"]),
        ("argmax", (Aval(F32, (2, 2)),), {"axes": (0, 1), "keepdims": False}, ShapeError, ["argmax", "1 axis"]),
        ("reshape", (Aval(F32, (2, 3)),), {"shape": (4,)}, ShapeError, ["reshape", "6 elements", "(4)"]),
        ("transpose", (Aval(F32, (2, 3)),), {"permutation": (0, 0)}, ShapeError, ["transpose", "permutation"]),
        ("broadcast_to", (Aval(F32, (2,)),), {"shape": (2, 3)}, ShapeError, ["broadcast_to", "(2)", "(2, 3)"]),
        (
            "slice",
            (Aval(F32, (5,)),),
            {"start": (2,), "stop": (6,), "step": (1,)},
            ShapeError,
            ["slice", "axis 0", "stop 6", "size 5"],
        ),
        (
            "pad",
            (Aval(F32, (5,)),),
            {"low": (0,), "high": (1,), "value": Literal.of(np.asarray(1))},
            DTypeError,
            ["pad", "f32 literal", "i64 1"],
        ),
        ("concat", (Aval(F32, (2, 3)), Aval(F32, (3, 3))), {"axis": 1}, ShapeError, ["concat", "dim 0", "(3, 3)"]),
        ("gather", (Aval(F32, (2,)), Aval(F32, (2,))), {"axis": 0}, DTypeError, ["gather", "i64", "f32"]),
        (
            "scatter_add",
            (Aval(F32, (4, 2)), Aval(I32, (3,)), Aval(F32, (2, 2))),
            {"axis": 0},
            ShapeError,
            ["scatter_add", "(3, 2)", "(2, 2)"],
        ),
        ("view", (Aval(F32, (5,)),), {"offset": (3,), "shape": (3,)}, ShapeError, ["view", "within 5", "3 to 6"]),
        (
            "pack",
            (Aval(F32, (3,)), Aval(F32, (3,))),
            {"offsets": (0, 2), "size": 9},
            ShapeError,
            ["pack", "overlap", "f32[3] at 2"],
        ),
        ("random_bits", (Aval(dtypes.u64, (3,)),), {"shape": (2,), "offset": 0}, ShapeError, ["random_bits", "(3)"]),
        ("softmax", (Aval(I32, (3,)),), {"axis": 0}, DTypeError, ["softmax", "i32"]),
    ],
)
def test_errors_say_what_is_wrong(
    name: str, avals: tuple[Aval, ...], params: dict[str, Any], error: type[FireboxError], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        lookup(f"nd.{name}").result_avals(avals, params)
    text = str(caught.value)
    assert [w for w in words if w not in text] == []
