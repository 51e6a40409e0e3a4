"""The on-disk cache: damage, bounds, several processes, directories that cannot be used."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firebox.errors import CompilerError
from firebox.runtime import llvm
from firebox.runtime.code_cache import CodeCache, DiskCache, compile_image, content_key
from firebox.runtime.target import Target

ROOT = Path(__file__).parents[2]
TEXT = "define i64 @f(i64 %x) nounwind {\n %r = add i64 %x, 1\n ret i64 %r\n}\n"
MIB = 1 << 20


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_keys_depend_on_every_part_and_its_border() -> None:
    keys = {content_key("ab", "c"), content_key("a", "bc"), content_key("abc"), content_key("abc", ""), content_key()}
    assert len(keys) == 5
    assert content_key("ab", b"c") == content_key("ab", "c")


def test_round_trip(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", MIB)
    key = content_key("one")
    assert cache.get(key) is None
    cache.put(key, b"payload")
    assert cache.get(key) == b"payload"
    assert DiskCache(tmp_path / "cache", MIB).get(key) == b"payload"
    cache.put(key, b"")
    assert cache.get(key) == b""
    cache.clear()
    assert cache.get(key) is None and cache.size() == 0


@pytest.mark.parametrize("key", ["", "../../../../etc/passwd", "ABCDEF0123456789AB", "a" * 15, "g" * 64])
def test_keys_are_hexadecimal(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        DiskCache(tmp_path, MIB).get(key)


def test_damaged_entries_are_removed_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = DiskCache(tmp_path, MIB)
    keys = [content_key(str(i)) for i in range(3)]
    for key, size in zip(keys, (0, 20, 105), strict=True):
        cache.put(key, b"payload" * 10)
        path = next(path for path in files(tmp_path) if path.stem == key)
        path.write_bytes(path.read_bytes()[:size] + b"x")
    with caplog.at_level(logging.WARNING):
        assert [cache.get(key) for key in keys] == [None] * 3
    assert len(caplog.records) == 1 and "damaged" in caplog.text
    assert files(tmp_path) == []


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10_000)
    keys = [content_key(str(i)) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, bytes(2900))
        os.utime(next(path for path in files(tmp_path) if path.stem == key), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # now the most recently used
    cache.put(keys[3], bytes(2900))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]
    assert cache.size() <= 10_000


def test_oversized_blobs_are_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    cache.put(content_key("big"), bytes(1000))
    off = DiskCache(tmp_path, 0)
    off.put(content_key("any"), b"")
    assert files(tmp_path) == [] and off.get(content_key("any")) is None


def test_left_over_temporary_files_are_removed(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, MIB)
    cache.put(content_key("a"), b"a")
    folder = files(tmp_path)[0].parent
    old, new = folder / ".old.bin.1.0", folder / ".new.bin.1.0"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    DiskCache(tmp_path, MIB).put(content_key("b"), b"b")
    assert not old.exists() and new.exists()


def test_unusable_directory_warns_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "cache", MIB)
    with caplog.at_level(logging.WARNING):
        for i in range(3):
            cache.put(content_key(str(i)), b"x")
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text
    assert cache.get(content_key("0")) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory_is_read(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, MIB)
    cache.put(content_key("a"), b"a")
    for folder in (files(tmp_path)[0].parent, tmp_path):
        folder.chmod(0o500)
    cache.put(content_key("b"), b"b")
    assert (cache.get(content_key("a")), cache.get(content_key("b"))) == (b"a", None)


def test_directory_that_everybody_may_write_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = DiskCache(tmp_path, MIB)
    cache.put(content_key("a"), b"a")
    tmp_path.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert cache.get(content_key("a")) is None
        cache.put(content_key("b"), b"b")
    assert len(caplog.records) == 1
    assert len(files(tmp_path)) == 1


TWO = """
import sys
from pathlib import Path
from firebox.runtime.code_cache import DiskCache, content_key
cache = DiskCache(Path(sys.argv[1]), 40_000)
for i in range(400):
    number = i * int(sys.argv[2]) % 23
    key, data = content_key(str(number)), str(number).encode() * 1000
    found = cache.get(key)
    assert found in (None, data)
    cache.put(key, data)
"""


def test_two_processes(tmp_path: Path) -> None:
    runs = [
        subprocess.Popen([sys.executable, "-c", TWO, str(tmp_path), step], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for step in ("3", "5")
    ]
    for run in runs:
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 0 and errors == "", errors
    cache = DiskCache(tmp_path, 40_000)
    found = [cache.get(content_key(str(i))) for i in range(23)]
    assert any(found) and all(data is None or data == str(i).encode() * 1000 for i, data in enumerate(found))
    assert all(path.suffix == ".bin" and not path.name.startswith(".") for path in files(tmp_path))


def test_code_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CodeCache(tmp_path, MIB)
    image = compile_image([TEXT], Target.host(), cache)
    monkeypatch.setattr("firebox.runtime.code_cache.compile_to_object", None)
    assert compile_image([TEXT], Target.host(), cache) == image


def test_code_keys_depend_on_text_target_and_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CodeCache(tmp_path, MIB)
    host = Target.host()
    keys = {cache.key([TEXT], host), cache.key([TEXT, TEXT], host), cache.key([TEXT + "\n"], host)}
    keys.add(cache.key([TEXT], Target.parse("aarch64")))
    monkeypatch.setattr("firebox.runtime.code_cache.llvm_version", lambda: "another")
    keys.add(cache.key([TEXT], host))
    assert len(keys) == 5
    assert llvm.llvm_version().startswith("llvmlite ")


def test_image_of_another_format_is_compiled_again(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path, MIB)
    key = cache.key([TEXT], Target.host())
    cache.put(key, b"not an image")
    assert compile_image([TEXT], Target.host(), cache).symbols == {"f": 0}
    assert cache.image(key) is not None


def test_nothing_to_compile(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="no module"):
        compile_image([], Target.host(), CodeCache(tmp_path, MIB))


def test_cached_code_runs_without_llvm(tmp_path: Path) -> None:
    compile_image([TEXT], Target.host(), CodeCache(tmp_path, MIB))
    script = f"""
import sys
import firebox.runtime
assert "numpy" not in sys.modules
sys.modules["llvmlite"] = sys.modules["xdsl"] = None  # importing them fails
import ctypes
from pathlib import Path
from firebox.runtime.code_cache import CodeCache, compile_image
from firebox.runtime.image import load
from firebox.runtime.target import Target
image = load(compile_image([{TEXT!r}], Target.host(), CodeCache(Path({str(tmp_path)!r}), {MIB})))
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.address("f"))(41))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_importing_the_runtime_loads_no_compiler() -> None:
    script = """
import sys
import firebox.runtime.device, firebox.runtime.code_cache
print([name for name in sys.modules if name.split(".")[0] in ("llvmlite", "xdsl", "pyopencl")])
"""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert time.perf_counter() - start < 10
