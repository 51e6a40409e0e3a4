"""Decompose: composites by their parts, and large reductions in two steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from firebox.dialects.nd.base import lookup
from firebox.dialects.xdsl_compat import file_location, location_text
from firebox.errors import CompilerError
from firebox.lowering.decompose import decompose, split_of
from firebox.lowering.interpret import interpret
from tests.lowering.ir_tools import arrays, aval, check_pass, f64, module, names, ops, parse


def test_a_softmax_becomes_its_parts() -> None:
    program = module(lambda x: x.one("softmax", x, axis=1), f64(3, 4))
    (softmax,) = ops(program, "softmax")
    softmax.location = file_location("model.py", 3)
    softmax.attributes["recompute"] = IntegerAttr(2, i64)
    after = check_pass(decompose, program, arrays(0, f64(3, 4)), rtol=1e-15)
    assert names(after) == ["reduce_max", "sub", "exp", "reduce_sum", "div"]
    assert {location_text(op.location) for op in ops(after)} == {"model.py:3"}
    assert {str(op.attributes["recompute"]) for op in ops(after)} == {"2 : i64"}


def test_golden() -> None:
    program = parse("""
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %y = nd.log_softmax %x {axis = 0} : (tensor<3xf32>) -> tensor<3xf32>
      func.return %y : tensor<3xf32>
    }
    """)
    decompose(program)
    assert (
        str(program)
        == """\
builtin.module {
  func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = nd.reduce_max %x {axes = array<i64: 0>, keepdims = true} : (tensor<3xf32>) -> tensor<1xf32>
    %1 = nd.sub %x, %0 : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
    %2 = nd.exp %1 : (tensor<3xf32>) -> tensor<3xf32>
    %3 = nd.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<3xf32>) -> tensor<1xf32>
    %4 = nd.log %3 : (tensor<1xf32>) -> tensor<1xf32>
    %y = nd.sub %1, %4 : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
    func.return %y : tensor<3xf32>
  }
}"""
    )


def test_golden_of_a_large_reduction() -> None:
    program = module(lambda x: x.sum(), aval("f32", 1 << 20))
    decompose(program)
    shapes = [(op.name, *map(str, op.operand_avals), *op.values.values()) for op in ops(program)]
    assert shapes == [
        ("nd.reshape", "f32[1048576]", (64, 16384)),
        ("nd.reduce_sum", "f32[64, 16384]", (1,), False),
        ("nd.reduce_sum", "f32[64]", (0,), False),
    ]


def test_what_the_target_takes_whole_stays() -> None:
    program = module(lambda x: x.one("softmax", x, axis=0) + x.one("log_softmax", x, axis=0), f64(3))
    decompose(program, keep=("nd.softmax",))
    assert names(program)[0] == "softmax"
    assert "log_softmax" not in names(program)


def test_a_composite_may_be_its_operand() -> None:
    program = module(lambda x: x.one("softmax", x, axis=1), f64(3, 0))
    assert names(check_pass(decompose, program, [np.zeros((3, 0))])) == []


def rule(function: Any) -> object:
    return classmethod(lambda cls, operands, axis: function(operands[0], axis))


def test_composites_of_composites_are_decomposed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup("nd.softmax"), "decompose", rule(lambda x, k: x.one("log_softmax", x, axis=k).exp()))
    program = module(lambda x: x.one("softmax", x, axis=0), f64(5))
    after = check_pass(decompose, program, arrays(0, f64(5)), rtol=1e-14)
    assert names(after) == ["reduce_max", "sub", "exp", "reduce_sum", "log", "sub", "exp"]


def test_a_decomposition_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup("nd.softmax"), "decompose", rule(lambda x, k: (-x).one("softmax", -x, axis=k)))
    with pytest.raises(CompilerError, match=r"nd.softmax: the decomposition does not end"):
        decompose(module(lambda x: x.one("softmax", x, axis=0), f64(5)))


def test_a_decomposition_of_another_type_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup("nd.softmax"), "decompose", rule(lambda x, k: x.sum()))
    with pytest.raises(CompilerError, match=r"other types\n  expected: f64\[5\]\n  found:    f64\[\]"):
        decompose(module(lambda x: x.one("softmax", x, axis=0), f64(5)))


# ---- large reductions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes", "split"),
    [
        ((1 << 20,), (0,), (0, 64)),
        ((1 << 16,), (0,), (0, 16)),
        ((1 << 16,), (), None),  # nothing reduced
        (((1 << 16) - 1,), (0,), None),  # too small
        ((65537,), (0,), None),  # prime
        ((65537, 8), (0, 1), (1, 8)),
        ((1000, 1000), (0, 1), (0, 50)),  # equal divisors: the outermost axis
        ((8, 1 << 16), (1,), (1, 8)),
        ((15, 1 << 16), (1,), (1, 4)),
        ((16, 1 << 16), (1,), None),  # enough results
        ((1 << 16, 3, 2), (0, 2), (0, 16)),
        ((0, 1 << 16), (1,), None),
        (("b", 1 << 16), (0,), None),
    ],
)
def test_where_a_reduction_is_split(
    shape: Sequence[object], axes: tuple[int, ...], split: tuple[int, int] | None
) -> None:
    assert split_of(shape, axes) == split


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1 << 17,), (0,)), ((2, 256, 3, 256), (1, 3)), ((256, 3, 2, 256), (0, 3)), ((1, 65537, 2), (0, 1, 2))],
)
def test_the_two_steps_give_the_same(name: str, keepdims: bool, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    program = module(lambda x: x.one(f"reduce_{name}", x, axes=axes, keepdims=keepdims), f64(*shape))
    inputs = arrays(0, f64(*shape))
    after = check_pass(decompose, program, inputs, rtol=1e-11 if name == "sum" else 0.0)
    assert names(after).count(f"reduce_{name}") == 2


@pytest.mark.parametrize("name", ["any", "all"])
def test_bools_are_split_too(name: str) -> None:
    program = module(lambda x: x.one(f"reduce_{name}", x, axes=(0,), keepdims=False), aval("bool", 1 << 16))
    values = np.full(1 << 16, name == "all")
    values[12345] = not values[0]
    check_pass(decompose, program, [values])


def test_products_are_split_too() -> None:
    program = module(lambda x: x.prod(), f64(1 << 16))
    values = np.exp(arrays(0, f64(1 << 16))[0] * 1e-3)
    after = check_pass(decompose, program, [values], rtol=1e-11)
    assert names(after) == ["reshape", "reduce_prod", "reduce_prod"]


def test_storage_types_are_summed_in_their_compute_type() -> None:
    program = module(lambda x: x.sum(), aval("f16", 1 << 16))
    values = np.full(1 << 16, 0.1, np.float16)
    after = program.clone()
    decompose(after)
    assert names(after) == ["cast", "reshape", "reduce_sum", "reduce_sum", "cast"]
    (found,) = interpret(after, [values])
    assert found == np.float16(np.float32(np.float16(0.1)) * (1 << 16))


def test_splitting_can_be_turned_off() -> None:
    program = module(lambda x: x.sum(), f64(1 << 16))
    decompose(program, split=False)
    assert names(program) == ["reduce_sum"]
