"""Calls into a program on an OpenCL device: the native entry, which starts the kernels, and the device's status words.

The environment of an entry, in slots of 8 bytes: 0 version, 1 threads, 2 command queue, 3 table of kernels, 4
clSetKernelArg, 5 clEnqueueNDRangeKernel, 6 clEnqueueCopyBuffer, 7 clEnqueueFillBuffer, 8 memory object of the status
words, 9 clEnqueueReadBuffer, 10 clWaitForEvents, 11 clReleaseEvent, 12 address of the host's status words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from firebox.runtime.cpu import Entry, Slots
from firebox.runtime.image import LoadedImage
from firebox.runtime.memory import MemoryPool
from firebox.runtime.opencl_errors import may_be_memory
from firebox.runtime.opencl_library import Library
from firebox.runtime.opencl_memory import DeviceMemory
from firebox.runtime.opencl_profile import Profiling, Recorder
from firebox.runtime.opencl_program import DeviceProgram
from firebox.runtime.opencl_status import StatusWords
from firebox.runtime.pool import Env
from firebox.runtime.program import KernelInfo
from firebox.runtime.status import DEVICE_CALL, Status, fault

_ENV_VERSION = 1


@dataclass(frozen=True)
class LoadedProgram:
    """A program's code, ready: the host's part mapped, the kernels built.

    Attributes:
        host: the entry.
        program: the kernels.
        faults: whether they may report a fault.
    """

    host: LoadedImage
    program: DeviceProgram
    faults: bool


class OpenClEntry:
    """A program's entry on a device. Calls may come from several threads; they enter one after the other.

    Args:
        library: OpenCL.
        pool: the device's memory.
        context, queue: handles of its context and its command queue.
        loaded: the code.
        symbol: name of the entry.
        kernels: what is known of the kernels, for profiles.
        profiling: whether the device is profiled.

    Raises:
        DeviceError: no such symbol, or the device fails.
    """

    def __init__(
        self,
        library: Library,
        pool: MemoryPool,
        context: int,
        queue: int,
        loaded: LoadedProgram,
        symbol: str,
        kernels: Sequence[KernelInfo],
        profiling: Profiling,
    ) -> None:
        self.symbol = symbol
        self._kernels = kernels
        self._profiling = profiling
        self._library = library
        self._pool = pool
        self._loaded = loaded  # keeps the kernels
        self._lock = loaded.program.lock
        self._host = Entry(loaded.host, symbol)
        self._words = StatusWords(library, context, queue) if loaded.faults else None
        self._env = self._environment(queue, library.entry_calls)

    def _environment(self, queue: int, calls: Sequence[int]) -> Env:
        words, answer = (0, 0) if self._words is None else (self._words.handle, self._words.answer)
        reading = self._library.status_calls
        return Env([_ENV_VERSION, 1, queue, self._loaded.program.table, *calls, words, *reading, answer], 1)

    def run(self, env: Env, args: Slots, dims: Slots, outs: Slots) -> Status | None:
        """Start the program's kernels; returns the fault that they report, if any.

        The program goes on when this returns, but for kernels that may report a fault: whoever reads its results waits
        for them.

        Args:
            env: of the device; an entry has an environment of its own.
            args: one place per input.
            dims: one integer per dim.
            outs: one place per output, and last the workspace.

        Raises:
            DeviceError: OpenCL refuses a call, or the device failed.
        """
        if self._library.lost:
            self._library.check()
        with self._lock:
            recorder = self._profiling.recorder
            if recorder is None:
                status = self._host.run(self._env, args, dims, outs)
            else:
                status = self._profiled(recorder, args, dims, outs)
            if status is None:
                return None if self._words is None else self._words.take()
        raise self._refused(status)

    def _profiled(self, recorder: Recorder, args: Slots, dims: Slots, outs: Slots) -> Status | None:
        memory, program = self._pool.source, self._loaded.program
        assert isinstance(memory, DeviceMemory)
        with recorder.lock:
            memory.finish()  # kernels go to another queue than what is under way
            env = self._environment(recorder.queue, recorder.calls)
            status = self._host.run(env, args, dims, outs)
            recorder.finish(id(program), program.handles, self._kernels)
        return status

    def __call__(self, env: Env, args: Slots, dims: Slots, outs: Slots) -> None:
        """As `run`, but a fault is raised, its op named by number only."""
        status = self.run(env, args, dims, outs)
        if status is not None:
            raise fault(status)

    def _refused(self, status: Status) -> Exception:
        names = self._loaded.program.names
        if status.code == DEVICE_CALL and may_be_memory(status.detail0):
            self._pool.trim()  # so that a smaller program may succeed
        return fault(status, f"kernel {names[status.op_id]}" if 0 <= status.op_id < len(names) else self.symbol)
