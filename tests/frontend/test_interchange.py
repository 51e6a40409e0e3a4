"""Tensors in other hands: memory is shared, lives as long as it is held, and is not written by either side."""

import copy
import gc
import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import firebox as fb
from firebox import dtypes
from firebox.errors import DTypeError, TraceError, UserError
from firebox.frontend import dlpack
from tests.frontend.conftest import host_only

pytestmark = pytest.mark.usefixtures("frontend")


def address(tensor: fb.Tensor) -> int:
    found: int = tensor.numpy().ctypes.data
    return found


def library(name: str) -> Any:
    """A library that is no requirement of the project; what is said of it is tried where it is installed."""
    return pytest.importorskip(name)


# ---- NumPy -------------------------------------------------------------------------------------------------------


@host_only
def test_asarray_is_the_tensors_own_memory_and_cannot_be_written() -> None:
    x = fb.tensor([1.0, 2.0]) * 2.0
    shared = np.asarray(x)
    assert shared.ctypes.data == address(x) and not shared.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = 5.0
    owned = np.array(x)
    owned[0] = 5.0
    assert x.tolist() == [2.0, 4.0]
    np.testing.assert_array_equal(np.asarray(x, dtype=np.int32), np.array([2, 4], np.int32), strict=True)


@host_only
def test_asarray_without_a_copy_or_not_at_all() -> None:
    x = fb.tensor([1.0, 2.0])
    assert np.asarray(x, copy=False).ctypes.data == address(x)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)


@host_only
def test_the_array_keeps_the_memory_and_no_program_writes_it() -> None:
    x = fb.tensor(np.full(1000, 7.0, np.float32)) * 1.0
    view = np.asarray(x)
    x = x + 1.0  # the only tensor over that memory is gone; the sum may not take its place
    fb.flush()
    del x
    gc.collect()
    for _ in range(10):
        (fb.zeros(1000) + 3.0).numpy()
    assert (view == 7.0).all()


