"""Layout: transposes fold into contractions and cancel; otherwise they stay where they are."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.value import Value
from firebox.lowering.layout import layout
from tests.conftest import Golden
from tests.lowering.ir_tools import Function, arrays, check_pass, f64, module, names, ops, parse


def contract(a: Value, b: Value, spec: str, sizes: tuple[int, ...]) -> Value:
    return a.one("contract", a, b, spec=spec, sizes=sizes)


def specs(program: ModuleOp) -> list[str]:
    return [op.values["spec"] for op in ops(program, "contract")]


def test_golden(golden: Golden) -> None:
    program = parse("""
    func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<4x2xf32> {
      %t = nd.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
      %y = nd.contract %x, %t {spec = "m k, k n -> m n", sizes = #nd.dims<"2, 3, 4">} :
        (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      %r = nd.transpose %y {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
      func.return %r : tensor<4x2xf32>
    }
    """)
    before = str(program)
    layout(program)
    golden("lowering/layout.mlir", f"// before\n{before}\n// after\n{program!s}\n")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_operands_of_rank_three(order: tuple[int, ...]) -> None:
    shape = (2, 3, 4)
    sizes = dict(zip("bmk", (shape[k] for k in order), strict=True))

    def function(x: Value, w: Value) -> Value:
        return contract(x.one("transpose", x, permutation=order), w, "b m k, k n -> b m n", (*sizes.values(), 5))

    program = module(function, f64(*shape), f64(sizes["k"], 5))
    after = check_pass(layout, program, arrays(0, f64(*shape), f64(sizes["k"], 5)), rtol=1e-14)
    assert names(after) == ["contract"] if order != (0, 1, 2) else ["transpose", "contract"]


def test_both_operands_and_windows() -> None:
    def conv(x: Value, w: Value) -> Value:
        x, w = x.transpose(0, 2, 1), w.transpose(2, 1, 0)
        return contract(x, w, "n c y*2+k-1, o c k -> n o y", (2, 3, 4, 3, 5)).transpose(0, 2, 1)

    program = module(conv, f64(2, 7, 3), f64(3, 3, 5))
    after = check_pass(layout, program, arrays(0, f64(2, 7, 3), f64(3, 3, 5)), rtol=1e-14)
    assert specs(after) == ["n y*2+k-1 c, k c o -> n y o"]
    assert names(after) == ["contract"]


def test_slices_stay_where_their_bounds_belong() -> None:
    """A slice from 0 reads every element at its own index, but its bounds are those of the transposed dims."""

    def function(x: Value, w: Value) -> Value:
        first = x.transpose(0, 2, 1).slice((0, 0, 0), (2, 5, 2), (1, 1, 1))
        return contract(first, w, "b m k, k n -> b m n", (2, 5, 2, 4))

    program = module(function, f64(2, 3, 5), f64(2, 4))
    after = check_pass(layout, program, arrays(0, f64(2, 3, 5), f64(2, 4)), rtol=1e-14)
    assert names(after) == ["transpose", "slice", "contract"]


def test_the_heads_of_an_attention() -> None:
    def heads(y: Value) -> Value:
        return y.reshape((2, 5, 3, 4)).transpose((0, 2, 1, 3))

    def scores(q: Value, k: Value) -> Value:
        turned = heads(k).transpose((0, 1, 3, 2))
        return contract(heads(q), turned, "b h t d, b h d s -> b h t s", (2, 3, 5, 4, 5))

    program = module(scores, f64(2, 5, 12), f64(2, 5, 12))
    after = check_pass(layout, program, arrays(1, f64(2, 5, 12), f64(2, 5, 12)), rtol=1e-14)
    assert names(after) == ["reshape", "reshape", "contract"]
    assert specs(after) == ["b t h d, b s h d -> b h t s"]


def test_a_result_that_is_also_used_as_it_is_keeps_its_transpose() -> None:
    def function(x: Value, w: Value) -> list[Value]:
        y = contract(x, w, "m k, k n -> m n", (2, 3, 4))
        return [y, y.transpose()]

    program = module(function, f64(2, 3), f64(3, 4))
    assert names(check_pass(layout, program, arrays(0, f64(2, 3), f64(3, 4)))) == ["contract", "transpose"]


def test_transposes_cancel_through_element_wise_ops() -> None:
    program = module(lambda x: (x.transpose().exp() * 2.0).transpose(), f64(2, 3))
    assert names(check_pass(layout, program, arrays(0, f64(2, 3)))) == ["exp", "constant", "mul"]


def test_equal_transposes_of_two_operands_become_one() -> None:
    program = module(lambda x, y: x.transpose() + y.transpose(), f64(2, 3), f64(2, 3))
    assert names(check_pass(layout, program, arrays(0, f64(2, 3), f64(2, 3)))) == ["add", "transpose"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.transpose() + y,  # the other operand is not transposed
        lambda x, y: x.transpose().exp() + y,  # moving would not remove it
        lambda x, y: (x.transpose() + y, x.transpose()),  # it is needed anyway
    ],
)
def test_transposes_that_would_not_become_fewer_stay(function: Function) -> None:
    program = module(function, f64(2, 3), f64(3, 2))
    before = str(program)
    layout(program)
    assert str(program) == before


def test_a_transpose_moves_through_an_activation_into_a_contraction() -> None:
    def function(x: Value, w: Value) -> Value:
        return contract(x.transpose().tanh(), w, "m k, k n -> m n", (3, 2, 4))

    program = module(function, f64(2, 3), f64(2, 4))
    after = check_pass(layout, program, arrays(0, f64(2, 3), f64(2, 4)), rtol=1e-14)
    assert names(after) == ["tanh", "contract"]
    assert specs(after) == ["k m, k n -> m n"]
