"""How a plan becomes something to call: native code through the compiler, or the NumPy reference interpreter."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from firebox.errors import FireboxError
from firebox.frontend import locations
from firebox.frontend.extensions import extension_hash
from firebox.frontend.plan import STEP, Plan, describe, step_locations
from firebox.lowering.options import Options
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable
from firebox.runtime.memory import Buffer
from firebox.runtime.opencl_code import Code
from firebox.runtime.program import Program
from firebox.runtime.program_cache import program_cache

Compiled = Callable[[Sequence[Buffer], Sequence[int], Sequence[bool] | None], list[Buffer]]
"""Inputs (those of the plan, then the dynamic slots), values of the symbolic dims, which inputs may be overwritten."""


Bound = Callable[[Sequence[Buffer], Sequence[bool] | None], list[Buffer]]
"""`Compiled` for given sizes."""


def bind(compiled: Compiled, sizes: Sequence[int]) -> Bound:
    """The calls of a program with these sizes, which the caller has checked."""
    if isinstance(compiled, Executable):
        return compiled.bound(sizes)
    return lambda inputs, donate: compiled(inputs, sizes, donate)


class Backend(Protocol):
    """Compiles plans for one device."""

    def compile(
        self, plan: Plan, dynamic: Collection[int], names: Sequence[str], options: Options | None = None
    ) -> Compiled: ...


class InterpretBackend:
    """Runs each op in NumPy: slow, exact in meaning, and independent of the compiler."""

    def compile(
        self, plan: Plan, dynamic: Collection[int], names: Sequence[str], options: Options | None = None
    ) -> Compiled:
        from firebox.frontend.compiler import interpreted  # loads the lowering, which a cached program does not need

        return interpreted(plan, dynamic, names)


class NativeBackend:
    """Runs code for the device, from the program cache on disk or compiled now."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.options = Options()

    def compile(
        self, plan: Plan, dynamic: Collection[int], names: Sequence[str], options: Options | None = None
    ) -> Compiled:
        lines = step_locations(plan)
        try:
            program, code = self._find(plan, dynamic, options or self.options)
        except FireboxError as error:
            raise _located(error, lines) from None
        here = replace(program, locations=tuple(_line(text, lines) for text in program.locations))
        return Executable(here, code, self.device)

    def _find(self, plan: Plan, dynamic: Collection[int], options: Options) -> tuple[Program, Code]:
        target = self.device.target
        cache = program_cache()
        key = cache.key(describe(plan, dynamic), target, repr(options), extension_hash())
        found = cache.load(key)
        if found is None:
            from firebox.frontend.compiler import compile_plan  # loads the lowering, some 300 ms

            found = compile_plan(plan, dynamic, target, options, self.device.name)
            cache.store(key, *found)
        return found


def _line(text: str, lines: "Sequence[locations.Location | None]") -> str:
    """The user's line for a step's number as `build` writes it."""
    file, _, number = text.rpartition(":")
    return locations.text(lines[int(number)]) if file == STEP else text


def _located(error: FireboxError, lines: "Sequence[locations.Location | None]") -> FireboxError:
    error.location = _line(error.location, lines)
    return error


_backends: dict[Device, Backend] = {}


def backend_of(device: Device) -> Backend:
    """The backend of a device."""
    backend = _backends.get(device)
    if backend is None:
        backend = InterpretBackend() if device.name == "interpret" else NativeBackend(device)
        _backends[device] = backend
    return backend
