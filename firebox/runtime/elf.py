"""A small linker: ELF64 relocatable objects to one flat, position-independent code image.

Sources: System V ABI, chapter 4 (object files); x86-64 psABI, section 4.4 and appendix B.2 (relocations, relaxation of
the global offset table); ELF for the Arm 64-bit Architecture, section 5.7.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firebox.errors import CompilerError
from firebox.runtime.image import MACHINES, CodeImage
from firebox.runtime.relocation import APPLY

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")

_PROGBITS, _SYMTAB, _RELA_TYPE, _NOBITS, _REL_TYPE = 1, 2, 4, 8, 9
_INIT_TYPES = (14, 15, 16)  # init_array, fini_array, preinit_array
_WRITE, _ALLOC, _EXEC, _TLS, _COMPRESSED = 0x1, 0x2, 0x4, 0x400, 0x800
_UNDEFINED, _RESERVED = 0, 0xFF00
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_ALIGN, _MAX_ALIGN = 64, 4096
_MAX_IMAGE = 1 << 30


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    align: int
    link: int
    info: int

    @property
    def kept(self) -> bool:
        """Whether the section goes into the image. Unwind tables and notes do not: nothing of ours unwinds."""
        skipped = self.name.startswith((".eh_frame", ".note"))
        return bool(self.flags & _ALLOC) and self.kind == _PROGBITS and bool(self.data) and not skipped


@dataclass(frozen=True)
class _Symbol:
    name: str
    binding: int
    section: int
    value: int


@dataclass(frozen=True)
class _Object:
    machine: int
    sections: list[_Section]
    symbols: list[_Symbol]


def link_objects(objects: Sequence[bytes]) -> CodeImage:
    """Merge the code and constants of `objects` into one image and resolve every relocation.

    Global symbols become the image's symbols. Text stands first, then constants; sections start at multiples of 64.

    Raises:
        CompilerError: an object is damaged, has writable data, needs an absolute address, refers to a symbol that no
            object defines, or defines one that another defines too.
    """
    parsed = [_parse(data) for data in objects]
    if len({item.machine for item in parsed}) != 1:
        raise CompilerError("objects to link are of no or of several architectures", op="link")
    code, places = _lay_out(parsed)
    symbols = _globals(parsed, places)
    _relocate(code, parsed, places, symbols)
    return CodeImage(bytes(code), dict(sorted(symbols.items())), MACHINES[parsed[0].machine])


def _lay_out(objects: list[_Object]) -> tuple[bytearray, list[dict[int, int]]]:
    """Concatenate the kept sections; returns the image and, for each object, section index -> offset."""
    code = bytearray()
    places: list[dict[int, int]] = [{} for _ in objects]
    for executable in (True, False):
        for item, place in zip(objects, places, strict=True):
            for index, section in enumerate(item.sections):
                if section.kept and bool(section.flags & _EXEC) == executable:
                    code += bytes(-len(code) % max(section.align, _ALIGN))
                    place[index] = len(code)
                    code += section.data
    if len(code) > _MAX_IMAGE:
        raise CompilerError("linked code is too large", op="link", expected=f"{_MAX_IMAGE} bytes", found=len(code))
    return code, places


def _globals(objects: list[_Object], places: list[dict[int, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    strong: set[str] = set()
    for item, place in zip(objects, places, strict=True):
        for symbol in item.symbols:
            if symbol.binding == _LOCAL or symbol.section == _UNDEFINED or symbol.section not in place:
                continue
            if symbol.binding == _GLOBAL and symbol.name in strong:
                raise CompilerError("symbol is defined twice", op=symbol.name)
            if symbol.binding == _GLOBAL or symbol.name not in found:
                found[symbol.name] = place[symbol.section] + symbol.value
            if symbol.binding == _GLOBAL:
                strong.add(symbol.name)
    return found


def _relocate(code: bytearray, objects: list[_Object], places: list[dict[int, int]], symbols: dict[str, int]) -> None:
    undefined: set[str] = set()
    for item, place in zip(objects, places, strict=True):
        apply = APPLY[item.machine]
        for base, section, offset, kind, number, addend in _relocations(item, place):
            if number >= len(item.symbols):
                raise _damaged("relocation names no symbol")
            symbol = item.symbols[number]
            address = _address(symbol, place, symbols)
            if address is None:
                undefined.add(symbol.name or f"section {symbol.section}")
                continue
            apply(code, base, len(section.data), offset, kind, address, addend, symbol.name or section.name)
    if undefined:
        names = ", ".join(sorted(undefined))
        raise CompilerError(
            f"generated code refers to symbols that nobody defines: {names}",
            op="link",
            hint="reach them through env",
        )


def _address(symbol: _Symbol, place: dict[int, int], symbols: dict[str, int]) -> int | None:
    if symbol.binding == _LOCAL:
        return place[symbol.section] + symbol.value if symbol.section in place else None
    return symbols.get(symbol.name)


def _relocations(item: _Object, place: dict[int, int]) -> Iterator[tuple[int, _Section, int, int, int, int]]:
    """Yields (image offset of the section, section, offset in it, type, symbol number, addend)."""
    for table in item.sections:
        if table.kind not in (_RELA_TYPE, _REL_TYPE) or table.info not in place:
            continue
        if table.kind == _REL_TYPE or len(table.data) % _RELA.size:
            raise _damaged("relocation table of an unknown form")
        for offset, info, addend in _RELA.iter_unpack(table.data):
            yield place[table.info], item.sections[table.info], offset, info & 0xFFFFFFFF, info >> 32, addend


def _parse(data: bytes) -> _Object:
    if len(data) < _EHDR.size or data[:7] != b"\x7fELF\x02\x01\x01":
        raise _damaged("not a little-endian ELF64 file")
    header = _EHDR.unpack_from(data)
    kind, machine, table, entry, count, names = header[1], header[2], header[6], header[11], header[12], header[13]
    if kind != 1 or machine not in MACHINES or entry != _SHDR.size:
        raise _damaged("not a relocatable object of a known architecture")
    rows = list(_SHDR.iter_unpack(_slice(data, table, count * _SHDR.size, "section table")))
    if names >= count:
        raise _damaged("no section names")
    strings = _slice(data, rows[names][4], rows[names][5], "section names")
    sections = [_section(data, row, strings) for row in rows]
    for section in sections:
        _refuse_unsafe(section)
    return _Object(machine, sections, _symbols(sections))


def _section(data: bytes, row: tuple[int, ...], strings: bytes) -> _Section:
    name, kind, flags, _, offset, size, link, info, align, _ = row
    text = _string(strings, name)
    if align > _MAX_ALIGN or align & (align - 1):
        raise _damaged(f"section {text} has alignment {align}")
    if kind == _NOBITS and size:
        raise _writable(text)
    content = b"" if kind in (0, _NOBITS) else _slice(data, offset, size, f"section {text}")
    return _Section(text, kind, flags, content, align, link, info)


def _refuse_unsafe(section: _Section) -> None:
    if not section.flags & _ALLOC or not section.data:
        return
    relocated_constant = section.name.startswith(".data.rel.ro")
    if section.flags & _TLS or section.kind in _INIT_TYPES or (section.flags & _WRITE and not relocated_constant):
        raise _writable(section.name)
    if section.flags & _COMPRESSED:
        raise _damaged(f"section {section.name} is compressed")


def _symbols(sections: list[_Section]) -> list[_Symbol]:
    tables = [section for section in sections if section.kind == _SYMTAB]
    if not tables:
        return []
    table = tables[0]
    if len(tables) > 1 or table.link >= len(sections) or len(table.data) % _SYM.size:
        raise _damaged("bad symbol table")
    strings = sections[table.link].data
    return [_symbol(row, strings, sections) for row in _SYM.iter_unpack(table.data)]


def _symbol(row: tuple[int, ...], strings: bytes, sections: list[_Section]) -> _Symbol:
    name, info, _, section, value, _ = row
    text = _string(strings, name) if name else ""
    defined = section != _UNDEFINED and section < _RESERVED
    if defined and (section >= len(sections) or value > len(sections[section].data)):
        raise _damaged(f"symbol {text} lies outside its section")
    binding = info >> 4
    if binding not in (_LOCAL, _GLOBAL, _WEAK):
        raise _damaged(f"symbol {text} has binding {binding}")
    return _Symbol(text, binding, section, value)


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise _damaged("name outside the string table")
    try:
        return table[offset:end].decode()
    except UnicodeDecodeError:
        raise _damaged("name is not UTF-8") from None


def _slice(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise _damaged(f"{what} reaches beyond the end")
    return data[offset : offset + size]


def _damaged(reason: str) -> CompilerError:
    return CompilerError(f"object file: {reason}", op="link")


def _writable(name: str) -> CompilerError:
    return CompilerError(
        f"generated code has writable, thread-local or start-up data (section {name})",
        op="link",
        hint="keep state in memory that the runtime passes in",
    )
