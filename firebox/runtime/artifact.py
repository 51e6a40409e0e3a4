"""`Artifact`: a compiled model as one ``.fbox`` file - signature, code per target, weights, IR, source lines.

Sections (container format: `firebox.runtime.container`):
    manifest            canonical JSON: names, versions, signature, targets, options, pipeline, table of weights
    nd                  the traced model as MLIR text
    locations           canonical JSON: for each target the source lines of ops and kernels
    program:<target>    `Program` as canonical JSON, without source lines
    code:<target>       `CodeImage`; for an OpenCL device `OpenClCode`, which has the kernels as source text
    pool:<target>       `CodeImage` of the thread pool, so that loading needs no code generator; only for a CPU
    weights             raw arrays, each at a multiple of 64 bytes; the section starts at a page and is mapped, not read
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox import dims
from firebox.errors import ArtifactError
from firebox.runtime import container
from firebox.runtime.canonical import canonical_json, damaged, load_canonical_json
from firebox.runtime.container import ALIGNMENT, Chunks
from firebox.runtime.image import CodeImage
from firebox.runtime.opencl_code import Code, OpenClCode
from firebox.runtime.opencl_target import AnyTarget, OpenClTarget, target_from_dict, target_label
from firebox.runtime.program import Program
from firebox.signature import Signature, TensorSpec
from firebox.version import VERSION

Array = NDArray[Any]
Sections = Mapping[str, memoryview]

_PARTS = {"cpu": ("program", "code", "pool"), "opencl": ("program", "code")}
_FIELDS = {"compiler", "name", "options", "pipeline", "signature", "targets", "weights"}


@dataclass(frozen=True, eq=False)
class Weight:
    """An array that the file holds, and which input of the program it is.

    Attributes:
        name: dotted path in the model.
        argument: index among the program's inputs.
        array: read-only when it comes from a file.
    """

    name: str
    argument: int
    array: Array

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec.of(self.name, self.array)


@dataclass(frozen=True)
class Build:
    """The code for one target.

    Attributes:
        pool: of the thread pool that CPU code runs on; None for an OpenCL device.
    """

    target: AnyTarget
    program: Program
    image: Code
    pool: CodeImage | None = None

    @property
    def label(self) -> str:
        """Short name of the target, e.g. ``x86_64-znver4``."""
        return target_label(self.target)


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled model.

    Attributes:
        name: of the model.
        signature: what a caller passes and gets, with ranges of the dims; weights are not part of it.
        builds: code for one or more targets; every program takes the same inputs.
        weights: in the order of their arguments.
        nd: the model as MLIR text, for inspection.
        options: of the compile, as text.
        pipeline: names of the compiler's steps.
        compiler: names and versions of what made it.
    """

    name: str
    signature: Signature
    builds: tuple[Build, ...]
    weights: tuple[Weight, ...] = ()
    nd: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    pipeline: tuple[str, ...] = ()
    compiler: Mapping[str, str] = field(default_factory=lambda: {"name": "firebox", "version": VERSION})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all. Equal artifacts give equal bytes.

        Raises:
            ArtifactError: the parts do not fit each other.
            OSError: the file cannot be written.
        """
        _check(self)
        container.write(path, _encode(self))

    @staticmethod
    def open(path: str | os.PathLike[str]) -> "Artifact":
        """Read and verify a file. Weights stay in the mapped file; do not change it while they are in use.

        Raises:
            ArtifactError: damaged, truncated, or of another format version.
            OSError: the file cannot be read.
        """
        artifact = _decode(container.read(path))
        _check(artifact)
        return artifact

    def weight_bytes(self) -> int:
        return sum(weight.array.nbytes for weight in self.weights)


# ---- writing ---------------------------------------------------------------------------------------------------------


def _encode(artifact: Artifact) -> dict[str, Chunks]:
    builds = sorted(artifact.builds, key=lambda build: build.label)
    table, chunks = _lay_out(artifact.weights)
    manifest = {
        "name": artifact.name,
        "compiler": dict(artifact.compiler),
        "signature": artifact.signature.to_dict(),
        "targets": {build.label: build.target.to_dict() for build in builds},
        "options": dict(artifact.options),
        "pipeline": list(artifact.pipeline),
        "weights": table,
    }
    lines = {build.label: _lines(build.program) for build in builds}
    sections: dict[str, Chunks] = {
        "manifest": [canonical_json(manifest).encode()],
        "nd": [artifact.nd.encode()],
        "locations": [canonical_json(lines).encode()],
    }
    for build in builds:
        sections[f"program:{build.label}"] = [build.program.without_locations().to_json().encode()]
        sections[f"code:{build.label}"] = [build.image.to_bytes()]
        if build.pool is not None:
            sections[f"pool:{build.label}"] = [build.pool.to_bytes()]
    return {**sections, "weights": chunks}


def _lines(program: Program) -> dict[str, object]:
    return {"ops": list(program.locations), "kernels": [kernel.location for kernel in program.kernels]}


def _lay_out(weights: tuple[Weight, ...]) -> tuple[list[object], Chunks]:
    """The table of weights, and the section's content in pieces."""
    table: list[object] = []
    chunks: list[bytes | memoryview] = []
    end = 0
    for weight in weights:
        padding = -end % ALIGNMENT
        spec = {**weight.spec.to_dict(), "argument": weight.argument, "offset": end + padding}
        table.append(spec)
        chunks += [bytes(padding), _bytes_of(weight.array)]
        end += padding + weight.array.nbytes
    return table, chunks


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


