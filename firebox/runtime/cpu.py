"""The CPU as a device: memory, code, and calls into it."""

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from firebox.errors import ArtifactError
from firebox.runtime import image, memory, pool
from firebox.runtime.image import CodeImage, LoadedImage
from firebox.runtime.memory import Buffer
from firebox.runtime.opencl_code import Code
from firebox.runtime.pool import Env
from firebox.runtime.program import KernelInfo
from firebox.runtime.status import OK, STATUS_SLOTS, Status, fault
from firebox.runtime.target import Target

# Calls release the interpreter's lock.
_Entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
_StatusBlock = ctypes.c_int64 * STATUS_SLOTS

Slots = bytes | int  # 8-byte slots as `slots` packs them, or the address of some


class Entry:
    """A native entry point. It keeps its code loaded; it may be called from several threads at once."""

    __slots__ = ("_call", "_loaded", "_spare", "symbol")

    def __init__(self, loaded: LoadedImage, symbol: str) -> None:
        self.symbol = symbol
        self._loaded = loaded
        self._call: Callable[..., None] = _Entry(loaded.address(symbol))
        self._spare: list[tuple[ctypes.Array[ctypes.c_int64], int]] = []  # zeroed status blocks, their addresses

    def run(self, env: Env, args: Slots, dims: Slots, outs: Slots) -> Status | None:
        """Call the code; returns the fault it reports, if any.

        Args:
            env: what `pool.environment` gave; the workspace must have been sized for ``env.threads``.
            args: one pointer per input.
            dims: one integer per dim.
            outs: one pointer per output, and last the workspace.
        """
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = _new_status()
        block, address = spare
        self._call(env.address, args, dims, outs, address)
        status = None if block[0] == OK else _take(block)
        self._spare.append(spare)
        return status

    def __call__(self, env: Env, args: Slots, dims: Slots, outs: Slots) -> None:
        """As `run`, but a fault is raised, its op named by number only."""
        status = self.run(env, args, dims, outs)
        if status is not None:
            raise fault(status)


class CpuDevice:
    """This machine's processor.

    Attributes:
        name: ``cpu``.
        target: what to compile for.
        align: nothing to do: kernels take buffers at any address.
    """

    name = "cpu"
    align = None

    def __init__(self) -> None:
        self.target = Target.host()
        self.pool = memory.POOL
        self.allocate = self.pool.allocate
        self.allocator = self.pool.allocator

    def from_numpy(self, array: NDArray[Any], stable: bool = False) -> Buffer:
        """A buffer over a C-contiguous array's memory, without a copy, so that nobody may change it in any case."""
        return Buffer.from_numpy(array)

    def copy(self, source: Buffer) -> Buffer:
        """A new buffer with the same bytes."""
        target = self.allocate(source.nbytes)
        memory.copy(target.ptr, source.ptr, source.nbytes)
        return target

    def load(self, code: Code) -> LoadedImage:
        """Map code into this process. Raises as `image.load`; ArtifactError for another kind of device's code."""
        if not isinstance(code, CodeImage):
            raise ArtifactError("code is for another kind of device", op=self.name, expected="CPU", found="OpenCL")
        return image.load(code)

    def make_entry(self, loaded: LoadedImage, symbol: str, kernels: Sequence[KernelInfo] = ()) -> Entry:
        """The callable for an entry point of loaded code.

        Raises:
            DeviceError: no such symbol, or the code has been unloaded.
        """
        return Entry(loaded, symbol)

    def environment(self) -> Env:
        """The runtime's services for generated code, with the number of threads it may use."""
        return pool.environment()

    def synchronize(self) -> None:
        """Wait until all work is done: CPU calls return when they are."""


def slots(values: Sequence[int]) -> bytes:
    """Addresses or sizes as 8-byte slots. Native code reads the bytes in place, so keep them until the call returns."""
    return _slot_format(len(values)).pack(*values)


@functools.lru_cache(maxsize=1024)
def _slot_format(count: int) -> struct.Struct:
    return struct.Struct(f"{count}q")


def _new_status() -> "tuple[ctypes.Array[ctypes.c_int64], int]":
    block = _StatusBlock()
    return block, ctypes.addressof(block)


def _take(block: "ctypes.Array[ctypes.c_int64]") -> Status:
    status = Status(*block)
    ctypes.memset(block, 0, ctypes.sizeof(block))
    return status
