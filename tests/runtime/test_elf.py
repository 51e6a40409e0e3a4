"""The linker and the loader: relocations of both architectures, what is refused, damaged objects and images."""

import ctypes
import platform
import random
import struct

import pytest

from firebox.errors import ArtifactError, CompilerError, DeviceError
from firebox.runtime.elf import link_objects
from firebox.runtime.image import CodeImage, LoadedImage, load
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.target import Target

HOST = Target.host()
ARM = Target.parse("aarch64")

FLOATS = ", ".join(f"float {i}.5" for i in range(16))
CASES = {0: 11, 1: 7, 2: 123, 3: 88, 4: 1000}
# Opaque values keep LLVM from turning the switch into a table of results.
BRANCHES = "\n".join(f'c{k}:\n  %v{k} = call i64 asm "", "=r,0"(i64 {v})\n  ret i64 %v{k}' for k, v in CASES.items())
MODULE = f"""
define internal i64 @triple(i64 %x) noinline nounwind {{
  %r = mul i64 %x, 3
  ret i64 %r
}}
define i64 @plus_one(i64 %x) noinline nounwind {{
  %r = add i64 %x, 1
  ret i64 %r
}}
define i64 @calls(i64 %x) nounwind {{
  %a = call i64 @triple(i64 %x)
  %b = call i64 @plus_one(i64 %a)
  %c = mul i64 %b, 2
  ret i64 %c
}}
define ptr @takes_address() nounwind {{
  ret ptr @plus_one
}}
define void @constants(ptr %out) nounwind {{
  store <16 x float> <{FLOATS}>, ptr %out, align 4
  ret void
}}
define i64 @switches(i64 %x) nounwind {{
  switch i64 %x, label %other [ {" ".join(f"i64 {k}, label %c{k}" for k in CASES)} ]
{BRANCHES}
other:
  ret i64 -1
}}
"""
RELATIVE = """
@table = constant [2 x i32] [
  i32 trunc (i64 sub (i64 ptrtoint (ptr @first to i64), i64 ptrtoint (ptr @table to i64)) to i32),
  i32 trunc (i64 sub (i64 ptrtoint (ptr @second to i64), i64 ptrtoint (ptr @table to i64)) to i32)]
@wide = constant i64 sub (i64 ptrtoint (ptr @second to i64), i64 ptrtoint (ptr @wide to i64))
define void @first() nounwind { ret void }
define void @second() nounwind { ret void }
"""


def linked(*texts: str, target: Target = HOST) -> CodeImage:
    return link_objects([compile_to_object(text, target) for text in texts])


def function(image: LoadedImage, name: str) -> "ctypes._CFunctionType":
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.address(name))


def test_calls_constants_and_jump_tables() -> None:
    image = load(linked(MODULE))
    assert function(image, "calls")(5) == 32
    assert {k: function(image, "switches")(k) for k in CASES} == CASES
    assert function(image, "switches")(5) == -1
    out = (ctypes.c_float * 16)()
    function(image, "constants")(ctypes.addressof(out))
    assert list(out) == [i + 0.5 for i in range(16)]
    assert ctypes.c_uint64(function(image, "takes_address")(0)).value == image.address("plus_one")


def test_symbols_are_the_global_ones() -> None:
    assert set(linked(MODULE).symbols) == {"plus_one", "calls", "takes_address", "constants", "switches"}


def test_objects_call_each_other() -> None:
    call = " %r = call i64 @g(i64 %x)\n %s = add i64 %r, 1\n ret i64 %s"
    one = f"declare i64 @g(i64)\ndefine i64 @f(i64 %x) nounwind {{\n{call}\n}}"
    two = "define i64 @g(i64 %x) nounwind {\n %r = mul i64 %x, %x\n ret i64 %r\n}"
    for texts in ((one, two), (two, one)):
        assert function(load(linked(*texts)), "f")(7) == 50


