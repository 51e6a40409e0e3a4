"""Memory and lanes of OpenCL kernels: vectors, masks, gathers, atomics, arrays, views, shuffles, reductions, faults."""

from collections.abc import Sequence

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from firebox.dtypes import DType
from firebox.errors import CompilerError
from firebox.lowering.opencl.emit import emit_source
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.opencl.device_runner import Runner

TYPES = [d.name for d in dtypes.ALL]


def kernel(buffers: Sequence[DType], n_dims: int = 0, group: int = 1, narrow: bool = True) -> KernelBuilder:
    return KernelBuilder.device_kernel("k", buffers, n_dims, group=group, narrow=narrow)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("name", "raw"), [*((n, False) for n in TYPES), ("bool", True), ("f16", True), ("bf16", True)])
def test_copies(device: Runner, name: str, lanes: int, raw: bool) -> None:
    dtype = dtypes.as_dtype(name)
    x = np.arange(64).astype(dtype.numpy)
    np.testing.assert_array_equal(device.maps({"copy": lambda k, x: x}, [x], name, lanes, raw)["copy"], x)


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_masks_cover_the_first_lanes(device: Runner, lanes: int, narrow: bool) -> None:
    k = kernel([dtypes.bool_], 1, narrow=narrow)
    k.store(k.buffers[0], 0, k.mask(k.dims[0], lanes))
    compiled = device.compile(k.finish())
    for count in (-5, 0, 1, lanes - 1, lanes, lanes + 1, *(() if narrow else (1 << 40,))):
        out = np.ones(lanes, np.bool_)
        compiled("k", [out], [count])
        assert out.tolist() == [lane < count for lane in range(lanes)]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["bool", "i8", "u64", "f16", "f32", "f64"])
def test_masked_tails_touch_nothing_else(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    k = kernel([dtype, dtype], 1)
    source, goal = k.buffers

    def step(i: Val, _: list[Val]) -> None:
        mask = k.mask(k.sub(k.dims[0], i), lanes)
        k.store(goal, i, k.load(source, i, lanes, mask, fill=1), mask)

    k.loop(0, k.dims[0], lanes, [], step)
    compiled = device.compile(k.finish())
    x = np.arange(20).astype(dtype.numpy)
    for n in (1, 5, 8, 13):
        out = np.zeros(20, dtype.numpy)
        compiled("k", [x, out], [n])
        np.testing.assert_array_equal(out[:n], x[:n])
        assert not out[n:].any()


@pytest.mark.parametrize("name", ["f32", "bf16", "bool", "i64"])
def test_lanes_that_are_not_read_take_the_filling(device: Runner, name: str) -> None:
    dtype = dtypes.as_dtype(name)
    k = kernel([dtype, dtype], 1)
    k.store(k.buffers[1], 0, k.load(k.buffers[0], 0, 8, k.mask(k.dims[0], 8), fill=1))
    k.store(k.buffers[1], 8, k.load(k.buffers[0], 0, 1, k.gt(k.dims[0], 20), fill=1))
    out = np.zeros(9, dtype.numpy)
    device.compile(k.finish())("k", [np.zeros(3, dtype.numpy), out], [3])
    assert out.astype(np.float64).tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("index", ["i32", "i64", "u8"])
@pytest.mark.parametrize("name", ["f32", "f64", "i8", "f16", "bool"])
def test_gather(device: Runner, name: str, index: str) -> None:
    dtype, kind = dtypes.as_dtype(name), dtypes.as_dtype(index)
    k = kernel([dtype, kind, dtype])
    source, where, goal = k.buffers
    for lanes, start in ((8, 0), (1, 8)):
        picked = k.load(where, start, lanes)
        k.store(goal, start, k.gather(source, picked, mask=k.ne(picked, 7), fill=1))
    x = np.arange(200).astype(dtype.numpy)
    at = np.array([5, 0, 7, 199, 3, 3, 100, 1, 9], kind.numpy)
    out = np.zeros(9, dtype.numpy)
    device.compile(k.finish())("k", [x, at, out])
    np.testing.assert_array_equal(out, np.where(at == 7, dtype.numpy.type(1), x[at]))


def test_indices_of_a_gather_are_signed(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.i32, dtypes.f32])
    middle = k.view(k.view(k.workspace, 0, dtypes.u8), 16, dtypes.f32)
    k.store(k.view(k.workspace, 0, dtypes.f32), 0, k.load(k.buffers[0], 0, 4))
    k.store(middle, 0, k.load(k.buffers[0], 4, 4))
    k.store(k.buffers[2], 0, k.gather(middle, k.load(k.buffers[1], 0, 4)))
    out = np.zeros(4, np.float32)
    compiled = device.compile(k.finish())
    compiled("k", [np.arange(8, dtype=np.float32), np.array([-1, 2, -4, 0], np.int32), out], workspace=32)
    assert out.tolist() == [3, 6, 0, 4]


