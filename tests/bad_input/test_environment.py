"""Caches that cannot be used or are damaged, processes that share one, and settings that are nonsense."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import config
from firebox.errors import UserError
from firebox.frontend import execute
from firebox.runtime.code_cache import code_cache
from firebox.runtime.program_cache import program_cache

ROOT = Path(__file__).parents[2]
PROGRAM = "import firebox as fb; print((fb.arange(4) * 3 + {seed}).sum().item())"


def python(program: str, **settings: str) -> "subprocess.Popen[str]":
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FIREBOX_", "XDG_"))}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**environment, "PYTHONPATH": str(ROOT), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the cache directory of this process."""

    def use(directory: str | Path) -> None:
        monkeypatch.setenv("FIREBOX_CACHE_DIR", str(directory))
        config.reload()
        code_cache.cache_clear()
        program_cache.cache_clear()
        execute.forget_programs()

    return use


# ---- caches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", "file"])
def test_a_cache_that_cannot_be_written_is_reported_once(
    cache: Any, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Code and programs have a cache each; a user has one directory."""
    (tmp_path / "file").write_text("in the way")
    cache(tmp_path / place)  # an absolute place stays as it is
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert (fb.ones(3) + number).sum().item() == 3 + 3 * number
            execute.forget_programs()
    (record,) = caplog.records
    assert record.getMessage().startswith(f"cache {tmp_path / place}/code cannot be written: ")


def test_a_cache_that_cannot_be_written_of_a_process() -> None:
    program = PROGRAM.format(seed=1)
    code, out, err = ended(python(program, FIREBOX_CACHE_DIR="/proc/nowhere"))
    assert (code, out) == (0, "22\n")
    assert err.count("cannot be written") == err.count("\n") == 1
    code, out, err = ended(python(program, FIREBOX_CACHE_DIR="/proc/nowhere", FIREBOX_CACHE_SIZE="0"))
    assert (code, out, err) == (0, "22\n", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(cache: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o500)
    cache(tmp_path / "cache")
    assert (fb.ones(3) + 1).sum().item() == 6
    assert len(caplog.records) == 1


def test_a_folder_that_everybody_may_write_is_not_used(
    cache: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Entries are code."""
    for name in ("code", "programs"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    cache(tmp_path)
    assert (fb.ones(3) + 1).sum().item() == 6
    assert [record.getMessage().rpartition(":")[2] for record in caplog.records] == [" everybody may write to it"]
    assert not list(tmp_path.glob("*/*"))


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*/*.bin"))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "a folder", "another entry"])
def test_damaged_entries_are_made_anew(
    cache: Any, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache(tmp_path)
    assert (fb.arange(5) * 2).sum().item() == 20
    files = entries(tmp_path)
    assert len(files) == 2
    contents = [path.read_bytes() for path in files]
    for path, data, other in zip(files, contents, [*contents[1:], contents[0]], strict=True):
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "flipped":
            path.write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "a folder":
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(other)  # intact, but not what is looked for
    cache(tmp_path)
    assert (fb.arange(5) * 2).sum().item() == 20
    assert len(caplog.records) == (2 if damage == "a folder" else 1)
    if damage != "a folder":
        assert [path.read_bytes() for path in entries(tmp_path)] == contents


def test_processes_share_one_cache(tmp_path: Path) -> None:
    """At the same time, the same programs and others."""
    program = "import firebox as fb\nfor k in range(6): print((fb.arange(k + 2) * 3).sum().item())"
    expected = "".join(f"{3 * sum(range(k + 2))}\n" for k in range(6))
    found = []
    for _ in range(2):
        running = [python(program, FIREBOX_CACHE_DIR=str(tmp_path)) for _ in range(3)]
        assert [ended(process) for process in running] == [(0, expected, "")] * 3
        found.append([(path, path.read_bytes()) for path in entries(tmp_path)])
    assert found[0] == found[1]
    assert len(found[0]) >= 12  # code and description of six programs
    assert not list(tmp_path.glob("*/*/.*"))


def test_a_full_cache_stays_small(cache: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREBOX_CACHE_SIZE", "40000")
    cache(tmp_path)
    for number in range(5):
        execute.forget_programs()
        np.testing.assert_array_equal((fb.arange(3) * number).numpy(), np.arange(3) * number)
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 40_000


# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FIREBOX_NUM_THREADS", "many", "not a number\n  expected: an integer from 1 to 256\n  found:    many"),
        ("FIREBOX_NUM_THREADS", "1.5", "not a number"),
        ("FIREBOX_NUM_THREADS", "0", "out of range\n  expected: an integer from 1 to 256\n  found:    0"),
        ("FIREBOX_NUM_THREADS", "-1", "out of range"),
        ("FIREBOX_NUM_THREADS", "100000", "out of range"),
        ("FIREBOX_CACHE_SIZE", "1GB", "not a number\n  expected: an integer from 0 to"),
        ("FIREBOX_CACHE_SIZE", "-1", "out of range"),
        ("FIREBOX_VERIFY", "perhaps", "not a yes or no\n  expected: 0 or 1\n  found:    perhaps"),
        ("FIREBOX_CACHE_DIR", "~no-such-user/x", "no such home directory"),
    ],
)
def test_settings(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {
        "FIREBOX_NUM_THREADS": config.num_threads,
        "FIREBOX_CACHE_SIZE": config.cache_size,
        "FIREBOX_VERIFY": config.verify,
        "FIREBOX_CACHE_DIR": config.cache_dir,
    }
    monkeypatch.setenv(name, value)
    config.reload()
    with pytest.raises(UserError) as caught:
        readers[name]()
    assert str(caught.value).startswith(f"{name}: {message}")
    monkeypatch.setenv(name, "")  # nothing is the default
    config.reload()
    readers[name]()


def test_settings_of_processes() -> None:
    """The first use says what is wrong; the command line says no more."""
    program = PROGRAM.format(seed=2)
    for settings, message in (
        (
            {"FIREBOX_DEVICE": "tpu"},
            "DeviceError: device: no such device\n"
            "  expected: cpu, opencl:0, opencl:1, ... or interpret\n"
            "  found:    tpu",
        ),
        ({"FIREBOX_NUM_THREADS": "many"}, "UserError: FIREBOX_NUM_THREADS: not a number"),
        ({"FIREBOX_CACHE_DIR": "~no-such-user/x"}, "UserError: FIREBOX_CACHE_DIR: no such home directory"),
    ):
        code, out, err = ended(python(program, **settings))
        assert (code, out) == (1, "")
        assert message in err, err
    command = "import sys; from firebox.frontend.cli.main import main; sys.exit(main(['devices']))"
    code, out, err = ended(python(command, FIREBOX_NUM_THREADS="many"))
    assert (code, out) == (1, "")
    assert err.startswith("firebox devices: error: FIREBOX_NUM_THREADS: not a number\n"), err


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many containers: no HOME, and no entry of the user in the system's list."""

    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FIREBOX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", no_home)
    config.reload()
    assert config.cache_dir() == Path("/dev/null/firebox")
