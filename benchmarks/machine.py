"""The machine and the versions that results belong to."""

import importlib.metadata
import os
import platform
import re
from pathlib import Path

LIBRARIES = ("numpy", "xdsl", "llvmlite", "torch", "jax")


def describe() -> dict[str, str]:
    """Name and value of everything that results depend on."""
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve") if name in _flags()]
    return {
        "processor": f"{_processor()}, {' '.join(features)}",
        "CPUs": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}{_virtual()}",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
        "load before": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version for name in LIBRARIES if (version := _version(name))},
    }


def _cpuinfo() -> str:
    return Path("/proc/cpuinfo").read_text()


def _flags() -> set[str]:
    found = re.search(r"^(?:flags|Features)\s*: (.*)$", _cpuinfo(), re.MULTILINE)
    return set(found[1].split()) if found else set()


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", _cpuinfo(), re.MULTILINE)
    numbers = re.findall(r"^(?:cpu family|model|stepping|CPU part)\s*: (\S+)$", _cpuinfo(), re.MULTILINE)[:3]
    return f"{found[1] if found else platform.machine()} ({'/'.join(numbers)})"


def _virtual() -> str:
    return ", virtual" if "hypervisor" in _flags() else ""


def _memory() -> str:
    found = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return f"{int(found[1]) / (1 << 20):.0f} GiB" if found else "unknown"


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""
