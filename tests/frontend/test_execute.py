"""When programs end, what they compute, how they are kept: counted, with values checked against NumPy."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import firebox as fb
from firebox.errors import CompilerError, IndexRangeError, UserError
from firebox.frontend import backends, execute, graph, trace
from firebox.frontend.cells import Flat
from firebox.frontend.devices import place
from firebox.frontend.plan import Plan, Planner
from firebox.runtime.memory import Buffer
from tests.frontend.conftest import host_only

pytestmark = pytest.mark.usefixtures("frontend")


def grad_of(leaf: fb.Tensor) -> fb.Tensor:
    """The leaf's gradient, which must be there."""
    assert leaf.grad is not None
    return leaf.grad


def runs() -> int:
    return fb.stats()["programs_run"]


def compiles() -> int:
    return fb.stats()["programs_compiled"]


# ---- when programs end -------------------------------------------------------------------------------------------


def test_a_read_runs_everything_that_is_held() -> None:
    x = fb.tensor([1.0, 2.0])
    a, b = x + 1, x * 2
    assert runs() == 0
    assert a.tolist() == [2, 3]
    assert runs() == 1
    assert b.tolist() == [2, 4]
    assert runs() == 1


def test_flush_runs_and_a_second_flush_has_nothing_to_do() -> None:
    y = fb.ones(2) + 1
    fb.flush()
    fb.flush(y)
    assert runs() == 1
    assert y._var.buffer is not None
    assert y._var.node is None


def test_values_that_nobody_holds_are_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    plain = Planner.make

    def recording(self: Planner, outputs: list[graph.Var]) -> Plan:
        plans.append(plain(self, outputs))
        return plans[-1]

    monkeypatch.setattr(Planner, "make", recording)
    x = fb.tensor([1.0])
    a = x + 1
    b = a * 2
    del a
    assert b.tolist() == [4]
    assert [len(p.outputs) for p in plans] == [1]


def test_a_program_ends_when_much_is_pending() -> None:
    x = fb.tensor([0.0])
    kept = [x]
    for _ in range(execute.MAX_PENDING + 10):
        kept.append(kept[-1] + 1)
    assert runs() == 1
    assert kept[-1].tolist() == [execute.MAX_PENDING + 10]


def test_a_long_chain_of_values_that_nobody_holds_ends_programs_too() -> None:
    x = fb.tensor([0.0])
    for _ in range(3 * execute.MAX_PENDING):
        x = x + 1
    assert runs() >= 2
    assert x.tolist() == [3 * execute.MAX_PENDING]


def test_garbage_does_not_end_programs() -> None:
    x = fb.tensor([0.0])
    for _ in range(3 * execute.MAX_PENDING):
        x + 1
    assert runs() == 0
    assert len(trace.STATE.pending) <= execute.MAX_PENDING


def test_a_shared_part_is_computed_once_for_values_read_later() -> None:
    """What a later value needs of an earlier program is held by it only indirectly, and that value runs along."""
    x = fb.tensor([1.0])
    hidden = x.exp()
    a, b = hidden + 1, hidden + 2
    del hidden
    a.numpy()
    before = fb.stats()["nodes_run"]
    np.testing.assert_allclose(b.numpy(), np.exp([1.0]) + 2, rtol=1e-6)
    assert (before, fb.stats()["nodes_run"]) == (3, 3)


# ---- programs by key ---------------------------------------------------------------------------------------------


def test_the_same_ops_again_are_no_new_program() -> None:
    for k in range(5):
        x = fb.tensor(np.full((3, 2), k, np.float32))
        np.testing.assert_array_equal((x * 3).sum(1).numpy(), np.full(3, 6 * k, np.float32))
    assert (runs(), compiles()) == (5, 1)


def test_changing_numbers_compile_at_most_twice() -> None:
    x = fb.tensor([1.0, 2.0])
    for k in range(10):
        np.testing.assert_allclose((x * (k * 0.5) + 1).numpy(), np.array([1, 2], np.float32) * k * 0.5 + 1)
    assert compiles() == 2


def test_several_changing_numbers_end_as_inputs() -> None:
    x = fb.tensor([1.0])
    for a in range(5):
        for b in range(5):
            assert (x * float(a) + float(b)).tolist() == [a + b]
    assert compiles() <= 5


