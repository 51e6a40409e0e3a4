"""What other packages have added to the compiler, as a hash of their sources: part of the key of cached programs."""

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from firebox.dialects.nd.base import registered

_PROCESS = os.urandom(16)
"""Stands for a source that cannot be read: what is compiled with it is not shared with other processes."""


def extension_hash() -> str:
    """SHA-256 over the packages that registered ops, patterns, templates, ...; empty when only this one did.

    A module that belongs to a package stands for all of the package, since its code may use the rest.
    """
    digests = [_digest(name) for name in sorted(_foreign_modules())]
    return hashlib.sha256(b"".join(digests)).hexdigest() if digests else ""


def _foreign_modules() -> set[str]:
    return {name for part in _parts() if (name := _module(part)).partition(".")[0] != "firebox"}


def _parts() -> Iterable[object]:
    yield from registered().values()
    yield from _table("checkpoint", "_STRATEGIES").values()
    yield from _table("llvm.function", "LOWERINGS").values()
    for patterns in _table("patterns", "_PATTERNS").values():
        yield from patterns
    for template in _table("generate.templates", "_TEMPLATES").values():
        yield from (template.schedule, template.generate, template.launch)


def _table(module: str, name: str) -> dict[Any, Any]:
    """A table of the lowering; while its module is not loaded, nobody can have added to it."""
    loaded = sys.modules.get(f"firebox.lowering.{module}")
    return {} if loaded is None else getattr(loaded, name)


def _module(part: object) -> str:
    return getattr(inspect.unwrap(part), "__module__", None) or "__main__"  # type: ignore[arg-type]


@functools.cache
def _digest(name: str) -> bytes:
    """Of a module's file, or of all files of its package; read once, as the code is."""
    digest = hashlib.sha256(name.encode())
    for path in _files(name):
        try:
            data = path.read_bytes()
        except OSError:
            data = _PROCESS
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def _files(name: str) -> list[Path]:
    package = sys.modules.get(name.partition(".")[0])
    roots = list(getattr(package, "__path__", ()))
    if roots:
        return sorted(path for root in roots for path in Path(root).rglob("*.py"))
    return [Path(getattr(sys.modules.get(name), "__file__", None) or "")]
