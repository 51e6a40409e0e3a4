"""Kernels of an OpenCL device: built from source, or from the driver's binary of an earlier process."""

import ctypes
import functools
import re
import threading
from collections.abc import Sequence
from typing import Any

from firebox import config
from firebox.errors import CompilerError, DeviceError
from firebox.runtime.code_cache import DiskCache, content_key, reported_about
from firebox.runtime.opencl_errors import SUCCESS, error_name
from firebox.runtime.opencl_library import Library

_BINARY_SIZES = 0x1165  # CL_PROGRAM_BINARY_SIZES
_BINARIES = 0x1166  # CL_PROGRAM_BINARIES
_BUILD_LOG = 0x1183  # CL_PROGRAM_BUILD_LOG
_LOG_LINES = 20
_COMMENT = re.compile(r" *//[^\"\n]*$", re.MULTILINE)
"""Comments as they stand in our sources; what has quotes may be assembly."""


class DeviceProgram:
    """Built kernels. Their arguments belong to the kernel objects, so hold `lock` while a call sets and uses them.

    Attributes:
        names: of the kernels.
        handles: the same by handle.
        table: address of the table of their handles.
        lock: for one call at a time.
    """

    def __init__(self, library: Library, program: int, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.lock = threading.Lock()
        self._library = library
        self._program = program
        self._kernels: list[int] = []
        for name in names:
            self._kernels.append(library.create("clCreateKernel", program, name.encode(), op=f"kernel {name}"))
        self.handles = dict(zip(self._kernels, names, strict=True))
        self._table = (ctypes.c_int64 * max(len(names), 1))(*self._kernels)
        self.table = ctypes.addressof(self._table)

    def __del__(self) -> None:
        if self._library.lost:
            return
        for kernel in self._kernels:
            self._library.function("clReleaseKernel")(kernel)
        self._library.function("clReleaseProgram")(self._program)


class ProgramBuilder:
    """Builds programs for one device.

    Args:
        library: OpenCL.
        context, device: handles.
        identity: names of the device, of its platform and their versions; a binary is for these alone.
        options: of the driver's compiler.
    """

    def __init__(self, library: Library, context: int, device: int, identity: Sequence[str], options: str) -> None:
        self._library = library
        self._context = context
        self._device = (ctypes.c_void_p * 1)(device)
        self._identity = tuple(identity)
        self._options = options

    def key(self, source: str) -> str:
        """What the binary of a source is kept under; comments, which name the user's lines, change nothing."""
        return content_key("opencl", *self._identity, self._options, _COMMENT.sub("", source))

    def build(self, source: str, names: Sequence[str]) -> DeviceProgram:
        """The kernels of a source.

        Args:
            source: OpenCL C.
            names: of its kernels.

        Raises:
            CompilerError: the driver refuses the source, or a kernel is not in it; with the driver's log.
        """
        key, cache = self.key(source), binary_cache()
        binary = cache.get(key)
        program = None if binary is None else self._from_binary(binary)
        if program is None:
            if binary is not None:
                cache.remove(key)
            program = self._from_source(source, names)
            cache.put(key, self._binary(program))
        try:
            return DeviceProgram(self._library, program, names)
        except DeviceError as error:
            raise CompilerError("the built program lacks a kernel", op=error.op, found=error.found) from None

    def _from_source(self, source: str, names: Sequence[str]) -> int:
        text = source.encode()
        texts, sizes = (ctypes.c_char_p * 1)(text), (ctypes.c_size_t * 1)(len(text))
        program = self._library.create("clCreateProgramWithSource", self._context, 1, texts, sizes, op="build")
        code = self._build(program)
        if code != SUCCESS:
            log = self._build_log(program)
            self._library.function("clReleaseProgram")(program)
            raise CompilerError(
                f"the OpenCL driver cannot build the kernels ({error_name(code)})",
                op=f"kernels {', '.join(names)}",
                expected=f"OpenCL C for {self._identity[0]}",
                found=log,
            )
        return program

    def _from_binary(self, binary: bytes) -> int | None:
        """The program of a cached binary, or None when the driver takes it no more."""
        sizes = (ctypes.c_size_t * 1)(len(binary))
        data = ctypes.create_string_buffer(binary, len(binary))
        binaries = (ctypes.c_void_p * 1)(ctypes.addressof(data))
        status = (ctypes.c_int32 * 1)()
        arguments = (self._context, 1, self._device, sizes, binaries, status)
        try:
            program = self._library.create("clCreateProgramWithBinary", *arguments, op="build")
        except DeviceError as error:
            self._refused(error.found)
            return None
        code = status[0] or self._build(program)
        if code != SUCCESS:
            self._library.function("clReleaseProgram")(program)
            self._refused(error_name(code))
            return None
        return program

    def _refused(self, why: object) -> None:
        binary_cache().report("has a binary that the driver refuses, which is built anew", why)

    def _build(self, program: int) -> int:
        self._library.check()
        build = self._library.function("clBuildProgram")
        code: int = build(program, 1, self._device, self._options.encode(), None, None)
        return code

    def _build_log(self, program: int) -> str:
        """The first lines of what the driver's compiler says."""
        get, size = self._library.function("clGetProgramBuildInfo"), ctypes.c_size_t()
        get(program, self._device[0], _BUILD_LOG, 0, None, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        get(program, self._device[0], _BUILD_LOG, size.value, text, None)
        lines = text.value.decode(errors="replace").strip().splitlines()
        more = [f"({len(lines) - _LOG_LINES} more lines)"] if len(lines) > _LOG_LINES else []
        return "\n".join([*lines[:_LOG_LINES], *more]) or "no log"

    def _binary(self, program: int) -> bytes:
        sizes = (ctypes.c_size_t * 1)()
        self._get(program, _BINARY_SIZES, sizes)
        data = ctypes.create_string_buffer(sizes[0])
        self._get(program, _BINARIES, (ctypes.c_void_p * 1)(ctypes.addressof(data)))
        return data.raw

    def _get(self, program: int, what: int, into: "ctypes.Array[Any]") -> None:
        self._library.call("clGetProgramInfo", program, what, ctypes.sizeof(into), into, None, op="build")


@functools.cache
def binary_cache() -> DiskCache:
    """The process's cache of drivers' binaries; it has a third of the configured size, as each of the caches."""
    directory = config.cache_dir()
    return DiskCache(directory / "opencl", config.cache_size() // 3, reported_about(directory))
