"""Batches, splits and the progress display."""

import io

import numpy as np
import pytest

from firebox.errors import ShapeError
from firebox.frontend.train import Batches, Progress, batches, track, train_test_split

X = np.arange(20).reshape(10, 2)
Y = np.arange(10)


def test_batches_cover_every_row_once_with_rows_kept_together() -> None:
    found = list(Batches(X, Y, batch_size=4, seed=1))
    assert [len(y) for _, y in found] == [4, 4, 2]
    assert sorted(np.concatenate([y for _, y in found])) == list(range(10))
    for x, y in found:
        np.testing.assert_array_equal(x, X[y])


def test_order_is_a_function_of_seed_and_epoch() -> None:
    def epochs(seed: int) -> list[list[int]]:
        loader = Batches(Y, batch_size=3, seed=seed)
        return [np.concatenate([y for (y,) in loader]).tolist() for _ in range(2)]

    first = epochs(1)
    assert first == epochs(1)
    assert first[0] != first[1]
    assert first != epochs(2)
    resumed = Batches(Y, batch_size=3, seed=1)
    resumed.epoch = 1
    assert np.concatenate([y for (y,) in resumed]).tolist() == first[1]


def test_drop_last_and_length() -> None:
    loader = Batches(Y, batch_size=4, drop_last=True)
    assert len(loader) == 2 and [len(y) for (y,) in loader] == [4, 4]
    assert len(Batches(Y, batch_size=4)) == 3
    assert [y.tolist() for (y,) in batches(Y, batch_size=6)] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]


def test_batches_refuse_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="same length"):
        Batches(X, Y[:5], batch_size=2)
    with pytest.raises(ShapeError, match="at least 1"):
        Batches(X, batch_size=0)


def test_split_holds_out_a_fraction() -> None:
    (train_x, train_y), (test_x, test_y) = train_test_split(X, Y, test_fraction=0.2, seed=3)
    assert len(train_y) == 8 and len(test_y) == 2
    assert sorted([*train_y, *test_y]) == list(range(10))
    np.testing.assert_array_equal(test_x, X[test_y])
    np.testing.assert_array_equal(train_x, X[train_y])
    again = train_test_split(X, Y, test_fraction=0.2, seed=3)[1][1]
    np.testing.assert_array_equal(again, test_y)


def test_progress_writes_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with Progress(10, "steps", out, lines=5) as bar:
        for k in range(10):
            bar.advance(loss=1.0 / (k + 1), epoch=k)
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("steps 2/10") and lines[0].endswith("loss 0.5  epoch 1")
    assert lines[-1].startswith("steps 10/10")


def test_track_gives_the_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track([3, 1, 2], title="items")) == [3, 1, 2]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "items 3/3" in captured.err
