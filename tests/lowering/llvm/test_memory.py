"""Loads, stores, masks, gathers, lanes and reductions of compiled kernels."""

from collections.abc import Sequence

import numpy as np
import pytest

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.errors import CompilerError
from firebox.runtime.target import Target
from tests.lowering.llvm.kernel_runner import Compiled

TYPES = [d.name for d in dtypes.ALL]


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
def test_masks_cover_the_first_lanes(lanes: int) -> None:
    b = KernelBuilder.kernel("k", [dtypes.bool_], n_dims=1)
    b.store(b.buffers[0], 0, b.mask(b.dims[0], lanes))
    compiled = Compiled([b.finish()])
    for count in (-5, 0, 1, lanes - 1, lanes, lanes + 1, 1 << 40):
        out = np.ones(lanes, np.bool_)
        compiled("k", [out], dims=[count])
        assert out.tolist() == [k < count for k in range(lanes)]


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", TYPES)
def test_masked_tails_touch_nothing_else(name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    b = KernelBuilder.kernel("k", [dtype, dtype], n_dims=1)
    source, goal = b.buffers

    def step(i: Val, _: list[Val]) -> None:
        mask = b.mask(b.sub(b.dims[0], i), lanes)
        b.store(goal, i, b.load(source, i, lanes, mask, fill=1), mask)

    b.loop(0, b.dims[0], lanes, [], step)
    compiled = Compiled([b.finish()])
    x = np.arange(20).astype(dtype.numpy)
    for n in (1, 5, 8, 13):
        out = np.zeros(20, dtype.numpy)
        compiled("k", [x, out], dims=[n])
        np.testing.assert_array_equal(out[:n], x[:n])
        assert not out[n:].any()


@pytest.mark.parametrize("name", ["f32", "bf16", "bool", "i64"])
def test_lanes_that_are_not_read_take_the_filling(name: str) -> None:
    dtype = dtypes.as_dtype(name)
    b = KernelBuilder.kernel("k", [dtype, dtype], n_dims=1)
    b.store(b.buffers[1], 0, b.load(b.buffers[0], 0, 8, b.mask(b.dims[0], 8), fill=1))
    b.store(b.buffers[1], 8, b.load(b.buffers[0], 0, 1, b.gt(b.dims[0], 20), fill=1))
    out = np.zeros(9, dtype.numpy)
    Compiled([b.finish()])("k", [np.zeros(3, dtype.numpy), out], dims=[3])
    assert out.astype(np.float64).tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("index", ["i32", "i64", "u8"])
@pytest.mark.parametrize("name", ["f32", "f64", "i8", "f16", "bool"])
def test_gather(name: str, index: str) -> None:
    dtype, kind = dtypes.as_dtype(name), dtypes.as_dtype(index)
    b = KernelBuilder.kernel("k", [dtype, kind, dtype])
    source, where, goal = b.buffers
    for lanes, start in ((8, 0), (1, 8)):
        picked = b.load(where, start, lanes)
        b.store(goal, start, b.gather(source, picked, mask=b.ne(picked, 7), fill=1))
    x = np.arange(200).astype(dtype.numpy)
    at = np.array([5, 0, 7, 199, 3, 3, 100, 1, 9], kind.numpy)
    out = np.zeros(9, dtype.numpy)
    Compiled([b.finish()])("k", [x, at, out])
    np.testing.assert_array_equal(out, np.where(at == 7, dtype.numpy.type(1), x[at]))


def test_scatter_keeps_the_last_of_equal_indices() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.i32, dtypes.f32])
    x = b.load(b.buffers[0], 0, 8)
    b.scatter(b.buffers[2], b.load(b.buffers[1], 0, 8), x, mask=b.ne(x, 3.0))
    out = np.zeros(6, np.float32)
    at = np.array([2, 0, 2, 5, 1, 0, 4, 4], np.int32)
    Compiled([b.finish()])("k", [np.arange(8, dtype=np.float32), at, out])
    assert out.tolist() == [5, 4, 2, 0, 7, 0]


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize("name", ["f32", "f64", "i16", "u32", "bool"])
def test_reductions(name: str, lanes: int) -> None:
    dtype = dtypes.as_dtype(name)
    kinds = ["add", "mul", "min", "max"] + ([] if dtype.is_float else ["and", "or", "xor"])
    b = KernelBuilder.kernel("k", [dtype, dtype])
    x = b.load(b.buffers[0], 0, lanes)
    for k, kind in enumerate(kinds):
        b.store(b.buffers[1], k, b.reduce(kind, x))
    x_ = (np.random.default_rng(0).integers(0, 2 if dtype.is_bool else 90, lanes)).astype(dtype.numpy)
    out = np.zeros(len(kinds), dtype.numpy)
    Compiled([b.finish()])("k", [x_, out])
    tables = {
        "add": np.logical_or if dtype.is_bool else np.add,
        "mul": np.logical_and if dtype.is_bool else np.multiply,
        "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    for kind, found in zip(kinds, out, strict=True):
        expected = tables[kind].reduce(x_, dtype=dtype.numpy)
        if dtype.is_float and kind == "mul":
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        else:
            assert found == expected, kind


def test_a_float_sum_is_a_tree_of_halves() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.f32])
    b.store(b.buffers[1], 0, b.reduce("add", b.load(b.buffers[0], 0, 8)))
    compiled = Compiled([b.finish()])
    x = np.random.default_rng(3).standard_normal(8).astype(np.float32)
    out = np.zeros(1, np.float32)
    compiled("k", [x, out])
    fours = x[:4] + x[4:]
    twos = fours[:2] + fours[2:]
    assert out[0] == twos[0] + twos[1]