# ---- reading ---------------------------------------------------------------------------------------------------------


def _decode(sections: Sections) -> Artifact:
    manifest = _manifest(sections)
    targets = {label: target_from_dict(data) for label, data in manifest["targets"].items()}
    labels = list(targets)
    expected = ["manifest", "nd", "locations"]
    expected += [f"{part}:{label}" for label, target in targets.items() for part in _PARTS[target.kind]]
    if list(sections) != [*expected, "weights"]:
        raise damaged("artifact", "a section is missing or unknown")
    lines = load_canonical_json(bytes(sections["locations"]), "locations")
    if not isinstance(lines, dict) or list(lines) != labels:
        raise damaged("artifact", "source lines of other targets")
    try:
        nd = bytes(sections["nd"]).decode()
    except UnicodeDecodeError:
        raise damaged("artifact", "the IR is not text") from None
    return Artifact(
        name=manifest["name"],
        signature=Signature.from_dict(manifest["signature"]),
        builds=tuple(_build(sections, label, target, lines[label]) for label, target in targets.items()),
        weights=_weights(manifest["weights"], sections["weights"]),
        nd=nd,
        options=manifest["options"],
        pipeline=tuple(manifest["pipeline"]),
        compiler=manifest["compiler"],
    )


def _manifest(sections: Sections) -> dict[str, Any]:
    if "manifest" not in sections:
        raise damaged("artifact", "no manifest")
    manifest = load_canonical_json(bytes(sections["manifest"]), "manifest")
    if not isinstance(manifest, dict) or set(manifest) != _FIELDS or not isinstance(manifest["name"], str):
        raise damaged("manifest", "not a description of a model")
    if not isinstance(manifest["targets"], dict) or not isinstance(manifest["weights"], list):
        raise damaged("manifest", "no table of targets or weights")
    if not _are_texts(manifest["pipeline"]) or not all(
        _is_text_table(manifest[key]) for key in ("options", "compiler")
    ):
        raise damaged("manifest", "not texts")
    return manifest


def _build(sections: Sections, label: str, target: AnyTarget, lines: object) -> Build:
    program = _with_lines(Program.from_json(bytes(sections[f"program:{label}"])), lines)
    code = bytes(sections[f"code:{label}"])
    if isinstance(target, OpenClTarget):
        build = Build(target, program, OpenClCode.from_bytes(code))
    else:
        pool = CodeImage.from_bytes(bytes(sections[f"pool:{label}"]))
        build = Build(target, program, CodeImage.from_bytes(code), pool)
    if build.label != label:
        raise damaged("manifest", f"target {label} is called {build.label}")
    return build


