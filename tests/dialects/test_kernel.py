"""The kernel dialect and its builder: text, verifiers, hoisting, sharing, types."""

from collections.abc import Callable, Sequence

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from firebox import dtypes
from firebox.dialects import xdsl_compat
from firebox.dialects.kernel import Kernel, ops
from firebox.dialects.kernel.builder import INDEX, KernelBuilder, Ref, Val
from firebox.errors import CompilerError

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


def kernel(buffers: list[dtypes.DType] | None = None, dims: int = 0) -> KernelBuilder:
    return KernelBuilder.kernel("k", buffers or [dtypes.f32], dims)


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


# Where ops go


def ops_in(block: Block, cls: type[Operation]) -> int:
    return sum(isinstance(op, cls) for op in block.ops)


def test_loop_invariant_work_is_outside_of_the_loop() -> None:
    b = kernel(dims=1)

    def row(i: Val, _: list[Val]) -> None:
        def column(j: Val, _: list[Val]) -> None:
            start = b.mul(i, b.dims[0])  # of the row
            scale = b.exp(b.load(b.buffers[0], b.add(b.dims[0], 3), invariant=True))  # of the function
            b.store(b.buffers[0], b.add(start, j), scale)

        b.loop(0, b.dims[0], 1, [], column)

    b.loop(b.begin, b.end, 1, [], row)
    function = b.finish()
    xdsl_compat.verify(function)
    outer = next(op for op in function.body.block.ops if isinstance(op, scf.ForOp))
    inner = next(op for op in outer.body.block.ops if isinstance(op, scf.ForOp))
    assert ops_in(function.body.block, math.ExpOp) == 1
    assert ops_in(function.body.block, memref.LoadOp) == 1
    assert ops_in(outer.body.block, arith.MuliOp) == 1
    assert [op.name for op in inner.body.block.ops] == ["arith.addi", "memref.store", "scf.yield"]


def test_ordinary_loads_stay_where_they_are() -> None:
    b = kernel()
    b.loop(0, b.end, 1, [], lambda i, _: b.store(b.buffers[0], i, b.load(b.buffers[0], 0)))
    loop = next(op for op in b.finish().body.block.ops if isinstance(op, scf.ForOp))
    assert ops_in(loop.body.block, memref.LoadOp) == 1


def test_costly_work_does_not_leave_its_branch() -> None:
    b = kernel()
    x = b.load(b.buffers[0], 0)

    def body(i: Val, _: list[Val]) -> None:
        def then() -> None:
            b.store(b.buffers[0], i, b.add(b.exp(x), b.mul(x, 2.0)))

        b.if_(b.gt(i, 3), then)

    b.loop(0, b.end, 1, [], body)
    function = b.finish()
    xdsl_compat.verify(function)
    branch = next(op for op in function.walk() if isinstance(op, scf.IfOp))
    assert ops_in(branch.true_region.block, math.ExpOp) == 1
    assert ops_in(function.body.block, arith.MulfOp) == 1


def test_work_in_a_loop_inside_a_branch_moves_to_the_branch() -> None:
    b = kernel()
    x = b.load(b.buffers[0], 0)
    b.if_(
        b.gt(b.end, 3),
        lambda: b.loop(0, b.end, 1, [], lambda i, _: b.store(b.buffers[0], i, b.exp(x))) and None,
    )
    branch = next(op for op in b.finish().walk() if isinstance(op, scf.IfOp))
    assert ops_in(branch.true_region.block, math.ExpOp) == 1


