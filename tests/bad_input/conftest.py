"""Bad input is tried on native code; what is pending or cached of one test is no part of the next."""

from collections.abc import Iterator

import pytest

import firebox as fb
from firebox.frontend import execute


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    fb.flush()
    execute.forget_programs()
    fb.set_default_device("cpu")
    yield
    fb.set_default_device(None)
