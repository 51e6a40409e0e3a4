"""Relocations of x86-64 and aarch64 that need no absolute address: how each changes the bytes of the image."""

import struct
from collections.abc import Callable

from firebox.errors import CompilerError

# (image, offset of the section, its size, offset in it, type, symbol's address, addend, name for messages)
Apply = Callable[[bytearray, int, int, int, int, int, int, str], None]

_PC32, _PLT32, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 2, 4, 24, 41, 42
_GOT_RELAXATIONS = (_GOTPCRELX, _REX_GOTPCRELX)

_PREL64, _PREL32, _ADR_PAGE, _ADD_LO12, _JUMP26, _CALL26, _GOT_PAGE, _GOT_LO12 = 260, 261, 275, 277, 282, 283, 311, 312
_LOAD_STORE_SHIFT = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # LDST8/16/32/64/128_ABS_LO12_NC: log2 of the access
_ARM_SIZES = {_PREL64: 8}


def _apply_x86(
    image: bytearray, base: int, size: int, offset: int, kind: int, symbol: int, addend: int, name: str
) -> None:
    width = 8 if kind == _PC64 else 4
    _check_inside(offset, width, size)
    place = base + offset
    value = symbol + addend - place
    if kind in _GOT_RELAXATIONS:
        if addend != -4:
            raise _needs_got(name)
        place, value = _relax_got(image, place, offset, value, name)
    elif kind not in (_PC32, _PLT32, _PC64):
        raise _unsupported("R_X86_64", kind, name)
    image[place : place + width] = _signed(value, width, name)


def _relax_got(image: bytearray, place: int, offset: int, value: int, name: str) -> tuple[int, int]:
    """Turn an access through the global offset table into one to the symbol itself (psABI, appendix B.2)."""
    opcode, modrm = (image[place - 2], image[place - 1]) if offset >= 2 else (0, 0)
    if opcode == 0x8B and modrm & 0xC7 == 0x05:  # mov sym@GOTPCREL(%rip), %reg -> lea sym(%rip), %reg
        image[place - 2] = 0x8D
        return place, value
    if (opcode, modrm) == (0xFF, 0x15):  # call *sym@GOTPCREL(%rip) -> addr32 call sym
        image[place - 2 : place] = b"\x67\xe8"
        return place, value
    if (opcode, modrm) == (0xFF, 0x25):  # jmp *sym@GOTPCREL(%rip) -> jmp sym; nop
        image[place - 2] = 0xE9
        image[place + 3] = 0x90
        return place - 1, value + 1
    raise _needs_got(name)


def _apply_arm(
    image: bytearray, base: int, size: int, offset: int, kind: int, symbol: int, addend: int, name: str
) -> None:
    width = _ARM_SIZES.get(kind, 4)
    _check_inside(offset, width, size)
    place, target = base + offset, symbol + addend
    if kind in (_PREL64, _PREL32):
        image[place : place + width] = _signed(target - place, width, name)
        return
    if place % 4:
        raise CompilerError("relocated instruction is not aligned", op=name)
    (word,) = struct.unpack_from("<I", image, place)
    struct.pack_into("<I", image, place, _arm_word(word, kind, place, symbol, addend, name))


def _arm_word(word: int, kind: int, place: int, symbol: int, addend: int, name: str) -> int:
    target = symbol + addend
    if kind in (_GOT_PAGE, _GOT_LO12) and addend:
        raise _needs_got(name)
    if kind in (_ADR_PAGE, _GOT_PAGE):  # the image is mapped at a page boundary, so pages of offsets will do
        pages = _field((target >> 12) - (place >> 12), 21, name)
        return word & 0x9F00001F | (pages & 3) << 29 | (pages >> 2) << 5
    if kind == _ADD_LO12:
        return word & ~(0xFFF << 10) | (target & 0xFFF) << 10
    if kind == _GOT_LO12:  # ldr xt, [xn, :got_lo12:sym] -> add xt, xn, :lo12:sym
        if word & 0xFFC00000 != 0xF9400000:
            raise _needs_got(name)
        return 0x91000000 | (target & 0xFFF) << 10 | word & 0x3FF
    if kind in (_JUMP26, _CALL26):
        return word & ~0x3FFFFFF | _field(_exact_shift(target - place, 2, name), 26, name)
    if kind in _LOAD_STORE_SHIFT:
        return word & ~(0xFFF << 10) | _exact_shift(target & 0xFFF, _LOAD_STORE_SHIFT[kind], name) << 10
    raise _unsupported("R_AARCH64", kind, name)


def _exact_shift(value: int, shift: int, name: str) -> int:
    if value & ((1 << shift) - 1):
        raise CompilerError("relocated address is not aligned to the access", op=name)
    return value >> shift


def _field(value: int, bits: int, name: str) -> int:
    """`value` as a two's complement field of `bits` bits."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise CompilerError("relocated distance does not fit its field", op=name, found=value)
    return value & ((1 << bits) - 1)


def _signed(value: int, width: int, name: str) -> bytes:
    return _field(value, 8 * width, name).to_bytes(width, "little")


def _check_inside(offset: int, width: int, size: int) -> None:
    if offset + width > size:
        raise CompilerError("object file: relocation lies outside its section", op="link")


def _needs_got(name: str) -> CompilerError:
    return CompilerError("code needs a global offset table", op=name, hint="declare the symbol dso_local or internal")


def _unsupported(family: str, kind: int, name: str) -> CompilerError:
    return CompilerError(
        f"relocation {family} type {kind} cannot be resolved in position-independent code",
        op=name,
        hint="constants may not hold addresses",
    )


APPLY: dict[int, Apply] = {62: _apply_x86, 183: _apply_arm}
