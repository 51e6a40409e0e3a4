"""How a plan becomes something to call: native code through the compiler, or the NumPy reference interpreter."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from firebox import dims
from firebox.errors import FireboxError
from firebox.frontend import locations
from firebox.frontend.build import STEP, build, step_locations
from firebox.frontend.extensions import extension_hash
from firebox.frontend.plan import Plan, describe
from firebox.lowering.interpret import interpret
from firebox.lowering.pipeline import Options, lower
from firebox.runtime.code_cache import compile_image
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable
from firebox.runtime.image import CodeImage
from firebox.runtime.memory import Buffer
from firebox.runtime.program import Program
from firebox.runtime.program_cache import program_cache

Compiled = Callable[[Sequence[Buffer], Sequence[int], Sequence[bool] | None], list[Buffer]]
"""Inputs (those of the plan, then the dynamic slots), values of the symbolic dims, which inputs may be overwritten."""


class Backend(Protocol):
    """Compiles plans for one device."""

    def compile(self, plan: Plan, dynamic: Collection[int], names: Sequence[str]) -> Compiled: ...


class InterpretBackend:
    """Runs each op in NumPy: slow, exact in meaning, and independent of the compiler."""

    def compile(self, plan: Plan, dynamic: Collection[int], names: Sequence[str]) -> Compiled:
        module = build(plan, dynamic, names)
        avals = [v.aval for v in plan.inputs] + [plan.slots[k].aval for k in sorted(dynamic)]
        dim_names = dims.names(*(d for a in avals for d in a.shape))

        def call(inputs: Sequence[Buffer], sizes: Sequence[int], donate: Sequence[bool] | None) -> list[Buffer]:
            env = dict(zip(dim_names, sizes, strict=True))
            shapes = [tuple(dims.evaluate(d, env) for d in a.shape) for a in avals]
            arrays = [
                b.as_numpy(a.dtype.numpy, shape, internal=True)
                for b, a, shape in zip(inputs, avals, shapes, strict=True)
            ]
            return [Buffer.from_numpy(np.ascontiguousarray(r)) for r in interpret(module, arrays, env)]

        return call


class NativeBackend:
    """Runs machine code, from the program cache on disk or compiled now."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.options = Options()

    def compile(self, plan: Plan, dynamic: Collection[int], names: Sequence[str]) -> Compiled:
        lines = step_locations(plan)
        try:
            program, image = self._find(plan, dynamic)
        except FireboxError as error:
            raise _located(error, lines) from None
        here = replace(program, locations=tuple(_line(text, lines) for text in program.locations))
        return Executable(here, image, self.device).run

    def _find(self, plan: Plan, dynamic: Collection[int]) -> tuple[Program, CodeImage]:
        target, options = self.device.target, self.options
        cache = program_cache()
        key = cache.key(describe(plan, dynamic), target, repr(options), extension_hash())
        found = cache.load(key)
        if found is None:
            lowered = lower(build(plan, dynamic, numbered=True), target, options)
            image = compile_image([lowered.text], target)
            cache.store(key, lowered.program, image)
            found = lowered.program, image
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
