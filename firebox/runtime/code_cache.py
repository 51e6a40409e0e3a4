"""On-disk caches: `DiskCache` keeps blobs by key, `compile_image` keeps machine code by what it was made from."""

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from firebox import config
from firebox.errors import ArtifactError, CompilerError
from firebox.runtime.elf import link_objects
from firebox.runtime.image import CodeImage
from firebox.runtime.llvm import compile_to_object, llvm_version
from firebox.runtime.target import Target

_MAGIC = b"FBXBLOB2"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".bin"
_STALE_SECONDS = 3600.0
_log = logging.getLogger("firebox.cache")


def content_key(*parts: str | bytes) -> str:
    """SHA-256 in hexadecimal over the parts and their lengths, so that no two lists of parts share a key."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _head(key: str, data: bytes) -> bytes:
    """What stands before a blob; another key's blob is as wrong as a damaged one."""
    digest = hashlib.sha256(key.encode())
    digest.update(data)
    return _MAGIC + digest.digest()


class DiskCache:
    """Blobs by key in a directory, the least recently used dropped beyond `max_bytes`.

    Safe between processes: entries appear by renaming, and each is checked against its SHA-256 when read. A cache never
    fails its user: what cannot be read or written is as if it were not there, and is reported once.

    Args:
        directory: made on first write, for the owner alone.
        max_bytes: bound of all entries together; 0 switches the cache off.
        reported: what has been reported; caches with one set report a thing once together.
    """

    def __init__(self, directory: Path, max_bytes: int, reported: set[str] | None = None) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._size: int | None = None  # bytes in the directory, as far as this process knows
        self._reported = set() if reported is None else reported
        self._numbers = itertools.count()

    def get(self, key: str) -> bytes | None:
        """The blob, or None when there is none or it is damaged (then it is removed)."""
        path = self._path(key)
        if not self.max_bytes or not self._trusted():
            return None
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.report("cannot be read", error)
            return None
        payload = data[_HEAD:]
        if data[:_HEAD] != _head(key, payload):
            self.report("has a damaged entry, which is removed", path)
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, data: bytes) -> None:
        """Keep a blob. Does nothing when the directory cannot be written or the blob exceeds the bound."""
        path = self._path(key)
        size = _HEAD + len(data)
        if size > self.max_bytes or not self._trusted():
            return
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(self._numbers)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_bytes(_head(key, data) + data)
            temporary.replace(path)
        except OSError as error:
            self.report("cannot be written", error)
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        self._size = self._measure() if self._size is None else self._size + size
        if self._size > self.max_bytes:
            self._evict()

    def remove(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes that the entries take on disk now."""
        return self._measure()

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, path in self._entries():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        self._size = None

    def _path(self, key: str) -> Path:
        if re.fullmatch(r"[0-9a-f]{16,128}", key) is None:
            raise ValueError(f"a cache key is lower-case hexadecimal, not {key!r}")
        return self.directory / key[:2] / (key + _SUFFIX)

    def _trusted(self) -> bool:
        """Entries are code that will run: a directory that anybody may write to is not used."""
        try:
            writable = self.directory.stat().st_mode & 0o002
        except OSError:
            return True
        if writable:
            self.report("is not used", "everybody may write to it")
        return not writable

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yields (time of last use, bytes, path), and removes what crashed writers left."""
        now = time.time()
        for path in self.directory.glob("??/*"):
            try:
                info = path.stat()
            except OSError:
                continue
            if path.name.endswith(_SUFFIX) and not path.name.startswith("."):
                yield info.st_mtime, info.st_size, path
            elif path.name.startswith(".") and now - info.st_mtime > _STALE_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _measure(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _evict(self) -> None:
        """Drop the least recently used entries until a tenth of the bound is free."""
        entries = sorted(self._entries(), key=lambda entry: (entry[0], entry[2]))
        total = sum(size for _, size, _ in entries)
        goal = self.max_bytes - self.max_bytes // 10 if total > self.max_bytes else self.max_bytes
        for _, size, path in entries:
            if total <= goal:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size
        self._size = total

    def report(self, what: str, why: object) -> None:
        """Warn, once about each thing."""
        if what not in self._reported:
            self._reported.add(what)
            _log.warning("cache %s %s: %s", self.directory, what, why)


class CodeCache(DiskCache):
    """Machine code by the text, target and code generator that it comes from."""

    def key(self, texts: Iterable[str], target: Target) -> str:
        return content_key("code", target.to_json(), llvm_version(), *texts)

    def image(self, key: str) -> CodeImage | None:
        """The image kept under a key, or None."""
        data = self.get(key)
        if data is None:
            return None
        try:
            return CodeImage.from_bytes(data)
        except ArtifactError:  # written by another version of the format
            self.remove(key)
            return None


@functools.cache
def code_cache() -> CodeCache:
    """The process's code cache; it has a third of the configured size, as each of the caches."""
    directory = config.cache_dir()
    return CodeCache(directory / "code", config.cache_size() // 3, reported_about(directory))


@functools.cache
def reported_about(directory: Path) -> set[str]:
    """What has been reported about the caches below a directory."""
    return set()


def compile_image(texts: Sequence[str], target: Target, cache: CodeCache | None = None) -> CodeImage:
    """The linked machine code of LLVM IR modules, from the cache or compiled now.

    Args:
        texts: modules; they may call each other's global functions.
        target: what to compile for.
        cache: another cache than the process's.

    Raises:
        CompilerError: LLVM refuses a module, or the modules do not link.
    """
    cache = cache or code_cache()
    key = cache.key(texts, target)
    image = cache.image(key)
    if image is None:
        if not texts:
            raise CompilerError("no module to compile", op="llvm")
        image = link_objects([compile_to_object(text, target) for text in texts])
        cache.put(key, image.to_bytes())
    return image
