"""Axes and indices out of range: at once where they are known, at the read where they come from data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import DTypeError, IndexRangeError, ShapeError
from tests.bad_input.says import Call, says

X = fb.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
TABLE = np.arange(14, dtype=np.float32).reshape(7, 2)
ZERO_D = fb.tensor(2.0)

AXIS = ("expected: -2 <= axis < 2", "found:    2")
KNOWN: dict[str, tuple[Call, tuple[str, ...]]] = {
    "sum": (lambda: X.sum(2), ("sum: axis out of range", *AXIS)),
    "fb.sum": (lambda: fb.sum(X, 2), ("sum: axis out of range", *AXIS)),
    "mean": (lambda: X.mean(2), ("mean: axis out of range", *AXIS)),
    "argmax": (lambda: X.argmax(2), ("argmax: axis out of range", *AXIS)),
    "softmax": (lambda: fb.softmax(X, 2), ("softmax: axis out of range", *AXIS)),
    "cumsum": (lambda: X.cumsum(2), ("cumsum: axis out of range", *AXIS)),
    "sort": (lambda: fb.sort(X, 2), ("sort: axis out of range", *AXIS)),
    "concat": (lambda: fb.concat([X, X], 2), ("concat: axis out of range", *AXIS)),
    "transpose": (lambda: X.transpose(0, 2), ("transpose: axis out of range", *AXIS)),
    "fb.take": (lambda: fb.take(X, X.argmax(0), axis=2), ("take: axis out of range", *AXIS)),
    "expand_dims": (
        lambda: X.expand_dims(-4),
        ("expand_dims: axis out of range", "expected: -3 <= axis < 3", "found:    -4"),
    ),
    "0-d": (
        lambda: ZERO_D.sum(0),
        ("sum: axis out of range", "expected: no axis: the array is 0-d", "found:    0"),
    ),
    "an index": (
        lambda: X[2],
        ("index: index out of range", "expected: -2 to 1 at axis 0", "found:    2"),
    ),
    "a negative index": (
        lambda: X[0, -4],
        ("index: index out of range", "expected: -3 to 2 at axis 1", "found:    -4"),
    ),
    "a list of indices": (
        lambda: X[[0, 5]],
        ("index: index out of range", "expected: -2 to 1 at axis 0", "found:    5"),
    ),
    "too many indices": (
        lambda: X[0, 0, 0],
        ("index: too many indices", "expected: at most 2", "found:    3 indices for f32[2, 3]"),
    ),
    "x.at": (
        lambda: X.at[2].set(0.0),
        ("index: index out of range", "expected: -2 to 1 at axis 0", "found:    2"),
    ),
    "a step of 0": (
        lambda: X[::0],
        ("index: the step of a slice is 0", "found:    slice(None, None, 0)"),
    ),
    "topk": (lambda: fb.topk(X, 4), ("topk: bad k", "expected: 0 to 3", "found:    4")),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_refused_at_once(name: str) -> None:
    call, lines = KNOWN[name]
    says(call, IndexRangeError, *lines)
    assert issubclass(IndexRangeError, IndexError)


def test_an_axis_that_is_no_integer() -> None:
    says(
        lambda: X.sum(1.5),  # type: ignore[arg-type]
        DTypeError,
        "sum: an axis must be an integer",
        "expected: an int",
        "found:    1.5",
    )
    says(lambda: X.sum((0, 0)), ShapeError, "sum: an axis is named twice", "found:    (0, 0)")
    np.testing.assert_array_equal(X.sum(np.int64(1)).numpy(), [3, 12])  # type: ignore[arg-type]


# ---- data --------------------------------------------------------------------------------------------------------


def indices(*values: int, count: int = 0, dtype: Any = np.int64) -> fb.Tensor:
    """The values after zeros, so that there are ``count`` in all: more than a vector holds."""
    return fb.tensor(np.array([0] * (count - len(values)) + list(values), dtype))


def fails_at(line: int, value: fb.Tensor, *lines: str) -> None:
    """Reading the value fails with this message, which names a line of this file."""
    with pytest.raises(IndexRangeError) as caught:
        value.numpy()
    found = [text.strip() for text in str(caught.value).splitlines()]
    assert found == [*lines[:3], f"at:       {__file__}:{line}", *lines[3:]], caught.value


HINT = "hint:     negative indices count from the end in x[...] and fb.take, not here"


@pytest.mark.parametrize("count", [1, 5, 64, 1000])
@pytest.mark.parametrize("bad", [7, -1, -8, 2**31, 2**32, 2**32 + 1, -(2**32), 2**63 - 1])
def test_rows_by_an_index_out_of_range(count: int, bad: int) -> None:
    """Single and in vectors; indices beyond 32 bits do not wrap into the range."""
    table = fb.tensor(TABLE)
    rows = table.take(indices(bad, count=count))
    hint = [HINT] if -7 <= bad < 0 else []
    line = test_rows_by_an_index_out_of_range.__code__.co_firstlineno + 5
    fails_at(line, rows, "gather: index out of range", "expected: an index from 0 to 6", f"found:    {bad}", *hint)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("count", [1, 64])
def test_every_type_of_index(count: int, dtype: Any) -> None:
    good = fb.tensor(TABLE).take(indices(6, count=count, dtype=dtype)).numpy()
    np.testing.assert_array_equal(good[-1], TABLE[6])
    highest = int(np.iinfo(dtype).max)
    with pytest.raises(IndexRangeError, match=str(highest) if dtype is not np.uint64 else "index out of range"):
        fb.tensor(TABLE).take(indices(highest, count=count, dtype=dtype)).numpy()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("size", [5, 127, 128, 300, 40_000])
def test_negative_indices_of_narrow_types_count_from_the_end(size: int, dtype: Any) -> None:
    """The size may not fit the type of the index."""
    lowest = max(-size, int(np.iinfo(dtype).min))
    picks = np.array([-1, lowest, 0, 1] * 10, dtype)
    array = np.arange(size)
    np.testing.assert_array_equal(fb.tensor(array)[fb.tensor(picks)].numpy(), array[picks])
    np.testing.assert_array_equal(fb.take(fb.tensor(array), fb.tensor(picks)).numpy(), array[picks])


@pytest.mark.parametrize("bad", [7, -8, 2**40, -(2**40)])
@pytest.mark.parametrize("count", [1, 64])
def test_a_wrapped_index_is_reported_as_it_was(count: int, bad: int) -> None:
    value = fb.tensor(TABLE)[indices(-7, bad, count=count)]
    line = test_a_wrapped_index_is_reported_as_it_was.__code__.co_firstlineno + 3
    fails_at(line, value, "gather: index out of range", "expected: an index from 0 to 6", f"found:    {bad}")


def _several() -> Any:
    return fb.tensor(TABLE)[indices(0, 1, 2, count=40), indices(0, 1, 2, count=40)]


def _each_row() -> Any:
    return fb.vmap(lambda row, index: row.take(index))(fb.tensor(TABLE), fb.tensor(np.full((7, 1), 2)))


@pytest.mark.parametrize("make", [_several, _each_row])
def test_one_of_several_indices(make: Callable[[], Any]) -> None:
    lines = ("gather: one of several indices is out of range", "expected: each within its own dim")
    with pytest.raises(IndexRangeError) as caught:
        make().numpy()
    place = f"at:       {__file__}:{make.__code__.co_firstlineno + 1}"
    assert [text.strip() for text in str(caught.value).splitlines()] == [*lines, place]


RUN_TIME: dict[str, tuple[Callable[[fb.Tensor], Any], str, int]] = {
    "embedding": (lambda i: fb.embedding(i, fb.tensor(TABLE)), "gather", 7),
    "Embedding": (lambda i: fb.nn.Embedding(7, 2)(i), "gather", 7),
    "take_along_axis": (lambda i: fb.tensor(TABLE).take_along_axis(i.expand_dims(1), 0), "take_along_axis", 7),
    "scatter_add": (lambda i: fb.zeros(7).scatter_add(i, fb.ones(i.shape)), "scatter_add", 7),
    "x.at[i].add": (lambda i: fb.zeros(7).at[i].add(1.0), "scatter_add", 7),
    "x.at[i].set": (lambda i: fb.zeros(7).at[i].set(1.0), "gather", 7),
    "cross_entropy": (lambda i: fb.cross_entropy(fb.zeros(i.shape[0], 3), i), "take_along_axis", 3),
    "an empty table": (lambda i: fb.zeros(0, 2).take(i), "gather", 0),
}


@pytest.mark.parametrize("name", RUN_TIME)
@pytest.mark.parametrize("count", [1, 64])
def test_functions_that_look_up(name: str, count: int) -> None:
    function, op, size = RUN_TIME[name]
    value = function(indices(9, count=count))
    expected = f"expected: an index from 0 to {size - 1}" if size else "expected: none: the axis is empty"
    code = function.__code__
    with pytest.raises(IndexRangeError) as caught:
        value.numpy()
    found = [text.strip() for text in str(caught.value).splitlines()]
    assert found[:2] == [f"{op}: index out of range", expected]
    assert found[2] == ("found:    9" if size or count == 1 else "found:    0")
    assert found[3] == f"at:       {code.co_filename}:{code.co_firstlineno}"
    if size and name != "cross_entropy":
        function(indices(0, count=count)).numpy()


def test_one_hot_of_an_index_out_of_range_is_zeros() -> None:
    np.testing.assert_array_equal(fb.one_hot(fb.tensor([1, 5, -1]), 3).numpy(), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_a_bad_index_spoils_only_what_depends_on_it() -> None:
    """All of it is one program."""
    table = fb.ones(7, 2)
    twice = table * 2
    rows = table.take(indices(9))
    total = rows.sum()
    for value in (total, rows, total):
        with pytest.raises(IndexRangeError, match="found:    9"):
            value.numpy()
    np.testing.assert_array_equal(table.numpy(), np.ones((7, 2)))
    np.testing.assert_array_equal(twice.numpy(), np.full((7, 2), 2.0))
    np.testing.assert_array_equal((twice + 1).sum().numpy(), 42)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_that_fails_leaves_the_model_as_it_was(compiled: bool) -> None:
    fb.manual_seed(0)
    model = fb.nn.Linear(4, 3)
    optimizer = fb.optim.SGD(model, lr=0.1)

    def step(x: fb.Tensor, target: fb.Tensor) -> Any:
        loss = fb.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = fb.jit(step) if compiled else step
    x = fb.tensor(np.ones((2, 4), np.float32))
    run(x, indices(0, 1)).numpy()
    before = np.array(model.weight.numpy())
    with pytest.raises(IndexRangeError, match="found:    9"):
        run(x, indices(0, 9)).numpy()
    np.testing.assert_array_equal(model.weight.numpy(), before)
    run(x, indices(0, 1)).numpy()
    assert not np.array_equal(model.weight.numpy(), before)
