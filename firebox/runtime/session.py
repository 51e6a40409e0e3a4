"""`load` an artifact and call it: the whole of what a deployed model needs, without compiler or code generator."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.errors import ArtifactError, InputError, ShapeError
from firebox.runtime import pool
from firebox.runtime.artifact import Artifact, Build
from firebox.runtime.device import Device
from firebox.runtime.dispatch import Executable, contiguous
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget
from firebox.signature import Signature, TensorSpec

Array = NDArray[Any]


class Model:
    """A compiled model, to be called. Calls may come from several threads at once.

    Attributes:
        artifact: the file's content.
        device: where it runs.
        signature: inputs, outputs and ranges of the dims.
    """

    def __init__(self, artifact: Artifact, device: Device | str = "cpu") -> None:
        self.artifact = artifact
        self.device = Device(device)
        self.signature: Signature = artifact.signature
        self._lock = threading.Lock()
        self._ready: _Ready | None = None

    def __repr__(self) -> str:
        return f"Model({self.artifact.name}{self.signature})"

    def prepare(self) -> "_Ready":
        """Load the code now rather than at the first call.

        Raises:
            ArtifactError: no code of the artifact runs on the device.
        """
        with self._lock:
            if self._ready is None:
                self._ready = _Ready(self.artifact, self.device)
            return self._ready

    @property
    def build(self) -> Build:
        """The code in use, one of the artifact's builds. Raises as `prepare`."""
        return (self._ready or self.prepare()).build

    @property
    def name(self) -> str:
        return self.artifact.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, element types and shapes of what a call takes."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, element types and shapes of what a call gives."""
        return self.signature.outputs

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run on arrays, in the order of the inputs or by name; numbers and lists take the input's element type.

        Returns:
            The output's array; a dict by name when there are several.

        Raises:
            InputError: an input is missing, unknown, or does not fit the signature.
            IndexRangeError, DeviceError: a fault at run time, with the line of its op.
        """
        results = self.run(self._named(args, kwargs))
        return results if len(self.signature.outputs) != 1 else results[self.signature.outputs[0].name]

    def run(self, values: Mapping[str, object]) -> dict[str, Array]:
        """Run on arrays by input name; returns new arrays by output name. Raises as a call."""
        ready = self._ready or self.prepare()
        signature = self.signature
        ordered = signature.order(values)
        arrays = [_as_array(spec, value) for spec, value in zip(signature.inputs, ordered, strict=True)]
        return ready.run(arrays, signature.bind(arrays))

    def _named(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        names = [spec.name for spec in self.inputs]
        if len(args) > len(names):
            takes = "; ".join(map(str, self.inputs)) or "none"
            raise InputError("too many inputs", expected=f"{len(names)} ({takes})", found=len(args))
        named = dict(zip(names, args, strict=False))
        twice = [name for name in kwargs if name in named]
        if twice:
            raise InputError("given twice", op=f"input {twice[0]}")
        return {**named, **kwargs}


class _Ready:
    """A build whose code is loaded, and its arguments with the weights in place."""

    def __init__(self, artifact: Artifact, device: Device) -> None:
        self.build = choose(artifact, device)
        if self.build.pool is not None:
            pool.install(self.build.pool)
        self._executable = Executable(self.build.program, self.build.image, device)
        self._from_numpy = device.backend.from_numpy
        weights = {weight.argument: weight.array for weight in artifact.weights}
        self._weights = {argument: self._from_numpy(contiguous(array)) for argument, array in weights.items()}
        self._count = len(self.build.program.inputs)

    def run(self, arrays: Sequence[Array], env: Mapping[str, int]) -> dict[str, Array]:
        """Call on the inputs that are no weights; the arrays have been checked."""
        weights, rest = self._weights, iter(arrays)
        buffers = [
            weights[index] if index in weights else self._from_numpy(contiguous(next(rest)))
            for index in range(self._count)
        ]
        try:
            return self._executable.run_to_arrays(buffers, [env[name] for name in self.build.program.dims])
        except ShapeError as error:  # sizes that are each in range, but not together
            wrong = InputError(error.message, op=error.op, expected=error.expected, found=error.found)
            raise wrong.at(error.location) from None


def load(path: str | os.PathLike[str], device: Device | str | None = None, num_threads: int | None = None) -> Model:
    """Open an artifact for calling.

    Args:
        path: an ``.fbox`` file.
        device: where to run, such as ``opencl:0``; the CPU when not given.
        num_threads: threads that programs of this process may use from now on; results do not depend on it.

    Raises:
        ArtifactError: damaged, of another format version, or without code that the device can run.
        DeviceError: there is no such device.
        OSError: the file cannot be read.
    """
    if num_threads is not None:
        pool.set_num_threads(num_threads)
    model = Model(Artifact.open(path), device or "cpu")
    model.prepare()
    return model


def choose(artifact: Artifact, device: Device | str = "cpu") -> Build:
    """The build that uses most of what a device has.

    Raises:
        ArtifactError: none runs there; says what each one lacks.
    """
    where = Device(device)
    choices = explain(artifact, where)
    chosen = next((choice.build for choice in choices if choice.is_chosen), None)
    if chosen is not None:
        return chosen
    found = "; ".join(f"{choice.build.label} needs {', '.join(choice.lacks)}" for choice in choices)
    if isinstance(where.target, OpenClTarget):
        hint = "compile it with --target=host,opencl"
        raise ArtifactError(f"no code for {where.name}", op="artifact", expected="what it has", found=found, hint=hint)
    hint = "compile it for this machine, or with a smaller --target"
    if all(isinstance(build.target, OpenClTarget) for build in artifact.builds):
        hint = "choose an OpenCL device, such as opencl:0, or compile it with --target=host,opencl"
    raise ArtifactError("no code for this machine", op="artifact", expected="what it has", found=found, hint=hint)


@dataclass(frozen=True)
class Choice:
    """What a device makes of one build of an artifact.

    Attributes:
        lacks: what the build needs and the device does not have; empty when it runs there.
        is_chosen: whether it is the build that would run.
    """

    build: Build
    lacks: tuple[str, ...]
    is_chosen: bool

    @property
    def reason(self) -> str:
        """Why it was chosen or not."""
        if self.is_chosen:
            return "chosen: of the builds that run there it uses most of the device"
        if self.lacks:
            return f"does not run there: needs {', '.join(self.lacks)}"
        return "runs there too, and uses less of the device"


def explain(artifact: Artifact, device: Device | str = "cpu") -> list[Choice]:
    """For each build whether it runs on a device, what it lacks there, and which one is chosen."""
    there: AnyTarget = Device(device).target
    missing = [(build, missing_on(build.target, there)) for build in artifact.builds]
    fitting = [build for build, lacks in missing if not lacks]
    chosen = max(fitting, key=lambda build: _use(build.target), default=None)
    return [Choice(build, lacks, build is chosen) for build, lacks in missing]


def missing_on(wanted: AnyTarget, there: AnyTarget) -> tuple[str, ...]:
    """What code for a target needs and a device of this machine lacks."""
    if isinstance(wanted, OpenClTarget):
        return wanted.missing_from(there) if isinstance(there, OpenClTarget) else ("an OpenCL device",)
    return ("a CPU",) if isinstance(there, OpenClTarget) else wanted.missing_on_host()


def _use(target: AnyTarget) -> tuple[bool, int]:
    """How much of a device a target uses."""
    specific = isinstance(target, OpenClTarget) and target.arch != "generic"
    return specific, len(target.features)


def _as_array(spec: TensorSpec, value: object) -> Array:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"not an array: {error}", op=f"input {spec.name}", expected=spec.type) from None
    # Numbers and lists have no element type of their own; other array libraries keep theirs.
    return array if hasattr(value, "dtype") else of_type(spec, array)


def of_type(spec: TensorSpec, numbers: Array) -> Array:
    """Numbers as an array of the input's element type.

    Raises:
        InputError: they are no numbers, not whole where the type is, or out of its range.
    """
    op, found = f"input {spec.name}", f"{numbers.dtype}{list(numbers.shape)}"
    if numbers.dtype.kind not in "biuf" or (numbers.size and numbers.dtype.kind == "f" and not spec.dtype.is_float):
        raise InputError("the numbers do not fit the element type", op=op, expected=spec.type, found=found)
    array = numbers.astype(spec.dtype.numpy)
    if spec.dtype.is_int and not np.array_equal(array, numbers):
        raise InputError("a number is out of range", op=op, expected=spec.type, found=f"up to {np.abs(numbers).max()}")
    return array
