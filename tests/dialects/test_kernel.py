"""The kernel dialect and its builder: text, verifiers, hoisting, sharing, types."""

from collections.abc import Callable, Sequence

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from firebox import dtypes
from firebox.dialects import xdsl_compat
from firebox.dialects.kernel import Kernel, ops, tile_ops
from firebox.dialects.kernel.builder import KernelBuilder, Ref, Val
from tests.dialects.kernels import kernel

STANDARD = (arith.Arith, math.Math, scf.Scf, memref.MemRef, vector.Vector, func.Func, builtin.Builtin)


def context() -> Context:
    result = Context()
    for dialect in (*STANDARD, Kernel):
        result.load_dialect(dialect)
    return result


def assert_round_trip(function: func.FuncOp) -> None:
    xdsl_compat.verify(function)
    again = Parser(context(), str(function)).parse_op()
    again.verify()
    assert str(again) == str(function)
    assert function.is_structurally_equivalent(again)


def use_everything() -> func.FuncOp:
    """A kernel with every op of the dialect, and with all control flow."""
    b = KernelBuilder.kernel("all", [dtypes.f32, dtypes.i32, dtypes.bool_, dtypes.bf16], 1, location=("a.py", 3))
    f, i, flags, half = b.buffers
    lanes = b.iota(8)
    mask = b.mask(b.dims[0], 8)
    x = b.gather(f, lanes, mask, fill=1.0)
    b.scatter(f, lanes, b.sigmoid(b.mod(x, 3.0)), b.lt(x, 2.0))
    b.atomic("max", i, 0, 5)
    b.prefetch(f, 64, write=True, locality=2)
    b.store(b.alloc_stack(dtypes.f32, 8), 0, b.select(b.isnan(x), 0.0, x))
    b.store(b.opaque(b.view(b.scratch, 128, dtypes.f64)), 0, b.cast(x, dtypes.f64))
    b.store(half, 0, b.load(half, 0, 8, mask), mask)
    b.store(flags, 0, b.ne(b.load(flags, 0, 8), b.broadcast(True, 8, dtypes.bool_)), nontemporal=True)
    b.if_(b.gt(b.dims[0], 3), lambda: b.fail(1, 7, b.dims[0]))
    b.asm("vzeroupper", "~{memory}", [])
    b.asm("mov $1, $0", "=r,r", [b.begin], dtypes.i64)
    total = b.loop(0, b.end, 8, [x], lambda k, c: [b.add(c[0], b.load(f, k, 8))])
    best = b.if_(b.lt(b.begin, 5), lambda: total, lambda: [x])
    spread = b.while_([b.index(1)], lambda v: b.lt(v[0], b.end), lambda v: [b.mul(v[0], 2)])
    rotated = b.shuffle(best[0], x, [3, 2, 1, 0, 12, 13, 14, 15])
    b.store(f, spread[0], b.add(b.reduce("max", rotated), b.extract(b.insert(x, 2.0, 3), b.dims[0])))
    b.store(i, 0, b.bitcast(b.pow(x, x), dtypes.i32))
    use_tiles(b)
    return b.finish()


def use_tiles(b: KernelBuilder) -> None:
    """All work on tile registers and on pairs."""
    f, _, _, half = b.buffers
    b.tile_config()
    b.tile_zero(0)
    b.tile_load(4, half, b.begin, 32)
    b.tile_load(6, half, 512, b.dims[0])
    b.tile_dot(0, 4, 6)
    b.tile_store(0, f, 0, 16)
    b.tile_release()
    pairs = b.pairs(b.load(half, 0, 32, raw=True))
    b.store(f, 0, b.dot_pairs(b.load(f, 0, 16), pairs, b.extract(pairs, 3)))


def use_work_groups() -> func.FuncOp:
    """A kernel of the OpenCL calling convention with what only those have."""
    b = KernelBuilder.device_kernel("groups", [dtypes.f32, dtypes.u32], group=64, narrow=True)
    shared = b.alloc_local(dtypes.f32, 64)
    b.store(shared, b.local_id(), b.load(b.buffers[0], b.add(b.mul(b.group_id(), b.group), b.local_id())))
    b.barrier()
    low, high = b.asm_many("mov.b64 {$0, $1}, $2;", "=r,=r,l", [b.const(7, dtypes.i64)], [dtypes.u32] * 2)
    b.store(b.buffers[1], b.group_count(), b.add(low, high))
    b.store(b.buffers[0], b.local_id(), b.load(shared, b.sub(63, b.local_id())))
    return b.finish()


def test_every_op_round_trips_through_text() -> None:
    functions = (use_everything(), use_work_groups())
    used = {type(op) for function in functions for op in function.walk()}
    assert set(Kernel.operations) <= used
    for function in functions:
        assert_round_trip(function)


def test_a_kernel_says_whether_it_needs_workspace_and_status() -> None:
    b = KernelBuilder.device_kernel("plain", [dtypes.f32], group=64, narrow=False)
    assert "kernel.workspace" not in (plain := b.finish()).attributes and "kernel.narrow" not in plain.attributes
    b = KernelBuilder.device_kernel("uses", [dtypes.f32], group=64, narrow=True)
    b.store(b.view(b.workspace, 0, dtypes.f32), 0, b.load(b.buffers[0], 0))
    b.if_(b.gt(b.local_id(), 3), lambda: b.fail(1, 7))
    assert {"kernel.workspace", "kernel.status", "kernel.narrow"} <= set(b.finish().attributes)


