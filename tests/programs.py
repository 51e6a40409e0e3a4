"""Helpers for tests: build nd programs from expressions, and run them interpreted or compiled."""

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
from firebox.frontend.compiler import code_of
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.options import Options
from firebox.lowering.pipeline import Lowered, lower
from firebox.runtime import opencl
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable
from firebox.runtime.opencl_target import AnyTarget

Array = np.ndarray[Any, Any]


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


def opencl_device(index: int = 0) -> Device:
    """An OpenCL device of this machine; the test is skipped where there is none."""
    if opencl.count() <= index:
        pytest.skip(f"no device opencl:{index}")
    return Device(f"opencl:{index}")


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
