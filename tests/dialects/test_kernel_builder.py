"""The builder of kernels: what it moves, shares, folds and refuses."""

from collections.abc import Callable

import pytest
from xdsl.dialects import arith, func, math, memref, scf
from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from firebox import dtypes
from firebox.dialects import xdsl_compat
from firebox.dialects.kernel.builder import INDEX, KernelBuilder, Val
from firebox.errors import CompilerError
from tests.dialects.kernels import kernel


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
    integer = xdsl_compat.scalar_type(dtypes.i32)
    value = xdsl_compat.create(arith.ConstantOp, (), (integer,), {"value": xdsl_compat.integer_attr(1, integer)})
    inner_block = Block()
    xdsl_compat.append(inner_block, value)
    xdsl_compat.append(inner_block, xdsl_compat.create(scf.YieldOp, (), (), {}))
    branch = xdsl_compat.create(scf.IfOp, outer.args, (), {}, regions=(Region(inner_block), Region()))
    xdsl_compat.append(outer, branch)
    user = xdsl_compat.create(
        arith.AddiOp, (value.results[0],) * 2, (integer,), {"overflowFlags": arith.IntegerOverflowAttr("none")}
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
