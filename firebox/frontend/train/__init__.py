"""Helpers for training loops: batches in a reproducible order, splits, and a progress bar."""

from firebox.frontend.train.data import Batches, batches, train_test_split
from firebox.frontend.train.progress import Progress, track

__all__ = ["Batches", "Progress", "batches", "track", "train_test_split"]
