"""On-disk cache of compiled programs: what the compiler made of a trace, kept by the trace's key."""

import functools
import hashlib
import struct
from pathlib import Path

from firebox import config
from firebox.errors import ArtifactError
from firebox.runtime.code_cache import DiskCache, content_key, reported_about
from firebox.runtime.llvm import llvm_version
from firebox.runtime.opencl_code import Code, code_from_bytes
from firebox.runtime.opencl_target import AnyTarget
from firebox.runtime.program import Program

_LENGTH = struct.Struct("<Q")


class ProgramCache(DiskCache):
    """Programs with their code, by what they were traced from."""

    def key(self, trace: str | bytes, target: AnyTarget, *options: str) -> str:
        """The key of a trace: also of the target, the options, this build's own sources and the code generator."""
        return content_key("program", source_hash(), llvm_version(), target.to_json(), trace, *options)

    def load(self, key: str) -> tuple[Program, Code] | None:
        """What was stored under a key, or None."""
        data = self.get(key)
        if data is None:
            return None
        try:
            return _unpack(data)
        except ArtifactError:  # written by another version of the format
            self.remove(key)
            return None

    def store(self, key: str, program: Program, code: Code) -> None:
        text = program.to_json().encode()
        self.put(key, _LENGTH.pack(len(text)) + text + code.to_bytes())


def _unpack(data: bytes) -> tuple[Program, Code]:
    if len(data) < _LENGTH.size:
        raise ArtifactError("truncated", op="program cache")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return Program.from_json(data[_LENGTH.size : end]), code_from_bytes(data[end:])


@functools.cache
def program_cache() -> ProgramCache:
    """The process's program cache; it has a third of the configured size, as each of the caches."""
    directory = config.cache_dir()
    return ProgramCache(directory / "programs", config.cache_size() // 3, reported_about(directory))


@functools.cache
def source_hash() -> str:
    """SHA-256 over this package's own source files, so that no change to the compiler is served old code."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
