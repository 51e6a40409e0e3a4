"""Executables: binding, sizes, donation, faults, threads, overhead."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from firebox.errors import CompilerError, DeviceError, IndexRangeError, InputError, ShapeError
from firebox.runtime.dispatch import Executable
from firebox.runtime.memory import POOL, Buffer
from firebox.runtime.pool import get_num_threads, set_num_threads
from firebox.runtime.program import Guard
from tests.handmade import ADD, FOUR_INPUTS, LOOK_UP, add_image, empty_image, look_up_image
from tests.programs import compiled, program

W = np.arange(8, dtype=np.float32)


def make(array: np.ndarray) -> Buffer:
    """A buffer of the pool's own with the array's content: not exported."""
    buffer = POOL.allocate(array.nbytes)
    buffer.as_numpy(array.dtype, array.shape, writable=True, internal=True)[...] = array
    return buffer


def read(buffer: Buffer, shape: tuple[int, ...]) -> np.ndarray:
    return buffer.as_numpy(np.dtype(np.float32), shape, internal=True).copy()


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_run_computes_at_every_size(batch: int) -> None:
    x = np.arange(batch * 8, dtype=np.float32).reshape(batch, 8)
    (y,) = Executable(ADD, add_image()).run([make(x), make(W)], [batch])
    np.testing.assert_array_equal(read(y, (batch, 8)), x + W)


def test_run_arrays_takes_any_strides() -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3).T
    result = Executable(ADD, add_image()).run_arrays({"w": W, "x": x})
    np.testing.assert_array_equal(result["y"], x + W)
    result["y"][0, 0] = 5.0  # results are the caller's own


def test_run_arrays_copies_misaligned_memory() -> None:
    x = np.frombuffer(b"\0" + np.ones((2, 8), np.float32).tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 8)
    assert not x.flags.aligned
    np.testing.assert_array_equal(Executable(ADD, add_image()).run_arrays({"x": x, "w": W})["y"], x + W)


def test_run_arrays_checks_the_signature() -> None:
    program = Executable(ADD, add_image())
    with pytest.raises(InputError, match=r"input w: dim 0 is 7, expected 8; got f32\[7\] for w: f32\[8\]"):
        program.run_arrays({"x": np.ones((2, 8), np.float32), "w": W[:7]})


def test_the_workspace_follows_dims_and_threads() -> None:
    program = Executable(ADD, add_image())
    before = get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            assert program.arena_bytes([5]) == 5 * 32 * threads
    finally:
        set_num_threads(before)


def test_wrong_buffers_are_refused_before_the_call() -> None:
    program = Executable(ADD, add_image())
    x, w = make(np.ones((2, 8), np.float32)), make(W)
    with pytest.raises(CompilerError, match="do not fit"):
        program.run([x, w], [3])
    with pytest.raises(CompilerError, match="do not fit"):
        program.run([x], [2])
    with pytest.raises(CompilerError, match="do not fit"):
        program.run([x, w, w], [2])
    with pytest.raises(CompilerError, match="wrong number of dims"):
        program.run([x, w])


def test_a_donated_buffer_becomes_the_result() -> None:
    x = make(np.ones((2, 8), np.float32))
    (y,) = Executable(ADD, add_image()).run([x, make(W)], [2], donate=[True, False])
    assert y is x
    np.testing.assert_array_equal(read(y, (2, 8)), np.ones((2, 8)) + W)


def test_a_buffer_is_not_overwritten_without_leave() -> None:
    program = Executable(ADD, add_image())
    ones = np.ones((2, 8), np.float32)
    kept, exported, shared = make(ones), make(ones), make(W)
    exported.mark_exported()
    for x, w, donate in (
        (kept, make(W), None),
        (kept, make(W), [False, True]),
        (exported, make(W), [True, True]),
        (shared, shared.view(0, 32), [True, True]),
    ):
        (y,) = program.run([x, w], [x.nbytes // 32], donate)
        assert y.ptr != x.ptr
    np.testing.assert_array_equal(read(kept, (2, 8)), ones)
    np.testing.assert_array_equal(read(shared, (8,)), W)


@pytest.mark.parametrize(("index", "value"), [(0, 0.0), (3, 30.0), (-4, 0.0), (-1, 30.0)])
def test_indices_in_range(index: int, value: float) -> None:
    table = np.array([0, 10, 20, 30], np.float32)
    assert Executable(LOOK_UP, look_up_image()).run_arrays({"table": table, "index": np.int64(index)})["y"] == value


@pytest.mark.parametrize(
    ("code", "error"), [(1, IndexRangeError), (2, ShapeError), (3, DeviceError), (9, CompilerError)]
)
def test_a_fault_names_the_line_of_its_op(code: int, error: type[Exception]) -> None:
    program = Executable(LOOK_UP, look_up_image(code))
    arrays = {"table": np.zeros(4, np.float32), "index": np.int64(7)}
    with pytest.raises(error, match=r"at: +model\.py:7") as caught:
        program.run_arrays(arrays)
    assert "7" in str(caught.value)
    program.run_arrays({**arrays, "index": np.int64(1)})  # a fault does not stick


def test_sizes_that_do_not_meet_a_guard_are_refused_before_the_call() -> None:
    guarded = replace(ADD, guards=(Guard(ADD.inputs[0].shape[0], 2),), ops=("slice",), locations=("model.py:9",))
    program = Executable(guarded, add_image())
    with pytest.raises(ShapeError) as caught:
        program.run([make(np.ones((1, 8), np.float32)), make(W)], [1])
    assert str(caught.value).splitlines() == [
        "slice: a size does not fit",
        "  expected: b >= 2",
        "  found:    b = 1",
        "  at:       model.py:9",
    ]
    (y,) = program.run([make(np.ones((2, 8), np.float32)), make(W)], [2])
    np.testing.assert_array_equal(read(y, (2, 8)), np.ones((2, 8)) + W)


def test_a_missing_entry_is_an_error() -> None:
    with pytest.raises(DeviceError, match="no such function"):
        Executable(replace(ADD, entry="other"), add_image())


def test_sizes_that_no_machine_has_are_refused() -> None:
    program = Executable(replace(ADD, arena=1 << 60), add_image())
    with pytest.raises(DeviceError, match="out of memory"):
        program.run([make(W), make(W)], [1])


def test_calls_from_many_threads_do_not_mix() -> None:
    program = Executable(ADD, add_image())
    wrong: list[int] = []

    def work(seed: int) -> None:
        batch = 1 + seed
        x = np.full((batch, 8), seed, np.float32)
        for _ in range(200):
            (y,) = program.run([make(x), make(W)], [batch], donate=[True, False])
            if not np.array_equal(read(y, (batch, 8)), x + W):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_call_takes_microseconds() -> None:
    """Aim: 3 us with four inputs. The bound is loose, as the machine may be busy; the best of many rounds counts."""
    program = Executable(FOUR_INPUTS, empty_image())
    inputs = [make(W) for _ in range(4)]
    best = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(200):
            program.run(inputs)
        best = min(best, (time.perf_counter() - start) / 200)
    assert best < 12e-6


def test_a_bound_call_gives_what_run_gives() -> None:
    executable, _ = compiled(program(lambda x, y: (x * y, x.flip(0) + y), "f32[b, 3]", "f32[b, 3]"))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    buffers = [Buffer.from_numpy(x), Buffer.from_numpy(x + 1)]
    bound = executable.bound([4])
    for found in (bound(buffers, None), bound(buffers, [False, False]), executable.run(buffers, [4])):
        product, flipped = (b.as_numpy(np.dtype(np.float32), (4, 3)) for b in found)
        np.testing.assert_array_equal(product, x * (x + 1))
        np.testing.assert_array_equal(flipped, x[::-1] + x + 1)