def test_integer_and_bool_numbers_are_slots_too() -> None:
    x = fb.tensor([1, 2])
    assert [(x + k).tolist() for k in range(4)] == [[1 + k, 2 + k] for k in range(4)]
    assert compiles() == 2


def test_programs_can_be_forgotten() -> None:
    x = fb.tensor([1.0])
    for _ in range(3):
        (x + 1).numpy()
    assert compiles() == 1
    execute.forget_programs()
    (x + 1).numpy()
    assert compiles() == 2


# ---- memory ------------------------------------------------------------------------------------------------------


def test_donated_are_inputs_that_nobody_else_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    donated: list[list[bool]] = []

    class Recording(backends.InterpretBackend):
        def compile(self, plan, dynamic, names, options=None):  # type: ignore[no-untyped-def]
            compiled = super().compile(plan, dynamic, names, options)

            def call(inputs, sizes, donate):  # type: ignore[no-untyped-def]
                donated.append(list(donate))
                return [own(b) for b in compiled(inputs, sizes, donate)]

            return call

    def own(buffer: Buffer) -> Buffer:
        return place(buffer.as_numpy(np.dtype(np.uint8), (buffer.nbytes,)), fb.Device("cpu"))

    monkeypatch.setattr(execute, "backend_of", lambda device: Recording())
    execute.forget_programs()
    state = fb.Cell(fb.tensor([1.0, 2.0]))
    state.value = state + 1
    fb.flush()
    assert donated[-1] == [True]
    kept = state.value
    state.value = state + 1
    fb.flush()
    assert donated[-1] == [False]
    assert kept.tolist() == [2, 3]
    del kept
    state.numpy()  # seen from outside: never written again
    state.value = state * 2
    fb.flush()
    assert donated[-1] == [False]
    assert state.tolist() == [6, 8]


def test_memory_is_given_back_at_once() -> None:
    x = fb.tensor(np.ones(1000, np.float32))
    y = x + 1
    fb.flush()
    buffer = weakref.ref(y._var.buffer)
    gc.disable()
    try:
        z = y.sum()
        del y
        fb.flush()
        assert buffer() is None
    finally:
        gc.enable()
    assert z.item() == 2000


def test_the_graph_of_a_value_is_dropped_when_it_is_computed() -> None:
    x = fb.tensor(np.ones(10, np.float32))
    held = weakref.ref(x._var)
    y = (x + 1) * 2
    del x
    assert held() is not None
    fb.flush()
    assert held() is None
    assert y.sum().item() == 40


def test_a_tracked_value_keeps_its_recipe_until_a_backward() -> None:
    w = fb.Param([1.0])
    loss = (w * 2).sum()
    loss.item()
    assert loss._var.node is not None
    loss.backward()
    fb.flush()
    loss.item()
    assert sys.getrefcount(loss._var.buffer) >= 2


# ---- flat storage ------------------------------------------------------------------------------------------------


@host_only
def test_cells_in_flat_storage_are_views() -> None:
    a, b = fb.Param([[1.0, 2.0], [3.0, 4.0]]), fb.Param([5.0, 6.0])
    flat = Flat([a, b])
    assert flat.offsets == (0, 64)
    assert flat.size == 128
    assert a.tolist() == [[1, 2], [3, 4]]
    whole = flat.value.numpy()
    assert a.numpy().ctypes.data == whole.ctypes.data
    assert b.numpy().ctypes.data == whole.ctypes.data + 256
    flat.value = flat.value * 2
    assert a.tolist() == [[2, 4], [6, 8]]
    assert b.tolist() == [10, 12]


def test_views_are_no_outputs_of_a_program() -> None:
    a = fb.Param(np.ones(3, np.float32))
    flat = Flat([a])
    fb.flush()
    fb.reset_stats()
    value = a.value
    fb.flush()
    assert runs() == 0
    assert value.tolist() == [1, 1, 1]
    y = value + 1
    assert y.tolist() == [2, 2, 2]
    assert flat.size == 64


