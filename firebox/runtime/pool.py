"""The process's thread pool, and the env block through which generated code reaches it."""

import ctypes
import os
import threading

from firebox import config
from firebox.errors import ArtifactError, UserError
from firebox.runtime.code_cache import compile_image
from firebox.runtime.image import CodeImage, map_code, map_memory
from firebox.runtime.pool_ir import MAX_THREADS, POOL_STATE_BYTES, SPIN_OFFSET, pool_ir
from firebox.runtime.target import Target

_ENV_VERSION = 1
_ENV_SLOTS = 16
_BASELINES = {"x86_64": "x86-64", "aarch64": "aarch64"}
_SYMBOLS = ("fb_parallel", "fb_pool_start")


class Env:
    """The table of runtime services that generated code gets as its first argument.

    It never changes and lives for ever, so that `threads`, which sizes the workspace, and the number of threads that a
    call uses cannot fall apart.

    Attributes:
        address: of the block of 16 slots of 8 bytes.
        threads: threads that a call with this block may use.
    """

    __slots__ = ("_block", "address", "threads")

    def __init__(self, slots: list[int], threads: int) -> None:
        self._block = (ctypes.c_int64 * _ENV_SLOTS)(*slots)
        self.address = ctypes.addressof(self._block)
        self.threads = threads


class _Pool:
    """What is mapped for the life of the process: code that threads run, and the state they share."""

    def __init__(self, image: CodeImage) -> None:
        missing = [name for name in _SYMBOLS if name not in image.symbols]
        if missing:
            raise ArtifactError("not a thread pool", op="pool", expected=", ".join(_SYMBOLS), found=image.symbols)
        self.state = map_memory(POOL_STATE_BYTES)
        base = map_code(image)
        self.parallel, self.start = (base + image.symbols[name] for name in _SYMBOLS)
        self.envs: dict[int, Env] = {}

    def env(self, threads: int) -> Env:
        if threads not in self.envs:
            self.envs[threads] = Env(self._slots(threads), threads)
        return self.envs[threads]

    def _slots(self, threads: int) -> list[int]:
        libc = [_symbol(name) for name in ("pthread_create", "syscall", "malloc", "free")]
        return [_ENV_VERSION, threads, self.parallel, self.state, *libc]


def pool_image(target: Target) -> CodeImage:
    """The pool's machine code for the target's architecture; it needs no feature beyond the architecture's base.

    Raises:
        CompilerError: it is not in the code cache and llvmlite is not installed.
    """
    baseline = Target.parse(_BASELINES[target.arch])
    return compile_image([pool_ir(baseline)], baseline)


def install(image: CodeImage | None = None) -> None:
    """Map the pool's code, once in a process; later calls do nothing. Without an image, uses that of the host.

    Raises:
        ArtifactError: the image is no pool, or for another architecture.
        CompilerError: no image is given and none can be had.
    """
    global _pool
    with _lock:
        if _pool is None:
            _pool = _Pool(image or pool_image(Target.host()))


def environment() -> Env:
    """The env block for the current number of threads. Installs the pool when nobody has."""
    if _current is not None:
        return _current
    return _make_environment()


def get_num_threads() -> int:
    """Threads that a program may use."""
    return _threads or min(config.num_threads(), MAX_THREADS)


def set_num_threads(threads: int) -> None:
    """Let programs use `threads` threads from the next call on; running calls keep theirs. Results do not depend on it.

    Raises:
        UserError: the number is not from 1 to 256.
    """
    global _threads, _current
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise UserError("cannot use that many threads", op="threads", expected=f"1 to {MAX_THREADS}", found=threads)
    _threads, _current = threads, None


def set_spin(pauses: int) -> None:
    """How long an idle thread stays awake, in pause instructions (some 10 ns each); 0 restores the default.

    Waking a sleeping thread can take 0.3 ms in a virtual machine; spinning takes CPU time from others.
    """
    install()
    assert _pool is not None
    ctypes.c_int64.from_address(_pool.state + SPIN_OFFSET).value = pauses


def _make_environment() -> Env:
    global _current
    install()
    with _lock:
        assert _pool is not None
        _current = _pool.env(get_num_threads())
        return _current


def _symbol(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    assert address is not None
    return address


def _forget_threads() -> None:
    # In a forked child only the forking thread lives: the zeroed state starts new workers when they are first needed.
    global _lock
    _lock = threading.Lock()
    if _pool is not None:
        spin = ctypes.c_int64.from_address(_pool.state + SPIN_OFFSET).value
        ctypes.memset(_pool.state, 0, POOL_STATE_BYTES)
        ctypes.c_int64.from_address(_pool.state + SPIN_OFFSET).value = spin


_lock = threading.Lock()
_pool: _Pool | None = None
_current: Env | None = None
_threads = 0  # 0: as configured

os.register_at_fork(after_in_child=_forget_threads)
