"""`jit`: what is traced, what is compiled again, what cells do."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import firebox as fb
from firebox.errors import ShapeError, TraceError, UserError
from firebox.frontend.jit import MAX_VARIANTS
from firebox.frontend.jit_trace import forbid_draws, forbid_writes
from tests.frontend.jitted import rows, traces

pytestmark = pytest.mark.usefixtures("frontend")


# ---- arguments and results ---------------------------------------------------------------------------------------


def test_a_function_is_traced_once_for_one_kind_of_arguments() -> None:
    calls = []

    @fb.jit
    def f(x: fb.Tensor, y: fb.Tensor) -> fb.Tensor:
        calls.append(1)
        return x * 2 + y

    for k in range(4):
        assert f(fb.tensor([1.0 + k]), fb.tensor([2.0])).tolist() == [4 + 2 * k]
    assert len(calls) == 1
    f(fb.tensor([1.0], dtype=fb.float64), fb.tensor([2.0]))
    f(fb.tensor([[1.0]]), fb.tensor([2.0]))
    assert len(calls) == 3
    assert f.__name__ == "f"


class Pair(NamedTuple):
    a: fb.Tensor
    b: Any


@dataclass
class Batch:
    x: fb.Tensor
    name: str


def test_arguments_and_results_may_be_nested() -> None:
    @fb.jit
    def f(batch: Batch, pair: Pair, *, extra: dict[str, list[Any]]) -> Any:
        return {"sum": batch.x + pair.a, "rest": [pair.b, extra["e"][0] * 2, None, (3, "text")], "batch": batch}

    for _ in range(2):
        found = f(Batch(fb.tensor([1.0]), "n"), Pair(fb.tensor([2.0]), np.ones(1)), extra={"e": [fb.tensor([5])]})
        assert found["sum"].tolist() == [3]
        assert found["rest"][0].tolist() == [1]
        assert found["rest"][1].tolist() == [10]
        assert found["rest"][2:] == [None, (3, "text")]
        assert found["batch"].name == "n"
        assert found["batch"].x.tolist() == [1]
    assert traces() == 1


def test_static_arguments_are_compared_by_value() -> None:
    @fb.jit(static_argnums=1, static_argnames="flip")
    def f(x: fb.Tensor, power: int, flip: bool = False) -> fb.Tensor:
        y = x
        for _ in range(power):
            y = y * x
        return -y if flip else y

    x = fb.tensor([2.0])
    assert f(x, 1).tolist() == [4]
    assert f(x, 3).tolist() == [16]
    assert f(x, 1, flip=True).tolist() == [-4]
    f(x, 3)
    assert traces() == 3


def test_results_that_are_arguments_or_constants() -> None:
    x, y = fb.jit(lambda x: (x, fb.ones(2)))(fb.tensor([1.0]))
    assert (x.tolist(), y.tolist()) == ([1], [1, 1])
    assert fb.jit(lambda: 3)() == 3
    assert fb.jit(lambda x: None)(fb.ones(1)) is None


def test_tensors_from_outside_are_constants() -> None:
    scale = fb.tensor([2.0]) + 1
    f = fb.jit(lambda x: x * scale)
    assert f(fb.tensor([5.0])).tolist() == [15]
    assert f(fb.tensor([6.0])).tolist() == [18]


def test_pending_arguments_are_computed_first() -> None:
    f = fb.jit(lambda x: x + 1)
    f(fb.ones(2))
    assert f(fb.ones(2) * 3).tolist() == [4, 4]


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_a_second_number_is_compiled_once_as_an_input() -> None:
    f = fb.jit(lambda x, s: x * s)
    for k in range(6):
        assert f(fb.tensor([2.0]), 0.5 * k).tolist() == [k]
    assert traces() == 2


def test_a_number_counts_by_its_kind_only() -> None:
    f = fb.jit(lambda x, s: x * s + s * 2)
    for number in (0.5, 1.5):
        assert f(fb.ones(1, dtype=fb.float16), number).dtype is fb.float16
        assert f(fb.ones(1, dtype=fb.float64), number).tolist() == [3 * number]
    g = fb.jit(lambda x, s: (x + s, fb.where(x > 0, x, s)))
    for number in (1, 2):
        a, b = g(fb.tensor([1, 0], dtype=fb.int8), number)
        assert (a.dtype, b.dtype) == (fb.int8, fb.int8)
        assert (a.tolist(), b.tolist()) == ([1 + number, number], [1, number])


def test_a_number_that_python_needs_is_compiled_for_each_value() -> None:
    @fb.jit
    def f(x: fb.Tensor, n: int) -> fb.Tensor:
        return fb.concat([x] * n) if n > 1 else x

    for n in (1, 2, 3, 2):
        assert f(fb.ones(1), n).shape == (n,)
    assert traces() == 3


# ---- sizes -------------------------------------------------------------------------------------------------------


def test_a_second_size_makes_the_dim_symbolic() -> None:
    f = fb.jit(lambda x, y: (x * 2 + y, x.mean(0), x.sum()))
    for n in (3, 5, 7, 9):
        found = f(rows(n), rows(n))
        expected = rows(n).numpy()
        np.testing.assert_allclose(found[0].numpy(), expected * 3)
        np.testing.assert_allclose(found[1].numpy(), expected.mean(0))
        np.testing.assert_allclose(found[2].numpy(), expected.sum())
    assert traces() == 2


def test_zero_and_one_stay_static() -> None:
    f = fb.jit(lambda x: x.max(0) if x.shape[0] != 0 else fb.zeros(2))
    for n in (3, 1, 4, 1, 5, 0, 6):
        expected = rows(n).numpy().max(0) if n else np.zeros(2)
        np.testing.assert_array_equal(f(rows(n)).numpy(), expected)
    assert traces() == 4  # 3, 1, symbolic, 0


def test_sizes_that_differ_from_each_other_are_different_dims() -> None:
    f = fb.jit(lambda x, y: x.sum() + y.sum())
    for n, m in ((2, 3), (4, 5), (6, 6), (6, 7)):
        assert f(fb.ones(n), fb.ones(m)).item() == n + m
    assert traces() == 2


def test_sizes_that_were_equal_stay_equal() -> None:
    f = fb.jit(lambda x, y: x + y)
    f(fb.ones(2), fb.ones(2))
    f(fb.ones(3), fb.ones(3))
    assert traces() == 2
    with pytest.raises(ShapeError):
        f(fb.ones(3), fb.ones(4))
    assert f(fb.ones(9), fb.ones(9)).shape == (9,)


def test_dims_can_be_named_from_the_start() -> None:
    for dims in ({"x": ("b", None)}, {"x": {0: "b"}}):
        fb.reset_stats()
        f = fb.jit(lambda x: x * x.shape[1], dims=dims)
        for n in (2, 3, 4):
            np.testing.assert_array_equal(f(rows(n)).numpy(), rows(n).numpy() * 2)
        assert traces() == 1
    with pytest.raises(UserError, match="there is not"):
        fb.jit(lambda x: x, dims={"y": ("b",)})(fb.ones(2))


def test_a_function_that_needs_sizes_is_compiled_for_each() -> None:
    f = fb.jit(lambda x: fb.concat([x] * int(x.shape[0])))
    for n in (2, 3, 4):
        assert f(fb.ones(n)).shape == (n * n,)


def test_many_variants_warn_and_the_oldest_goes() -> None:
    f = fb.jit(lambda x, n: fb.concat([x] * n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, MAX_VARIANTS + 1):
            f(fb.ones(1), n)
    with pytest.warns(UserWarning, match="oldest is dropped"):
        assert f(fb.ones(1), 20).shape == (20,)


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [lambda x: x.item(), lambda x: x.numpy(), float, int, lambda x: x.tolist(), np.asarray],
    ids=["item", "numpy", "float", "int", "tolist", "asarray"],
)
def test_reading_a_traced_value_is_an_error(read: Any) -> None:
    @fb.jit
    def f(x: fb.Tensor) -> fb.Tensor:
        return x.__mul__(read(x.sum()))

    with pytest.raises(TraceError, match=r"(?s)traced.*fb\.where") as caught:
        f(fb.ones(2))
    assert __file__ in str(caught.value)


def test_branching_on_a_traced_value_names_where() -> None:
    with pytest.raises(TraceError, match=r"(?s)cannot branch.*fb\.where"):
        fb.jit(lambda x: x if x.sum() > 0 else -x)(fb.ones(2))


def test_a_value_kept_from_a_trace_is_an_error_when_used() -> None:
    kept = []
    fb.jit(lambda x: kept.append(x) or x)(fb.ones(2))  # type: ignore[func-returns-value]
    with pytest.raises(TraceError, match="outside of it"):
        kept[0].numpy()


# ---- inspection --------------------------------------------------------------------------------------------------


def test_lower_shows_the_program_without_running_it() -> None:
    f = fb.jit(lambda x: (x * 2).sum())
    text = f.lower(fb.spec("f32[b, 8]")).mlir()
    assert 'tensor<?x8xf32, #nd.dims<"b, 8">>' in text
    assert "nd.reduce_sum" in text
    assert "%x: " in text
    assert "tensor<3x2xf32>" in f.lower(rows(3)).mlir()
    assert fb.stats()["programs_run"] == 0
    with pytest.raises(UserError, match="no such phase"):
        f.lower(fb.ones(1)).mlir("later")


def test_names_that_the_compiler_uses_are_refused() -> None:
    with pytest.raises(UserError, match="uses itself"):
        fb.dim("i0")
    assert str(fb.dim("batch") * 2 + 1) == "2*batch + 1"


def test_traced_functions_tell_what_they_capture() -> None:
    model = fb.nn.Linear(2, 3)
    offset = fb.ones(3)
    traced = fb.jit(lambda x: model(x) + offset).lower(fb.spec("f32[b, 2]")).traced
    assert traced.trace.hidden == [model.weight.slot, model.bias.slot]  # type: ignore[union-attr]
    assert [v.aval.shape for v in traced.constants] == [(3,)]
    forbid_writes(traced, "compile")
    forbid_draws(traced, "compile")
    cell = fb.Buffer(0.0)
    with pytest.raises(UserError, match="updates state"):
        forbid_writes(fb.jit(lambda x: cell.set(x.sum())).lower(fb.ones(1)).traced, "compile")
    with pytest.raises(TraceError, match="random"):
        forbid_draws(fb.jit(lambda x: x + fb.rand(2)).lower(fb.ones(2)).traced, "compile")