def _with_lines(program: Program, lines: object) -> Program:
    if not isinstance(lines, dict) or set(lines) != {"ops", "kernels"} or not all(map(_are_texts, lines.values())):
        raise damaged("locations", "not lists of source lines")
    if len(lines["kernels"]) != len(program.kernels):
        raise damaged("locations", "not one line for each kernel")
    pairs = zip(program.kernels, lines["kernels"], strict=True)
    kernels = tuple(replace(kernel, location=line) for kernel, line in pairs)
    return replace(program, kernels=kernels, locations=tuple(lines["ops"]))


def _weights(table: list[Any], section: memoryview) -> tuple[Weight, ...]:
    found = []
    end = 0
    for row in table:
        if not isinstance(row, dict) or type(row.get("argument")) is not int or type(row.get("offset")) is not int:
            raise damaged("manifest", "not a weight")
        spec = TensorSpec.from_dict({key: row[key] for key in row if key not in ("argument", "offset")})
        nbytes = spec.nbytes
        if not dims.is_static(spec.shape) or not isinstance(nbytes, int):
            raise damaged("manifest", f"weight {spec.name} has no fixed shape")
        offset = end + -end % ALIGNMENT
        end = offset + nbytes
        if row["offset"] != offset or end > len(section):
            raise damaged("manifest", f"weight {spec.name} is not where it must be")
        array = np.asarray(section[offset:end]).view(spec.dtype.numpy).reshape(spec.shape)
        found.append(Weight(spec.name, row["argument"], array))
    if end != len(section):
        raise damaged("weights", "bytes that belong to no weight")
    return tuple(found)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


# ---- what must hold between the parts --------------------------------------------------------------------------------


def _check(artifact: Artifact) -> None:
    if not artifact.builds:
        raise _unfit("no code", artifact.name)
    labels = [build.label for build in artifact.builds]
    if len(set(labels)) != len(labels):
        raise _unfit("two builds for one target", ", ".join(labels))
    arguments = [weight.argument for weight in artifact.weights]
    if arguments != sorted(set(arguments)) or len({weight.name for weight in artifact.weights}) != len(arguments):
        raise _unfit("a weight is given twice, or out of order", arguments)
    for build in artifact.builds:
        _check_build(artifact, build)


def _check_build(artifact: Artifact, build: Build) -> None:
    program = build.program
    weights = {weight.argument: weight for weight in artifact.weights}
    if not set(weights) <= set(range(len(program.inputs))):
        raise _unfit("a weight is no input of the program", sorted(weights))
    inputs = tuple(spec for index, spec in enumerate(program.inputs) if index not in weights)
    if inputs != artifact.signature.inputs or program.outputs != artifact.signature.outputs:
        raise _unfit("the program has another signature than the model", program.signature)
    for index, weight in weights.items():
        wanted, found = program.inputs[index], weight.spec
        if (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
            raise _unfit(f"weight {weight.name} is not what the program takes, {wanted.type}", found.type)
    if program.entry not in build.image.symbols:
        raise _unfit(f"no code of entry {program.entry}", ", ".join(sorted(build.image.symbols)))
    machine = build.target.host.arch if isinstance(build.target, OpenClTarget) else build.target.arch
    if any(code.machine != machine for code in (build.image, build.pool) if code is not None):
        raise _unfit(f"code is not for {machine}", build.image.machine)
    if isinstance(build.target, OpenClTarget) != isinstance(build.image, OpenClCode):
        raise _unfit(f"code of another kind than {build.label}", type(build.image).__name__)


def _unfit(message: str, found: object) -> ArtifactError:
    return ArtifactError(message, op="artifact", found=found)
