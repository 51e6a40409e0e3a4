"""Shared fixtures: golden files, caches of its own for every test, and the devices that tests run on."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from firebox import config
from firebox.runtime.code_cache import code_cache
from firebox.runtime.device import Device
from firebox.runtime.opencl_program import binary_cache
from firebox.runtime.program_cache import program_cache
from tests.programs import DEVICES, device_named

GOLDEN = Path(__file__).parent / "golden"
_numbers = itertools.count()

# The same examples in every run, and no time limit for each: the machine may be busy.
settings.register_profile("firebox", deadline=None, derandomize=True)
settings.load_profile("firebox")

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew from what the tests produce"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares with the file ``tests/golden/<name>``, or writes it under --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"{path} is missing: run pytest --update-golden and read what it wrote"
        assert text == path.read_text()

    return compare


@pytest.fixture(params=DEVICES)
def each_device(request: pytest.FixtureRequest) -> Device:
    """One device after the other: what is compiled must give the same on all of them; see docs/development.md."""
    return device_named(request.param)


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def cache_dir(_caches: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty on-disk cache for this test; the directory appears when something is written."""
    directory = _caches / str(next(_numbers))
    monkeypatch.setenv("FIREBOX_CACHE_DIR", str(directory))
    _forget()
    yield directory
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    config.reload()
    code_cache.cache_clear()
    program_cache.cache_clear()
    binary_cache.cache_clear()
