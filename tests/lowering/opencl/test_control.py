"""Loops, branches and places of work-items of OpenCL kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder, Val
from tests.lowering.opencl.device_runner import Compiled, Runner


def kernel(buffers: list[dtypes.DType], n_dims: int = 0, group: int = 1) -> KernelBuilder:
    return KernelBuilder.device_kernel("k", buffers, n_dims, group=group, narrow=True)


@pytest.fixture(scope="module")
def fibonacci(device: Runner) -> Compiled:
    """Carried values that take each other's place; lower bound, upper bound and step are arguments."""
    k = kernel([dtypes.i64], 3)
    zero, one = k.const(0, dtypes.i64), k.const(1, dtypes.i64)
    a, b, last = k.loop(
        k.dims[0],
        k.dims[1],
        k.dims[2],
        [zero, one, zero],
        lambda i, v: [v[1], k.add(v[0], v[1]), k.cast(i, dtypes.i64)],
    )
    for position, value in enumerate((a, b, last)):
        k.store(k.buffers[0], position, value)
    return device.compile(k.finish())


@settings(max_examples=20)
@given(low=st.integers(-5, 5), length=st.integers(-3, 30), step=st.integers(1, 4))
def test_loops_carry_values_at_once(fibonacci: Compiled, low: int, length: int, step: int) -> None:
    a, b, last = 0, 1, 0
    for i in range(low, low + length, step):
        a, b, last = b, a + b, i
    out = np.zeros(3, np.int64)
    fibonacci("k", [out], [low, low + length, step])
    assert out.tolist() == [a, b, last]


def test_values_that_go_round_in_a_circle(device: Runner) -> None:
    k = kernel([dtypes.i32], 1)
    start = [k.const(n, dtypes.i32) for n in (1, 2, 3)]
    found = k.loop(0, k.dims[0], 1, start, lambda i, v: [v[1], v[2], v[0]])
    for position, value in enumerate(found):
        k.store(k.buffers[0], position, value)
    compiled = device.compile(k.finish())
    for turns in range(4):
        out = np.zeros(3, np.int32)
        compiled("k", [out], [turns])
        assert out.tolist() == np.roll([1, 2, 3], -turns).tolist()


def test_nested_loops_of_vectors(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.f32], 2)
    rows, columns = k.dims

    def row(i: Val, _: list[Val]) -> None:
        zero = k.broadcast(0.0, 4, dtypes.f32)
        start = k.mul(i, columns)
        step = lambda j, v: [k.add(v[0], k.load(k.buffers[0], k.add(start, j), 4))]  # noqa: E731
        (total,) = k.loop(0, columns, 4, [zero], step)
        k.store(k.buffers[1], i, k.reduce("add", total))

    k.loop(0, rows, 1, [], row)
    x = np.arange(3 * 8, dtype=np.float32).reshape(3, 8)
    out = np.zeros(3, np.float32)
    device.compile(k.finish())("k", [x, out], [3, 8])
    np.testing.assert_array_equal(out, x.sum(axis=1))


def test_branches_with_and_without_results(device: Runner) -> None:
    def body(k: KernelBuilder, x: Val) -> Val:
        size, sign = k.if_(
            k.lt(x, 0), lambda: [k.neg(x), k.const(-1, dtypes.i32)], lambda: [k.mul(x, 2), k.const(1, dtypes.i32)]
        )
        nested = k.if_(k.gt(size, 5), lambda: k.if_(k.gt(size, 7), lambda: [size], lambda: [sign]), lambda: [x])
        return k.add(nested[0], k.mul(sign, 100))

    x = np.arange(-9, 10, dtype=np.int32)
    size, sign = np.where(x < 0, -x, 2 * x), np.where(x < 0, -1, 1)
    expected = np.where(size > 5, np.where(size > 7, size, sign), x) + 100 * sign
    np.testing.assert_array_equal(device.maps({"f": body}, [x], "i32")["f"], expected)


def test_conditional_loops(device: Runner) -> None:
    """The number of steps of Collatz' sequence; the test of the second loop takes statements of its own."""

    def collatz(k: KernelBuilder, x: Val) -> Val:
        def step(v: list[Val]) -> list[Val]:
            even = k.eq(k.and_(v[0], 1), 0)
            return [k.select(even, k.shr(v[0], 1), k.add(k.mul(v[0], 3), 1)), k.add(v[1], 1)]

        return k.while_([x, k.const(0, dtypes.i32)], lambda v: k.gt(v[0], 1), step)[1]

    def square_root(k: KernelBuilder, x: Val) -> Val:
        def small(v: list[Val]) -> Val:
            following = k.add(v[0], 1)
            return k.le(k.mul(following, following), x)

        return k.while_([k.const(0, dtypes.i32)], small, lambda v: [k.add(v[0], 1)])[0]

    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    x = np.arange(0, 40, dtype=np.int32)
    found = device.maps({"collatz": collatz, "root": square_root}, [x], "i32")
    assert found["collatz"].tolist() == [steps(int(n)) for n in x]
    np.testing.assert_array_equal(found["root"], np.sqrt(x).astype(np.int32))


def test_work_items_know_their_place(device: Runner) -> None:
    k = kernel([dtypes.i32], group=4)
    at = k.add(k.mul(k.group_id(), 4), k.local_id())
    k.store(k.buffers[0], at, k.cast(k.add(k.mul(k.group_count(), 100), at), dtypes.i32))
    out = np.zeros(12, np.int32)
    device.compile(k.finish())("k", [out], groups=3)
    np.testing.assert_array_equal(out, 300 + np.arange(12))