def test_a_maximum_with_a_nan_is_nan_in_every_lane() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.f32])
    x = b.load(b.buffers[0], 0, 8)
    b.store(b.buffers[1], 0, b.reduce("max", x))
    b.store(b.buffers[1], 1, b.reduce("min", x))
    compiled = Compiled([b.finish()])
    for lane in range(8):
        values, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
        values[lane] = np.nan
        compiled("k", [values, out])
        assert np.isnan(out).all()


def test_fold_lanes_finds_the_first_maximum() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.f32, dtypes.i32])

    def better(low: Sequence[Val], high: Sequence[Val]) -> list[Val]:
        earlier = b.and_(b.eq(high[0], low[0]), b.lt(high[1], low[1]))
        take = b.or_(b.gt(high[0], low[0]), earlier)
        return [b.select(take, h, v) for v, h in zip(low, high, strict=True)]

    best, where = b.fold_lanes([b.load(b.buffers[0], 0, 16), b.iota(16)], better)
    b.store(b.buffers[1], 0, best)
    b.store(b.buffers[2], 0, where)
    x = np.array([3, 1, 7, 2, 7, 0, 6, 5, 4, 1, 7, 2, 2, 2, 2, 2], np.float32)
    out, at = np.zeros(1, np.float32), np.zeros(1, np.int32)
    Compiled([b.finish()])("k", [x, out, at])
    assert (out[0], at[0]) == (7, 2)


def test_shuffle_extract_insert() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i32, dtypes.i32], n_dims=1)
    x, y = b.load(b.buffers[0], 0, 4), b.load(b.buffers[0], 4, 8)
    out = b.buffers[1]
    b.store(out, 0, b.shuffle(x, y, [3, 4, 11, 0]))
    b.store(out, 4, b.shuffle(y, x, [8, 0, 7, 11]))
    b.store(out, 8, b.extract(y, 5))
    b.store(out, 9, b.extract(y, b.dims[0]))
    b.store(out, 10, b.insert(b.insert(x, 50, 1), 60, b.dims[0]))
    b.store(out, 14, b.shuffle(x, x, [2]))
    found = np.zeros(15, np.int32)
    Compiled([b.finish()])("k", [np.arange(12, dtype=np.int32), found], dims=[3])
    assert found.tolist() == [3, 4, 11, 0, 0, 4, 11, 3, 9, 7, 0, 50, 2, 60, 2]


