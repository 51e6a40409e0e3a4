"""Settings: defaults, environment variables, what is refused."""

import os
from pathlib import Path

import pytest

from firebox import config
from firebox.errors import UserError


def setting(monkeypatch: pytest.MonkeyPatch, **variables: str | None) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    config.reload()


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setting(monkeypatch, FIREBOX_CACHE_DIR=str(tmp_path))
    assert config.cache_dir() == tmp_path
    setting(monkeypatch, FIREBOX_CACHE_DIR=None, XDG_CACHE_HOME="/xdg")
    assert config.cache_dir() == Path("/xdg/firebox")
    setting(monkeypatch, XDG_CACHE_HOME=None, HOME="/home/somebody")
    assert config.cache_dir() == Path("/home/somebody/.cache/firebox")


def test_a_setting_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    setting(monkeypatch, FIREBOX_NUM_THREADS="3")
    assert config.num_threads() == 3
    monkeypatch.setenv("FIREBOX_NUM_THREADS", "5")
    assert config.num_threads() == 3
    config.reload()
    assert config.num_threads() == 5


def test_threads_default_to_the_cpus_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    setting(monkeypatch, FIREBOX_NUM_THREADS=None)
    assert config.num_threads() == min(len(os.sched_getaffinity(0)), config.MAX_THREADS)


def test_the_other_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    setting(monkeypatch, FIREBOX_CACHE_SIZE=None, FIREBOX_DEVICE=None, FIREBOX_VERIFY=None)
    assert (config.cache_size(), config.default_device(), config.verify()) == (1 << 30, "cpu", False)


@pytest.mark.parametrize("text", ["1", "true", "YES", "on"])
def test_yes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    setting(monkeypatch, FIREBOX_VERIFY=text)
    assert config.verify()


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("FIREBOX_NUM_THREADS", "many", config.num_threads),
        ("FIREBOX_NUM_THREADS", "0", config.num_threads),
        ("FIREBOX_NUM_THREADS", "257", config.num_threads),
        ("FIREBOX_CACHE_SIZE", "-1", config.cache_size),
        ("FIREBOX_VERIFY", "perhaps", config.verify),
    ],
)
def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, text: str, read: object) -> None:
    setting(monkeypatch, **{name: text})
    assert callable(read)
    with pytest.raises(UserError, match=name):
        read()
