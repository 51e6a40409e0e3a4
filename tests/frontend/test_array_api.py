"""The namespace of the array API standard; its own test suite is run by `tests.array_api_run`."""

import inspect
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, ShapeError, UserError
from tests import array_api_run

xp: Any = fb.array_api
pytestmark = pytest.mark.usefixtures("frontend")

_TEXT = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh
    bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool
    broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod
    cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye finfo flip float32 float64
    floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf int16 int32 int64
    int8 isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and
    logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis
    multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod
    real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt
    square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc uint16
    uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
    zeros_like
"""
NAMES = _TEXT.split()


def test_every_name_of_the_standard_is_there() -> None:
    assert [name for name in NAMES if not hasattr(xp, name)] == []
    assert set(xp.__all__) == {*NAMES, "linalg", "__array_api_version__", "__array_namespace_info__"}
    assert xp.__array_api_version__ == "2024.12"


def test_tensors_know_their_namespace() -> None:
    x = fb.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(UserError, match="no such version"):
        x.__array_namespace__(api_version="2019.12")
    assert x.to_device(x.device) is x
    assert complex(fb.tensor(2.0)) == 2.0


def test_types_are_asked_about() -> None:
    assert xp.finfo(xp.float32) == xp.finfo(fb.ones(1))
    for dtype in (xp.float32, xp.float64):
        expected: Any = np.finfo(dtype.numpy)
        found = xp.finfo(dtype)
        assert (found.bits, found.eps, found.max, found.min) == (
            expected.bits,
            expected.eps,
            expected.max,
            expected.min,
        )
        assert (found.smallest_normal, found.dtype) == (expected.smallest_normal, dtype)
    assert xp.finfo(fb.bfloat16).max == 3.3895313892515355e38
    assert (xp.iinfo(xp.int8).min, xp.iinfo(xp.uint64).max, xp.iinfo(xp.int32).bits) == (-128, 2**64 - 1, 32)
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert not xp.can_cast(xp.float64, xp.int64) and not xp.can_cast(xp.int64, xp.float64)
    assert xp.can_cast(fb.ones(1), xp.float64)
    assert xp.isdtype(xp.int8, "integral") and xp.isdtype(xp.uint8, ("bool", "unsigned integer"))
    assert xp.isdtype(xp.bool, xp.bool) and not xp.isdtype(xp.float32, "complex floating")
    assert xp.result_type(xp.uint8, xp.int8) is xp.int16
    assert xp.result_type(fb.ones(1), 2.0, True) is xp.float32
    assert xp.result_type(xp.int8, 1) is xp.int8 and xp.result_type(xp.int8, 0.5) is xp.float32
    with pytest.raises(DTypeError, match="no such kind"):
        xp.isdtype(xp.int8, "numbers")
    with pytest.raises(DTypeError, match="no type is given"):
        xp.result_type(1, 2)
    with pytest.raises(DTypeError, match="not a float type"):
        xp.finfo(xp.int8)


def test_the_namespace_describes_itself() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["indexing"] is xp.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert len(info.dtypes()) == 11


def test_types_of_sums_are_the_standards() -> None:
    small = xp.asarray([200, 100], dtype=xp.uint8)
    assert xp.sum(small).dtype is xp.uint64 and int(xp.sum(small)) == 300
    assert xp.prod(xp.astype(small, xp.int32)).dtype is xp.int64
    assert xp.sum(small, dtype=xp.uint8).dtype is xp.uint8
    assert xp.linalg.trace(xp.reshape(small, (1, 2))).dtype is xp.uint64
    assert xp.sum(xp.ones((2, 3))).dtype is xp.float32


def test_arrays_are_made() -> None:
    assert xp.zeros(3).shape == (3,) and xp.full((2, 2), 7).dtype is xp.int64
    np.testing.assert_allclose(xp.linspace(0, 1, 4, endpoint=False).numpy(), [0, 0.25, 0.5, 0.75])
    array = np.arange(3.0)
    assert xp.asarray(array, copy=False).dtype is xp.float64
    with pytest.raises(ShapeError, match="cannot be shared"):
        xp.asarray([1.0], copy=False)
    np.testing.assert_array_equal(xp.from_dlpack(array, copy=True).numpy(), array)
    assert xp.eye(2, 3, k=1).shape == (2, 3)


def test_functions_with_arguments_of_their_own() -> None:
    x = xp.reshape(xp.arange(6.0), (2, 3))
    np.testing.assert_array_equal(xp.concat([x, x], axis=None).numpy(), [*range(6), *range(6)])
    np.testing.assert_array_equal(xp.repeat(x, xp.asarray([0, 2]), axis=0).numpy(), [[3, 4, 5]] * 2)
    assert xp.clip(xp.asarray([1, 9], dtype=xp.int8), max=5).dtype is xp.int8
    assert [p.shape for p in xp.unstack(x, axis=1)] == [(2,)] * 3
    assert xp.permute_dims(x, (1, 0)).shape == (3, 2)
    with pytest.raises(DTypeError, match="no imaginary part"):
        xp.imag(x)
    with pytest.raises(DTypeError, match="takes numbers"):
        xp.matmul(xp.ones(2, dtype=xp.bool), xp.ones(2, dtype=xp.bool))


def test_signatures_are_positional_where_the_standard_says() -> None:
    for name in ("sum", "sort", "unique_all", "searchsorted", "roll"):
        first = next(iter(inspect.signature(getattr(xp, name)).parameters.values()))
        assert first.kind is first.POSITIONAL_ONLY, name


def test_what_the_suite_skips_has_a_reason() -> None:
    lines = array_api_run.SKIPS.read_text().splitlines()
    reason = ""
    for line in lines:
        if line.startswith("array_api_tests"):
            assert reason, line
        else:
            reason = line
    assert len(lines) < 100
