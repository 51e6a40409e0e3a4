"""Helpers for tests of contractions on GPUs: comparison with the interpreter on PoCL, given schedules, gradients."""

from collections.abc import Sequence
from typing import Any

from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.ops.contract_spec import infer_sizes, parse_spec, transpose_spec
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.generate.gpu.contract import CONTRACT
from firebox.runtime.opencl_target import OpenClTarget
from tests.lowering.generate.contractions import Function, values
from tests.lowering.gpu import launches
from tests.programs import parse_aval, program


def check(function: Function, *specs: str, schedule: str = "", tolerance: float = 2e-5, **sizes: int) -> None:
    """Results equal interpreted ones, under the schedule that is chosen or a given one."""
    arrays = [values(spec, seed, **sizes) for seed, spec in enumerate(specs)]
    choose = (lambda group: Schedule.parse(schedule)) if schedule else None
    launches.check(CONTRACT, function, specs, arrays, None, tolerance, choose, **sizes)


def chosen(function: Function, *specs: str, target: OpenClTarget | None = None) -> Schedule:
    """The schedule of a program's only group; for an H200 by default."""
    target = target or OpenClTarget.h200()
    (group,) = launches.groups_of(program(function, *specs), target)
    return CONTRACT.schedule(group, target)


def text(shape: Sequence[Any], dtype: str = "f32") -> str:
    """``f32[2, 3]``."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def check_with_gradients(spec: str, x: str, w: str, out: Sequence[int], **options: Any) -> None:
    """A convolution and both of its gradients.

    Args:
        out: positions of the result along each of the window's dims.
    """
    known = {f"y{k}": size for k, size in enumerate(out)}
    check(lambda a, b: contract(a, b, spec, known), x, w, **options)
    parsed, shapes = parse_spec(spec), (parse_aval(x).shape, parse_aval(w).shape)
    sizes = infer_sizes(parsed, *shapes, known)
    extents = dict(zip(parsed.names, sizes, strict=True))
    cotangent = text([extents[name] for name in parsed.out], x.partition("[")[0])
    for side, pair in enumerate(((cotangent, w), (x, cotangent))):
        moved = transpose_spec(parsed, side, shapes[side], sizes)
        check(lambda a, b: a.one("contract", a, b, spec=str(moved.spec), sizes=moved.sizes), *pair, **options)  # noqa: B023
