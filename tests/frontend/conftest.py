"""Fixtures of the frontend's tests."""

import os
from collections.abc import Iterator

import pytest

import firebox as fb
from firebox.frontend import execute

host_only = pytest.mark.skipif(
    os.environ.get("FIREBOX_DEVICE", "").startswith("opencl"), reason="only the host's memory is shared with NumPy"
)


@pytest.fixture
def frontend() -> Iterator[None]:
    """Run programs in NumPy unless FIREBOX_DEVICE names another device; seeds and counters start anew."""
    fb.set_default_device(os.environ.get("FIREBOX_DEVICE", "interpret"))
    fb.manual_seed(0)
    fb.flush()
    execute.forget_programs()
    fb.reset_stats()
    yield
    fb.set_default_device(None)
