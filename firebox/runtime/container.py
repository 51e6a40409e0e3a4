"""A file of named sections in which every byte is covered by a checksum or must be zero.

Little-endian. Header of 64 bytes: magic, format version, header bytes, number of sections, file bytes, 8 zero bytes and
SHA-256 over the first 32 bytes and the table. Table: one row of 112 bytes per section - name (64 bytes, zero-padded),
offset, bytes, SHA-256. Sections follow in the table's order, each at the next multiple of its alignment, with zeroes
between; the file ends with the last one. So there is one valid placement, and any other is refused.
"""

import contextlib
import errno
import hashlib
import itertools
import mmap
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firebox.errors import ArtifactError

MAGIC = b"FBOX"
FORMAT = 1
ALIGNMENT = 64
PAGE = 4096
PAGED = ("weights",)  # sections that are mapped, hence start at a page

_HEADER = struct.Struct("<4sIIIQ8s32s")
_HASHED = 32  # bytes of the header before its own checksum
_ROW = struct.Struct("<64sQQ32s")
_NAME = re.compile(rb"[a-z][a-z0-9:._-]{0,62}")
_MAX_SECTIONS = 4096
_numbers = itertools.count()

Chunks = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class _Row:
    name: str
    offset: int
    size: int
    digest: bytes


def write(path: str | os.PathLike[str], sections: Mapping[str, Chunks]) -> None:
    """Write a file of `sections`, each given in pieces, in their order. The file appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(target))
    rows, head = _plan(sections)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{next(_numbers)}")
    try:
        with temporary.open("xb") as file:
            file.write(head)
            for row in rows:
                file.write(bytes(row.offset - file.tell()))
                file.writelines(sections[row.name])
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # nobody knows the temporary file
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise


def _plan(sections: Mapping[str, Chunks]) -> tuple[list[_Row], bytes]:
    """Where every section lies, and the bytes of header and table."""
    end = _HEADER.size + len(sections) * _ROW.size
    rows = []
    for name, chunks in sections.items():
        if _NAME.fullmatch(name.encode()) is None:
            raise ValueError(f"not a section name: {name!r}")
        offset = _align(end, name)
        end = offset + sum(len(chunk) for chunk in chunks)
        rows.append(_Row(name, offset, end - offset, _digest(chunks)))
    table = b"".join(_ROW.pack(row.name.encode(), row.offset, row.size, row.digest) for row in rows)
    start = _HEADER.pack(MAGIC, FORMAT, _HEADER.size, len(rows), end, bytes(8), bytes(32))[:_HASHED]
    return rows, start + _digest([start, table]) + table


def read(path: str | os.PathLike[str]) -> dict[str, memoryview]:
    """Map a file and return its sections by name, all verified. It stays mapped while a section lives.

    Raises:
        ArtifactError: damaged, truncated, or of another format version.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise _damaged("the file is empty")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return parse(data)


def parse(data: memoryview) -> dict[str, memoryview]:
    """The sections of a file's content, verified. Raises as `read`."""
    rows = _rows(data)
    end = _HEADER.size + len(rows) * _ROW.size
    for row in rows:
        if row.offset != _align(end, row.name) or row.size > len(data) - row.offset:
            raise _damaged(f"section {row.name} is not where it must be")
        if data[end : row.offset] != bytes(row.offset - end):
            raise _damaged("bytes between sections are not zero")
        end = row.offset + row.size
    if end != len(data):
        raise _damaged("the sections do not fill the file")
    sections = {row.name: data[row.offset : row.offset + row.size] for row in rows}
    for row in rows:
        if _digest([sections[row.name]]) != row.digest:
            raise _damaged(f"checksum of section {row.name} does not match")
    return sections


def _rows(data: memoryview) -> list[_Row]:
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise _damaged("not an .fbox file" if data[: len(MAGIC)] != MAGIC else "the file is truncated")
    _, version, header, count, size, zero, digest = _HEADER.unpack_from(data)
    if version != FORMAT:
        hint = "load it with a newer firebox" if version > FORMAT else "compile it again"
        message = f"the file has format {version}, this runtime reads up to {FORMAT}"
        raise ArtifactError(message, op="artifact", hint=hint)
    if header != _HEADER.size or any(zero) or count > _MAX_SECTIONS:
        raise _damaged("bad header")
    if size != len(data):
        raise _damaged(f"the file has {len(data)} bytes where its header says {size}")
    table = data[_HEADER.size : _HEADER.size + count * _ROW.size]
    if len(table) != count * _ROW.size or _digest([data[:_HASHED], table]) != digest:
        raise _damaged("checksum of the header does not match")
    rows = [_Row(_section_name(name), *rest) for name, *rest in _ROW.iter_unpack(table)]
    if len({row.name for row in rows}) != len(rows):
        raise _damaged("two sections of one name")
    return rows


def _section_name(padded: bytes) -> str:
    name = padded.rstrip(b"\0")
    if _NAME.fullmatch(name) is None:
        raise _damaged("bad section name")
    return name.decode()


def _align(offset: int, name: str) -> int:
    alignment = PAGE if name in PAGED else ALIGNMENT
    return offset + -offset % alignment


def _digest(chunks: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"damaged file: {reason}", op="artifact")
