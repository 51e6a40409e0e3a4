"""Element types: names, NumPy counterparts, promotion."""

import pickle

import ml_dtypes
import numpy as np
import pytest

from firebox import dtypes
from firebox.dtypes import ALL, DType, Kind, as_dtype, result_type
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


def differs_from_numpy(a: DType, b: DType) -> DType | None:
    """The common type where it is another than NumPy's; these three rules are all that differ."""
    pair = {a, b}
    if pair == {dtypes.f16, dtypes.bf16}:
        return dtypes.f32  # NumPy refuses: neither holds the other
    if dtypes.u64 in pair and {d.kind for d in pair} == {Kind.UINT, Kind.INT}:
        return dtypes.i64  # NumPy leaves the integers for f64
    number, other = sorted(pair, key=lambda d: d.is_float) if len(pair) == 2 else (a, a)
    exact = other is dtypes.f64 or number.itemsize < other.itemsize
    if number.is_int and other.is_float and not exact:
        return other  # NumPy widens the float until it holds every integer, and refuses bf16
    return None


@pytest.mark.parametrize("a", ALL, ids=repr)
@pytest.mark.parametrize("b", ALL, ids=repr)
def test_promotion_is_numpys_but_for_three_rules(a: DType, b: DType) -> None:
    own = differs_from_numpy(a, b)
    if own is None:
        assert result_type(a, b).numpy == np.result_type(a.numpy, b.numpy)
        return
    assert result_type(a, b) is own
    try:
        assert np.result_type(a.numpy, b.numpy) != own.numpy
    except TypeError:  # NumPy has no common type
        assert dtypes.bf16 in (a, b)


def test_half_precision_computes_in_single() -> None:
    assert dtypes.bf16.compute is dtypes.f16.compute is dtypes.f32
    assert dtypes.f64.compute is dtypes.f64
    assert dtypes.bf16.numpy == np.dtype(ml_dtypes.bfloat16)


def test_kinds() -> None:
    assert [d.name for d in ALL if d.is_float] == ["f16", "bf16", "f32", "f64"]
    assert [d.name for d in ALL if d.is_int] == ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
    assert [d.name for d in ALL if d.is_bool] == ["bool"]
    assert not dtypes.u8.is_signed
