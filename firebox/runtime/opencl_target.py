"""The OpenCL device that code is made for: what it offers, how large it is, and the host that drives it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from firebox.errors import ArtifactError, UserError
from firebox.runtime.target import PRESET_NAMES as CPU_PRESETS
from firebox.runtime.target import Target

_KIB = 1024
_MIB = 1024 * _KIB

FEATURES = ("cp_async", "fp16", "fp64", "int64_atomics", "mma_bf16", "mma_f16", "ptx")
"""What code may ask for: inline PTX, its asynchronous copies and matrix instructions; optional types and atomics."""


@dataclass(frozen=True)
class OpenClTarget:
    """An OpenCL device to make kernels for.

    Attributes:
        kind: the family of code generator.
        vendor: ``nvidia``, ``pocl``, ... or ``generic``.
        arch: ``sm_90``, or ``generic`` where it makes no difference.
        features: of `FEATURES`, sorted.
        compute_units: processors that run work-groups side by side.
        max_group: work-items of a work-group at most.
        local_bytes: local memory that a work-group may declare.
        cache_bytes: last-level cache.
        warp: work-items that run in step.
        host: the processor that runs the host's part of a program.
    """

    kind: Literal["opencl"]
    vendor: str
    arch: str
    features: tuple[str, ...]
    compute_units: int
    max_group: int
    local_bytes: int
    cache_bytes: int
    warp: int
    host: Target

    @staticmethod
    def generic(host: Target | None = None) -> "OpenClTarget":
        """A device of which nothing is known but that it has doubles: code for it runs on nearly every one."""
        return OpenClTarget(
            "opencl", "generic", "generic", ("fp64",), 16, 256, 32 * _KIB, 2 * _MIB, 1, host or Target.host()
        )

    @staticmethod
    def h200(host: Target | None = None) -> "OpenClTarget":
        """NVIDIA's H200."""
        return _nvidia("sm_90", 132, 227, 50, host)

    @staticmethod
    def parse(name: str, host: Target | None = None) -> "OpenClTarget":
        """The target of a preset's name: ``opencl`` for any device, ``opencl:sm_80`` and others for NVIDIA's.

        Args:
            name: of the preset.
            host: processor of the host's part; this machine's when not given.

        Raises:
            UserError: no preset of that name.
        """
        if name == "opencl":
            return OpenClTarget.generic(host)
        family, _, arch = name.partition(":")
        if family != "opencl" or arch not in _NVIDIA:
            raise UserError("no such target", op="target", expected=f"one of {', '.join(PRESET_NAMES)}", found=name)
        return _nvidia(arch, *_NVIDIA[arch], host)

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def label(self) -> str:
        """Short name, e.g. ``opencl-nvidia-sm_90``."""
        return f"opencl-{self.vendor}-{self.arch}"

    def runs_on(self, device: "OpenClTarget") -> bool:
        """Whether code for this target runs on a device whose target is `device`."""
        return not self.missing_from(device)

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**data, "features": list(self.features), "host": self.host.to_dict()}

    def missing_from(self, other: "OpenClTarget") -> tuple[str, ...]:
        """What code for this target needs and another device lacks. Empty when the code runs there."""
        lacks = [name for name in self.features if name not in other.features]
        if self.arch not in ("generic", other.arch):
            lacks.append(self.arch)
        elif self.vendor not in ("generic", other.vendor):
            lacks.append(self.vendor)
        if self.warp not in (1, other.warp):
            lacks.append(f"warps of {self.warp}")
        if self.max_group > other.max_group:
            lacks.append(f"groups of {self.max_group} work-items")
        if self.local_bytes > other.local_bytes:
            lacks.append(f"{self.local_bytes // _KIB} KiB of local memory")
        return (*lacks, *self.host.missing_on_host())

    @staticmethod
    def from_dict(data: object) -> "OpenClTarget":
        """The target written by `to_dict`.

        Raises:
            ArtifactError: a field is missing, unknown or of the wrong form.
        """
        names = {field.name for field in fields(OpenClTarget)}
        if not isinstance(data, Mapping) or set(data) != names or data["kind"] != "opencl":
            raise ArtifactError("not a target description", op="target", found=data)
        features = data["features"]
        if not isinstance(features, list) or features != sorted(set(features) & set(FEATURES)):
            raise ArtifactError("features are not a list of names", op="target", found=features)
        texts = [data["vendor"], data["arch"]]
        sizes = [data[name] for name in ("compute_units", "max_group", "local_bytes", "cache_bytes", "warp")]
        if not all(map(_is_name, texts)) or not all(type(n) is int and 0 < n < 1 << 40 for n in sizes):
            raise ArtifactError("not a target description", op="target", found=dict(data))
        host = Target.from_dict(data["host"])
        units, group, local, cache, warp = sizes
        return OpenClTarget("opencl", texts[0], texts[1], tuple(features), units, group, local, cache, warp, host)

    def to_json(self) -> str:
        """Canonical JSON: equal targets give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))


AnyTarget = Target | OpenClTarget

_NVIDIA = {"sm_80": (108, 163, 40), "sm_89": (142, 99, 96), "sm_90": (132, 227, 50)}
"""Architecture -> compute units, KiB of local memory, MiB of cache of its data-center card (A100, L40S, H200)."""

PRESET_NAMES = ("opencl", *(f"opencl:{arch}" for arch in _NVIDIA))
TARGET_NAMES = (*CPU_PRESETS, *PRESET_NAMES)


def _nvidia(arch: str, compute_units: int, local_kib: int, cache_mib: int, host: Target | None) -> OpenClTarget:
    features = ("cp_async", "fp64", "int64_atomics", "mma_bf16", "mma_f16", "ptx")
    host = host or Target.host()
    return OpenClTarget(
        "opencl", "nvidia", arch, features, compute_units, 1024, local_kib * _KIB, cache_mib * _MIB, 32, host
    )


def target_from_dict(data: object) -> AnyTarget:
    """The target, of whichever kind, written by `to_dict`.

    Raises:
        ArtifactError: a field is missing, unknown or of the wrong form.
    """
    opencl = isinstance(data, Mapping) and data.get("kind") == "opencl"
    return OpenClTarget.from_dict(data) if opencl else Target.from_dict(data)


def parse_target(name: str) -> AnyTarget:
    """The target, of whichever kind, of a preset's name.

    Raises:
        UserError: no preset of that name.
    """
    if name in CPU_PRESETS:
        return Target.parse(name)
    if name in PRESET_NAMES:
        return OpenClTarget.parse(name)
    raise UserError("no such target", op="target", expected=f"one of {', '.join(TARGET_NAMES)}", found=name)


def target_label(target: AnyTarget) -> str:
    """Short name of a target, e.g. ``x86_64-znver4`` or ``opencl-nvidia-sm_90``."""
    return target.label if isinstance(target, OpenClTarget) else f"{target.arch}-{target.cpu}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9_]{1,32}", value) is not None