def test_equal_ops_are_made_once() -> None:
    b = kernel(dims=1)
    n = b.dims[0]
    x = b.load(b.buffers[0], 0, 8)
    assert b.add(n, 5) is b.add(n, 5)
    assert b.add(n, 5) is not b.add(n, 6)
    assert b.exp(x) is b.exp(x)
    assert b.lt(x, 1.0) is b.lt(x, 1.0)
    assert b.lt(x, 1.0) is not b.le(x, 1.0)
    assert b.const(0.0, dtypes.f32) is not b.const(-0.0, dtypes.f32)
    assert b.const(1, dtypes.i32) is not b.const(1, dtypes.u32)
    assert b.shuffle(x, x, [1, 0]) is not b.shuffle(x, x, [0, 1])
    assert b.load(b.buffers[0], 1) is not b.load(b.buffers[0], 1)
    assert b.load(b.buffers[0], 1, invariant=True) is b.load(b.buffers[0], 1, invariant=True)


def test_signed_and_unsigned_ops_are_kept_apart() -> None:
    b = kernel([dtypes.i32, dtypes.u32])
    signed = b.load(b.buffers[0], 0)
    unsigned = b.cast(signed, dtypes.u32)
    assert unsigned.ssa is signed.ssa
    assert b.max(signed, 1).ssa is not b.max(unsigned, 1).ssa
    assert b.cast(signed, dtypes.f32).ssa is not b.cast(unsigned, dtypes.f32).ssa


def test_index_constants_fold() -> None:
    b = kernel(dims=1)
    n = b.dims[0]
    assert b.add(n, 0) is n
    assert b.mul(n, 1) is n
    assert b.mul(n, 0).const == 0
    assert b.floordiv(n, 1) is n
    assert b.mod(n, 1).const == 0
    assert b.add(b.mul(3, 4), 5).const == 17
    assert b.mod(-7, 3).const == 2
    assert b.lt(3, 4).const is True
    assert b.if_(b.lt(4, 3), lambda: [n], lambda: [b.index(2)])[0].const == 2


def test_divisions_of_what_is_not_negative_are_unsigned() -> None:
    b = kernel(dims=2)
    n, m = b.dims
    assert isinstance(b.floordiv(b.add(n, 1), m).ssa.owner, arith.DivUIOp)
    assert isinstance(b.floordiv(b.sub(n, 1), m).ssa.owner, arith.FloorDivSIOp)


# Types


def test_an_index_takes_the_type_of_the_other_integer() -> None:
    b = kernel(dims=1)
    found = b.add(b.iota(8), b.dims[0])
    assert (found.dtype, found.lanes) == (dtypes.i32, 8)
    assert b.broadcast(b.dims[0], 4).dtype is dtypes.i64
    assert b.index(b.load(kernel([dtypes.u8]).buffers[0], 0)).dtype is INDEX


def test_narrow_floats_are_f32_in_registers() -> None:
    b = kernel([dtypes.bf16, dtypes.f16])
    for ref in b.buffers:
        assert b.load(ref, 0, 4).dtype is dtypes.f32
        assert b.load(ref, 0, 4, raw=True).dtype is ref.dtype
    with pytest.raises(CompilerError, match="no such operation for this element type"):
        b.add(b.load(b.buffers[0], 0, raw=True), b.load(b.buffers[0], 0, raw=True))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda b: b.add(b.const(1.0, dtypes.f32), b.const(1.0, dtypes.f64)), "operands of different types"),
        (lambda b: b.add(b.iota(4), b.iota(8)), "vectors of different lanes"),
        (lambda b: b.add(b.iota(4), 1.5), "a float constant beside an integer"),
        (lambda b: b.div(b.iota(4), b.iota(4)), "no such operation for this element type"),
        (lambda b: b.shr(b.load(b.buffers[0], 0), 1.0), "no such operation for this element type"),
        (lambda b: b.and_(b.load(b.buffers[0], 0), 1.0), "no such operation for this element type"),
        (lambda b: b.exp(b.iota(4)), "no such operation for this element type"),
        (lambda b: b.select(b.iota(4), 1, 2), "a condition must be bool"),
        (lambda b: b.index(b.iota(4)), "an index must be an integer scalar"),
        (lambda b: b.reduce("xor", b.broadcast(0.0, 4, dtypes.f32)), "no such reduction"),
        (lambda b: b.loop(0, b.end, 1, [], lambda i, c: None, unroll=True), "constant bounds"),
        (lambda b: b.loop(0, b.end, 1, [b.begin], lambda i, c: None), "must give the types it takes"),
        (lambda b: b.if_(b.lt(b.begin, b.end), lambda: [b.begin]), "needs an else"),
        (lambda b: b.bitcast(b.begin, dtypes.f64), "keeps the width"),
        (lambda b: b.view(b.buffers[0], 0, dtypes.f32), "a view is of bytes"),
    ],
)
def test_wrong_use_is_refused(use: Callable[[KernelBuilder], object], message: str) -> None:
    with pytest.raises(CompilerError, match=message):
        use(kernel())


