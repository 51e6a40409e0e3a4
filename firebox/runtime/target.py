"""The machine that code is made for: instruction set, vector width, cache sizes."""

import ctypes
import functools
import json
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from firebox.errors import ArtifactError, UserError

_KIB = 1024
_TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}

# Flags of /proc/cpuinfo -> names of LLVM. Only what changes the code that LLVM selects or that kernels may ask for.
_X86_FLAGS = {
    "abm": "lzcnt", "adx": "adx", "aes": "aes", "amx_bf16": "amx-bf16", "amx_complex": "amx-complex",
    "amx_fp16": "amx-fp16", "amx_int8": "amx-int8", "amx_tile": "amx-tile", "avx": "avx", "avx2": "avx2",
    "avx512_bf16": "avx512bf16", "avx512_bitalg": "avx512bitalg", "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2", "avx512_vnni": "avx512vnni", "avx512_vp2intersect": "avx512vp2intersect",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx512bw": "avx512bw", "avx512cd": "avx512cd", "avx512dq": "avx512dq",
    "avx512f": "avx512f", "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi", "avx512vl": "avx512vl",
    "avx_ifma": "avxifma", "avx_ne_convert": "avxneconvert", "avx_vnni": "avxvnni", "avx_vnni_int8": "avxvnniint8",
    "bmi1": "bmi", "bmi2": "bmi2", "cx16": "cx16", "f16c": "f16c", "fma": "fma", "fma4": "fma4", "gfni": "gfni",
    "lahf_lm": "sahf", "movbe": "movbe", "pclmulqdq": "pclmul", "pni": "sse3", "popcnt": "popcnt", "sha_ni": "sha",
    "sse4_1": "sse4.1", "sse4_2": "sse4.2", "sse4a": "sse4a", "ssse3": "ssse3", "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq", "xsave": "xsave",
}  # fmt: skip
_ARM_FLAGS = {
    "aes": "aes", "asimd": "neon", "asimddp": "dotprod", "asimdfhm": "fp16fml", "asimdhp": "fullfp16",
    "atomics": "lse", "bf16": "bf16", "crc32": "crc", "fp": "fp-armv8", "i8mm": "i8mm", "sha2": "sha2",
}  # fmt: skip
_KNOWN = {"x86_64": sorted(_X86_FLAGS.values()), "aarch64": sorted(_ARM_FLAGS.values())}

# The levels of the x86-64 psABI.
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")


@dataclass(frozen=True)
class Target:
    """A machine to make code for.

    Attributes:
        kind: the family of code generator.
        triple: LLVM target triple.
        cpu: LLVM processor name; it chooses the scheduling model, `features` choose the instructions.
        features: LLVM names of the instruction sets that may be used, sorted; all others that we know are switched off.
        vector_bits: width of a full vector register.
        l1_bytes: data cache of one core.
        l2_bytes: second-level cache of one core.
    """

    kind: Literal["cpu"]
    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bits: int
    l1_bytes: int
    l2_bytes: int

    @staticmethod
    def host() -> "Target":
        """The machine this process runs on."""
        return _host()

    @staticmethod
    def parse(name: str) -> "Target":
        """The target of a preset's name: ``host``, ``x86-64``, ``x86-64-v3``, ``x86-64-v4`` or ``aarch64``.

        Raises:
            UserError: no preset of that name.
        """
        if name == "host":
            return Target.host()
        if name not in _PRESETS:
            raise UserError("no such target", op="target", expected=f"one of {', '.join(PRESET_NAMES)}", found=name)
        return _PRESETS[name]

    @property
    def arch(self) -> str:
        """``x86_64`` or ``aarch64``."""
        return self.triple.partition("-")[0]

    @property
    def feature_string(self) -> str:
        """Features as LLVM takes them; what `cpu` would imply beyond `features` is switched off first."""
        off = [f"-{name}" for name in _KNOWN[self.arch] if name not in self.features]
        return ",".join([*off, *(f"+{name}" for name in self.features)])

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes that fill one vector register."""
        return self.vector_bits // (8 * itemsize)

    def has(self, feature: str) -> bool:
        return feature in self.features

    def missing_on_host(self) -> tuple[str, ...]:
        """What this target needs and the host lacks: features, or the architecture. Empty when its code runs here."""
        host = Target.host()
        if host.arch != self.arch:
            return (self.arch,)
        return tuple(name for name in self.features if name not in host.features)

    def to_dict(self) -> dict[str, object]:
        return {
            field.name: list(self.features) if field.name == "features" else getattr(self, field.name)
            for field in fields(self)
        }

    @staticmethod
    def from_dict(data: object) -> "Target":
        """The target written by `to_dict`.

        Raises:
            ArtifactError: a field is missing, unknown or of the wrong form.
        """
        if not isinstance(data, Mapping) or set(data) != {field.name for field in fields(Target)}:
            raise ArtifactError("not a target description", op="target", found=data)
        features = data["features"]
        if not isinstance(features, list) or not all(_is_name(name) for name in features):
            raise ArtifactError("features are not a list of names", op="target", found=features)
        texts = [data["triple"], data["cpu"]]
        numbers = [data["vector_bits"], data["l1_bytes"], data["l2_bytes"]]
        if data["kind"] != "cpu" or not all(_is_name(text) for text in texts) or not all(map(_is_size, numbers)):
            raise ArtifactError("not a target description", op="target", found=dict(data))
        if texts[0].partition("-")[0] not in _TRIPLES:
            raise ArtifactError("unknown architecture", op="target", expected=" or ".join(_TRIPLES), found=texts[0])
        return Target("cpu", texts[0], texts[1], tuple(sorted(set(features))), *numbers)

    def to_json(self) -> str:
        """Canonical JSON: equal targets give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Target":
        """The target written by `to_json`.

        Raises:
            ArtifactError: the text is no target.
        """
        try:
            return Target.from_dict(json.loads(text))
        except (ValueError, RecursionError):
            raise ArtifactError("not JSON", op="target", found=text[:80]) from None