@host_only
def test_a_step_does_not_overwrite_what_was_given_away() -> None:
    w = fb.Param(np.ones(64, np.float32))
    before = np.asarray(w)
    optimizer = fb.optim.SGD([w], lr=0.5)
    for _ in range(2):
        (w * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert w.numpy()[0] == 0.0 and (before == 1.0).all()


@host_only
@pytest.mark.skipif(sys.version_info < (3, 12), reason="before Python 3.12 only C code offers buffers")
def test_buffers() -> None:
    x = fb.tensor([[1.0, 2.0]])
    view = memoryview(x)
    assert (view.format, view.shape, view.readonly, view.nbytes) == ("f", (1, 2), True, 8)
    assert np.frombuffer(view, np.float32).ctypes.data == address(x)
    with pytest.raises(BufferError, match="no name for bf16; use"):
        memoryview(fb.ones(2, dtype="bf16"))


@host_only
def test_buffers_by_numpy_on_every_python() -> None:
    array: Any = fb.tensor([1, 2], dtype="i16").numpy()
    assert bytes(memoryview(array)) == b"\x01\x00\x02\x00"
    with pytest.raises(BufferError, match="no name for bf16"):
        fb.ones(2, dtype="bf16").__buffer__(0)


# ---- DLPack ------------------------------------------------------------------------------------------------------


@host_only
@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
def test_dlpack_both_ways_without_a_copy(dtype: str) -> None:
    x = fb.tensor([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    y = fb.from_dlpack(x)
    assert (y.dtype, y.shape) == (x.dtype, (2, 3)) and address(y) == address(x)
    np.testing.assert_array_equal(y.numpy(), x.numpy(), strict=True)


@host_only
def test_numpy_by_dlpack_is_told_not_to_write() -> None:
    x = fb.tensor([1.0, 2.0])
    array = np.from_dlpack(x)
    assert array.ctypes.data == address(x) and not array.flags.writeable
    assert np.from_dlpack(x, copy=True).ctypes.data != address(x)


@host_only
def test_arrays_come_in_by_dlpack_with_their_strides() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert address(fb.from_dlpack(array)) == array.ctypes.data
    np.testing.assert_array_equal(fb.from_dlpack(array.T).numpy(), array.T, strict=True)
    fixed = array.view()
    fixed.flags.writeable = False
    assert address(fb.from_dlpack(fixed)) == array.ctypes.data


@host_only
def test_what_came_in_is_not_written() -> None:
    array = np.ones(64, np.float32)
    w = fb.Param(fb.from_dlpack(array))
    optimizer = fb.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    optimizer.step()
    fb.flush()
    assert w.numpy()[0] == 0.0 and (array == 1.0).all()


def test_lifetimes_of_both_sides() -> None:
    gone: list[str] = []

    class Owner(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            gone.append("array")

    x = fb.from_dlpack(np.ones(4, np.float32).view(Owner))
    gc.collect()
    on_host = not fb.current_device().name.startswith("opencl")
    assert gone == ([] if on_host else ["array"])
    y = np.asarray(x)
    del x
    gc.collect()
    assert gone == ([] if on_host else ["array"])
    del y
    gc.collect()
    assert gone == ["array"]


class Foreign:
    """An array of a library from before DLPack had versions."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0


def test_libraries_from_before_versions() -> None:
    assert fb.from_dlpack(Foreign(np.arange(3))).tolist() == [0, 1, 2]
    assert fb.tensor(Foreign(np.arange(3))).tolist() == [0, 1, 2]


def test_what_cannot_be_exchanged_says_so() -> None:
    class Refusing(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it takes gradients")

    class Wrong(Foreign):
        def __dlpack__(self) -> Any:
            return "no capsule"

    wrong: list[tuple[Any, str]] = [
        (Refusing(0), r"it takes gradients[\s\S]*Refusing[\s\S]*detach"),
        (Wrong(0), r"no such exchange[\s\S]*Wrong"),
        (3, r"no such exchange[\s\S]*found:    builtins\.int"),
        (np.array(["a"]), "no such exchange"),
        (np.array([1j]), r"no such element type[\s\S]*complex128"),
    ]
    for value, message in wrong:
        with pytest.raises(DTypeError, match=message):
            fb.from_dlpack(value)
    with pytest.raises(DTypeError, match=r"tensor: no such exchange: it takes gradients"):
        fb.tensor(Refusing(0))


@host_only
def test_torch_shares_memory_both_ways() -> None:
    torch = library("torch")
    for dtype in ("f32", "bf16", "f16", "i64", "u8", "bool"):
        x = fb.tensor([[0, 1], [1, 0]]).astype(dtype)
        there = torch.from_dlpack(x)
        assert there.data_ptr() == address(x) and there.tolist() == x.tolist()
        back = fb.from_dlpack(there)
        assert back.dtype is x.dtype and address(back) == address(x)
    with pytest.raises(DTypeError, match="detach"):
        fb.from_dlpack(torch.ones(2, requires_grad=True))


@host_only
def test_memory_lives_while_torch_holds_it() -> None:
    torch = library("torch")
    there = torch.from_dlpack(fb.full(1000, 7.0) * 1.0)
    gc.collect()
    for _ in range(10):
        (fb.zeros(1000) + 3.0).numpy()
    assert bool((there == 7.0).all())
    x = fb.from_dlpack(torch.full((1000,), 5.0))
    gc.collect()
    torch.zeros(1000)
    assert (x.numpy() == 5.0).all()


@host_only
def test_jax_shares_memory_both_ways() -> None:
    jax = library("jax")
    x = fb.tensor([1.0, 2.0])
    there = importlib.import_module("jax.dlpack").from_dlpack(x)
    assert there.tolist() == [1.0, 2.0]
    assert fb.from_dlpack(jax.numpy.arange(3, dtype="bfloat16")).dtype is dtypes.bf16


# ---- text --------------------------------------------------------------------------------------------------------


def test_text_is_numpys_with_the_type_and_a_device_that_is_not_the_default() -> None:
    assert repr(fb.tensor([[1, 2], [3, 4]], dtype="i8")) == "tensor([[1, 2],\n        [3, 4]], i8)"
    assert str(fb.tensor(2.5)) == "tensor(2.5, f32)"
    with np.printoptions(precision=2, threshold=4, edgeitems=1):
        assert repr(fb.tensor(np.arange(9) / 3.0)) == "tensor([0.  , ..., 2.67], f64)"
    here = fb.current_device().name
    with fb.device("cpu" if here != "cpu" else "interpret"):
        assert repr(fb.tensor([True], device=here)) == f"tensor([ True], bool, device={here})"


def test_text_computes_once_and_inside_of_a_function_says_that_there_is_nothing_yet() -> None:
    x = fb.tensor([1.0, 2.0])
    y = x * 2.0
    fb.flush()
    fb.reset_stats()
    z = y + 1.0
    assert repr(z) == "tensor([3., 5.], f32)" and fb.stats()["programs_run"] == 1
    assert repr(z) == str(z) and fb.stats()["programs_run"] == 1
    seen: list[str] = []

    @fb.jit
    def traced(a: fb.Tensor) -> fb.Tensor:
        seen.append(repr(a * 2.0))
        return a

    traced(x)
    assert seen == ["Tensor(f32[2], traced)"]


# ---- copies and pickles ------------------------------------------------------------------------------------------


def test_copies_of_values_are_the_values() -> None:
    x = fb.tensor([1.0, 2.0])
    assert copy.copy(x) is x and copy.deepcopy({"a": [x]})["a"][0] is x


def test_a_copy_of_a_leaf_has_a_gradient_of_its_own() -> None:
    w = fb.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    other = copy.deepcopy(w)
    assert other.is_require_grad() and other.grad is None and other.tolist() == [1.0, 2.0]
    (other * 3.0).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]
    with pytest.raises(UserError, match=r"derivatives of a result are not copied[\s\S]*x\.detach\(\)"):
        copy.deepcopy(w * 2.0)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_parameter_is_another_place(copied: Callable[[fb.Param], fb.Param]) -> None:
    w = fb.Param([1.0, 2.0])
    other = copied(w)
    other.value = fb.tensor([5.0, 5.0])
    assert isinstance(other, fb.Param) and w.tolist() == [1.0, 2.0]


def test_pickles_are_refused_with_a_way_out() -> None:
    values: list[Any] = [fb.tensor([1.0]), fb.Param([1.0]), {"model": fb.nn.Linear(2, 2)}]
    for value in values:
        with pytest.raises(UserError, match=r"not pickled[\s\S]*fb\.record[\s\S]*x\.numpy\(\)"):
            pickle.dumps(value)
    again = pickle.loads(pickle.dumps(fb.tensor([1.0]).numpy()))
    assert fb.tensor(again).tolist() == [1.0]


def test_no_values_leave_a_traced_function() -> None:
    ways: list[Callable[[fb.Tensor], object]] = [
        np.asarray,
        lambda t: t.__dlpack__(dl_device=(dlpack.CPU, 0)),
        lambda t: t.tolist(),
    ]
    for way in ways:

        def reads(x: fb.Tensor, way: Callable[[fb.Tensor], object] = way) -> fb.Tensor:
            way(x * 2.0)
            return x

        with pytest.raises(TraceError):
            fb.jit(reads)(fb.tensor([1.0]))


def test_bf16_is_numpys_by_ml_dtypes() -> None:
    x = fb.tensor([1.5, -2.0], dtype="bf16")
    assert np.asarray(x).dtype == ml_dtypes.bfloat16 and np.asarray(x).tolist() == [1.5, -2.0]
    assert fb.tensor(np.asarray(x)).dtype is dtypes.bf16
