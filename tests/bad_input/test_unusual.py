"""Unusual but valid: how arrays lie in memory, NumPy numbers, large ranks, many threads and forked processes."""

import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DeviceError, InputError, ShapeError, UserError

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def misaligned() -> Any:
    return np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 6)


LAYOUTS: dict[str, Any] = {
    "Fortran order": np.asfortranarray(X),
    "every other row backwards": X[::2, ::-1],
    "transposed": X.T,
    "big-endian": X.astype(">f4"),
    "big-endian integers": X.astype(">i8"),
    "zero strides": np.broadcast_to(np.float32(3), (4, 6)),
    "misaligned": misaligned(),
    "a subclass": X.view(np.recarray),
    "a view of a 0-d": np.array(2.0, np.float32),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("make", [fb.tensor, fb.from_numpy])
def test_layouts_of_arrays(make: Any, name: str) -> None:
    array = LAYOUTS[name]
    tensor = make(array)
    assert tensor.dtype.numpy == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal((tensor + 1).numpy(), array.astype(array.dtype.newbyteorder("=")) + 1)


def test_read_only_arrays() -> None:
    array = X.copy()
    array.flags.writeable = False
    np.testing.assert_array_equal((fb.from_numpy(array) * 2).numpy(), array * 2)
    with pytest.raises(ValueError, match="read-only"):
        fb.from_numpy(array).numpy()[0] = 1


def test_numpy_numbers() -> None:
    """NumPy's scalars are weak, as Python's are; arrays are not."""
    one = fb.ones(2)
    for number in (np.float64(3), np.float32(3), np.int64(3), np.int8(3)):
        for result in (one * number, number * one):
            assert (result.dtype, result.tolist()) == (fb.float32, [3, 3])
    assert (one * np.array(3.0)).dtype is fb.float64
    assert fb.tensor(np.float16(3)).dtype is fb.float16
    assert fb.tensor(np.bool_(True)).dtype is fb.bool
    assert X[fb.tensor(1)].tolist() == X[1].tolist()
    assert fb.tensor(X)[np.int64(1), np.uint8(2)].item() == X[1, 2]
    assert fb.zeros(np.int64(2), np.int32(3)).shape == (2, 3)
    assert fb.tensor(X).reshape(np.int64(3), -1).shape == (3, 8)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_given_to_a_compiled_model(name: str) -> None:
    model = fb.compile(lambda x: x * 2.0, "x: f32[b, c]")
    array = LAYOUTS[name]
    if array.dtype == np.float32 and array.ndim == 2:
        np.testing.assert_array_equal(model(array), array * 2)
    else:
        with pytest.raises(InputError, match=r"element type is|rank is 0"):
            model(array)


def test_numbers_and_lists_given_to_a_compiled_model() -> None:
    model = fb.compile(lambda x: x + 1, "x: i32[n]")
    np.testing.assert_array_equal(model([1, True]), [2, 2])
    np.testing.assert_array_equal(model([]), [])
    for wrong, message in (
        ([1.5], "the numbers do not fit the element type"),
        ([2**40], "a number is out of range"),
        (["a"], "the numbers do not fit the element type"),
        ([None], "the numbers do not fit the element type"),
        ([[1], [2, 3]], "not an array: "),
        (1, "rank is 0, expected 1"),
    ):
        with pytest.raises(InputError, match=f"input x: {message}"):
            model(wrong)


@pytest.mark.parametrize("rank", [33, 65, 100])
def test_high_ranks(rank: int) -> None:
    """NumPy ends at 64 dims, which bounds what can be read."""
    x = fb.ones(*(1,) * rank)
    assert (x + x).sum().item() == 2


def test_sizes_beyond_memory_are_refused_at_the_read() -> None:
    for shape in ((2**45,), (2**31, 2**31), (2**62,)):
        x = fb.zeros(*shape) + fb.ones(*shape)
        with pytest.raises(DeviceError, match="out of memory"):
            x.numpy()
    assert (fb.ones(2) + 1).tolist() == [2, 2]


def test_positions_beyond_32_bits() -> None:
    """Counts and filled tensors have no memory, so that the index arithmetic can be tried."""
    count = 2**33
    far = fb.tensor([2**32 + 5, count - 1, 3])
    np.testing.assert_array_equal(fb.arange(count)[far].numpy(), [2**32 + 5, count - 1, 3])
    many = np.array([2**32 + 5] * 63 + [count - 1])
    np.testing.assert_array_equal(fb.arange(count)[fb.tensor(many)].numpy(), many)
    assert fb.arange(count)[2**32 + 7 :: 2**31].tolist() == [2**32 + 7, 2**32 + 7 + 2**31]
    assert fb.arange(count)[-1].item() == count - 1


def test_names_with_spaces_and_letters_of_all_kinds(tmp_path: Any) -> None:
    path = tmp_path / "ein Gewicht - вес.fbox"
    fb.compile(lambda x: x + 1, "größe: f32[2]", path=path)
    assert fb.runtime.load(path)([1, 2]).tolist() == [2, 3]


def test_calls_from_threads_and_their_errors() -> None:
    results: dict[int, list[bool]] = {k: [] for k in range(6)}

    def work(k: int) -> None:
        for turn in range(10):
            x = fb.tensor(np.full((64, 64), k, np.float32))
            results[k].append((x * turn).sum().item() == k * turn * 4096)
            try:
                x.take(fb.tensor([64 + k])).numpy()
            except IndexError as error:
                results[k].append(f"found:    {64 + k}\n" in str(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found == [True] * 20 for found in results.values()), results


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes() -> None:
    """Its threads are not those of the parent."""
    x = fb.tensor(np.ones((1000, 1000), np.float32))
    assert (x * 2).sum().item() == 2e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if (x * 3).sum().item() == 3e6 and (x @ x).sum().item() == 1e9 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert (x * 4).sum().item() == 4e6


def test_arguments_of_creation() -> None:
    for stop in (float("nan"), float("inf"), "a"):
        with pytest.raises(UserError, match="arange: not a range"):
            fb.arange(stop)  # type: ignore[arg-type]
    for shape in ((-1,), (2.5,), ("a",), (2, None)):
        with pytest.raises(ShapeError, match="not a shape"):
            fb.zeros(*shape)
    with pytest.raises(TypeError, match="manual_seed: not a seed"):
        fb.manual_seed("a")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="bernoulli: not a shape"):
        fb.random.bernoulli(0.5, (3,))  # type: ignore[arg-type]
