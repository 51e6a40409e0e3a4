"""The program cache gives back what was stored, and nothing else."""

import struct
from pathlib import Path
from typing import Any

import pytest

from firebox.runtime.dispatch import Executable
from firebox.runtime.program_cache import ProgramCache, program_cache, source_hash
from firebox.runtime.target import Target
from tests.handmade import ADD, add_image

KEY = "0123456789abcdef"


@pytest.fixture
def cache(tmp_path: Path) -> ProgramCache:
    return ProgramCache(tmp_path / "programs", 1 << 20)


def test_a_program_survives_the_disk(cache: ProgramCache) -> None:
    image = add_image()
    cache.store(KEY, ADD, image)
    loaded = ProgramCache(cache.directory, cache.max_bytes).load(KEY)
    assert loaded == (ADD, image)
    Executable(*loaded)


def test_an_unknown_key_gives_none(cache: ProgramCache) -> None:
    assert cache.load(KEY) is None


@pytest.mark.parametrize(
    "data", [b"", b"1234567", struct.pack("<Q", 1 << 60), struct.pack("<Q", 2) + b"{}", struct.pack("<Q", 0)]
)
def test_an_entry_of_another_form_is_dropped(cache: ProgramCache, data: bytes) -> None:
    cache.put(KEY, data)
    assert cache.load(KEY) is None
    assert cache.get(KEY) is None


def test_the_key_depends_on_all_that_makes_a_program(cache: ProgramCache) -> None:
    v3, v4 = Target.parse("x86-64-v3"), Target.parse("x86-64-v4")
    parts: list[tuple[Any, ...]] = [("a", v3), ("b", v3), ("a", v4), ("a", v3, "fast"), ("a", v3, "f", "ast")]
    assert len({cache.key(*part) for part in parts}) == 5
    assert cache.key("a", v3) == cache.key("a", v3)


def test_the_source_hash_is_one_of_sha256() -> None:
    assert len(source_hash()) == 64
    assert source_hash() == source_hash()


def test_the_process_cache_lies_in_the_configured_directory(cache_dir: Path) -> None:
    assert program_cache().directory == cache_dir / "programs"