def test_scatter_keeps_the_last_of_equal_indices(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.i32, dtypes.f32])
    x = k.load(k.buffers[0], 0, 8)
    k.scatter(k.buffers[2], k.load(k.buffers[1], 0, 8), x, mask=k.ne(x, 3.0))
    out = np.zeros(6, np.float32)
    at = np.array([2, 0, 2, 5, 1, 0, 4, 4], np.int32)
    device.compile(k.finish())("k", [np.arange(8, dtype=np.float32), at, out])
    assert out.tolist() == [5, 4, 2, 0, 7, 0]


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("name", ["f32", "f64", "i8", "i16", "u32", "i64", "bool"])
def test_reductions(device: Runner, name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    kinds = ["add", "mul", "min", "max"] + ([] if dtype.is_float else ["and", "or", "xor"])
    k = kernel([dtype, dtype])
    x = k.load(k.buffers[0], 0, lanes)
    for position, kind in enumerate(kinds):
        k.store(k.buffers[1], position, k.reduce(kind, x))
    low = 0 if dtype.is_bool or not dtype.is_signed else -90
    numbers = np.random.default_rng(0).integers(low, 2 if dtype.is_bool else 90, lanes).astype(dtype.numpy)
    out = np.zeros(len(kinds), dtype.numpy)
    device.compile(k.finish())("k", [numbers, out])
    tables = {
        "add": np.logical_or if dtype.is_bool else np.add,
        "mul": np.logical_and if dtype.is_bool else np.multiply,
        "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    for kind, found in zip(kinds, out, strict=True):
        expected = tables[kind].reduce(numbers, dtype=dtype.numpy)
        if dtype.is_float and kind == "mul":
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        else:
            assert found == expected, kind


def test_a_float_sum_is_a_tree_of_halves(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.f32])
    k.store(k.buffers[1], 0, k.reduce("add", k.load(k.buffers[0], 0, 8)))
    x = np.random.default_rng(3).standard_normal(8).astype(np.float32)
    out = np.zeros(1, np.float32)
    device.compile(k.finish())("k", [x, out])
    fours = x[:4] + x[4:]
    twos = fours[:2] + fours[2:]
    assert out[0] == twos[0] + twos[1]


def test_a_maximum_with_a_nan_is_nan_in_every_lane(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.f32])
    x = k.load(k.buffers[0], 0, 4)
    k.store(k.buffers[1], 0, k.reduce("max", x))
    k.store(k.buffers[1], 1, k.reduce("min", x))
    compiled = device.compile(k.finish())
    for lane in range(4):
        values, out = np.arange(4, dtype=np.float32), np.zeros(2, np.float32)
        values[lane] = np.nan
        compiled("k", [values, out])
        assert np.isnan(out).all()


def test_fold_lanes_finds_the_first_maximum(device: Runner) -> None:
    k = kernel([dtypes.f32, dtypes.f32, dtypes.i32])

    def better(low: Sequence[Val], high: Sequence[Val]) -> list[Val]:
        earlier = k.and_(k.eq(high[0], low[0]), k.lt(high[1], low[1]))
        take = k.or_(k.gt(high[0], low[0]), earlier)
        return [k.select(take, h, v) for v, h in zip(low, high, strict=True)]

    best, where = k.fold_lanes([k.load(k.buffers[0], 0, 16), k.iota(16)], better)
    k.store(k.buffers[1], 0, best)
    k.store(k.buffers[2], 0, where)
    x = np.array([3, 1, 7, 2, 7, 0, 6, 5, 4, 1, 7, 2, 2, 2, 2, 2], np.float32)
    out, at = np.zeros(1, np.float32), np.zeros(1, np.int32)
    device.compile(k.finish())("k", [x, out, at])
    assert (out[0], at[0]) == (7, 2)