def test_a_write_to_one_cell_reaches_the_flat_tensor() -> None:
    a, b = fb.Param([1.0]), fb.Param([2.0])
    flat = Flat([a, b])
    a.value = fb.tensor([7.0])
    assert a.tolist() == [7]
    assert flat.value.numpy()[[0, 64]].tolist() == [7, 2]
    assert a.tolist() == [7]
    (a * b).sum().backward()
    assert grad_of(a).tolist() == [2]
    assert grad_of(b).tolist() == [7]
    packed = flat.pack([grad_of(a), grad_of(b)])
    assert packed.numpy()[[0, 1, 64]].tolist() == [2, 0, 7]


def test_flat_storage_refuses_what_does_not_fit() -> None:
    a = fb.Param([1.0])
    with pytest.raises(UserError, match="one element type"):
        Flat([a, fb.Buffer(1)])
    with pytest.raises(UserError, match="at least one"):
        Flat([])
    Flat([a])
    with pytest.raises(UserError, match="already"):
        Flat([a])


# ---- cells -------------------------------------------------------------------------------------------------------


def test_cells_are_tensors_whose_value_can_be_set() -> None:
    cell = fb.Buffer([1.0, 2.0], name="mean")
    y = cell * 2
    cell.value = fb.tensor([5.0, 6.0])
    assert y.tolist() == [2, 4]
    assert cell.sum().item() == 11
    cell.set([1.0])  # a buffer may change its shape
    assert cell.shape == (1,)
    assert repr(cell) == "Buffer(tensor([1.], f32))"


def test_a_parameter_keeps_its_shape() -> None:
    w = fb.Param([1.0, 2.0], name="w")
    with pytest.raises(fb.ShapeError, match="keeps its shape"):
        w.value = fb.ones(3)
    w.value = fb.ones(2, dtype=fb.float64)
    assert w.dtype is fb.float64
    assert w.requires_grad


def test_what_is_set_to_a_parameter_is_a_new_leaf() -> None:
    w = fb.Param([1.0])
    w.value = w * 2
    (w * 3).sum().backward()
    assert grad_of(w).tolist() == [3]


# ---- failures ----------------------------------------------------------------------------------------------------


def test_a_value_that_cannot_be_compiled_does_not_stop_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(backends.InterpretBackend):
        def compile(self, plan, dynamic, names, options=None):  # type: ignore[no-untyped-def]
            if any(s.entry.op.name == "nd.sin" for s in plan.steps):
                raise CompilerError("no rule", op="sin")
            return super().compile(plan, dynamic, names, options)

    monkeypatch.setattr(execute, "backend_of", lambda device: Failing())
    x = fb.tensor([1.0])
    bad, good = x.sin(), x + 1
    assert good.tolist() == [2]
    for _ in range(2):
        with pytest.raises(CompilerError, match="no rule"):
            bad.numpy()
    assert (good + 1).tolist() == [3]
    with pytest.raises(CompilerError, match="no rule"):
        (bad + 1).numpy()


def test_a_fault_at_run_time_is_raised_at_every_read() -> None:
    x = fb.tensor([1.0, 2.0])
    y = x[fb.tensor([5])]
    for _ in range(2):
        with pytest.raises(IndexRangeError):
            y.numpy()
    assert (x + 1).tolist() == [2, 3]


def test_reading_inside_a_trace_leaves_what_is_pending_outside_alone() -> None:
    pending = fb.ones(2) + 1

    def f(x: fb.Tensor) -> fb.Tensor:
        assert pending.tolist() == [2, 2]
        return (x * pending).sum()

    assert fb.grad(f)(fb.ones(2)).tolist() == [2, 2]


def test_threads_record_and_read_at_the_same_time() -> None:
    def work(seed: int) -> float:
        x = fb.tensor(np.full(8, seed, np.float32))
        total = 0.0
        for k in range(20):
            y = (x + k) * 2
            total += y.sum().item()
        return total

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [sum(8 * (seed + k) * 2 for k in range(20)) for seed in range(8)]


def test_stats_count_and_reset() -> None:
    (fb.tensor([1.0]) + 1).numpy()
    counts = fb.stats()
    assert counts["programs_run"] == 1
    assert counts["nodes_run"] == 1
    assert counts["bytes_copied"] == 4
    fb.reset_stats()
    assert set(fb.stats().values()) == {0}
