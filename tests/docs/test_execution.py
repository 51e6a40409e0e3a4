"""The code that docs/execution.md shows."""

import numpy as np
import pytest

import firebox as fb
from firebox.errors import TraceError


@pytest.fixture(autouse=True)
def _fresh() -> None:
    fb.flush()
    fb.reset_stats()


def test_programs_are_lazy() -> None:
    x = fb.tensor([1.0, 2.0])
    a, b = x + 1.0, x * 2.0
    assert fb.stats()["programs_run"] == 0
    print(a)  # one program computes a and b
    assert b.tolist() == [2.0, 4.0]
    assert fb.stats()["programs_run"] == 1


def test_a_number_that_changes_is_compiled_twice() -> None:
    x = fb.tensor([1.0, 2.0, 3.0])
    for step in range(10):
        (x * (0.1 * step) + 1.0).numpy()
    assert fb.stats()["programs_run"] == 10
    assert fb.stats()["programs_compiled"] == 2


def test_jit() -> None:
    @fb.jit
    def normalise(x: fb.Tensor) -> fb.Tensor:
        return (x - x.mean()) / x.std()

    for size in (5, 7, 9, 11):
        normalise(fb.randn(size))
    assert fb.stats()["jit_traces"] == 2  # for 5, then for any size

    @fb.jit
    def wrong(x: fb.Tensor) -> fb.Tensor:
        return x * x.max().item()

    with pytest.raises(TraceError, match="used outside of it, or read inside it"):
        wrong(fb.ones(3))


def test_named_sizes() -> None:
    f = fb.jit(lambda x: x.sum(0), dims={"x": ("n", None)})
    for size in (2, 3, 4):
        f(fb.ones(size, 3))
    assert fb.stats()["jit_traces"] == 1
    assert "nd.group" in f.lower(fb.spec("f32[n, 3]")).mlir("fuse")


def test_state_in_a_compiled_function() -> None:
    count = fb.Buffer(0)

    @fb.jit
    def step(x: fb.Tensor) -> fb.Tensor:
        count.value = count + 1  # a hidden input and output of the program
        return x * 2.0

    for _ in range(3):
        step(fb.ones(2))
    assert count.item() == 3


def test_donation() -> None:
    state = fb.Buffer(fb.zeros(1000))
    state.value = state + 1.0
    fb.flush()
    before = fb.stats()["buffers_donated"]
    state.value = state + 1.0  # nobody else holds the old value: its memory is taken
    fb.flush()
    assert fb.stats()["buffers_donated"] == before + 1
    shown = state.numpy()  # shares the memory, so it is not written from now on
    state.value = state + 1.0
    fb.flush()
    assert fb.stats()["buffers_donated"] == before + 1
    assert shown[0] == 2.0 and state.numpy()[0] == 3.0


def test_random_numbers_are_a_function_of_seed_and_position() -> None:
    fb.manual_seed(7)
    a, b = fb.randn(4), fb.randn(4)
    together = np.stack([a, b])
    fb.manual_seed(7)
    first = fb.randn(4).numpy()  # a program of its own
    second = fb.jit(lambda: fb.randn(4))().numpy()  # a compiled function
    np.testing.assert_array_equal(together, [first, second])
