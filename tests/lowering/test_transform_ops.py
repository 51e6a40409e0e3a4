"""The transform region ops: text form, verifier messages, and the type rule that the tracer shares."""

import re
from io import StringIO

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from firebox.dialects.nd.transform import (
    CheckpointOp,
    CustomVjpOp,
    GradOp,
    JvpOp,
    Signature,
    VmapOp,
    signature_of,
    yield_values,
)
from firebox.dialects.nd.value import block_of
from firebox.errors import CompilerError, DTypeError, ShapeError, UserError
from tests.conftest import GOLDEN
from tests.lowering.ir_tools import aval, f64, module, parse

TEXT = (GOLDEN / "lowering" / "transforms.mlir").read_text()


def test_the_text_form_round_trips() -> None:
    program = parse(TEXT)
    text = f"{program!s}\n"
    assert re.sub(r"\^bb\d", "^bb", text) == re.sub(r"\^bb\d", "^bb", TEXT)
    assert parse(text).is_structurally_equivalent(program)


def test_the_generic_form_round_trips() -> None:
    program = parse(TEXT)
    from_generic = parse(generic(program))
    assert from_generic.is_structurally_equivalent(program)


def generic(program: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(program)
    return stream.getvalue()


GRAD = "nd.grad %x, %c {wrt = 1 : i64, seeds = 1 : i64}"
VECTOR, LONGER = "tensor<3xf32>", "tensor<4xf32>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (GRAD, "nd.grad %x, %c {wrt = 1 : i64}", "parameter 'seeds' must be an integer"),
        (f"nd.yield %b : {VECTOR}", f"%z = nd.neg %b : ({VECTOR}) -> {VECTOR}", "is not a terminator"),
        ("in_axes = array<i64: 0>", "in_axes = array<i64: 1>", "expected: -1 or an axis of f32[3]"),
        ("out_axes = array<i64: 0>", "out_axes = array<i64: 2>", "no such axis for a result"),
        ("out_axes = array<i64: 0>", "out_axes = array<i64>", "wrong number of out_axes"),
        ('size = #nd.dims<"3">', 'size = #nd.dims<"4">', "the mapped axes differ in size"),
        ("{results = 1 : i64}", "{results = 2 : i64}", "results must be (f32[3], f32[3]), found (f32[3])"),
        ("{results = 1 : i64}", "{results = 3 : i64}", "wrong number of yields"),
        (f"%a_4, %a_4 : {VECTOR}, {VECTOR}", f"%a_4 : {VECTOR}", "arguments of the backward region do not fit"),
        (f"nd.yield %ct : {VECTOR}", "nd.yield", "cotangents yielded by the backward region do not fit"),
        (
            f"(%a_3: {VECTOR}):\n      nd.yield %a_3",
            f"(%a_3: {LONGER}):\n      nd.yield %x",
            "nd.checkpoint: block arguments do not fit",
        ),
    ],
)
def test_the_verifier_says_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(VerifyException, match=re.escape(message)):
        parse(TEXT.replace(old, new))


def test_results_must_follow_from_the_region() -> None:
    program = parse(TEXT)
    checkpoint = next(op for op in program.walk() if isinstance(op, CheckpointOp))
    wrong = module(lambda x: x, f64(2)).body.block.first_op
    assert wrong is not None
    other = CheckpointOp.create(
        operands=checkpoint.operands,
        result_types=[wrong.regions[0].block.args[0].type],
        regions=[checkpoint.detach_region(0)],
    )
    with pytest.raises(VerifyException, match=r"results must be \(f32\[3\]\), found \(f64\[2\]\)"):
        other.verify_()


X, C, S = f64(3), f64(2), f64()


def test_results_of_each_transform() -> None:
    body = Signature((X,), (C, S))
    assert GradOp.type_rule([X, C], [body], wrt=1, seeds=1) == (X, C, S)
    assert JvpOp.type_rule([X, X], [body], wrt=1, seeds=1) == (C, S, C)
    batched = f64(3, 5)
    assert VmapOp.type_rule([batched], [body], in_axes=(1,), out_axes=(1, 0), size=(5,)) == (f64(2, 5), f64(5))
    assert CheckpointOp.type_rule([X], [body]) == (C, S)
    backward = Signature((S, C), (X,))
    assert CustomVjpOp.type_rule([X], [body, backward], results=1) == (C,)


def test_type_rules_refuse_what_does_not_fit() -> None:
    integer = aval("i32", 3)
    with pytest.raises(DTypeError, match=r"nd.grad: input 0 cannot be differentiated"):
        GradOp.type_rule([integer, C], [Signature((integer,), (C,))], wrt=1, seeds=1)
    with pytest.raises(DTypeError, match=r"nd.jvp: output 0 cannot be differentiated"):
        JvpOp.type_rule([X, X], [Signature((X,), (integer,))], wrt=1, seeds=1)
    with pytest.raises(ShapeError, match=r"cotangents do not fit\n  expected: \(f64\[2\]\)\n  found:    \(f64\[3\]\)"):
        GradOp.type_rule([X, X], [Signature((X,), (C,))], wrt=1, seeds=1)
    with pytest.raises(ShapeError, match="tangents do not fit"):
        JvpOp.type_rule([X, C], [Signature((X,), (C,))], wrt=1, seeds=1)
    with pytest.raises(
        UserError, match=r"wrong number of operands\n  expected: 1 values and 1 cotangents\n  found:    1"
    ):
        GradOp.type_rule([X], [Signature((X,), (C,))], wrt=1, seeds=1)
    with pytest.raises(UserError, match=r"wrong number of yields\n  expected: at least 2"):
        GradOp.type_rule([X, C, C], [Signature((X,), (C,))], wrt=1, seeds=2)


def test_a_region_op_has_no_results_without_its_region() -> None:
    with pytest.raises(CompilerError, match="the results depend on the regions"):
        GradOp.infer(X, C, wrt=1, seeds=1)


def test_the_signature_of_a_block() -> None:
    block = block_of([X, S])
    block.add_op(yield_values([block.args[1]]))
    assert signature_of(block) == Signature((X, S), (S,))
