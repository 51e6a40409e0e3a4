"""Tensors as users hold them: making, reading, converting, operators; expected values are NumPy's."""

import copy
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError
from tests.frontend.conftest import host_only

pytestmark = pytest.mark.usefixtures("frontend")


def same(found: fb.Tensor, expected: np.ndarray) -> None:
    """Equal in type, shape and every bit but the sign of NaN."""
    array = found.numpy()
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)


# ---- making ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, fb.float32),
        (3, fb.int64),
        (True, fb.bool),
        ([1, 2], fb.int64),
        ([[1.0, 2], [3, 4]], fb.float32),
        ([True, False], fb.bool),
        ([], fb.float32),
        (np.float64(2.0), fb.float64),
        (np.arange(3, dtype=np.int16), fb.int16),
        (np.zeros((0, 3), np.float16), fb.float16),
        (np.ones(2, ml_dtypes.bfloat16), fb.bfloat16),
        (np.ones(2, ">f4"), fb.float32),
    ],
)
def test_tensor_takes_the_element_type_of_its_data(data: object, dtype: fb.DType) -> None:
    x = fb.tensor(data)
    assert x.dtype is dtype
    np.testing.assert_array_equal(x.numpy(), np.asarray(data).astype(dtype.numpy))


def test_tensor_casts_to_the_type_asked_for() -> None:
    same(fb.tensor([1.7, -2.5], dtype=fb.int32), np.array([1, -2], np.int32))


def test_a_list_of_tensors_becomes_one_tensor() -> None:
    same(fb.tensor([fb.tensor(1.0), fb.tensor(2.0)]), np.array([1, 2], np.float32))


@host_only
def test_a_copy_does_not_see_later_writes() -> None:
    array = np.ones(3, np.float32)
    copied, shared = fb.tensor(array), fb.from_numpy(array)
    array[0] = 5
    assert copied.tolist() == [1, 1, 1]
    assert shared.tolist() == [5, 1, 1]


def test_strided_arrays_are_laid_out_row_major() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    same(fb.from_numpy(array), array)


@pytest.mark.parametrize("data", [np.zeros(2, np.complex64), ["a"], np.array([object()]), 1 << 70])
def test_other_element_types_are_refused(data: object) -> None:
    with pytest.raises(DTypeError):
        fb.tensor(data)


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(ShapeError, match="different lengths"):
        fb.tensor([[1.0], [2.0, 3.0]])


def test_creation_functions_match_numpy() -> None:
    same(fb.zeros(2, 3), np.zeros((2, 3), np.float32))
    same(fb.ones((2,), dtype=fb.int32), np.ones(2, np.int32))
    same(fb.full((2, 2), 7), np.full((2, 2), 7))
    same(fb.full((2,), True), np.full(2, True))
    same(fb.arange(5), np.arange(5))
    same(fb.arange(2, 11, 3), np.arange(2, 11, 3))
    same(fb.arange(5, 0, -2), np.arange(5, 0, -2))
    same(fb.arange(0.0, 1.0, 0.1), np.arange(0.0, 1.0, 0.1).astype(np.float32))
    same(fb.arange(3, 3), np.arange(0))
    same(fb.linspace(0, 1, 7), np.linspace(0, 1, 7).astype(np.float32))
    same(fb.linspace(2, 3, 1), np.linspace(2, 3, 1).astype(np.float32))
    same(fb.eye(3, 4, 1), np.eye(3, 4, 1, dtype=np.float32))
    same(fb.tri(3, 4, -1), np.tri(3, 4, -1, dtype=np.float32))
    same(fb.zeros_like(fb.ones(2, dtype=fb.float16)), np.zeros(2, np.float16))
    same(fb.full_like(fb.ones(2), 3, dtype=fb.int8), np.full(2, 3, np.int8))
    same(fb.iota((2, 3), 1), np.array([[0, 1, 2], [0, 1, 2]]))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_matches_numpy(indexing: str) -> None:
    a, b = np.arange(3), np.arange(4)
    found = fb.meshgrid(fb.tensor(a), fb.tensor(b), indexing=indexing)
    for x, y in zip(found, np.meshgrid(a, b, indexing=indexing), strict=True):  # type: ignore[call-overload]
        same(x, y)
    found = fb.meshgrid(fb.tensor(7), fb.tensor(b), indexing=indexing)
    for x, y in zip(found, np.meshgrid(7, b, indexing=indexing), strict=True):  # type: ignore[call-overload]
        same(x, y)


def test_a_filled_tensor_is_no_array_in_the_program() -> None:
    text = fb.jit(lambda: fb.full((1000, 1000), 2.0)).lower().mlir()
    assert re.search(r'nd\.constant \{value = #nd\.literal<"f32 2\.0">\} : \(\) -> tensor<f32>', text)
    assert "nd.broadcast_to" in text


@pytest.mark.parametrize("shape", [(-1,), (2.5,), ("a",)])
def test_bad_shapes_are_refused(shape: tuple[object, ...]) -> None:
    with pytest.raises(ShapeError):
        fb.zeros(*shape)


# ---- reading -----------------------------------------------------------------------------------------------------