def test_a_value_of_a_loop_cannot_leave_it() -> None:
    b = kernel()
    kept: list[Val] = []
    b.loop(0, b.end, 1, [], lambda i, _: kept.append(i))
    with pytest.raises(CompilerError, match="outside of its loop or branch"):
        b.add(kept[0], b.begin)


# xDSL


def test_use_before_definition_is_found() -> None:
    b = kernel(dims=1)
    total = b.add(b.dims[0], 3)
    twice = b.mul(total, 2)
    b.store(b.buffers[0], twice, 1.0)
    function = b.finish()
    first, second = total.ssa.owner, twice.ssa.owner
    assert isinstance(first, Operation) and isinstance(second, Operation)
    function.body.block.detach_op(first)
    function.body.block.insert_op_after(first, second)
    with pytest.raises(VerifyException, match=r"operand #0 of 'arith\.muli' does not dominate this use"):
        xdsl_compat.verify(function)


def test_a_value_that_escapes_its_region_is_found() -> None:
    outer = Block(arg_types=[xdsl_compat.I1])
    value = xdsl_compat.create(arith.ConstantOp, (), (I32,), {"value": xdsl_compat.integer_attr(1, I32)})
    inner_block = Block()
    xdsl_compat.append(inner_block, value)
    xdsl_compat.append(inner_block, xdsl_compat.create(scf.YieldOp, (), (), {}))
    branch = xdsl_compat.create(scf.IfOp, outer.args, (), {}, regions=(Region(inner_block), Region()))
    xdsl_compat.append(outer, branch)
    user = xdsl_compat.create(
        arith.AddiOp, (value.results[0],) * 2, (I32,), {"overflowFlags": arith.IntegerOverflowAttr("none")}
    )
    xdsl_compat.append(outer, user)
    xdsl_compat.append(outer, func.ReturnOp())
    function = func.FuncOp("f", ((xdsl_compat.I1,), ()), Region(outer))
    with pytest.raises(VerifyException, match="does not dominate"):
        xdsl_compat.verify_dominance(function)


def test_fast_creation_keeps_the_lists_of_uses() -> None:
    b = kernel(dims=1)
    x = b.dims[0]
    made_here = [b.mul(x, x), b.add(x, 7), b.sub(x, 9)]
    users = [(use.operation, use.index) for use in x.ssa.uses]
    expected = [(made_here[2].ssa.owner, 0), (made_here[1].ssa.owner, 0)]
    expected += [(made_here[0].ssa.owner, 1), (made_here[0].ssa.owner, 0)]
    assert users == expected
    x.ssa.replace_all_uses_with(b.index(4).ssa)
    assert not xdsl_compat.is_used(x.ssa)


def test_ops_carry_the_builders_location() -> None:
    b = kernel()
    b.location = ("model.py", 41)
    first = b.add(b.begin, b.end).ssa.owner
    b.location = None
    second = b.sub(b.begin, b.end).ssa.owner
    assert isinstance(first, Operation) and isinstance(second, Operation)
    assert xdsl_compat.location_text(first.location) == "model.py:41"
    assert xdsl_compat.location_text(second.location) == ""
    xdsl_compat.inherit_location([second], first)
    assert xdsl_compat.location_text(second.location) == "model.py:41"
