"""An OpenCL device as a backend: memory, programs, and calls into them."""

import atexit
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from firebox.errors import ArtifactError, DeviceError
from firebox.runtime import image, opencl_library
from firebox.runtime.memory import Buffer, MemoryPool, quarter_of_memory
from firebox.runtime.opencl_code import Code, OpenClCode
from firebox.runtime.opencl_detect import describe, detect, is_gpu, rounds_division
from firebox.runtime.opencl_entry import LoadedProgram, OpenClEntry
from firebox.runtime.opencl_memory import DeviceBuffer, DeviceMemory
from firebox.runtime.opencl_profile import Profile, Profiling, Recorder
from firebox.runtime.opencl_program import DeviceProgram, ProgramBuilder
from firebox.runtime.opencl_target import OpenClTarget
from firebox.runtime.pool import Env
from firebox.runtime.program import KernelInfo

ALIGNMENT = 16
"""Kernels read vectors of up to this many bytes at once: every buffer that they get starts at a multiple of it."""

_OPTIONS = "-cl-std=CL1.2"
_ROUNDED = " -cl-fp32-correctly-rounded-divide-sqrt"


@dataclass(frozen=True)
class DeviceInfo:
    """What a device says about itself.

    Attributes:
        name: of the device.
        platform: name and version of its driver's platform.
        driver: version of the driver.
        memory: bytes.
        compute_units: processors that run work-groups side by side.
        features: of `firebox.runtime.opencl_target.FEATURES`.
    """

    name: str
    platform: str
    driver: str
    memory: int
    compute_units: int
    features: tuple[str, ...]


class _Queue:
    """What using a device takes: a context, an in-order queue in it, memory, and a builder of programs."""

    def __init__(self, device: Any, info: DeviceInfo) -> None:
        # Loaded here as it is optional; whoever found the device has said what is missing.
        import pyopencl as cl

        self.library = library = opencl_library.library()
        library.check()
        self._device = device
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context, device)
        self.context = context = self._context.int_ptr
        self.handle = self._queue.int_ptr
        self.memory = DeviceMemory(library, context, self.handle, info.memory)
        kept = info.memory if is_gpu(device) else min(info.memory, quarter_of_memory())
        self.pool = MemoryPool(kept, self.memory, DeviceBuffer)
        options = _OPTIONS + (_ROUNDED if rounds_division(device) else "")
        identity = (info.name, info.platform, info.driver)
        self.builder = ProgramBuilder(library, context, device.int_ptr, identity, options)
        self.profiling = Profiling()
        atexit.register(self._settle)  # a driver may not survive the end of the process in the middle of work

    def recorder(self) -> Recorder:
        """A queue whose commands are timed."""
        return Recorder(self.library, self.context, self._device.int_ptr)

    def _settle(self) -> None:
        if not self.library.lost:
            self.memory.settle()


