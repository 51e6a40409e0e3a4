"""What an OpenCL device is, asked of pyopencl's object for it: the target to compile for, names and versions."""

from typing import Any

from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.target import Target

_KIB = 1024
_VENDORS = {"nvidia": "nvidia", "pocl": "pocl", "portable computing": "pocl", "advanced micro": "amd", "intel": "intel"}
_EXTENSIONS = {"cl_khr_fp64": "fp64", "cl_khr_fp16": "fp16", "cl_khr_int64_base_atomics": "int64_atomics"}

# KiB of local memory by compute capability: CL_DEVICE_LOCAL_MEM_SIZE says 48 for all, but a static array works up to
# the limit of the hardware (tried on 9.0; CUDA C++ Programming Guide, "Compute Capabilities", shared memory per block).
_NVIDIA_LOCAL = {(8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227}
_NVIDIA_FEATURES = (((5, 0), ("ptx",)), ((7, 0), ("mma_f16",)), ((8, 0), ("cp_async", "mma_bf16")))
_CORRECTLY_ROUNDED = 1 << 7  # CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT


def detect(device: Any) -> OpenClTarget:
    """The target of a device."""
    vendor = _vendor(device)
    features = {feature for name, feature in _EXTENSIONS.items() if name in device.extensions.split()}
    arch, local, warp = "generic", int(device.local_mem_size), 1
    if vendor == "nvidia":
        capability = (device.compute_capability_major_nv, device.compute_capability_minor_nv)
        arch, warp = f"sm_{capability[0]}{capability[1]}", int(device.warp_size_nv)
        local = max(local, _NVIDIA_LOCAL.get(capability, 48) * _KIB)
        features |= {name for least, names in _NVIDIA_FEATURES if capability >= least for name in names}
    return OpenClTarget(
        kind="opencl",
        vendor=vendor,
        arch=arch,
        features=tuple(sorted(features)),
        compute_units=int(device.max_compute_units),
        max_group=int(device.max_work_group_size),
        local_bytes=local,
        cache_bytes=max(int(device.global_mem_cache_size), 1),
        warp=warp,
        host=Target.host(),
    )


def describe(device: Any) -> tuple[str, str, str, int]:
    """Name, platform with its version, version of the driver, bytes of memory."""
    platform = device.platform
    return (
        device.name.strip(),
        f"{platform.name.strip()} {platform.version.strip()}",
        device.driver_version.strip(),
        int(device.global_mem_size),
    )


def is_gpu(device: Any) -> bool:
    """Whether the device has memory of its own, rather than the host's."""
    return not device.host_unified_memory


def rounds_division(device: Any) -> bool:
    """Whether the driver's compiler can round float divisions and square roots correctly."""
    return bool(device.single_fp_config & _CORRECTLY_ROUNDED)


def _vendor(device: Any) -> str:
    """By the platform, which decides what the compiler takes, and failing that by the device."""
    for text in (device.platform.name.lower(), device.vendor.lower()):
        for part, name in _VENDORS.items():
            if part in text:
                return name
    return "generic"
