"""Element types as a user meets them: promotion, limits, what each kind takes part in, and a device's defaults."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import firebox as fb
from firebox import dtypes
from firebox.dtypes import ALL, DType
from firebox.errors import DeviceError, DTypeError
from firebox.runtime import device as devices
from firebox.runtime.opencl_target import OpenClTarget

frontend = pytest.mark.usefixtures("frontend")


# ---- promotion and limits ----------------------------------------------------------------------------------------


@frontend
@pytest.mark.parametrize("a", ALL, ids=repr)
def test_operators_meet_in_the_common_type(a: DType) -> None:
    x = fb.ones(1, dtype=a)
    for b in ALL:
        expected = dtypes.result_type(a, b)
        assert (x * fb.ones(1, dtype=b)).dtype is expected
        assert fb.where(fb.tensor([True]), x, fb.ones(1, dtype=b)).dtype is expected
        assert fb.result_type(x, b) is expected


@frontend
def test_python_numbers_count_by_their_kind() -> None:
    for dtype in ALL:
        x = fb.ones(1, dtype=dtype)
        assert (x * 2).dtype is (dtypes.i64 if dtype.is_bool else dtype) is fb.result_type(dtype, 2)
        assert (x * 2.0).dtype is (dtype if dtype.is_float else dtypes.f32) is fb.result_type(x, 2.0)
        assert (x * True).dtype is dtype


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_limits_of_floats(dtype: DType) -> None:
    info, known = fb.finfo(dtype), ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    assert (info.max, info.min, info.bits, info.dtype) == (float(known.max), float(known.min), known.bits, dtype)
    one = np.ones((), dtype.numpy)
    assert one + dtype.numpy.type(info.eps) > one and one + dtype.numpy.type(info.eps / 4) == one
    assert info.smallest_normal == float(known.smallest_normal)


@pytest.mark.parametrize("dtype", dtypes.INTS, ids=repr)
def test_limits_of_integers(dtype: DType) -> None:
    info, known = fb.iinfo(dtype.name), np.iinfo(dtype.long)
    assert (info.max, info.min, info.bits) == (known.max, known.min, known.bits)


def test_limits_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"finfo: not a float type[\s\S]*found:    i64"):
        fb.finfo("i64")
    with pytest.raises(DTypeError, match=r"iinfo: not an integer type[\s\S]*found:    f32"):
        fb.iinfo(fb.float32)
    assert fb.isdtype("i8", "integral") and not fb.isdtype(fb.bfloat16, ("bool", "integral"))


# ---- kinds -------------------------------------------------------------------------------------------------------


@frontend
def test_each_kind_refuses_what_it_has_no_meaning_for() -> None:
    f, i, b = fb.tensor([1.0]), fb.tensor([1]), fb.tensor([True])
    assert (f.kind, i.kind, b.kind, fb.tensor([1], dtype="u8").kind) == ("float", "int", "bool", "int")
    wrong: list[Callable[[], object]] = [
        lambda: i.require_grad(),
        lambda: b.requires_grad_(),
        lambda: i.sum().backward(),
        lambda: fb.grad(lambda x: x.sum())(i),
        lambda: fb.grad(lambda x: (x > 0).sum())(f),
        lambda: fb.jvp(lambda x: x, (i,), (i,)),
        lambda: fb.jacobian(lambda x: x)(i),
        lambda: fb.Param([1], requires_grad=True),
        lambda: f & f,
        lambda: ~f,
        lambda: f << 1,
        lambda: f[f],
        lambda: -b,
        lambda: b - b,
        lambda: abs(b),
    ]
    for function in wrong:
        with pytest.raises(DTypeError, match=r"expected:[\s\S]*found:"):
            function()


@frontend
def test_derivatives_stop_at_integers_and_bools() -> None:
    w = fb.tensor([1.5, -2.5], requires_grad=True)
    assert not w.astype("i32").is_tracked() and not (w > 0).is_tracked() and not w.argmax().is_tracked()
    loss = (w * w.astype("i32") + fb.where(w > 0, w, 0.0)).sum()  # the cast and the mask are constants
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, -2.0]


# ---- what a device takes where nothing is said -------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Device]:
    """A device on which nothing has been made yet."""
    fb.set_default_device(None)
    monkeypatch.setattr(devices, "_open", {})
    device = fb.Device("interpret")
    fb.set_default_device(device)
    yield device
    fb.flush()
    fb.set_default_device(None)


def test_defaults_of_a_device(fresh: fb.Device) -> None:
    assert fresh.configure(float_dtype="f64", int_dtype=fb.int32) is fresh
    assert (fresh.settings.float_dtype, fresh.settings.int_dtype) == (dtypes.f64, dtypes.i32)
    f64: list[fb.Tensor] = [
        fb.tensor(0.1),
        fb.tensor([1.0, 2.0]),
        fb.zeros(2),
        fb.ones(2),
        fb.full((2,), 0.5),
        fb.eye(2),
        fb.linspace(0.0, 1.0, 3),
        fb.arange(0.0, 1.0, 0.5),
        fb.rand(2),
        fb.randn(2),
        fb.nn.Linear(2, 2).weight,
        fb.tensor([1]) / 2,
        fb.tensor([1]) * 2.0,
        fb.tensor([1, 2]).mean(),
        fb.fft.fftfreq(4),
        fb.signal.hann_window(4),
    ]
    assert [x.dtype.name for x in f64] == ["f64"] * len(f64)
    assert fb.tensor(0.1).item() == 0.1  # not by way of f32
    i32: list[fb.Tensor] = [fb.tensor(1), fb.tensor([1, 2]), fb.arange(3), fb.full((2,), 7), fb.tensor([True]) * 3]
    assert [x.dtype.name for x in i32] == ["i32"] * len(i32)
    assert fb.result_type(fb.tensor([True]), 1) is dtypes.i32 and fb.result_type(fb.tensor([1]), 0.5) is dtypes.f64


def test_defaults_change_nothing_that_has_a_type(fresh: fb.Device) -> None:
    fresh.configure(float_dtype="bf16", int_dtype="i16")
    assert fb.tensor(np.ones(2, np.float32)).dtype is dtypes.f32
    assert fb.tensor([1.0], dtype="f32").dtype is dtypes.f32 and fb.tensor([70000], dtype="i32").tolist() == [70000]
    assert (fb.ones(2, dtype="f32") * fb.ones(2, dtype="f32")).dtype is dtypes.f32
    assert fb.ones(2).argmax().dtype is dtypes.i64 and fb.tensor([1]).sum().dtype is dtypes.i64
    assert fb.tensor([True]).dtype is dtypes.bool_
    with pytest.raises(DTypeError, match=r"does not fit[\s\S]*expected: i16[\s\S]*dtype="):
        fb.tensor([70000])


def test_functions_that_are_traced_once_follow_their_device(fresh: fb.Device) -> None:
    x = fb.tensor([1, 2, 3], device="cpu")
    expected = fb.softmax(x, 0).dtype
    fresh.configure(float_dtype="f64")
    found = [fb.softmax(fb.tensor([1, 2, 3]), 0), fb.jit(lambda t: t / 2)(fb.tensor([1]))]
    assert (expected, [v.dtype for v in found]) == (dtypes.f32, [dtypes.f64, dtypes.f64])


def test_defaults_are_settled_by_the_first_tensor_that_they_decide(fresh: fb.Device) -> None:
    fb.tensor(np.ones(2)), fb.zeros(2, dtype="f16")
    fresh.configure(int_dtype="i32")
    with pytest.raises(DeviceError, match=r"configure: the default types are in use[\s\S]*int_dtype=i32[\s\S]*dtype="):
        fresh.configure(int_dtype="i64")
    other = fb.Device("cpu")
    fb.tensor([1.0], device=other)
    with pytest.raises(DeviceError, match=r"before the first tensor on cpu[\s\S]*float_dtype=f32"):
        other.configure(float_dtype="f64")


def test_wrong_defaults_are_refused(fresh: fb.Device) -> None:
    with pytest.raises(DTypeError, match=r"float_dtype is of another kind[\s\S]*a float type[\s\S]*i32"):
        fresh.configure(float_dtype="i32")
    with pytest.raises(DTypeError, match=r"int_dtype is of another kind[\s\S]*an int type[\s\S]*bool"):
        fresh.configure(int_dtype="bool")
    assert fresh.configure(float_dtype="f64").settings.float_dtype is dtypes.f64  # a refused call settles nothing


def test_a_device_without_f64_says_so(fresh: fb.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(fresh.supports_dtype(d) for d in ALL)

    class Small:
        target = OpenClTarget.generic().__class__(**{**vars(OpenClTarget.generic()), "features": ()})

    monkeypatch.setattr(fresh, "backend", Small())
    assert fresh.supports_dtype("f32") and not fresh.supports_dtype("f64")
    with pytest.raises(DeviceError, match=r"no such type on this device[\s\S]*f64"):
        fresh.configure(float_dtype="f64")


def test_nothing_is_made_by_the_import() -> None:
    use = 'fb.current_device().configure(float_dtype="f64"); print(fb.ones(1).dtype)'
    code = f"import firebox as fb; fb.nn; fb.optim; {use}"
    done: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("firebox.float64\n", "")