def test_shuffle_extract_insert(device: Runner) -> None:
    k = kernel([dtypes.i32, dtypes.i32], 1)
    x, y = k.load(k.buffers[0], 0, 4), k.load(k.buffers[0], 4, 8)
    out = k.buffers[1]
    k.store(out, 0, k.shuffle(x, y, [3, 4, 11, 0]))
    k.store(out, 4, k.shuffle(y, x, [8, 0, 7, 11]))
    k.store(out, 8, k.extract(y, 5))
    k.store(out, 9, k.extract(y, k.dims[0]))
    k.store(out, 12, k.insert(k.insert(x, 50, 1), 60, k.dims[0]))
    k.store(out, 16, k.shuffle(x, x, [2]))
    found = np.zeros(17, np.int32)
    device.compile(k.finish())("k", [np.arange(12, dtype=np.int32), found], [3])
    assert found.tolist() == [3, 4, 11, 0, 0, 4, 11, 3, 9, 7, 0, 0, 0, 50, 2, 60, 2]


def test_bools_in_lanes(device: Runner) -> None:
    k = kernel([dtypes.i32, dtypes.bool_], 1)
    odd = k.ne(k.and_(k.load(k.buffers[0], 0, 4), 1), 0)
    k.store(k.buffers[1], 0, k.extract(odd, 1))
    k.store(k.buffers[1], 1, k.extract(odd, k.dims[0]))
    k.store(k.buffers[1], 4, k.insert(odd, k.extract(odd, 1), 0))
    k.store(k.buffers[1], 8, k.broadcast(k.gt(k.dims[0], 1), 4))
    out = np.zeros(12, np.bool_)
    device.compile(k.finish())("k", [np.arange(4, dtype=np.int32), out], [2])
    assert out.astype(int).tolist() == [1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1]


def test_a_broadcast_that_two_branches_take_apart(device: Runner) -> None:
    k = kernel([dtypes.f32], 1)
    every = k.broadcast(k.load(k.buffers[0], 0), 4)

    def store(at: int) -> None:
        k.store(k.buffers[0], at, k.exp(every), k.mask(k.dims[0], 4))

    k.if_(k.eq(k.dims[0], 0), lambda: store(1))
    k.if_(k.eq(k.dims[0], 1), lambda: store(2))
    out = np.array([1, 0, 0, 0, 0, 0], np.float32)
    device.compile(k.finish())("k", [out], [1])
    np.testing.assert_allclose(out, [1, 0, np.e, 0, 0, 0], rtol=1e-6)


def test_arrays_of_the_group_and_of_the_work_item(device: Runner) -> None:
    """Every work-item reads what its neighbour wrote; the second array has another type and is cut by a view."""
    k = kernel([dtypes.f32, dtypes.f32], group=8)
    item = k.local_id()
    shared, own = k.alloc_local(dtypes.f32, 8), k.alloc_stack(dtypes.f32, 4)
    bytes_ = k.alloc_local(dtypes.u8, 64)
    view = k.view(bytes_, 32, dtypes.i32)
    k.store(shared, item, k.load(k.buffers[0], item))
    k.store(view, item, k.cast(item, dtypes.i32))
    k.store(k.opaque(own), 0, k.broadcast(2.0, 4, dtypes.f32))
    k.barrier()
    other = k.xor(item, 1)
    total = k.add(k.load(shared, other), k.load(own, k.and_(item, 3)))
    k.store(k.buffers[1], item, k.add(total, k.cast(k.load(view, other), dtypes.f32)))
    out = np.zeros(8, np.float32)
    x = np.arange(8, dtype=np.float32) * 10
    compiled = device.compile(k.finish())
    compiled("k", [x, out])
    order = np.arange(8) ^ 1
    np.testing.assert_array_equal(out, x[order] + 2 + order)
    assert "__local float shared[8] __attribute__((aligned(16)));" in compiled.text


