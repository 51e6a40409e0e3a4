"""Helpers for tests of contractions: operands, comparison with the interpreter, given schedules."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from firebox.dialects.nd.group import GroupOp
from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.schedule import Schedule, ScheduleAttr
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import lower
from firebox.runtime import pool
from firebox.runtime.dispatch import Executable
from firebox.runtime.elf import link_objects
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.memory import Buffer
from firebox.runtime.target import Target
from tests.programs import check_native, parse_aval, program

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def of(spec: str) -> Function:
    return lambda a, b: contract(a, b, spec)


def values(spec: str, seed: int = 0, **dim_values: int) -> Array:
    """Random numbers of the type and shape of a spec such as ``f32[b, 4]``; small integers for short types."""
    aval = parse_aval(spec)
    shape = [d if isinstance(d, int) else dim_values[str(d)] for d in aval.shape]
    rng = np.random.default_rng(seed)
    short = not aval.dtype.is_float or aval.dtype.itemsize == 2
    return (rng.integers(-3, 4, shape) if short else rng.standard_normal(shape)).astype(aval.dtype.numpy)


def check(function: Function, *specs: str, tolerance: float = 2e-5, **dim_values: int) -> None:
    arrays = [values(spec, seed, **dim_values) for seed, spec in enumerate(specs)]
    check_native(function, specs, arrays, tolerance, tolerance, None, "cpu", **dim_values)


def shapes(spec: str, m: int, k: int, n: int, dtype: str = "f32") -> list[str]:
    sizes = {"m": m, "k": k, "n": n}
    terms = spec.split("->")[0].split(",")
    return [f"{dtype}[{', '.join(str(sizes[name]) for name in term.split())}]" for term in terms]


def scheduled(function: Function, specs: Sequence[str], schedule: str, threads: int = 1) -> list[Array]:
    """Results under a given schedule."""
    target = Target.host()

    def impose(phase: str, module: ModuleOp, seconds: float) -> None:
        if phase == "order":
            for op in groups(module):
                op.attributes["schedule"] = ScheduleAttr(Schedule.parse(f"template=contract {schedule}"))

    lowered = lower(program(function, *specs), target, observer=impose)
    executable = Executable(lowered.program, link_objects([compile_to_object(lowered.text, target)]))
    before = pool.get_num_threads()
    pool.set_num_threads(threads)
    try:
        outputs = executable.run([Buffer.from_numpy(values(s, k)) for k, s in enumerate(specs)], [])
    finally:
        pool.set_num_threads(before)
    pairs = zip(lowered.program.outputs, outputs, strict=True)
    return [np.array(b.as_numpy(s.dtype.numpy, tuple(int(d) for d in s.shape))) for s, b in pairs]


def groups(module: ModuleOp) -> list[GroupOp]:
    return [op for op in main_function(module).body.block.ops if isinstance(op, GroupOp)]
