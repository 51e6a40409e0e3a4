"""Ahead of time: a function, a model or nd IR to an artifact for one or more targets, or to the text of any stage."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from firebox import dims
from firebox.errors import UserError
from firebox.frontend import irtext
from firebox.frontend.compiler import code_of
from firebox.frontend.source import Source, trace
from firebox.lowering.options import Options
from firebox.lowering.pipeline import PHASES, Lowered, lower, run_to
from firebox.lowering.supported import check_types
from firebox.runtime.artifact import Artifact, Build
from firebox.runtime.device import Device
from firebox.runtime.llvm import compile_to_assembly, compile_to_object, llvm_version
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget, parse_target, target_label
from firebox.runtime.pool import pool_image
from firebox.runtime.program import Guard, Program
from firebox.runtime.session import Model
from firebox.signature import UNBOUNDED, Signature, range_text
from firebox.version import VERSION

Targets = str | AnyTarget | Sequence[str | AnyTarget]
Kind = Literal["mlir", "kernels", "opencl", "llvm", "asm", "object"]
_DEVICE = re.compile(r"opencl:\d+")
KINDS: tuple[str, ...] = get_args(Kind)


def compile(  # the builtin is not used here
    function: Callable[..., Any],
    inputs: str | Iterable[str] | Signature,
    *,
    target: Targets = "host",
    path: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    name: str = "",
    checkpoint: str | int = "none",
) -> Model:
    """Compile a function or model for fixed input types, and write it as one file if a path is given.

    Args:
        function: called once on placeholders. Parameters and buffers that it reads become weights of the artifact.
        inputs: names, element types and shapes of its arguments, such as ``"x: f32[b, 1, 8, 8], 1<=b<=4096"``.
        target: what to compile for: presets (``host``, ``x86-64-v3``, ``aarch64``, ``opencl``), or targets such as
            ``fb.Device("opencl:0").target``; one or several.
        path: where to write the ``.fbox`` file.
        weights: values for the model's parameters and buffers by path, or a safetensors file of them.
        name: of the model; by default that of the function or class.
        checkpoint: what gradients inside keep, a strategy of the pass `checkpoint` or a budget; see `jit`.

    Returns:
        The model, to be called on NumPy arrays on the CPU; `firebox.runtime.load` takes another device. If no target
        runs there, a call says so.

    Raises:
        UserError: the inputs do not fit the function, it updates state, or there is no such target.
        OSError: the file cannot be written.
    """
    artifact = build(trace(function, inputs, weights, name), target, Options(checkpoint=checkpoint))
    if path is not None:
        artifact.write(path)
    return Model(artifact)


def export(
    function: Callable[..., Any],
    inputs: str | Iterable[str] | Signature,
    path: str | os.PathLike[str] | None = None,
) -> str:
    """The function as MLIR text in the nd dialect, for people and other tools; `compile` and `firebox opt` read it.

    Parameters and buffers that it reads are inputs, named by their paths, after the function's own.

    Raises:
        UserError: as `compile`. OSError: the file cannot be written.
    """
    text = irtext.print_module(trace(function, inputs).module)
    if path is not None:
        Path(path).write_text(text)
    return text


def build(source: Source, target: Targets = "host", options: Options | None = None) -> Artifact:
    """Compile a source for one or more targets.

    Raises:
        UserError: no such target. FireboxError: the program cannot be compiled.
    """
    options = options or Options()
    targets = parse_targets(target)
    builds = tuple(_build(source, item, options) for item in targets)
    return Artifact(
        name=source.name,
        signature=_tightened(source.signature, builds[0].program),
        builds=builds,
        weights=source.weights,
        nd=irtext.print_module(source.module),
        options={"checkpoint": str(options.checkpoint)},
        pipeline=PHASES,
        compiler={"name": "firebox", "version": VERSION, "llvm": llvm_version()},
    )


def emit(source: Source, kind: Kind, target: Targets = "host", options: Options | None = None) -> str | bytes:
    """What a stage of the compiler makes: the text of the IR, of the kernels, OpenCL C, LLVM IR, assembly; or an ELF
    object. For an OpenCL device the last three are of the host's part.

    Raises:
        UserError: no such kind or target, several targets, or OpenCL C for a CPU.
    """
    machine = _one(target)
    if kind == "mlir":
        return irtext.print_module(source.module)
    if kind == "kernels":
        return stage(source, "generate", machine, options)
    if kind not in KINDS:
        raise UserError("nothing of this kind can be emitted", op="emit", expected=", ".join(KINDS), found=kind)
    if kind == "opencl" and not isinstance(machine, OpenClTarget):
        raise UserError("a CPU has no OpenCL C", op="emit", expected="--target=opencl", found=target_label(machine))
    lowered = _lowered(source, machine, options or Options())
    if kind == "opencl":
        return lowered.source
    host = machine.host if isinstance(machine, OpenClTarget) else machine
    if kind == "llvm":
        return lowered.text
    return compile_to_assembly(lowered.text, host) if kind == "asm" else compile_to_object(lowered.text, host)


def stage(source: Source, phase: str, target: Targets = "host", options: Options | None = None) -> str:
    """The IR after a phase of the pipeline as text; after ``emit`` that is LLVM IR, or OpenCL C for an OpenCL device.

    Raises:
        UserError: no such phase or target, or several targets.
    """
    machine = _one(target)
    if phase == "emit":
        return str(emit(source, "opencl" if isinstance(machine, OpenClTarget) else "llvm", machine, options))
    return irtext.print_module(run_to(source.copy(), machine, phase, options))


def parse_targets(target: Targets) -> list[AnyTarget]:
    """The targets that a name, a comma-separated list of names, a target or a sequence of them stands for.

    The name of a device, such as ``opencl:0``, stands for exactly what that device of this machine has.

    Raises:
        UserError: no such target, none, or one that is given twice. DeviceError: no such device.
    """
    given = target.split(",") if isinstance(target, str) else target
    items = [given] if isinstance(given, AnyTarget) else list(given)
    found = [_parsed(item.strip()) if isinstance(item, str) else item for item in items]
    if not found or len(set(found)) != len(found):
        raise UserError("give each target once", op="target", found=", ".join(map(str, items)))
    return found


def _parsed(name: str) -> AnyTarget:
    return Device(name).target if _DEVICE.fullmatch(name) else parse_target(name)


def _one(target: Targets) -> AnyTarget:
    found = parse_targets(target)
    if len(found) > 1:
        raise UserError("one target at a time", op="target", found=len(found))
    return found[0]


def _build(source: Source, target: AnyTarget, options: Options) -> Build:
    lowered = _lowered(source, target, options)
    program = _dress(source, lowered.program)
    pool = None if isinstance(target, OpenClTarget) else pool_image(target)
    return Build(target, program, code_of(lowered, target), pool)


def _lowered(source: Source, target: AnyTarget, options: Options) -> Lowered:
    module = source.copy()
    check_types(module, target)
    return lower(module, target, options)


def _dress(source: Source, program: Program) -> Program:
    """The program with the source's names for its outputs, and source lines that are the same on every machine."""
    kernels = tuple(replace(kernel, location=portable(kernel.location)) for kernel in program.kernels)
    return replace(
        program,
        name=source.name,
        outputs=source.signature.outputs,
        kernels=kernels,
        locations=tuple(map(portable, program.locations)),
    )