class OpenClDevice:
    """One device. It takes a context and an in-order queue of its own when it is first used, not before.

    Attributes:
        name: ``opencl:0``, ...
        target: what to compile for.
        info: what the device says about itself.
        realigned: inputs that were copied because they did not start at a 16-byte boundary.
    """

    def __init__(self, index: int) -> None:
        self._device = find(index)
        self.name = f"opencl:{index}"
        self.target: OpenClTarget = detect(self._device)
        self.info = DeviceInfo(*describe(self._device), self.target.compute_units, self.target.features)
        self.realigned = 0
        self._programs: weakref.WeakValueDictionary[str, DeviceProgram] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()  # for opening and building
        self._env = Env([1, 1], 1)

    # What is below is looked up once and then an attribute like any other.

    @functools.cached_property
    def _queue(self) -> _Queue:
        opencl_library.library().check()
        with self._lock:
            found = self.__dict__.get("_queue")  # another thread may have been here
            if found is None:
                found = self.__dict__["_queue"] = _Queue(self._device, self.info)
            return found

    @functools.cached_property
    def pool(self) -> MemoryPool:
        """The device's memory."""
        return self._queue.pool

    @functools.cached_property
    def memory(self) -> DeviceMemory:
        """Transfers."""
        return self._queue.memory

    @functools.cached_property
    def allocate(self) -> Callable[[int], Buffer]:
        """A buffer of a number of bytes; see `MemoryPool.allocate`."""
        return self._queue.pool.allocate

    @functools.cached_property
    def allocator(self) -> Callable[[int], Callable[[], Buffer]]:
        """`allocate` for one size; see `MemoryPool.allocator`."""
        return self._queue.pool.allocator

    def from_numpy(self, array: NDArray[Any], stable: bool = False) -> Buffer:
        """A buffer with the content of a C-contiguous array; the copy goes on when this returns.

        Args:
            array: any element type.
            stable: nobody changes the array from now on, so that it is read later without a copy of it.
        """
        buffer = self.allocate(array.nbytes)
        self.memory.write(buffer, array, stable)
        return buffer

    def copy(self, source: Buffer) -> Buffer:
        """A new buffer with the same bytes."""
        target = self.allocate(source.nbytes)
        self.memory.copy(target, source, source.nbytes)
        return target

    def align(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """The buffers as kernels need them: those that do not start at a 16-byte boundary are copied.

        Raises:
            DeviceError: one is memory of another device.
        """
        pool, bad = self.pool, False
        for buffer in buffers:
            if buffer._pool is not pool:
                raise DeviceError("a buffer of another device", op=self.name, found=buffer)
            if buffer.offset % ALIGNMENT:
                bad = True
        return [self._aligned(buffer) for buffer in buffers] if bad else buffers

    def _aligned(self, buffer: Buffer) -> Buffer:
        if buffer.offset % ALIGNMENT == 0:
            return buffer
        self.realigned += 1
        return self.copy(buffer)

    def load(self, code: Code) -> LoadedProgram:
        """Map the host's part into this process and build the kernels, once for equal sources.

        Raises:
            ArtifactError: the code is for another kind of device, or another architecture of the host.
            CompilerError: the driver refuses the kernels.
            DeviceError: the device fails.
        """
        if not isinstance(code, OpenClCode):
            raise ArtifactError("code is for another kind of device", op=self.name, expected="OpenCL", found="CPU")
        host = image.load(code.host)
        queue = self._queue
        queue.library.check()
        key = queue.builder.key(code.source)
        with self._lock:
            program = self._programs.get(key)
            if program is None or program.names != code.kernels:
                program = self._programs[key] = queue.builder.build(code.source, code.kernels)
        return LoadedProgram(host, program, code.faults)

    def make_entry(self, loaded: LoadedProgram, symbol: str, kernels: Sequence[KernelInfo] = ()) -> OpenClEntry:
        """The callable for an entry point of loaded code.

        Raises:
            DeviceError: no such symbol.
        """
        queue = self._queue
        handles = (queue.context, queue.handle)
        return OpenClEntry(queue.library, queue.pool, *handles, loaded, symbol, kernels, queue.profiling)

    def environment(self) -> Env:
        """Says that the host's part runs on one thread; each entry has an environment of its own."""
        return self._env

    def synchronize(self) -> None:
        """Wait until all work is done.

        Raises:
            DeviceError: some of it failed.
        """
        self.memory.finish()

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Time the kernels of all programs that are called meanwhile, from whatever thread.

        Raises:
            DeviceError: a profile is under way, or the device has no clock.
        """
        profiling = self._queue.profiling
        with self._lock:
            if profiling.recorder is not None:
                raise DeviceError("a profile is under way already", op=self.name, hint="finish that one first")
            recorder = profiling.recorder = self._queue.recorder()
        try:
            yield recorder.profile
        finally:
            profiling.recorder = None


def count() -> int:
    """How many devices there are; 0 without pyopencl or a driver, and in a process forked off one that uses them."""
    try:
        found = len(opencl_library.devices())
        opencl_library.library().check()
    except DeviceError:
        return 0
    return found


def find(index: int) -> Any:
    """pyopencl's object for the device of a number.

    Raises:
        DeviceError: there is no such device; says what is missing, or which there are.
    """
    found = opencl_library.devices()
    if not 0 <= index < len(found):
        names = ", ".join(f"opencl:{k} ({device.name})" for k, device in enumerate(found))
        hint = "" if found else opencl_library.ICD_HINT
        expected, name = names or "an OpenCL device", f"opencl:{index}"
        raise DeviceError("no such device", op="device", expected=expected, found=name, hint=hint)
    return found[index]
