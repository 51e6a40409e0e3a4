"""Settings from the environment. Each is read once, on first use; `reload` forgets what was read."""

import functools
import os
from pathlib import Path

from firebox.errors import UserError

_GIB = 1 << 30
MAX_THREADS = 256


@functools.cache
def cache_dir() -> Path:
    """Directory of the on-disk caches: FIREBOX_CACHE_DIR, else ``$XDG_CACHE_HOME/firebox`` or ``~/.cache/firebox``.

    A user without a home gets one that cannot be written.
    """
    explicit = os.environ.get("FIREBOX_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(explicit or f"{base}/firebox").expanduser().absolute()
    except RuntimeError:  # no home directory
        if explicit:
            expected = "a directory"
            raise UserError(
                "no such home directory", op="FIREBOX_CACHE_DIR", expected=expected, found=explicit
            ) from None
        return Path(os.devnull, "firebox")


@functools.cache
def cache_size() -> int:
    """Bytes that all caches together may take on disk: FIREBOX_CACHE_SIZE (0 switches them off), else 1 GiB."""
    return _integer("FIREBOX_CACHE_SIZE", _GIB, 0, 1 << 50)


@functools.cache
def num_threads() -> int:
    """Threads a program may use: FIREBOX_NUM_THREADS, else the CPUs this process may run on."""
    return _integer("FIREBOX_NUM_THREADS", min(_available_cpus(), MAX_THREADS), 1, MAX_THREADS)


@functools.cache
def default_device() -> str:
    """Name of the device that new tensors live on: FIREBOX_DEVICE, else ``cpu``."""
    return os.environ.get("FIREBOX_DEVICE") or "cpu"


@functools.cache
def verify() -> bool:
    """Whether IR is verified between steps and before code generation: FIREBOX_VERIFY, off by default."""
    text = os.environ.get("FIREBOX_VERIFY", "").lower()
    if text in ("", "0", "false", "no", "off"):
        return False
    if text in ("1", "true", "yes", "on"):
        return True
    raise UserError("not a yes or no", op="FIREBOX_VERIFY", expected="0 or 1", found=text)


def reload() -> None:
    """Forget what was read, so that the next use reads the environment again."""
    for setting in (cache_dir, cache_size, num_threads, default_device, verify):
        setting.cache_clear()


def _available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _integer(name: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    expected = f"an integer from {low} to {high}"
    try:
        value = int(text)
    except ValueError:
        raise UserError("not a number", op=name, expected=expected, found=text) from None
    if not low <= value <= high:
        raise UserError("out of range", op=name, expected=expected, found=value)
    return value
