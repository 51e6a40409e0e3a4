"""Times of a device's kernels, by the device's own clock.

While a profile runs, programs go to a second queue whose commands are timed: the calls that start kernels pass through
Python there and ask for an event each. A call then waits for all work before it and for its own, so that times of
kernels are those of the device and the time between them means nothing.
"""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firebox.runtime.opencl_errors import SUCCESS, call_error
from firebox.runtime.opencl_library import ENTRY_CALLS, Library
from firebox.runtime.program import KernelInfo

_PROFILING = 2  # CL_QUEUE_PROFILING_ENABLE
_START, _END = 0x1282, 0x1283  # CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END; nanoseconds
_KERNEL = 1  # which argument of clEnqueueNDRangeKernel is the kernel
_OPS_SHOWN = 4

_TIMED = {"clEnqueueCopyBuffer": "copy", "clEnqueueFillBuffer": "fill"}
"""Calls that are not kernels, and what they are called in a profile."""


@dataclass
class KernelTime:
    """What a kernel took in all.

    Attributes:
        name: its symbol; ``copy`` and ``fill`` for what the device does without one.
        launches: how often it was started.
        seconds: on the device.
        info: what it is made of; None for copies and fills.
    """

    name: str
    launches: int = 0
    seconds: float = 0.0
    info: KernelInfo | None = None

    def __str__(self) -> str:
        ops = self.info.ops if self.info else ()
        more = f" +{len(ops) - _OPS_SHOWN}" if len(ops) > _OPS_SHOWN else ""
        what = " ".join(op.removeprefix("nd.") for op in ops[-_OPS_SHOWN:])
        return f"{self.seconds * 1e6:10.1f} us {self.launches:6d} x  {self.name:14} {what}{more}".rstrip()


@dataclass
class Profile:
    """Kernels by the program that started them and by name, in the order in which they were first seen.

    Attributes:
        kernels: their times, by number of the program and name.
        calls: calls of programs.
    """

    kernels: dict[tuple[int, str], KernelTime] = field(default_factory=dict)
    calls: int = 0

    @property
    def seconds(self) -> float:
        """What all kernels took together."""
        return sum(kernel.seconds for kernel in self.kernels.values())

    @property
    def launches(self) -> int:
        """Kernels, copies and fills that were started."""
        return sum(kernel.launches for kernel in self.kernels.values())

    def slowest(self) -> list[KernelTime]:
        """The kernels, longest time first."""
        return sorted(self.kernels.values(), key=lambda kernel: -kernel.seconds)

    def add(self, program: int, name: str, seconds: float, info: KernelInfo | None) -> None:
        """Count one launch."""
        kernel = self.kernels.setdefault((program, name), KernelTime(name, info=info))
        kernel.launches += 1
        kernel.seconds += seconds

    def __str__(self) -> str:
        head = f"{self.seconds * 1e6:10.1f} us {self.launches:6d} x  in {self.calls} calls of programs"
        return "\n".join([head, *map(str, self.slowest())])


class Recorder:
    """A queue whose commands are timed, and the functions that programs call instead of OpenCL's.

    Args:
        library: OpenCL.
        context, device: handles.

    Attributes:
        profile: what has been found.
        queue: handle of the queue.
        lock: for one call at a time.
        calls: addresses for a program's environment, as `Library.entry_calls`.

    Raises:
        DeviceError: the device has no such queue.
    """

    def __init__(self, library: Library, context: int, device: int) -> None:
        self.profile = Profile()
        self.lock = threading.Lock()
        self._library = library
        self._events: list[tuple[int | str, ctypes.c_void_p]] = []  # kernel's handle or name, event
        self.queue = library.create("clCreateCommandQueue", context, device, _PROFILING, op="profile")
        self._hooks = {name: self._hook(name) for name in (*_TIMED, "clEnqueueNDRangeKernel")}
        addresses = {name: ctypes.cast(hook, ctypes.c_void_p).value or 0 for name, hook in self._hooks.items()}
        self.calls = tuple(
            addresses.get(name, address) for name, address in zip(ENTRY_CALLS, library.entry_calls, strict=True)
        )

    def _hook(self, name: str) -> Any:
        """A function like OpenCL's that keeps the event of what it starts. ctypes keeps the lock of Python."""
        real = self._library.function(name)
        fixed = _TIMED.get(name)

        def start(*arguments: Any) -> int:
            event = ctypes.c_void_p()
            code: int = real(*arguments[:-1], ctypes.byref(event))
            if code == SUCCESS:
                self._events.append((fixed or arguments[_KERNEL], event))
            return code

        return ctypes.CFUNCTYPE(real.restype, *real.argtypes[:-1], ctypes.c_void_p)(start)

    def finish(self, program: int, names: Mapping[int, str], infos: Sequence[KernelInfo]) -> None:
        """Wait for the kernels of a call, and count them.

        Args:
            program: a number of its own for each program.
            names: of its kernels, by handle.
            infos: what is known of them.

        Raises:
            DeviceError: the device failed.
        """
        known = {info.name: info for info in infos}
        self._library.call("clFinish", self.queue, op="profile")
        self.profile.calls += 1
        events, self._events = self._events, []
        for what, event in events:
            name = what if isinstance(what, str) else names[what]
            self.profile.add(program, name, self._seconds(event), known.get(name))
            self._library.function("clReleaseEvent")(event)

    def _seconds(self, event: ctypes.c_void_p) -> float:
        start, end = (self._time(event, which) for which in (_START, _END))
        return (end - start) * 1e-9

    def _time(self, event: ctypes.c_void_p, which: int) -> int:
        value = ctypes.c_uint64()
        get: Callable[..., int] = self._library.function("clGetEventProfilingInfo")
        code = get(event, which, ctypes.sizeof(value), ctypes.byref(value), None)
        if code != SUCCESS:
            raise call_error("clGetEventProfilingInfo", code, "profile")
        return value.value

    def __del__(self) -> None:
        if not self._library.lost:
            self._library.function("clReleaseCommandQueue")(self.queue)


@dataclass
class Profiling:
    """Whether a device is profiled, which entries look up at every call.

    Attributes:
        recorder: takes the times, if so.
    """

    recorder: Recorder | None = None
