"""The same on every device: odd shapes, sizes known late, faults, transforms, random numbers, huge data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import firebox as fb
from firebox.errors import IndexRangeError
from firebox.frontend import execute
from firebox.runtime.opencl import OpenClDevice
from firebox.runtime.opencl_detect import is_gpu

Array = npt.NDArray[Any]

SHAPES = [(), (0,), (7,), (0, 3), (3, 0), (1, 1), (5, 1, 3), (2, 33, 17)]
TWO_GIB = 1 << 31


@pytest.fixture(autouse=True)
def device(each_device: fb.Device) -> Iterator[fb.Device]:
    """The device of new tensors."""
    fb.flush()
    execute.forget_programs()
    fb.set_default_device(each_device)
    yield each_device
    fb.set_default_device(None)


def has_memory(device: fb.Device, nbytes: int) -> bool:
    """Whether it is a GPU with that much memory."""
    backend = device.backend
    return isinstance(backend, OpenClDevice) and is_gpu(backend._device) and backend.info.memory >= nbytes


def near(found: fb.Tensor, expected: Array, rtol: float = 1e-5) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=1e-6)


# ---- shapes ------------------------------------------------------------------------------------------------------


def test_odd_shapes() -> None:
    """One program for all of them."""
    arrays = [np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k, shape in enumerate(SHAPES)]

    @fb.jit
    def several(tensors: list[fb.Tensor]) -> list[list[fb.Tensor]]:
        return [[x * 2 + 1, x.sum(), x.flatten(), x.transpose(), (x > 0).any(), fb.exp(x).mean()] for x in tensors]

    for x, found in zip(arrays, several([fb.tensor(a) for a in arrays]), strict=True):
        with np.errstate(all="ignore"):
            mean = np.exp(x).sum() / np.float32(x.size)
        for a, b in zip(found, [x * 2 + 1, x.sum(), x.ravel(), x.T, (x > 0).any(), mean], strict=True):
            near(a, np.asarray(b))


def test_odd_rows() -> None:
    """Along the last and the first axis, also where one of them is empty."""
    arrays = [
        np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in enumerate(SHAPES) if len(s) > 1
    ]

    @fb.jit
    def several(tensors: list[fb.Tensor]) -> list[list[fb.Tensor]]:
        return [
            [x.sum(-1), x.sum(0), fb.softmax(x, -1), x.cumsum(-1), x.sort(0), x @ x.swapaxes(-1, -2)] for x in tensors
        ]

    for x, found in zip(arrays, several([fb.tensor(a) for a in arrays]), strict=True):
        top = x.max(-1, keepdims=True) if x.shape[-1] else np.zeros((*x.shape[:-1], 1))
        soft = np.exp(x - top) / np.exp(x - top).sum(-1, keepdims=True)
        expected = [x.sum(-1), x.sum(0), soft, x.cumsum(-1), np.sort(x, 0), x @ x.swapaxes(-1, -2)]
        for a, b in zip(found, expected, strict=True):
            near(a, b.astype(np.float32), 1e-4)


def test_sizes_known_late() -> None:
    """One program for every size of a batch, empty and single ones too."""
    w = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)

    @fb.jit(dims={"x": {0: "b"}})
    def model(x: fb.Tensor) -> list[fb.Tensor]:
        y = fb.tanh(x @ fb.tensor(w))
        return [y, y.sum(0), fb.softmax(y, -1).flatten(), x.transpose()]

    for size in (5, 1, 64, 0, 33):
        x = np.random.default_rng(size).standard_normal((size, 6)).astype(np.float32)
        y = np.tanh(x @ w)
        soft = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
        for found, expected in zip(model(fb.tensor(x)), [y, y.sum(0), soft.ravel(), x.T], strict=True):
            near(found, expected, 1e-4)


@pytest.mark.timeout(600)
def test_more_than_two_gibibytes(device: fb.Device) -> None:
    """Positions beyond 32 bits, in bytes and in elements."""
    if not has_memory(device, 16 * TWO_GIB):
        pytest.skip("needs a GPU with 32 GiB of memory")
    rows = TWO_GIB // 1024 + 3
    x = fb.arange(rows, dtype=fb.int32).reshape(rows, 1).astype(fb.int8) + fb.zeros(1, 1024, dtype=fb.int8)
    fb.flush()
    assert x.size > TWO_GIB
    assert x[-1, -5:].tolist() == [np.array(rows - 1).astype(np.int8)] * 5
    counted = (x == 1).sum(0)
    assert counted[:2].tolist() == [int((np.arange(rows).astype(np.int8) == 1).sum())] * 2


# ---- faults ------------------------------------------------------------------------------------------------------


def test_an_index_out_of_range_is_reported_and_the_next_program_runs() -> None:
    x = fb.tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    bad = fb.take(x, fb.tensor([1, 4]), 0) * 2
    with pytest.raises(IndexRangeError, match=r"index out of range\n  expected: an index from 0 to 3\n  found:    4"):
        bad.numpy()
    good = fb.take(x, fb.tensor([1, 3]), 0) * 2
    assert good.tolist() == [[6, 8, 10], [18, 20, 22]]


# ---- transforms --------------------------------------------------------------------------------------------------


def test_derivatives() -> None:
    """Reverse, forward, second and batched derivatives of one function, whose derivatives are known."""
    a = np.linspace(-1.5, 2.0, 5, dtype=np.float32)
    w = np.linspace(0.5, 1.0, 5, dtype=np.float32)

    def f(x: fb.Tensor) -> fb.Tensor:
        return (fb.sin(x) * fb.tensor(w)).sum() + (x * x).prod()

    @fb.jit
    def several(x: fb.Tensor, v: fb.Tensor) -> list[fb.Tensor]:
        batch = fb.stack([x, x * 0.5])
        return [fb.grad(f)(x), fb.jvp(f, (x,), (v,))[1], fb.vmap(fb.grad(f))(batch), fb.hessian(f)(x)]

    def slope(x: Array) -> Array:
        found: Array = np.cos(x) * w + 2 * (x * x).prod() / x
        return found

    def curvature(x: Array) -> Array:
        product = (x * x).prod()
        found: Array = np.diag(-np.sin(x) * w - 2 * product / x**2) + 4 * product / np.outer(x, x)
        return found

    v = np.arange(5, dtype=np.float32)
    gradient, forward, batched, second = several(fb.tensor(a), fb.tensor(v))
    near(gradient, slope(a))
    near(forward, np.asarray(slope(a) @ v))
    near(batched, np.stack([slope(a), slope(a / 2)]))
    near(second, curvature(a), 1e-4)


# ---- random numbers ----------------------------------------------------------------------------------------------


def test_random_numbers_are_those_of_the_cpu(device: fb.Device) -> None:
    """Bits and integers are equal; floats that are made from them are within 2 units in the last place."""
    found = []
    for place in (device, fb.Device("cpu")):
        fb.manual_seed(11)
        with fb.device(place):
            exact = [fb.random.bits((1001,)), fb.random.randint(-3, 1000, (77,)), fb.random.permutation(50)]
            exact += [fb.random.bernoulli((99,), 0.3), fb.dropout(fb.ones(500), 0.3)]
            floats = [fb.rand(333), fb.randn(333), fb.randn(65, dtype=fb.float64)]
        found.append(([x.numpy() for x in exact], [x.numpy() for x in floats]))
    for a, b in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_max_ulp(a, b, 2)