@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64"])
def test_atomics_give_the_old_value(device: Runner, name: str) -> None:
    dtype = dtypes.as_dtype(name)
    if dtype.itemsize == 8 and not device.target.has("int64_atomics"):
        pytest.skip("the device has no 64-bit atomics")
    kinds = ("add", "max", "min", "and", "or", "xor", "exchange")
    k = kernel([dtype, dtype])
    for position, kind in enumerate(kinds):
        k.store(k.buffers[1], position, k.atomic(kind, k.buffers[0], position, -3))
    memory, old = np.full(7, 5, dtype.numpy), np.zeros(7, dtype.numpy)
    device.compile(k.finish())("k", [memory, old])
    three = np.array(-3).astype(dtype.numpy)
    five = np.array(5).astype(dtype.numpy)
    expected = [five + three, max(five, three), min(five, three), five & three, five | three, five ^ three, three]
    np.testing.assert_array_equal(old, five)
    np.testing.assert_array_equal(memory, expected)


def test_atomics_of_many_work_items(device: Runner) -> None:
    k = kernel([dtypes.i32, dtypes.i32], group=16)
    shared = k.alloc_local(dtypes.i32, 1)
    k.if_(k.eq(k.local_id(), 0), lambda: k.store(shared, 0, 0))
    k.barrier()
    k.atomic("add", shared, 0, k.cast(k.local_id(), dtypes.i32))
    k.barrier()
    k.if_(k.eq(k.local_id(), 0), lambda: k.store(k.buffers[1], k.group_id(), k.load(shared, 0)))
    k.atomic("max", k.buffers[0], 0, k.cast(k.group_id(), dtypes.i32))
    memory, sums = np.array([-5], np.int32), np.zeros(40, np.int32)
    device.compile(k.finish())("k", [memory, sums], groups=40)
    assert memory[0] == 39 and (sums == 120).all()


@pytest.mark.parametrize(("name", "kind"), [("f32", "add"), ("i8", "add"), ("f64", "max")])
def test_atomics_that_do_not_exist_are_refused(name: str, kind: str) -> None:
    k = kernel([dtypes.as_dtype(name)])
    k.atomic(kind, k.buffers[0], 0, 1)
    with pytest.raises(CompilerError, match="no atomic operation"):
        emit_source([k.finish()], OpenClTarget.generic())


def test_64_bit_atomics_need_the_device() -> None:
    k = kernel([dtypes.i64])
    k.atomic("add", k.buffers[0], 0, 1)
    function = k.finish()
    with pytest.raises(CompilerError, match="no 64-bit atomics"):
        emit_source([function], OpenClTarget.generic())
    assert "cl_khr_int64_extended_atomics" in emit_source([function], OpenClTarget.h200())


def test_the_first_fault_is_kept(device: Runner) -> None:
    k = kernel([dtypes.i32], group=4)
    value = k.load(k.buffers[0], k.add(k.mul(k.group_id(), 4), k.local_id()))
    k.if_(k.gt(value, 3), lambda: k.fail(1, 9, value, -2))
    compiled = device.compile(k.finish())
    assert compiled("k", [np.array([1, 2, 3, 3] * 5, np.int32)], groups=5) == [0, 0, 0, 0]
    assert compiled("k", [np.array([1, 7, 3, 3] * 5, np.int32)], groups=5) == [1, 9, 7, -2]
    assert compiled("k", [np.array([1, 8, 9, 3] * 5, np.int32)], groups=5, status=(2, 5, 6, 7)) == [2, 5, 6, 7]


def test_prefetch_and_a_helper_function_in_two_address_spaces(device: Runner) -> None:
    h = KernelBuilder.function("fill", [(dtypes.f32,), dtypes.f32])
    memory, value = h.args
    assert isinstance(memory, Ref) and isinstance(value, Val)
    h.loop(0, 4, 1, [], lambda i, _: h.store(memory, i, value))
    helper = h.finish()
    k = kernel([dtypes.f32])
    own = k.view(k.alloc_stack(dtypes.u8, 16), 0, dtypes.f32)
    k.prefetch(k.buffers[0], 0)
    k.call(helper, [k.buffers[0], k.const(2.0, dtypes.f32)])
    k.call(helper, [own, k.const(5.0, dtypes.f32)])
    k.store(k.buffers[0], 0, k.add(k.load(k.buffers[0], 1), k.load(own, 3)))
    out = np.zeros(4, np.float32)
    device.compile(helper, k.finish())("k", [out])
    assert out.tolist() == [7, 2, 2, 2]
