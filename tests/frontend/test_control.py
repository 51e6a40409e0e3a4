"""Control flow in traced code: values on every device, sizes, aliasing, faults, artifacts, wrong calls."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, FireboxError, IndexRangeError, ShapeError, TraceError, UserError
from firebox.frontend import execute
from firebox.frontend.aot import emit
from firebox.frontend.source import trace

X = np.array([0.5, -1.0, 2.0, 3.0, -0.25], np.float32)


def fibonacci(n: int) -> list[int]:
    found = [0, 1]
    for _ in range(n):
        found.append(found[-1] + found[-2])
    return found


# ---- every device ------------------------------------------------------------------------------------------------


@pytest.fixture
def on_device(each_device: fb.Device) -> Iterator[fb.Device]:
    """The device of new tensors."""
    fb.flush()
    execute.forget_programs()
    fb.set_default_device(each_device)
    yield each_device
    fb.set_default_device(None)


def test_all_of_it_in_one_program(on_device: fb.Device) -> None:
    """Carried values that change places, stacks of several types, loops in branches in loops."""

    @fb.jit
    def program(x: fb.Tensor, n: fb.Tensor) -> Any:
        (a, b), pairs = fb.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (n * 0, n * 0 + 1), length=10)
        last, (sums, above) = fb.scan(lambda c, v: (c + v, (c * v, c > v)), x[0] * 0, x, reverse=True)
        doubled = fb.while_loop(lambda v: (v < 100).all(), lambda v: v * 2, x * x + 1)
        nested = fb.fori_loop(
            0, 4, lambda i, v: fb.cond(v.sum() > i, lambda u: u - 1, lambda u: fb.fori_loop(0, 3, _add, u), v), x
        )
        return [a, b, pairs, last, sums, above, doubled, nested]

    def _add(i: fb.Tensor, v: fb.Tensor) -> fb.Tensor:
        return v + i * 0.5

    a, b, pairs, last, sums, above, doubled, nested = program(fb.tensor(X), fb.tensor(np.array(7, np.int32)))
    assert [a.item(), b.item(), *pairs.tolist()] == [*fibonacci(10)[10:12], *fibonacci(10)[:10]]
    after = np.array([X[k:].sum() for k in range(1, 6)], np.float32)
    np.testing.assert_allclose(last.numpy(), X.sum(), rtol=1e-6)
    np.testing.assert_allclose(sums.numpy(), after * X, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(above.numpy(), after > X)
    expected = X * X + 1
    while (expected < 100).all():
        expected = expected * 2
    np.testing.assert_allclose(doubled.numpy(), expected, rtol=1e-6)
    value = X
    for i in range(4):
        value = value - 1 if value.sum() > i else value + np.float32(1.5)
    np.testing.assert_allclose(nested.numpy(), value, rtol=1e-6)


def test_a_fault_in_a_loop_ends_the_program(on_device: fb.Device) -> None:
    x = fb.tensor(X)

    def visit(state: tuple[fb.Tensor, fb.Tensor]) -> tuple[fb.Tensor, fb.Tensor]:
        at, total = state
        return at + 2, total + fb.take(x, at)

    for condition in (lambda state: state[0] < 100, lambda state: fb.ones(()) > 0):  # the second one never ends
        with pytest.raises(IndexRangeError, match=r"(?s)expected: an index from 0 to 4.*found:    6"):
            fb.while_loop(condition, visit, (fb.tensor(0), fb.tensor(0.0)))[1].item()
    assert fb.while_loop(lambda s: s[0] < 5, visit, (fb.tensor(0), fb.tensor(0.0)))[1].item() == X[::2].sum()


def test_lengths_known_late(on_device: fb.Device) -> None:
    @fb.jit(dims={"x": {0: "n"}})
    def running(x: fb.Tensor) -> Any:
        return fb.scan(lambda c, v: (c * 0.5 + v, c), x.sum(0) * 0, x)

    for n in (3, 6, 1, 0):
        x = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
        state, before = np.zeros(2, np.float32), []
        for row in x:
            before.append(state)
            state = state * np.float32(0.5) + row
        last, rows = running(fb.tensor(x))
        np.testing.assert_allclose(last.numpy(), state, rtol=1e-6)
        np.testing.assert_allclose(rows.numpy(), np.reshape(before, (n, 2)), rtol=1e-6)


# ---- sizes and aliasing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unroll", [1, 2, 3, 7])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 5, 6])
def test_a_scan_of_any_length(steps: int, reverse: bool, unroll: int) -> None:
    xs = np.arange(1, steps + 1, dtype=np.int64)
    last, rows = fb.scan(lambda c, x: (c * 3 + x, c - x), fb.tensor(2), fb.tensor(xs), reverse=reverse, unroll=unroll)
    state, expected = 2, np.zeros(steps, np.int64)
    for k in reversed(range(steps)) if reverse else range(steps):
        expected[k] = state - xs[k]
        state = state * 3 + xs[k]
    assert last.item() == state
    np.testing.assert_array_equal(rows.numpy(), expected)


def test_loops_without_a_step() -> None:
    x = fb.tensor(X)
    np.testing.assert_array_equal(fb.fori_loop(3, 3, lambda i, v: v + i, x).numpy(), X)
    np.testing.assert_array_equal(fb.fori_loop(5, 2, lambda i, v: v + i, x).numpy(), X)
    np.testing.assert_array_equal(fb.while_loop(lambda v: v.sum() > 100, lambda v: v * 2, x).numpy(), X)
    tail = fb.jit(lambda v: fb.fori_loop(3, v.shape[0], lambda i, t: t + v[i], v[0]), dims={"v": {0: "n"}})
    assert [tail(x[:n]).item() for n in (5, 3, 1)] == [3.25, 0.5, 0.5]


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_carried_values_may_change_places(steps: int) -> None:
    """Also values that come in twice, are constants, or come back as they are."""
    x = fb.tensor(X)

    def step(i: fb.Tensor, state: tuple[fb.Tensor, ...]) -> tuple[fb.Tensor, ...]:
        a, b, c, d = state
        return b, a, c, a + d

    found = fb.fori_loop(0, steps, step, (x, x * 2, x, fb.zeros(5)))
    state = (X, X * 2, X, np.zeros(5, np.float32))
    for _ in range(steps):
        state = (state[1], state[0], state[2], state[0] + state[3])
    for f, e in zip(found, state, strict=True):
        np.testing.assert_array_equal(f.numpy(), e)
    np.testing.assert_array_equal(x.numpy(), X)


def test_bounds_may_be_tensors() -> None:
    def total(low: Any, high: Any) -> int:
        return int(fb.fori_loop(low, high, lambda i, v: v + i, fb.tensor(0)).item())

    assert total(fb.tensor(2), 7) == total(2, fb.tensor(7)) == total(2, 7) == 20
    assert total(fb.tensor(7), fb.tensor(2)) == 0


@pytest.mark.parametrize("dtype", [fb.bool, fb.int8, fb.uint16, fb.float16, fb.bfloat16, fb.float64], ids=str)
def test_types_that_are_carried_and_stacked(dtype: Any) -> None:
    x = fb.tensor([[0, 1], [1, 1], [2, 0]]).astype(dtype)
    last, rows = fb.scan(lambda c, v: (c.maximum(v), c), x[0], x)
    assert last.dtype == rows.dtype == dtype
    expected = np.maximum.accumulate(np.concatenate([x[:1].numpy(), x.numpy()]))
    np.testing.assert_array_equal(rows.numpy(), expected[:-1])
    np.testing.assert_array_equal(last.numpy(), expected[-1])


def test_nested_structures_go_in_and_out() -> None:
    state = {"a": fb.tensor(1.0), "b": [fb.tensor(2.0), fb.tensor([3.0, 4.0])]}
    found = fb.cond(fb.tensor(True), lambda s: {"b": s["b"][::-1]}, lambda s: {"b": [s["b"][1] * 0, s["a"]]}, state)
    assert found["b"][0].tolist() == [3.0, 4.0] and found["b"][1].item() == 2.0
    last, rows = fb.scan(lambda c, _: ({"n": c["n"] + 1}, None), {"n": fb.tensor(0)}, length=4)
    assert last["n"].item() == 4 and rows is None


def test_only_the_chosen_branch_runs() -> None:
    x = fb.tensor(X)
    found = fb.cond(x.sum() > 0, lambda: x[0], lambda: fb.take(x, fb.tensor(9)))
    assert found.item() == 0.5


# ---- recorded, jitted, compiled ----------------------------------------------------------------------------------


class Cell(fb.nn.Module):
    """A step of a recurrent network, and what runs it over a sequence."""

    def __init__(self) -> None:
        self.inner = fb.nn.Linear(3, 4)
        self.outer = fb.nn.Linear(4, 4)

    def forward(self, xs: fb.Tensor) -> Any:
        def step(state: fb.Tensor, x: fb.Tensor) -> tuple[fb.Tensor, fb.Tensor]:
            state = fb.tanh(self.inner(x) + self.outer(state))
            return state, state

        return fb.scan(step, fb.zeros(xs.shape[1], 4), xs)[1]


def unrolled(cell: Cell, xs: fb.Tensor) -> Any:
    state, rows = fb.zeros(xs.shape[1], 4), []
    for k in range(int(xs.shape[0])):
        state = fb.tanh(cell.inner(xs[k]) + cell.outer(state))
        rows.append(state)
    return fb.stack(rows)


def test_parameters_are_used_inside_and_learn() -> None:
    """As with the loop unrolled: recorded and jitted, values and gradients."""
    fb.manual_seed(0)
    cell = Cell()
    xs = fb.randn(6, 2, 3)
    wanted = unrolled(cell, xs)
    (wanted**2).sum().backward()
    gradients = [p.grad.numpy() for p in cell.parameters() if p.grad is not None]
    assert len(gradients) == 4
    for run in (cell, fb.jit(lambda xs: cell(xs))):
        cell.zero_grad()
        found = run(xs)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    (cell(xs) ** 2).sum().backward()
    for parameter, expected in zip(cell.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_jitted_step_trains_through_a_loop() -> None:
    """An optimizer puts the parameters into one buffer; inside, they are cut out of it."""

    def train(run: Callable[[Cell, fb.Tensor], Any]) -> list[float]:
        fb.manual_seed(0)
        cell = Cell()
        xs = fb.randn(5, 2, 3)
        optimizer = fb.optim.SGD(cell.parameters(), lr=0.1)

        @fb.jit
        def step(xs: fb.Tensor) -> Any:
            optimizer.zero_grad()
            loss = (run(cell, xs) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return [float(step(xs).item()) for _ in range(4)]

    losses = train(lambda cell, xs: cell(xs))
    assert losses[3] < losses[2] < losses[1] < losses[0]
    np.testing.assert_allclose(losses, train(unrolled), rtol=1e-4)


def test_an_lstm_in_a_scan_is_the_layer() -> None:
    """`nn.LSTM` writes its steps out; its parameters, captured, get the same gradients."""
    fb.manual_seed(1)
    layer = fb.nn.LSTM(3, 4, batch_first=False)
    xs = fb.randn(7, 2, 3)
    w_ih, w_hh, b_ih, b_hh = (getattr(layer, f"{kind}_l0") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

    def looped(xs: fb.Tensor) -> Any:
        def step(state: tuple[fb.Tensor, fb.Tensor], x: fb.Tensor) -> tuple[Any, fb.Tensor]:
            h, c = state
            gates = x @ w_ih.T + b_ih + h @ w_hh.T + b_hh
            i, f, g, o = (gates[:, k * 4 : k * 4 + 4] for k in range(4))
            c = fb.sigmoid(f) * c + fb.sigmoid(i) * fb.tanh(g)
            h = fb.sigmoid(o) * fb.tanh(c)
            return (h, c), h

        return fb.scan(step, (fb.zeros(2, 4), fb.zeros(2, 4)), xs)[1]

    weight = fb.randn(7, 2, 4)
    found = []
    for run in (lambda xs: layer(xs)[0], looped):
        layer.zero_grad()
        rows = run(xs)
        (rows * weight).sum().backward()
        found.append([rows.numpy(), *(p.grad.numpy() for p in layer.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1]) == 5
    for wanted, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_an_artifact_with_loops(tmp_path: Path) -> None:
    def model(x: fb.Tensor) -> Any:
        grown = fb.while_loop(lambda v: v.sum() < 50, lambda v: v * 2 + 1, x)
        return fb.cond(x[0] > 0, lambda v: v, lambda v: -v, grown), fb.scan(lambda c, v: (c + v, c), x[0] * 0, x)[1]

    path = tmp_path / "loops.fbox"
    fb.compile(model, "x: f32[n]", path=path)
    loaded = fb.runtime.load(path)
    for x in (X, -X[:2], X[:1]):
        for found, expected in zip(loaded(x).values(), model(fb.tensor(x)), strict=True):
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_steps_of_a_loop_take_no_more_memory() -> None:
    pool = fb.Device("cpu").backend.pool
    pool.reset_peak()
    before = pool.statistics().live
    x = fb.ones(1000)
    assert fb.fori_loop(0, 5000, lambda i, v: v * 0.5 + 1, x).sum().item() == 2000
    assert pool.statistics().peak - before < 10 * 4000


def test_a_program_with_a_long_loop_is_small() -> None:
    """One kernel for a step, whatever the number of steps."""
    kernels = []
    for steps in (10, 1000):
        source = trace(lambda x, n=steps: fb.fori_loop(0, n, lambda i, v: fb.sin(v) * 2 + i, x), "x: f32[8]")
        kernels.append(str(emit(source, "kernels")).count("func.func"))
    assert kernels[0] == kernels[1] <= 2


# ---- wrong calls -------------------------------------------------------------------------------------------------

ONE, TWO = fb.tensor(1.0), fb.tensor([1.0, 2.0])
WRONG: dict[str, tuple[Callable[[], Any], type[FireboxError], str]] = {
    "a condition of numbers": (
        lambda: fb.cond(ONE, lambda: ONE, lambda: ONE),
        DTypeError,
        r"cond: the condition is not one bool\n  expected: bool\[\]\n  found:    f32\[\]",
    ),
    "a condition for each element": (
        lambda: fb.cond(TWO > 1, lambda: ONE, lambda: ONE),
        DTypeError,
        r"(?s)cond: the condition is not one bool.*\.any\(\) or \.all\(\).*fb\.where",
    ),
    "branches of different shape": (
        lambda: fb.cond(fb.tensor(True), lambda: ONE, lambda: TWO),
        ShapeError,
        r"cond: the results of the branches differ in type\n  expected: f32\[\]\n  found:    f32\[2\]",
    ),
    "branches of different structure": (
        lambda: fb.cond(fb.tensor(True), lambda: (ONE, ONE), lambda: ONE),
        UserError,
        r"cond: the results of the branches differ in structure\n  expected: tuple\(a tensor, a tensor\)",
    ),
    "a carry of another type": (
        lambda: fb.scan(lambda c, x: (c > x, None), ONE, TWO),
        DTypeError,
        r"scan: the carry that f takes and returns differ in type\n  expected: f32\[\]\n  found:    bool\[\]",
    ),
    "the second of two carried values": (
        lambda: fb.fori_loop(0, 2, lambda i, s: (s[0], s[1].sum()), (ONE, TWO)),
        ShapeError,
        r"fori_loop: .* differ in type, value 1 of 2\n  expected: f32\[2\]\n  found:    f32\[\]",
    ),
    "no pair": (lambda: fb.scan(lambda c, x: c, ONE, TWO), UserError, r"scan: f returns no pair"),
    "no length": (lambda: fb.scan(lambda c, x: (c, None), ONE), UserError, r"scan: how many steps is not known"),
    "slices of two lengths": (
        lambda: fb.scan(lambda c, x: (c, None), ONE, (TWO, fb.ones(3))),
        ShapeError,
        r"scan: not that many slices\n  expected: 2 along the first axis\n  found:    f32\[3\]",
    ),
    "a negative length": (lambda: fb.scan(lambda c, x: (c, None), ONE, length=-1), ShapeError, r"scan: a negative"),
    "no function": (lambda: fb.cond(fb.tensor(True), str(ONE), lambda: ONE), UserError, r"cond: "),  # type: ignore[arg-type]
    "bounds of floats": (
        lambda: fb.fori_loop(ONE, 3, lambda i, v: v, ONE),
        DTypeError,
        r"fori_loop: not a bound\n  expected: one integer\n  found:    f32\[\]",
    ),
    "a loop gone back": (
        lambda: fb.grad(lambda x: fb.while_loop(lambda v: v < 9, lambda v: v * 2, x))(ONE).item(),
        UserError,
        r"(?s)while_loop: the steps of a while loop cannot be gone back.*fb\.fori_loop or fb\.scan",
    ),
    "random numbers inside": (
        lambda: fb.scan(lambda c, _: (c + fb.rand(()), None), ONE, length=2),
        TraceError,
        r"(?s)random numbers are drawn inside.*hand them in",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert f"{Path(__file__).name}:" in str(caught.value)


def test_cells_are_not_written_inside() -> None:
    counter = fb.Buffer(fb.tensor(0))

    def step(i: fb.Tensor, v: fb.Tensor) -> fb.Tensor:
        counter.set(counter.value + 1)
        return v

    with pytest.raises(TraceError, match=r"(?s)fori_loop"):
        fb.fori_loop(0, 3, step, ONE)
    assert counter.value.item() == 0


def test_a_value_from_inside_is_not_used_outside() -> None:
    leaked: list[fb.Tensor] = []

    def body(i: fb.Tensor, v: fb.Tensor) -> fb.Tensor:
        leaked.append(v * 2)
        return v

    fb.fori_loop(0, 3, body, ONE)
    with pytest.raises(TraceError, match="used outside of it"):
        (leaked[0] + 1).numpy()
