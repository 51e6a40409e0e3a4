"""Element types: names, NumPy counterparts, promotion."""

import pickle

import ml_dtypes
import numpy as np
import pytest

from firebox import dtypes
from firebox.dtypes import ALL, DType, as_dtype, result_type
from firebox.errors import DTypeError


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_each_is_found_by_every_name(dtype: DType) -> None:
    for name in (dtype, dtype.name, dtype.long, dtype.numpy, dtype.numpy.type, np.zeros(1, dtype.numpy).dtype):
        assert as_dtype(name) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize
    assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_python_types() -> None:
    assert (as_dtype(bool), as_dtype(int), as_dtype(float)) == (dtypes.bool_, dtypes.i64, dtypes.f32)


@pytest.mark.parametrize("value", ["f33", "complex64", np.complex64, object, 3, None, "datetime64[s]", np.dtype(">f4")])
def test_others_are_refused(value: object) -> None:
    if value is None:  # NumPy reads None as float64
        assert as_dtype(value) is dtypes.f64
        return
    with pytest.raises(DTypeError, match="expected: one of bool, i8"):
        as_dtype(value)


@pytest.mark.parametrize("a", ALL, ids=repr)
@pytest.mark.parametrize("b", ALL, ids=repr)
def test_promotion_is_symmetric_and_no_smaller(a: DType, b: DType) -> None:
    result = result_type(a, b)
    assert result is result_type(b, a)
    assert result_type(a, result) is result
    assert result_type(a, a) is a
    rank = {"bool": 0, "uint": 1, "int": 1, "float": 2}
    assert rank[result.kind.value] == max(rank[a.kind.value], rank[b.kind.value])


@pytest.mark.parametrize("a", ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "f32", "f64"])
@pytest.mark.parametrize("b", ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "f32", "f64"])
def test_promotion_within_a_kind_is_numpys(a: str, b: str) -> None:
    x, y = as_dtype(a), as_dtype(b)
    if x.is_float == y.is_float:
        assert result_type(x, y).numpy == np.result_type(x.numpy, y.numpy)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("f16", "bf16", "f32"),
        ("f16", "i64", "f16"),
        ("bf16", "f32", "f32"),
        ("u64", "i8", "i64"),
        ("i64", "f32", "f32"),
    ],
)
def test_promotion_where_numpy_differs(a: str, b: str, expected: str) -> None:
    assert result_type(as_dtype(a), as_dtype(b)) is as_dtype(expected)


def test_half_precision_computes_in_single() -> None:
    assert dtypes.bf16.compute is dtypes.f16.compute is dtypes.f32
    assert dtypes.f64.compute is dtypes.f64
    assert dtypes.bf16.numpy == np.dtype(ml_dtypes.bfloat16)


def test_kinds() -> None:
    assert [d.name for d in ALL if d.is_float] == ["f16", "bf16", "f32", "f64"]
    assert [d.name for d in ALL if d.is_int] == ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
    assert [d.name for d in ALL if d.is_bool] == ["bool"]
    assert not dtypes.u8.is_signed