def test_text_is_the_standard_dialects_plus_kernel() -> None:
    text = str(use_everything())
    assert "kernel.gather %a0[" in text
    assert 'kernel.abi = "cpu"' in text
    assert "kernel.dims = array<i64: 0>" in text


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 0.1])
def test_float_constants_round_trip(value: float) -> None:
    b = kernel()
    b.store(b.buffers[0], 0, value)
    assert_round_trip(b.finish())


def bad(build: Callable[[KernelBuilder], Operation]) -> VerifyException:
    """The complaint about an op that is built with wrong types or properties."""
    b = kernel([dtypes.f32, dtypes.i32])
    with pytest.raises(VerifyException) as caught:
        build(b).verify()
    return caught.value


def made(
    cls: type[Operation], operands: Sequence[Val | Ref], results: list[Attribute], **given: Attribute
) -> Operation:
    return xdsl_compat.create(cls, [v.ssa for v in operands], results, given)


F32, I32 = xdsl_compat.scalar_type(dtypes.f32), xdsl_compat.scalar_type(dtypes.i32)
F32X8, I32X8 = xdsl_compat.vector_type(F32, 8), xdsl_compat.vector_type(I32, 8)


def test_verifiers_say_what_is_wrong() -> None:
    text = builtin.StringAttr
    number = builtin.IntegerAttr

    def complaint(build: Callable[[KernelBuilder], Operation]) -> str:
        return str(bad(build)).splitlines()[0]

    assert "must be i1, found i32" in complaint(
        lambda b: made(ops.SelectOp, [b.const(1, dtypes.i32), b.begin, b.end], [xdsl_compat.INDEX_TYPE])
    )
    assert "gives i32 or i64 lanes, found vector<8xf32>" in complaint(lambda b: made(ops.IotaOp, [], [F32X8]))
    assert "gives i1 lanes" in complaint(lambda b: made(ops.MaskOp, [b.begin], [I32X8]))
    assert "keeps the lanes" in complaint(lambda b: made(ops.CastOp, [b.iota(8)], [F32]))
    assert "compares by eq" in complaint(
        lambda b: made(ops.CmpOp, [b.begin, b.end], [xdsl_compat.I1], predicate=text("olt"))
    )
    assert "found 'nand'" in complaint(
        lambda b: made(ops.AtomicOp, [b.buffers[1], b.begin, b.const(1, dtypes.i32)], [I32], kind=text("nand"))
    )
    assert "does not fit the memory memref<?xf32>" in complaint(
        lambda b: made(ops.AtomicOp, [b.buffers[0], b.begin, b.const(1, dtypes.i32)], [I32], kind=text("add"))
    )
    assert "locality is 0 to 3, found 4" in complaint(
        lambda b: made(ops.PrefetchOp, [b.buffers[0], b.begin], [], locality=number(4, 64))
    )
    assert "static positive size" in complaint(
        lambda b: made(ops.AllocOp, [], [xdsl_compat.memref_type(F32)], space=text("stack"))
    )
    assert "takes a memref of i8" in complaint(
        lambda b: made(ops.ViewOp, [b.buffers[0], b.begin], [xdsl_compat.memref_type(F32)])
    )
    assert "positive code, found 0" in complaint(
        lambda b: made(
            ops.FailOp, [b.status, *[b.const(0, dtypes.i64)] * 2], [], code=number(0, 64), op_id=number(1, 64)
        )
    )
    assert "have different lanes" in complaint(
        lambda b: made(
            ops.GatherOp,
            [b.buffers[0], b.iota(4), b.mask(b.begin, 8), b.broadcast(0.0, 8, dtypes.f32)],
            [F32X8],
        )
    )


def test_verifiers_of_tiles_say_what_is_wrong() -> None:
    number = builtin.IntegerAttr
    sums, pairs = (xdsl_compat.vector_type(t, 16) for t in (F32, I32))

    def complaint(build: Callable[[KernelBuilder], Operation]) -> str:
        return str(bad(build)).splitlines()[0]

    assert "tiles are 0 to 7, found 8" in complaint(lambda b: made(tile_ops.TileZeroOp, [], [], tile=number(8, 64)))
    assert "pairs of them as i32, or of f32 sums, found f64" in complaint(
        lambda b: made(
            tile_ops.TileLoadOp, [b.view(b.scratch, 0, dtypes.f64), b.begin, b.begin], [], tile=number(0, 64)
        )
    )
    assert "three different tiles" in complaint(
        lambda b: made(tile_ops.TileDotOp, [], [], sums=number(1, 64), lhs=number(1, 64), rhs=number(2, 64))
    )
    assert "have different lanes" in complaint(
        lambda b: made(tile_ops.DotPairsOp, [b.broadcast(0.0, 16, dtypes.f32), b.iota(8), b.iota(8)], [sums])
    )
    assert "adds pairs in i32 to f32" in complaint(
        lambda b: made(tile_ops.DotPairsOp, [b.iota(16), b.iota(16), b.iota(16)], [pairs])
    )


# Where ops go
