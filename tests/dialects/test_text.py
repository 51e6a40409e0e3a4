"""The text form of nd ops: parsing what is printed gives the same op, and the verifier sees what does not fit."""

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DenseArrayBase, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from firebox import dtypes
from firebox.dialects.nd import ND
from firebox.dialects.nd.aval import Aval, tensor_type
from firebox.dialects.nd.base import NdOp, lookup
from firebox.dialects.nd.params import Literal
from firebox.dialects.nd.value import block_of
from firebox.dims import dim
from tests.op_checks import avals_of, plain_ops, samples

OPS = plain_ops()


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Func, ND):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def function(block: Block) -> ModuleOp:
    block.add_op(ReturnOp())
    return ModuleOp([FuncOp("main", ([a.type for a in block.args], []), Region(block))])


def built(op: type[NdOp], avals: list[Aval], params: dict[str, Any]) -> NdOp:
    """An op in a block of its own."""
    block = block_of(avals)
    made = op.build_op(block.args, params)
    block.add_op(made)
    return made


@pytest.mark.parametrize("name", OPS)
def test_round_trip(name: str) -> None:
    """All samples of an op, one function: parsed, printed and verified; parameters come back as the same values."""
    seen: dict[Any, tuple[list[Aval], dict[str, Any]]] = {}
    for sample in samples(OPS[name]):
        avals = avals_of(sample.arrays)
        seen[(*avals, *sample.params.items())] = (avals, sample.params)
    cases = list(seen.values())
    block = block_of([a for avals, _ in cases for a in avals])
    args = list(block.args)
    for avals, params in cases:
        operands, args = args[: len(avals)], args[len(avals) :]
        block.add_op(OPS[name].build_op(operands, params))
    module = function(block)
    module.verify()
    again = parse(str(module))
    again.verify()
    assert str(again) == str(module)
    found = [op for op in again.walk() if isinstance(op, NdOp)]
    assert [op.values for op in found] == [params for _, params in cases]


def test_a_line_of_text() -> None:
    n = dim("n")
    op = built(lookup("nd.reduce_sum"), [Aval(dtypes.bf16, (n, 4))], {"axes": (0,), "keepdims": False})
    expected = (
        "%0 = nd.reduce_sum %1 {axes = array<i64: 0>, keepdims = false} : "
        '(tensor<?x4xbf16, #nd.dims<"n, 4">>) -> tensor<4xbf16>'
    )
    assert str(op) == expected


@pytest.mark.parametrize("name", OPS)
def test_wrong_results_are_refused(name: str) -> None:
    """Another element type, another shape and another number of results."""
    sample = samples(OPS[name])[0]
    op = built(OPS[name], avals_of(sample.arrays), sample.params)
    op.verify()
    first = op.avals[0]
    other = dtypes.f32 if first.dtype is not dtypes.f32 else dtypes.f64
    rest = [tensor_type(a) for a in op.avals[1:]]
    for types in (
        [tensor_type(Aval(other, first.shape)), *rest],
        [tensor_type(Aval(first.dtype, (*first.shape, 2))), *rest],
        [tensor_type(first), *rest, tensor_type(first)],
    ):
        wrong = OPS[name].create(operands=list(op.operands), result_types=types, attributes=op.attributes)
        with pytest.raises(VerifyException, match=f"{name}: results must be"):
            wrong.verify()
        wrong.erase()


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.params])
def test_wrong_parameters_are_refused(name: str) -> None:
    """A parameter that is missing, and one of another kind."""
    sample = samples(OPS[name])[0]
    op = built(OPS[name], avals_of(sample.arrays), sample.params)
    for parameter in OPS[name].params:
        for replacement in (None, DenseArrayBase.from_list(i64, [1, 2, 3]), StringAttr("")):
            attributes = {k: v for k, v in op.attributes.items() if k != parameter}
            if replacement is not None:
                attributes[parameter] = replacement
            if isinstance(replacement, OPS[name].params[parameter].attribute):
                continue
            wrong = OPS[name].create(
                operands=list(op.operands), result_types=[r.type for r in op.results], attributes=attributes
            )
            with pytest.raises(VerifyException, match=f"{name}: parameter '{parameter}' must be"):
                wrong.verify()
            wrong.erase()


def test_wrong_number_of_operands_is_refused() -> None:
    op = built(lookup("nd.add"), [Aval(dtypes.f32, (2,))] * 2, {})
    wrong = type(op).create(operands=[op.operands[0]], result_types=[op.results[0].type])
    with pytest.raises(VerifyException, match="takes 2 operands, found 1"):
        wrong.verify()


def test_bad_values_of_parameters_are_refused() -> None:
    """What the type rule raises, the verifier reports."""
    op = built(lookup("nd.softmax"), [Aval(dtypes.f32, (2,))], {"axis": 0})
    op.attributes["axis"] = IntegerAttr(3, i64)
    with pytest.raises(VerifyException, match="softmax: axis out of range"):
        op.verify()


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -0.0, 0.1, 1e-45])
def test_literals_keep_every_bit(value: float) -> None:
    for dtype in dtypes.FLOATS:
        array = np.asarray(value).astype(dtype.numpy)
        literal = Literal.parse(str(Literal.of(array)))
        assert literal.data == array.tobytes()
        assert literal.dtype == dtype.name