def test_facts() -> None:
    x = fb.zeros(2, 3)
    assert (x.shape, x.rank, x.ndim, x.size, x.kind) == ((2, 3), 2, 2, 6, "float")
    assert fb.tensor([1]).kind == "int"
    assert fb.tensor([1], dtype=fb.uint8).kind == "int"
    assert fb.tensor(True).kind == "bool"
    assert len(x) == 2
    assert x.device is fb.current_device()


@host_only
def test_numpy_is_read_only_and_shares_memory() -> None:
    x = fb.tensor([1.0, 2.0])
    array = x.numpy()
    assert not array.flags.writeable
    assert array.ctypes.data == x.numpy().ctypes.data
    writable = np.array(x)
    writable[0] = 9
    assert x.tolist() == [1, 2]


def test_numpy_functions_take_tensors() -> None:
    x = fb.tensor([1.0, 4.0])
    np.testing.assert_array_equal(np.sqrt(x), [1, 2])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


@host_only
def test_dlpack_round_trip() -> None:
    array = np.arange(4, dtype=np.float32)
    x = fb.from_dlpack(array)
    assert x.numpy().ctypes.data == array.ctypes.data
    same(fb.from_dlpack(fb.tensor([1, 2])), np.array([1, 2]))
    np.testing.assert_array_equal(np.from_dlpack(fb.tensor([3.0])), [3])


def test_item_and_conversions() -> None:
    assert fb.tensor([[2.5]]).item() == 2.5
    assert float(fb.tensor(2)) == 2.0
    assert int(fb.tensor(2.9)) == 2
    assert bool(fb.tensor([0.0])) is False
    assert [10, 20, 30][fb.tensor(1)] == 20
    assert f"{fb.tensor(0.125):.2f}" == "0.12"
    assert fb.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


def test_what_needs_one_element_says_so() -> None:
    x = fb.zeros(2)
    with pytest.raises(ShapeError, match="exactly one element"):
        x.item()
    with pytest.raises(ShapeError, match="any\\(\\) or all\\(\\)"):
        bool(x)
    with pytest.raises(ShapeError, match="no length"):
        len(fb.tensor(1.0))
    with pytest.raises(ShapeError, match="iterated"):
        iter(fb.tensor(1.0))
    with pytest.raises(DTypeError, match="index"):
        range(fb.tensor(1.0))


def test_iteration_gives_rows() -> None:
    assert [row.tolist() for row in fb.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


def test_repr_shows_values() -> None:
    assert repr(fb.tensor([[1.0, 2.5]])) == "tensor([[1. , 2.5]], f32)"
    assert repr(fb.tensor(3)) == "tensor(3, i64)"
    assert repr(fb.zeros(0, 2)) == "tensor([], f32, shape=(0, 2))"
    assert repr(fb.tensor([1.5], dtype=fb.bfloat16)) == "tensor([1.5], bf16)"
    assert repr(fb.tensor([1.0], requires_grad=True)) == "tensor([1.], f32, requires_grad=True)"


# ---- values ------------------------------------------------------------------------------------------------------


def test_tensors_are_values() -> None:
    x = fb.tensor([1.0, 2.0])
    y = x
    y += 1
    assert x.tolist() == [1, 2]
    assert y.tolist() == [2, 3]
    with pytest.raises(UserError, match=re.escape("x.at[...].set(v)")):
        x[0] = 5
    assert copy.deepcopy(x) is x
    assert x.clone() is x


def test_operators_match_numpy() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4)).astype(np.float32)
    b = rng.normal(size=(4,)).astype(np.float32)
    x, y = fb.tensor(a), fb.tensor(b)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda u, v: u + v,
        lambda u, v: u - v,
        lambda u, v: u * v,
        lambda u, v: u / v,
        lambda u, v: u // v,
        lambda u, v: u % v,
        lambda u, v: 2.5 - u,
        lambda u, v: 1 / v,
        lambda u, v: -u,
        lambda u, v: abs(u),
        lambda u, v: u**2,
        lambda u, v: u < v,
        lambda u, v: u >= v,
        lambda u, v: u == v,
        lambda u, v: u != u,
    ]
    for function in functions:
        same(function(x, y), np.asarray(function(a, b)))


def test_integer_operators_match_numpy() -> None:
    a, b = np.array([7, -7, 5, 0]), np.array([2, 2, -3, 5])
    x, y = fb.tensor(a), fb.tensor(b)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda u, v: u // v,
        lambda u, v: u % v,
        lambda u, v: u & v,
        lambda u, v: u | v,
        lambda u, v: u ^ v,
        lambda u, v: ~u,
        lambda u, v: u << 2,
        lambda u, v: u >> 1,
        lambda u, v: u + 1,
        lambda u, v: 3 - u,
    ]
    for function in functions:
        same(function(x, y), np.asarray(function(a, b)))
    same(x / 2, (a / 2).astype(np.float32))