def test_tail_call_through_the_offset_table_is_relaxed() -> None:
    declare = "declare i64 @g(i64) nonlazybind"
    caller = f"{declare}\ndefine i64 @f(i64 %x) nounwind {{\n %r = tail call i64 @g(i64 %x)\n ret i64 %r\n}}"
    twice = caller.replace("tail ", "").replace("@f", "@h").replace("ret i64 %r", "%s = add i64 %r, 1\n ret i64 %s")
    callee = "define i64 @g(i64 %x) nounwind {\n %r = mul i64 %x, 5\n ret i64 %r\n}"
    image = load(linked(caller, twice, callee))
    assert (function(image, "f")(3), function(image, "h")(3)) == (15, 16)


@pytest.mark.parametrize("target", [Target.parse("x86-64"), ARM], ids=["x86_64", "aarch64"])
def test_relative_tables(target: Target) -> None:
    image = linked(RELATIVE, target=target)
    table, wide = image.symbols["table"], image.symbols["wide"]
    offsets = struct.unpack_from("<2i", image.code, table)
    assert [table + offset for offset in offsets] == [image.symbols["first"], image.symbols["second"]]
    assert wide + struct.unpack_from("<q", image.code, wide)[0] == image.symbols["second"]


def test_sections_start_at_multiples_of_64() -> None:
    image = linked("define void @f() nounwind {\n ret void\n}", "define void @g() nounwind {\n ret void\n}")
    assert image.symbols == {"f": 0, "g": 64}


def test_linking_is_deterministic() -> None:
    assert linked(MODULE).to_bytes() == linked(MODULE).to_bytes()


@pytest.mark.parametrize("target", [HOST, ARM], ids=["host", "aarch64"])
def test_external_symbols_are_refused_by_name(target: Target) -> None:
    calls = "define void @f() nounwind {\n call void @zebra()\n call void @ant()\n ret void\n}"
    text = f"declare void @zebra()\ndeclare void @ant()\n{calls}"
    with pytest.raises(CompilerError, match="ant, zebra"):
        linked(text, target=target)


def test_library_calls_made_by_llvm_are_refused() -> None:
    text = """
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define void @f(ptr %a, ptr %b, i64 %n) nounwind {
      call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
      ret void
    }
    """
    with pytest.raises(CompilerError, match="memcpy"):
        linked(text)


@pytest.mark.parametrize("target", [HOST, ARM], ids=["host", "aarch64"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@p = constant ptr @f", "cannot be resolved"),
        ("@g = global i64 5", "writable"),
        ("@z = global [100 x i8] zeroinitializer", "writable"),
        ("@t = thread_local global i32 1", "writable"),
        (
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
            "[{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]",
            "start-up",
        ),
    ],
)
def test_addresses_and_state_are_refused(text: str, message: str, target: Target) -> None:
    with pytest.raises(CompilerError, match=message):
        linked(f"{text}\ndefine void @f() nounwind {{\n ret void\n}}", target=target)


def test_symbols_defined_twice_are_refused() -> None:
    text = "define void @f() nounwind {\n ret void\n}"
    with pytest.raises(CompilerError, match="twice"):
        linked(text, text)


def test_architectures_do_not_mix() -> None:
    text = "define void @f() nounwind {\n ret void\n}"
    with pytest.raises(CompilerError, match="architectures"):
        link_objects([compile_to_object(text, HOST), compile_to_object(text, ARM if HOST.arch == "x86_64" else HOST)])
    with pytest.raises(CompilerError, match="architectures"):
        link_objects([])


@pytest.mark.parametrize("target", [HOST, ARM], ids=["host", "aarch64"])
def test_every_truncated_object_is_refused(target: Target) -> None:
    data = compile_to_object(MODULE, target)
    link_objects([data])
    for size in range(len(data)):
        with pytest.raises(CompilerError):
            link_objects([data[:size]])