def test_scratch_stack_and_opaque_memory() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32])
    view = b.view(b.scratch, 64, dtypes.f32)
    stack = b.alloc_stack(dtypes.f32, 16)
    b.store(view, 3, 5.0)
    b.store(b.opaque(stack), 0, b.broadcast(2.0, 16, dtypes.f32))
    b.prefetch(b.buffers[0], 1 << 20)
    b.store(b.buffers[0], 0, b.add(b.load(view, 3), b.load(stack, 9)))
    out = np.zeros(1, np.float32)
    Compiled([b.finish()])("k", [out])
    assert out[0] == 7


def test_nontemporal_stores() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32])
    lanes = Target.host().lanes(4)
    b.store(b.buffers[0], 0, b.broadcast(2.0, lanes, dtypes.f32), nontemporal=True)
    memory = np.zeros(lanes * 2 + 16, np.float32)
    start = (-memory.ctypes.data % 64) // 4
    out = memory[start : start + lanes]
    compiled = Compiled([b.finish()])
    compiled("k", [out])
    assert (out == 2).all()
    assert "align 64, !nontemporal !0" in compiled.text or lanes != 16


def test_atomics_give_the_old_value() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i32, dtypes.u32, dtypes.f32, dtypes.i32])
    i, u, f, old = b.buffers
    for k, kind in enumerate(("add", "max", "min", "and", "or", "xor", "exchange")):
        b.store(old, k, b.atomic(kind, i, k, -3))
    b.atomic("max", u, 0, 7)
    b.atomic("add", f, 0, 1.5)
    signed, unsigned = np.full(7, 5, np.int32), np.array([2**31], np.uint32)
    real, before = np.array([2.0], np.float32), np.zeros(7, np.int32)
    Compiled([b.finish()])("k", [signed, unsigned, real, before])
    assert signed.tolist() == [2, 5, -3, 5 & -3, 5 | -3, 5 ^ -3, -3]
    assert before.tolist() == [5] * 7
    assert (unsigned[0], real[0]) == (2**31, 3.5)


def test_raw_access_moves_bits() -> None:
    b = KernelBuilder.kernel("k", [dtypes.bf16, dtypes.bf16, dtypes.bool_, dtypes.bool_])
    b.store(b.buffers[1], 0, b.load(b.buffers[0], 0, 4, raw=True), raw=True)
    b.store(b.buffers[3], 0, b.load(b.buffers[2], 0, 4, raw=True), raw=True)
    x = np.array([0x7F81, 0xFFFF, 0x8000, 1], np.uint16)
    y = np.array([0, 1, 1, 0], np.uint8)
    out, flags = np.zeros(4, np.uint16), np.zeros(4, np.uint8)
    Compiled([b.finish()])("k", [x, out, y, flags])
    assert out.tolist() == x.tolist()
    assert flags.tolist() == y.tolist()


def test_a_store_of_another_type_is_refused() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i32])
    with pytest.raises(CompilerError, match="value and memory differ"):
        b.store(b.buffers[0], 0, b.const(1.0, dtypes.f32))


@pytest.mark.skipif(Target.host().arch != "x86_64", reason="x86 assembly")
def test_inline_assembly() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i64])
    seven = b.const(7, dtypes.i64)
    result = b.asm("lea 1($1), $0", "=r,r", [seven], dtypes.i64)
    assert result is not None
    b.store(b.buffers[0], 0, result)
    b.asm('movq $$5, 8($0)  # "quoted"', "r,~{memory}", [b.buffers[0]])
    out = np.zeros(2, np.int64)
    Compiled([b.finish()])("k", [out])
    assert out.tolist() == [8, 5]