def _tightened(signature: Signature, program: Program) -> Signature:
    """The signature with the ranges that the program's guards leave; what compares several dims is checked at a call.

    Raises:
        UserError: no size is left.
    """
    ranges = dict(signature.ranges)
    for guard in program.guards:
        bound = _bound(guard)
        if bound is None:
            continue
        name, low, high = bound
        first, last = ranges.get(name, (0, UNBOUNDED))
        ranges[name] = (max(first, low), min(last, high))
        if max(first, low) > min(last, high):
            error = UserError(
                "no size in the range of a dim fits",
                op=program.op_name(guard.op),
                expected=guard,
                found=range_text(name, first, last),
            )
            raise error.at(program.location(guard.op))
    return replace(signature, ranges=ranges)


def _bound(guard: Guard) -> tuple[str, int, int] | None:
    """(name, least, greatest) for a guard about a multiple of one dim."""
    left, right = dims.as_multiple(guard.left), dims.as_multiple(guard.right)
    if left is not None and isinstance(guard.right, int):
        return left[0], -(-guard.right // left[1]), UNBOUNDED
    if right is not None and isinstance(guard.left, int):
        return right[0], 0, guard.left // right[1]
    return None


def portable(location: str) -> str:
    """``file:line`` with the file's path from its outermost package on, so that equal sources give equal artifacts."""
    file, colon, line = location.rpartition(":")
    if not colon:
        return location
    path = Path(file)
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return f"{path.relative_to(root).as_posix()}:{line}"
