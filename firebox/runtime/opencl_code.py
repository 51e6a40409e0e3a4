"""`OpenClCode`: a program's code for an OpenCL device - kernels as source text, the host's part as machine code."""

import re
import struct
from dataclasses import dataclass

from firebox.errors import ArtifactError
from firebox.runtime.image import CodeImage

_MAGIC = b"FBXOCLC1"
_HEADER = struct.Struct("<8sIIQ")  # magic, faults, number of kernels, bytes of source
_LENGTH = struct.Struct("<H")
_ALIGN = 64
_MAX_SOURCE = 1 << 28
_MAX_KERNELS = 1 << 20
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,511}", re.ASCII)


@dataclass(frozen=True)
class OpenClCode:
    """The code of a program.

    Attributes:
        host: its entry, which starts the kernels.
        source: OpenCL C.
        kernels: names, in the order in which the entry counts them.
        faults: whether a kernel may report a fault, so that a call must look.
    """

    host: CodeImage
    source: str
    kernels: tuple[str, ...]
    faults: bool

    @property
    def machine(self) -> str:
        """The architecture of the host's part."""
        return self.host.machine

    @property
    def symbols(self) -> dict[str, int]:
        """What the host's part defines."""
        return self.host.symbols

    def to_bytes(self) -> bytes:
        """Canonical form: equal codes give equal bytes; the machine code starts at a multiple of 64."""
        source = self.source.encode()
        parts = [_HEADER.pack(_MAGIC, self.faults, len(self.kernels), len(source))]
        parts += [_LENGTH.pack(len(name)) + name.encode() for name in self.kernels]
        head = b"".join([*parts, source])
        return head + bytes(-len(head) % _ALIGN) + self.host.to_bytes()

    @staticmethod
    def from_bytes(data: bytes) -> "OpenClCode":
        """The code written by `to_bytes`. The bytes may come from anywhere.

        Raises:
            ArtifactError: truncated, or not in canonical form.
        """
        if len(data) < _HEADER.size:
            raise _damaged("header is truncated")
        magic, faults, count, size = _HEADER.unpack_from(data)
        if magic != _MAGIC or faults > 1 or count > _MAX_KERNELS or size > _MAX_SOURCE:
            raise _damaged("bad header")
        at = _HEADER.size
        kernels: list[str] = []
        for _ in range(count):
            name, at = _read_name(data, at)
            kernels.append(name)
        if len(set(kernels)) != count:
            raise _damaged("two kernels of one name")
        start = at + size + -(at + size) % _ALIGN
        if start > len(data) or any(data[at + size : start]):
            raise _damaged("wrong size")
        try:
            source = data[at : at + size].decode()
        except UnicodeDecodeError:
            raise _damaged("the source is not text") from None
        return OpenClCode(CodeImage.from_bytes(data[start:]), source, tuple(kernels), bool(faults))


Code = CodeImage | OpenClCode
"""What the compiler makes for a device; its class says for which kind of device."""


def code_from_bytes(data: bytes) -> Code:
    """The code, of whichever kind, written by `to_bytes`.

    Raises:
        ArtifactError: truncated, or not in canonical form.
    """
    return OpenClCode.from_bytes(data) if data.startswith(_MAGIC) else CodeImage.from_bytes(data)


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    if at + _LENGTH.size > len(data):
        raise _damaged("table of kernels is truncated")
    start = at + _LENGTH.size
    end = start + _LENGTH.unpack_from(data, at)[0]
    name = data[start:end].decode("ascii", "replace")
    if end > len(data) or _IDENTIFIER.fullmatch(name) is None:
        raise _damaged("bad name of a kernel")
    return name, end


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"damaged OpenCL code: {reason}", op="code")
