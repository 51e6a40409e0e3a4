"""Machine code as one flat, position-independent block, and its mapping into this process."""

import ctypes
import errno
import mmap
import os
import platform
import struct
from dataclasses import dataclass

from firebox.errors import ArtifactError, DeviceError

_MAGIC = b"FBXCODE1"
_HEADER = struct.Struct("<8sHHIQ")  # magic, machine, zero, number of symbols, bytes of code
_SYMBOL = struct.Struct("<QH")  # offset, bytes of the name that follows
_ALIGN = 64
_MAX_CODE = 1 << 30

MACHINES = {62: "x86_64", 183: "aarch64"}  # ELF e_machine
_CODES = {name: code for code, name in MACHINES.items()}


@dataclass(frozen=True)
class CodeImage:
    """Linked machine code: no relocation is left, no external symbol, nothing writable.

    Attributes:
        code: text and constants. It must be mapped at a page boundary.
        symbols: offsets in `code` by name.
        machine: architecture, ``x86_64`` or ``aarch64``.
    """

    code: bytes
    symbols: dict[str, int]
    machine: str

    def to_bytes(self) -> bytes:
        """Canonical form: equal images give equal bytes; the code starts at a multiple of 64."""
        parts = [_HEADER.pack(_MAGIC, _CODES[self.machine], 0, len(self.symbols), len(self.code))]
        for name, offset in sorted(self.symbols.items()):
            encoded = name.encode()
            parts.append(_SYMBOL.pack(offset, len(encoded)) + encoded)
        head = b"".join(parts)
        return head + bytes(-len(head) % _ALIGN) + self.code

    @staticmethod
    def from_bytes(data: bytes) -> "CodeImage":
        """The image written by `to_bytes`.

        Raises:
            ArtifactError: truncated, or not in canonical form.
        """
        if len(data) < _HEADER.size:
            raise _damaged("header is truncated")
        magic, machine, zero, count, size = _HEADER.unpack_from(data)
        if magic != _MAGIC or machine not in MACHINES or zero or size > _MAX_CODE:
            raise _damaged("bad header")
        at = _HEADER.size
        symbols: dict[str, int] = {}
        previous = ""
        for _ in range(count):
            name, offset, at = _read_symbol(data, at)
            if offset >= size or (symbols and name <= previous):
                raise _damaged("bad symbol")
            symbols[name] = offset
            previous = name
        start = at + -at % _ALIGN
        if len(data) != start + size or any(data[at:start]):
            raise _damaged("wrong size")
        return CodeImage(data[start:], symbols, MACHINES[machine])


def _read_symbol(data: bytes, at: int) -> tuple[str, int, int]:
    if at + _SYMBOL.size > len(data):
        raise _damaged("symbol table is truncated")
    offset, length = _SYMBOL.unpack_from(data, at)
    end = at + _SYMBOL.size + length
    if end > len(data):
        raise _damaged("symbol table is truncated")
    try:
        return data[at + _SYMBOL.size : end].decode(), offset, end
    except UnicodeDecodeError:
        raise _damaged("bad symbol") from None


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"damaged code image: {reason}", op="code")


class LoadedImage:
    """Code mapped into this process. It stays mapped until `close`, or until nobody refers to this object."""

    __slots__ = ("_base", "_size", "_symbols")

    def __init__(self, base: int, size: int, symbols: dict[str, int]) -> None:
        self._base = base
        self._size = size
        self._symbols = symbols

    @property
    def closed(self) -> bool:
        return self._base == 0

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted(self._symbols))

    def address(self, symbol: str) -> int:
        """Address of a symbol.

        Raises:
            DeviceError: the image is closed, or has no such symbol.
        """
        if not self._base:
            raise DeviceError("this code has been unloaded", op=symbol)
        if symbol not in self._symbols:
            raise DeviceError("no such function", op=symbol, expected=f"one of {', '.join(self.symbols)}")
        return self._base + self._symbols[symbol]

    def close(self) -> None:
        """Unmap the code. No call into it may be running."""
        if self._base:
            base, self._base = self._base, 0
            _munmap(base, self._size)

    def __del__(self) -> None:
        self.close()


def load(image: CodeImage) -> LoadedImage:
    """Map an image, executable and read-only.

    Raises:
        ArtifactError: the code is for another architecture.
        DeviceError: the system refuses executable memory.
    """
    return LoadedImage(map_code(image), len(image.code), dict(image.symbols))


def map_code(image: CodeImage) -> int:
    """Map an image for the life of the process and return its base address. Raises as `load`."""
    host = platform.machine()
    if image.machine != host:
        raise ArtifactError("code is for another architecture", op="code", expected=host, found=image.machine)
    size = len(image.code)
    base = map_memory(size)
    ctypes.memmove(base, image.code, size)
    if _mprotect(base, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        reason = os.strerror(ctypes.get_errno())
        _munmap(base, size)
        raise DeviceError(f"the system refuses executable memory: {reason}", op="code")
    _clear_instruction_cache(base, size)
    return base


def map_memory(size: int) -> int:
    """Map `size` zeroed, writable bytes at a page boundary and return their address.

    Raises:
        DeviceError: out of memory.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _mmap(None, max(size, 1), mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, _MAP_FAILED):
        raise DeviceError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno() or errno.ENOMEM)}", op="code")
    return int(base)


def _clear_instruction_cache(base: int, size: int) -> None:
    # x86 keeps its caches coherent. On aarch64 Linux cleans a page when it first becomes executable, as ours did in
    # mprotect; libgcc's routine, where it is installed, makes that independent of the kernel.
    if platform.machine() != "aarch64":
        return
    try:
        clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return
    clear(ctypes.c_void_p(base), ctypes.c_void_p(base + size))


_MAP_FAILED = (1 << (8 * ctypes.sizeof(ctypes.c_void_p))) - 1
_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_mprotect = _libc.mprotect
_mprotect.restype = ctypes.c_int
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_munmap = _libc.munmap
_munmap.restype = ctypes.c_int
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
