"""Helpers for tests: build nd programs from expressions, and run them interpreted or compiled, on any device."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from firebox import dims
from firebox.dialects.nd.aval import Aval, tensor_type
from firebox.dialects.nd.value import Inserter, Value, block_of
from firebox.dtypes import as_dtype
from firebox.errors import DeviceError
from firebox.frontend.compiler import code_of
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.options import Options
from firebox.lowering.pipeline import Lowered, lower
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable
from firebox.runtime.opencl_target import AnyTarget

Array = np.ndarray[Any, Any]

_WANTED = os.environ.get("FIREBOX_TEST_DEVICES", "")
DEVICES = tuple((_WANTED or "cpu,opencl:0").split(","))
"""Where tests run. What FIREBOX_TEST_DEVICES names must be there; by default OpenCL is tested if there is a device."""

_EVERYTHING = 1 << 30
CASES = (_EVERYTHING,) * 3 if os.environ.get("FIREBOX_TEST_CASES") == "all" else (6, 3, 2)
"""How many samples of an op an OpenCL device runs: as they are, over a symbolic dim, over a long static one.

Its compiler takes a tenth of a second for each."""


def program(function: Callable[..., Value | Sequence[Value]], *specs: str) -> ModuleOp:
    """A module whose @main computes ``function`` of inputs such as ``f32[b, 4]``."""
    avals = [parse_aval(s) for s in specs]
    block = block_of(avals)
    at = Inserter(block)
    results = function(*(Value(a, at) for a in block.args))
    values = [results] if isinstance(results, Value) else list(results)
    block.add_op(ReturnOp(*(v.ssa for v in values)))
    types = [tensor_type(a) for a in avals], [v.ssa.type for v in values]
    return ModuleOp([FuncOp("main", types, Region(block))])


def parse_aval(text: str) -> Aval:
    """``f32[b, 4]``."""
    name, _, shape = text.partition("[")
    return Aval(as_dtype(name), tuple(dims.parse(d) for d in shape.rstrip("]").split(",") if d.strip()))


def device_named(name: str) -> Device:
    """A device; the test is skipped where there is none, unless FIREBOX_TEST_DEVICES asks for it."""
    try:
        return Device(name)
    except DeviceError as error:
        if name in _WANTED.split(","):
            raise
        pytest.skip(" ".join(str(error).split()))


def opencl_device(index: int = 0) -> Device:
    """An OpenCL device of this machine; the test is skipped where there is none."""
    return device_named(f"opencl:{index}")


def compiled(
    module: ModuleOp, target: AnyTarget | None = None, device: Device | str = "cpu", **options: Any
) -> tuple[Executable, Lowered]:
    """Compile for a device of this machine, or for a target that it can run."""
    target = target or Device(device).target
    lowered = lower(module, target, Options(**options))
    return Executable(lowered.program, code_of(lowered, target), device), lowered


def run_native(
    module: ModuleOp,
    arrays: Sequence[Array],
    dim_values: Mapping[str, int] | None = None,
    target: AnyTarget | None = None,
    device: Device | str = "cpu",
) -> list[Array]:
    """Compile and run."""
    executable, lowered = compiled(module, target, device)
    env = dict(dim_values or {})
    sizes = [env[name] for name in lowered.program.dims]
    from_numpy = Device(device).backend.from_numpy
    outputs = executable.run([from_numpy(np.ascontiguousarray(a)) for a in arrays], sizes)
    found = []
    for spec, buffer in zip(lowered.program.outputs, outputs, strict=True):
        shape = tuple(dims.evaluate(d, env) for d in spec.shape)
        found.append(np.array(buffer.as_numpy(spec.dtype.numpy, shape)))
    return found


def check_native(
    function: Callable[..., Value | Sequence[Value]],
    specs: Sequence[str],
    arrays: Sequence[Array],
    rtol: float = 1e-6,
    atol: float = 1e-6,
    target: AnyTarget | None = None,
    device: Device | str = "cpu",
    **dim_values: int,
) -> None:
    """Compiled results equal interpreted ones."""
    expected = interpret(main_function(program(function, *specs)), arrays)
    found = run_native(program(function, *specs), arrays, dim_values, target, device)
    for e, f in zip(expected, found, strict=True):
        assert e.shape == f.shape and e.dtype == f.dtype, (e.shape, f.shape, e.dtype, f.dtype)
        np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=atol)