def test_numbers_take_the_tensor_s_type_by_kind() -> None:
    half = fb.ones(2, dtype=fb.float16)
    assert (half * 2.5).dtype is fb.float16
    assert (half + 1).dtype is fb.float16
    assert (fb.tensor([1]) * 2.5).dtype is fb.float32
    assert (fb.tensor([1], dtype=fb.int8) + 1).dtype is fb.int8
    assert (fb.tensor([True]) + 1).dtype is fb.int64
    assert (half + fb.ones(2)).dtype is fb.float32
    assert (half + fb.ones(2, dtype=fb.bfloat16)).dtype is fb.float32
    assert (half + fb.tensor([1])).dtype is fb.float16


def test_a_number_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(DTypeError, match="range of u8"):
        fb.tensor([1], dtype=fb.uint8) + 300


def test_the_sign_of_zero_and_nan_survive_as_numbers() -> None:
    x = fb.tensor([1.0])
    assert np.signbit((x * -0.0).numpy())[0]
    assert not np.signbit((x * 0.0).numpy())[0]
    assert np.isnan((x * float("nan")).numpy())[0]
    same(x * float("inf"), np.array([np.inf], np.float32))


def test_numpy_arrays_are_operands_on_both_sides() -> None:
    x, a = fb.tensor([1.0, 2.0]), np.array([10.0, 20.0], np.float32)
    for found in (x + a, a + x, x @ a, a @ x):
        assert isinstance(found, fb.Tensor)
    reflected: Any = a - x
    same(reflected, np.array([9, 18], np.float32))


def test_nan_and_infinity_propagate_as_in_numpy() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0], np.float32)
    x = fb.tensor(a)
    with np.errstate(all="ignore"):
        same(x.maximum(0), np.maximum(a, 0))
        same(x.sqrt(), np.sqrt(a))
        same(x - x, a - a)
        same(x.max(), np.asarray(a.max()))
        same(x.sum(), np.asarray(a.sum()))
        same(1 / x, 1 / a)
        same(x > 0, a > 0)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (0, 3), (3, 0, 2)])
def test_small_and_empty_shapes_work(shape: tuple[int, ...]) -> None:
    a = np.full(shape, 2.0, np.float32)
    x = fb.tensor(a)
    same(x * 3 + 1, a * 3 + 1)
    same(x.sum(), np.asarray(a.sum()))
    assert x.exp().shape == shape
    np.testing.assert_allclose(x.exp().numpy(), np.exp(a), rtol=1e-6)
    same(x.mean(), np.asarray(2.0 if a.size else np.nan, np.float32))


# ---- methods -----------------------------------------------------------------------------------------------------


def test_methods_of_pytorch_and_numpy() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = fb.tensor(a)
    same(x.view(6, -1), a.reshape(6, 4))
    same(x.permute(2, 0, 1), a.transpose(2, 0, 1))
    same(x.unsqueeze(1), a[:, None])
    same(x.mT, a.swapaxes(-1, -2))
    same(x[0].t(), a[0].T)
    same(x.flatten(1), a.reshape(2, 12))
    same(x.expand(5, -1, -1, -1), np.broadcast_to(a, (5, 2, 3, 4)))
    same(x.half(), a.astype(np.float16))
    same(x.int(), a.astype(np.int32))
    same(x.bool(), a.astype(bool))
    same(x.double().float(), a)
    same(x.argmax(1), a.argmax(1))
    same(x.cumsum(2), a.cumsum(2))
    same(x.masked_fill(x > 3, -1.0), np.where(a > 3, np.float32(-1), a))
    same(x.max(axis=(0, 2), keepdims=True), a.max((0, 2), keepdims=True))
    np.testing.assert_allclose(x.std().numpy(), a.std(), rtol=1e-6)
    np.testing.assert_allclose(x.softmax().numpy().sum(-1), np.ones((2, 3)), rtol=1e-6)


def test_functions_of_the_package() -> None:
    a = np.array([[0.5, 2.0], [1.0, 4.0]], np.float32)
    x = fb.tensor(a)
    same(fb.maximum(1.0, x), np.maximum(np.float32(1), a))
    same(fb.where(x > 1, x, 0.0), np.where(a > 1, a, np.float32(0)))
    same(fb.sum(x, 0), a.sum(0))
    same(fb.concat([x, x], 1), np.concatenate([a, a], 1))
    picks: Any = [1, 0]
    same(fb.take(x, picks, 1), a[:, [1, 0]])
    same(fb.power(2.0, fb.tensor([1.0, 3.0])), np.array([2, 8], np.float32))


def test_devices() -> None:
    x = fb.tensor([1.0], device="interpret")
    y = x.to("cpu")
    assert y.device is fb.Device("cpu")
    assert y.tolist() == [1]
    assert x.to("interpret") is x
    assert x.to(fb.float16).dtype is fb.float16
    with pytest.raises(fb.DeviceError, match=re.escape('x.to("cpu")')):
        x + y
    with pytest.raises(fb.DeviceError, match="no such device"):
        x.to("nowhere")


def test_python_floats_keep_their_digits_on_the_way_to_f64() -> None:
    assert fb.tensor(0.1, dtype=fb.float64).item() == 0.1
    assert fb.tensor([0.1, 0.2], dtype="f64").tolist() == [0.1, 0.2]
    assert fb.tensor([0.1]).dtype is fb.float32
