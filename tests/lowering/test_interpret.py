"""The reference interpreter: regions, groups, symbolic dims, and what it refuses."""

import inspect
from typing import Any

import numpy as np
import pytest

from firebox.dialects.nd.base import Array
from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.transform import VmapOp, yield_values
from firebox.dialects.nd.value import Value, block_of
from firebox.dialects.xdsl_compat import verify
from firebox.errors import CompilerError, InputError
from firebox.lowering.interpret import bind_dims, interpret
from firebox.lowering.module import main_function
from tests.lowering.ir_tools import aval, checkpoint, custom_vjp, f64, grad, module, ops, parse, vmap

X = np.array([0.5, -1.0, 2.0])

SYMBOLIC = """
func.func @main(%x: tensor<?x?xf64, #nd.dims<"2*b + 1, n">>, %y: tensor<?xf64, #nd.dims<"b">>)
    -> (tensor<?xf64, #nd.dims<"2*b*n + n">>, tensor<f64>) {
  %flat = nd.reshape %x {shape = #nd.dims<"2*b*n + n">} :
    (tensor<?x?xf64, #nd.dims<"2*b + 1, n">>) -> tensor<?xf64, #nd.dims<"2*b*n + n">>
  %size = nd.dim_size {size = #nd.dims<"b*n">, dtype = f64} : () -> tensor<f64>
  func.return %flat, %size : tensor<?xf64, #nd.dims<"2*b*n + n">>, tensor<f64>
}
"""


def test_a_module_a_function_and_a_block_are_the_same() -> None:
    program = module(lambda x: [x.exp(), x], f64(3))
    function = main_function(program)
    for form in (program, function, function.body.block):
        first, second = interpret(form, [X])
        np.testing.assert_array_equal(first, np.exp(X))
        np.testing.assert_array_equal(second, X)


def test_symbolic_dims_follow_from_the_inputs() -> None:
    program = parse(SYMBOLIC)
    x = np.arange(10.0).reshape(5, 2)
    flat, size = interpret(program, [x, np.zeros(2)])
    np.testing.assert_array_equal(flat, np.arange(10.0))
    assert size == 4.0


def test_dims_that_no_input_determines_are_given() -> None:
    program = parse("""
    func.func @main(%x: tensor<f64>) -> tensor<?xf64, #nd.dims<"n">> {
      %y = nd.broadcast_to %x {shape = #nd.dims<"n">} : (tensor<f64>) -> tensor<?xf64, #nd.dims<"n">>
      func.return %y : tensor<?xf64, #nd.dims<"n">>
    }
    """)
    (found,) = interpret(program, [np.asarray(2.0)], {"n": 3})
    np.testing.assert_array_equal(found, [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((4, 2)), np.zeros(2)),  # 2*b + 1 is odd
        (np.zeros((5, 2)), np.zeros(3)),  # b is 2
        (np.zeros((5, 2, 1)), np.zeros(2)),
        (np.zeros((5, 2), np.float32), np.zeros(2)),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: Array, y: Array) -> None:
    with pytest.raises(InputError, match="does not fit"):
        interpret(parse(SYMBOLIC), [x, y])


def test_the_number_of_inputs_is_checked() -> None:
    with pytest.raises(InputError, match="wrong number of inputs"):
        bind_dims([f64(3)], [], {})


def test_regions_are_run_as_they_are() -> None:
    def program(x: Value) -> list[Value]:
        (a,) = checkpoint(lambda v: v.exp(), x)
        (b,) = custom_vjp(lambda v: [v * 2.0, v], lambda r, ct: ct * r, 1, x)
        return [a, b]

    built = module(program, f64(3))
    before = str(built)
    a, b = interpret(built, [X])
    np.testing.assert_array_equal(a, np.exp(X))
    np.testing.assert_array_equal(b, X * 2)
    assert str(built) == before


def test_a_derivative_is_expanded_in_a_copy() -> None:
    program = module(lambda x, c: grad(lambda a: a * a, [x], [c]), f64(3), f64(3))
    before = str(program)
    dx, y = interpret(program, [X, np.ones(3)])
    np.testing.assert_array_equal(dx, 2 * X)
    np.testing.assert_array_equal(y, X * X)
    assert str(program) == before
    with pytest.raises(CompilerError, match="interpret the whole function"):
        interpret(main_function(program).body.block, [X, np.ones(3)])


def test_batching_runs_the_region_once_per_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    program = module(lambda x: vmap(lambda a: a.sum(), [x], [1], [0], 3), f64(2, 3))
    (op,) = ops(program, "reduce_sum")
    seen: list[tuple[int, ...]] = []
    original: Any = inspect.getattr_static(type(op), "evaluate")

    def evaluate(cls: Any, x: Array, **params: Any) -> Any:
        seen.append(x.shape)
        return original.__func__(cls, x, **params)

    replacement: Any = classmethod(evaluate)  # type: ignore[arg-type]
    monkeypatch.setattr(type(op), "evaluate", replacement)
    (found,) = interpret(program, [np.arange(6.0).reshape(2, 3)])
    np.testing.assert_array_equal(found, [3.0, 5.0, 7.0])
    assert seen == [(2,)] * 3
    assert any(isinstance(o, VmapOp) for o in program.walk())


def test_an_empty_batch_has_the_right_type() -> None:
    program = module(lambda x: vmap(lambda a: a.exp().astype("f32"), [x], [0], [1], 0), f64(0, 2))
    (found,) = interpret(program, [np.zeros((0, 2))])
    assert found.shape == (2, 0)
    assert found.dtype == np.float32


def test_a_group_runs_its_block() -> None:
    program = module(lambda x: x.sin(), f64(3))
    (sine,) = ops(program, "sin")
    inside = module(lambda a: a.exp(), f64(3))
    body = main_function(inside).body.detach_block(0)
    last = body.last_op
    assert last is not None
    body.add_op(yield_values(last.operands))
    body.erase_op(last)
    params = {"group": "loops", "label": "k", "domain": (3,), "axes": ()}
    group = GroupOp.make(sine.operands, [sine.results[0].type], body, params)
    main_function(program).body.block.insert_op_before(group, sine)
    sine.results[0].replace_all_uses_with(group.results[0])
    verify(program)
    np.testing.assert_array_equal(interpret(program, [X])[0], np.exp(X))


def test_what_has_no_meaning_here_is_refused() -> None:
    block = block_of([f64(3)])
    with pytest.raises(CompilerError, match="does not return or yield"):
        interpret(block, [X])
    block.add_op(module(lambda x: x, f64(3)).clone())
    block.add_op(yield_values(block.args))
    with pytest.raises(CompilerError, match=r"builtin.module: not an nd op"):
        interpret(block, [X])


def test_results_have_the_declared_types() -> None:
    program = module(lambda x: [x > 1, x.argmax(0), x.astype("bf16")], aval("i32", 3))
    found = interpret(program, [np.array([1, 5, 2], np.int32)])
    assert [a.dtype for a in found] == [aval(t).dtype.numpy for t in ("bool", "i64", "bf16")]
