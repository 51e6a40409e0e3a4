"""``firebox inspect``: what an artifact contains. Verifies the whole file; loads the runtime alone."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from firebox.frontend.cli.main import OK, UsageError
from firebox.runtime import container
from firebox.runtime.artifact import Artifact, Build, Weight
from firebox.runtime.device import Device, devices
from firebox.runtime.opencl_code import OpenClCode
from firebox.runtime.session import missing_on


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = _parser().parse_args(argv)
    if args.section is not None:
        return _dump(args.artifact, args.section)
    artifact = Artifact.open(args.artifact)
    if args.emit is not None:
        print(_emitted(artifact, args.emit), end="")
        return OK
    report = _report(args.artifact, artifact)
    print(json.dumps(report, indent=2) if args.json else _text(report, artifact, args.weights))
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("firebox inspect", description="Verify an artifact and show what it contains.")
    parser.add_argument("artifact", help=".fbox file")
    parser.add_argument("--weights", action="store_true", help="list the weights")
    parser.add_argument("--section", metavar="NAME", help="write the raw bytes of a section, e.g. nd, to stdout")
    parser.add_argument("--emit", choices=["mlir", "opencl"], help="write the model's IR, or the OpenCL C, to stdout")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def _dump(path: str, name: str) -> int:
    sections = container.read(path)
    if name not in sections:
        raise UsageError("no such section", op=name, expected=", ".join(sections))
    sys.stdout.buffer.write(sections[name])
    return OK


def _emitted(artifact: Artifact, kind: str) -> str:
    """A text that the artifact holds; of several OpenCL builds each after a line that names it.

    Raises:
        UsageError: there is no OpenCL build.
    """
    if kind == "mlir":
        return artifact.nd
    sources = {b.label: b.image.source for b in artifact.builds if isinstance(b.image, OpenClCode)}
    if not sources:
        found = ", ".join(build.label for build in artifact.builds)
        raise UsageError("no OpenCL build", op="--emit", expected="compiled with --target=opencl", found=found)
    if len(sources) == 1:
        return next(iter(sources.values()))
    return "".join(f"// ---- {label}\n{source}" for label, source in sources.items())


def _report(path: str, artifact: Artifact) -> dict[str, Any]:
    signature = artifact.signature.to_dict()
    return {
        "name": artifact.name,
        "file": {
            "path": path,
            "bytes": os.stat(path).st_size,
            "format": container.FORMAT,
            "sections": {name: len(data) for name, data in container.read(path).items()},
        },
        "compiler": dict(artifact.compiler),
        "options": dict(artifact.options),
        "pipeline": list(artifact.pipeline),
        **signature,
        "targets": [_target(build) for build in artifact.builds],
        "weights": [_weight(weight) for weight in artifact.weights],
    }


def _target(build: Build) -> dict[str, Any]:
    program = build.program
    missing = min((missing_on(build.target, device.target) for device in _devices_for(build)), key=len)
    kernels = [{"name": k.name, "kind": k.kind, "ops": list(k.ops), "location": k.location} for k in program.kernels]
    return {
        "label": build.label,
        "target": build.target.to_dict(),
        "runs_here": not missing,
        "missing_here": list(missing),
        "entry": program.entry,
        "dims": list(program.dims),
        "guards": list(program.guards),
        "workspace_bytes": str(program.arena),
        **_sizes(build),
        "kernels": kernels,
    }


def _devices_for(build: Build) -> Sequence[Device]:
    """Devices of this machine of the kind that the build is for; the CPU where there is none."""
    if build.target.kind == "cpu":
        return [Device("cpu")]
    return [d for d in devices() if d.target.kind == build.target.kind] or [Device("cpu")]


def _sizes(build: Build) -> dict[str, int]:
    code = build.image
    if isinstance(code, OpenClCode):
        return {"code_bytes": len(code.host.code), "source_bytes": len(code.source.encode())}
    return {"code_bytes": len(code.code)}


def _weight(weight: Weight) -> dict[str, Any]:
    return {**weight.spec.to_dict(), "bytes": weight.array.nbytes, "argument": weight.argument}


def _text(report: Mapping[str, Any], artifact: Artifact, list_weights: bool) -> str:
    file = report["file"]
    compiler = report["compiler"]
    rows = [
        ("file", f"{file['path']}: {file['bytes']:,} bytes, format {file['format']}, verified"),
        ("model", artifact.name),
        ("signature", str(artifact.signature)),
        ("compiler", ", ".join([f"{compiler.get('name')} {compiler.get('version')}", *_others(compiler)])),
        ("options", ", ".join(f"{key}={value}" for key, value in sorted(report["options"].items())) or "default"),
        ("pipeline", " ".join(report["pipeline"])),
        ("weights", f"{len(artifact.weights)} arrays, {artifact.weight_bytes():,} bytes"),
    ]
    lines = [f"{name:<10} {value}" for name, value in rows]
    if list_weights:
        lines += [f"  {weight.spec}" for weight in artifact.weights]
    for target in report["targets"]:
        lines += _target_lines(target)
    return "\n".join(lines)


def _others(compiler: Mapping[str, str]) -> list[str]:
    return [str(compiler[key]) for key in sorted(compiler) if key not in ("name", "version")]


def _target_lines(target: Mapping[str, Any]) -> list[str]:
    missing = ", ".join(target["missing_here"])
    where = f"does not run here: needs {missing}" if missing else "runs here"
    head = f"{len(target['kernels'])} kernels, {target['code_bytes']:,} bytes of code"
    head += f", {target['source_bytes']:,} of OpenCL C" if "source_bytes" in target else ""
    lines = [f"{'target':<10} {target['label']}: {head}, workspace {target['workspace_bytes']} bytes, {where}"]
    width = max((len(kernel["name"]) for kernel in target["kernels"]), default=0)
    for kernel in target["kernels"]:
        place = f"  {kernel['location']}" if kernel["location"] else ""
        lines.append(f"  {kernel['name']:<{width}}  {kernel['kind']:<8} {' '.join(kernel['ops'])}{place}")
    return lines