def _is_name(value: object) -> bool:
    # These texts reach LLVM, where a comma or sign would change other features.
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9_.][a-z0-9_.-]{0,63}", value) is not None


def _is_size(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 40


def _make(arch: str, cpu: str, features: Iterable[str], l1_bytes: int, l2_bytes: int) -> Target:
    names = tuple(sorted(features))
    return Target("cpu", _TRIPLES[arch], cpu, names, _vector_bits(names), l1_bytes, l2_bytes)


def _vector_bits(features: tuple[str, ...]) -> int:
    if set(_V4) <= set(features):
        return 512
    return 256 if set(_V3) <= set(features) else 128


_PRESETS = {
    "x86-64": _make("x86_64", "x86-64", (), 32 * _KIB, 256 * _KIB),
    "x86-64-v3": _make("x86_64", "x86-64-v3", _V3, 32 * _KIB, 512 * _KIB),
    "x86-64-v4": _make("x86_64", "x86-64-v4", _V4, 32 * _KIB, 1024 * _KIB),
    "aarch64": _make("aarch64", "generic", ("fp-armv8", "neon"), 64 * _KIB, 1024 * _KIB),
}
PRESET_NAMES = ("host", *_PRESETS)


@functools.cache
def _host() -> Target:
    arch = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if arch not in _TRIPLES:
        expected = " or ".join(_TRIPLES)
        raise UserError("no code generator for this machine", op="target", expected=expected, found=arch)
    vendor, flags = _cpuinfo()
    features = {name for flag, name in (_X86_FLAGS if arch == "x86_64" else _ARM_FLAGS).items() if flag in flags}
    if arch == "aarch64":
        features |= {"fp-armv8", "neon"}  # part of the architecture's base
    if "amx-tile" in features and not _may_use_amx():
        features = {name for name in features if not name.startswith("amx-")}
    cpu = _x86_cpu(vendor, features) if arch == "x86_64" else "generic"
    return _make(arch, cpu, features, *_caches())


def _x86_cpu(vendor: str, features: set[str]) -> str:
    """The scheduling model by features: in virtual machines the family and model numbers often lie."""
    if "amx-bf16" in features:
        return "sapphirerapids"
    if set(_V4) <= features:
        return "znver4" if vendor == "AuthenticAMD" and "avx512bf16" in features else "icelake-server"
    return "x86-64-v3" if set(_V3) <= features else "x86-64"


def _cpuinfo() -> tuple[str, set[str]]:
    """Vendor and flags of the first CPU in /proc/cpuinfo; the kernel leaves out what it has not enabled."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return "", set()
    first, _, _ = text.partition("\n\n")
    table = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    return table.get("vendor_id", ""), set(table.get("flags", table.get("Features", "")).split())


def _may_use_amx() -> bool:
    # Linux gives a process the tile registers only on request: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    return bool(syscall(ctypes.c_long(158), ctypes.c_long(0x1023), ctypes.c_long(18)) == 0)


def _caches() -> tuple[int, int]:
    """Bytes of the L1 data cache and of the L2 cache of the first CPU."""
    sizes = {1: 32 * _KIB, 2: 512 * _KIB}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and level in ("1", "2") and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) * {"K": _KIB, "M": _KIB * _KIB}.get(size[-1], 1)
    return sizes[1], sizes[2]
