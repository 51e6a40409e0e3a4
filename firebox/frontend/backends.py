"""How a plan becomes something to call: native code through the compiler, or the NumPy reference interpreter."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import numpy as np

from firebox import dims
from firebox.frontend.build import build
from firebox.frontend.plan import Plan
from firebox.lowering.interpret import interpret
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer

Compiled = Callable[[Sequence[Buffer], Sequence[int], Sequence[bool] | None], list[Buffer]]
"""Inputs (those of the plan, then the dynamic slots), values of the symbolic dims, which inputs may be overwritten."""


class Backend(Protocol):
    """Compiles plans for one kind of device."""

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


_backends: dict[Device, Backend] = {}


def backend_of(device: Device) -> Backend:
    """The backend of a device."""
    backend = _backends.get(device)
    if backend is None:
        backend = _backends[device] = InterpretBackend()
    return backend