@pytest.mark.parametrize("target", [HOST, ARM], ids=["host", "aarch64"])
def test_damaged_objects_link_or_are_refused(target: Target) -> None:
    data = compile_to_object(MODULE, target)
    random_ = random.Random(0)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        damaged[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        try:
            link_objects([bytes(damaged)])
        except CompilerError:
            refused += 1
    assert refused > 100


def arm_addresses(image: CodeImage, name: str) -> dict[str, list[int]]:
    """What the instructions of a function refer to: targets of bl, and addresses formed by adrp with add or ldr q.

    Encodings: Arm Architecture Reference Manual, C6.2 (ADRP, ADD immediate, BL) and C7.2 (LDR immediate, SIMD&FP).
    """
    found: dict[str, list[int]] = {"call": [], "add": [], "load": []}
    pages: dict[int, int] = {}
    for place in range(image.symbols[name], len(image.code), 4):
        (word,) = struct.unpack_from("<I", image.code, place)
        register, base, immediate = word & 31, word >> 5 & 31, word >> 10 & 0xFFF
        if word == 0xD65F03C0:  # ret
            break
        if word & 0x9F000000 == 0x90000000:
            distance = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            pages[register] = (place & ~0xFFF) + ((distance ^ 1 << 20) - (1 << 20) << 12)
        elif word & 0xFC000000 == 0x94000000:
            distance = word & 0x3FFFFFF
            found["call"].append(place + ((distance ^ 1 << 25) - (1 << 25)) * 4)
        elif word & 0xFFC00000 == 0x91000000 and base in pages:
            found["add"].append(pages[base] + immediate)
        elif word & 0xFFC00000 == 0x3DC00000 and base in pages:
            found["load"].append(pages[base] + immediate * 16)
    return found


def test_arm_fields() -> None:
    # Functions beyond the first page, so that page distances are not all zero.
    padding = "".join(f"%p{i} = mul i64 %p{i - 1}, %x\n" for i in range(1, 3000))
    first = f"define i64 @padding(i64 %x) nounwind {{\n %p0 = add i64 %x, 1\n{padding} ret i64 %p2999\n}}"
    image = linked(first, MODULE, target=ARM)
    assert image.machine == "aarch64"
    assert image.symbols["calls"] > 2 * 4096
    loads = arm_addresses(image, "constants")["load"]
    values = [struct.unpack_from("<4f", image.code, place) for place in loads]
    assert sorted(sum(values, ())) == [i + 0.5 for i in range(16)]
    assert image.symbols["plus_one"] in arm_addresses(image, "calls")["call"]
    assert arm_addresses(image, "takes_address")["add"] == [image.symbols["plus_one"]]


def test_image_round_trip() -> None:
    image = linked(MODULE)
    data = image.to_bytes()
    assert CodeImage.from_bytes(data) == image
    assert CodeImage.from_bytes(data).to_bytes() == data
    assert (len(data) - len(image.code)) % 64 == 0


def test_damaged_images_are_refused() -> None:
    data = linked(MODULE).to_bytes()
    for size in range(len(data)):
        with pytest.raises(ArtifactError):
            CodeImage.from_bytes(data[:size])
    with pytest.raises(ArtifactError):
        CodeImage.from_bytes(data + b"\0")
    for position in range(24):
        with pytest.raises(ArtifactError):
            CodeImage.from_bytes(data[:position] + bytes([data[position] ^ 0x80]) + data[position + 1 :])


def test_closed_code_is_not_used() -> None:
    image = load(linked(MODULE))
    with pytest.raises(DeviceError, match="no such function"):
        image.address("nothing")
    image.close()
    image.close()
    assert image.closed
    with pytest.raises(DeviceError, match="unloaded"):
        image.address("calls")


def test_foreign_code_is_not_loaded() -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    with pytest.raises(ArtifactError, match="architecture"):
        load(CodeImage(b"\0" * 64, {"f": 0}, other))


def test_loaded_code_cannot_be_written() -> None:
    image = load(linked(MODULE))
    start = image.address("calls")
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[:2] for line in maps]
    modes = [mode for span, mode in ranges if int(span.split("-")[0], 16) <= start < int(span.split("-")[1], 16)]
    assert modes == ["r-xp"]
