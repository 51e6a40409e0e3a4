"""Batches of NumPy arrays in an order that depends on the seed and the epoch alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from firebox.errors import ShapeError

Array = npt.NDArray[Any]


class Batches:
    """Batches of arrays that share their first axis; each pass is one epoch with an order of its own.

    Use as ``for x, y in Batches(images, labels, batch_size=64, seed=0)``. The order of epoch ``e`` is a function of
    ``(seed, e)``: a run that is resumed at epoch ``e`` (set ``epoch``) sees the same batches.

    Args:
        arrays: arrays of the same length.
        batch_size: rows a batch.
        shuffle: whether rows are permuted anew each epoch.
        seed: of the permutations.
        drop_last: whether a last batch with fewer rows is left out.

    Raises:
        ShapeError: no arrays, different lengths, or a batch size below 1.
    """

    def __init__(
        self, *arrays: Array, batch_size: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> None:
        self.arrays = tuple(np.asarray(a) for a in arrays)
        lengths = [a.shape[0] if a.ndim else 0 for a in self.arrays]
        if not lengths or len(set(lengths)) != 1:
            raise ShapeError("arrays must have the same length", op="Batches", expected="one length", found=lengths)
        if batch_size < 1:
            raise ShapeError("bad batch_size", op="Batches", expected="at least 1", found=batch_size)
        self.length = lengths[0]
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    def __len__(self) -> int:
        """Number of batches."""
        whole, rest = divmod(self.length, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def order(self, epoch: int) -> npt.NDArray[np.int64]:
        """Row numbers in the order of an epoch."""
        if not self.shuffle:
            return np.arange(self.length)
        return np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self.length)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        order = self.order(self.epoch)
        self.epoch += 1
        for k in range(len(self)):
            rows = order[k * self.batch_size : (k + 1) * self.batch_size]
            yield tuple(a[rows] for a in self.arrays)


def batches(
    *arrays: Array, batch_size: int, shuffle: bool = False, seed: int = 0, drop_last: bool = False
) -> Iterator[tuple[Array, ...]]:
    """One pass over arrays in batches; see `Batches` for several epochs."""
    return iter(Batches(*arrays, batch_size=batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last))


def train_test_split(
    *arrays: Array, test_fraction: float, seed: int = 0
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Rows in two parts by a seeded permutation: ``(training arrays, held-out arrays)``.

    Raises:
        ShapeError: different lengths.
    """
    order = Batches(*arrays, batch_size=1, seed=seed).order(0)
    held_out = round(len(order) * test_fraction)
    train, test = order[: len(order) - held_out], order[len(order) - held_out :]
    return tuple(np.asarray(a)[train] for a in arrays), tuple(np.asarray(a)[test] for a in arrays)
