"""``firebox run``: call an artifact on arrays; print, save, compare or time the results. Loads the runtime alone."""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firebox.errors import InputError
from firebox.frontend.cli import values
from firebox.frontend.cli.main import ARTIFACT, FAILURE, OK
from firebox.runtime.artifact import Artifact
from firebox.runtime.describe import describe
from firebox.runtime.device import Device
from firebox.runtime.session import Model, explain, load
from firebox.signature import TensorSpec

Array = NDArray[Any]
_WARM_UP = 3


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = _parser().parse_args(argv)
    if args.explain:
        return _explain(args)
    model = load(args.artifact, args.device, args.threads)
    inputs = _inputs(model, args)
    outputs = values.assignments(args.output, model.outputs, "--output")
    expected = values.assignments(args.expected, model.outputs, "--expected")
    results = model.run(inputs)
    for name, path in outputs.items():
        values.write_file(path, results[name])
    report: dict[str, object] = {"outputs": [_describe(spec, results, outputs) for spec in model.outputs]}
    if args.benchmark:
        report["benchmarks"] = [_benchmark(model, inputs, args.benchmark)]
    differences = [_compare(spec, results, path, args) for spec, path in _by_spec(model.outputs, expected)]
    if differences:
        report["differences"] = differences
    print(json.dumps(report, indent=2) if args.json else _text(report, results))
    wrong = [item for item in differences if not item["ok"]]
    for item in wrong:
        print(f"firebox run: output {item['name']}: {item['message']}", file=sys.stderr)
    return FAILURE if wrong else OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("firebox run", description="Run an artifact on arrays.")
    parser.add_argument("artifact", help=".fbox file")
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="NAME=VALUE", help=f"value of an input: {values.FORMS}")
    add("--output", action="append", default=[], metavar="[NAME=]FILE.npy", help="save an output")
    add("--expected", action="append", default=[], metavar="[NAME=]FILE.npy", help="compare; exit code 1 if it differs")
    add("--rtol", type=float, default=1e-4, help="relative tolerance of --expected (default %(default)s)")
    add("--atol", type=float, default=1e-5, help="absolute tolerance of --expected (default %(default)s)")
    add("--benchmark", type=positive, default=0, metavar="N", help="time N calls")
    add("--threads", type=positive, metavar="N", help="threads to use (default: all)")
    add("--device", default="cpu", help="where to run, e.g. opencl:0 (default %(default)s)")
    add("--explain", action="store_true", help="say which build the device would run, and why; run nothing")
    add("--seed", type=int, default=0, help="of random inputs (default %(default)s)")
    add("--json", action="store_true", help="machine-readable output")
    return parser


def _explain(args: argparse.Namespace) -> int:
    """Show what the device makes of each build; the exit code is that of a run when none fits."""
    artifact, device = Artifact.open(args.artifact), Device(args.device)
    choices = explain(artifact, device)
    if args.json:
        rows = [
            {"build": c.build.label, "chosen": c.is_chosen, "lacks": list(c.lacks), "why": c.reason} for c in choices
        ]
        print(json.dumps({"device": device.name, "builds": rows}, indent=2))
    else:
        print(f"{device.name}: {describe(device.backend)}")
        for choice in choices:
            print(f"  {choice.build.label}: {choice.reason}")
    return OK if any(choice.is_chosen for choice in choices) else ARTIFACT


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _inputs(model: Model, args: argparse.Namespace) -> dict[str, Array]:
    given = values.assignments(args.input, model.inputs, "--input")
    missing = [spec for spec in model.inputs if spec.name not in given]
    if missing:
        spec = missing[0]
        hint = f"--input {spec.name}={values.FORMS}"
        raise InputError("missing", op=f"input {spec.name}", expected=spec.type, hint=hint)
    return {spec.name: values.read(spec, given[spec.name], args.seed) for spec in model.inputs}


def _by_spec(specs: Sequence[TensorSpec], paths: Mapping[str, str]) -> list[tuple[TensorSpec, str]]:
    return [(spec, paths[spec.name]) for spec in specs if spec.name in paths]


def _describe(spec: TensorSpec, results: Mapping[str, Array], saved: Mapping[str, str]) -> dict[str, object]:
    array = results[spec.name]
    row: dict[str, object] = {"name": spec.name, "dtype": spec.dtype.name, "shape": list(array.shape)}
    return {**row, "file": saved[spec.name]} if spec.name in saved else {**row, "data": values.to_json(array)}


def _benchmark(model: Model, inputs: Mapping[str, Array], count: int) -> dict[str, object]:
    """Wall time of whole calls from NumPy arrays to NumPy arrays, in microseconds."""
    times = []
    for _ in range(_WARM_UP + count):
        start = time.perf_counter_ns()
        model.run(inputs)
        times.append((time.perf_counter_ns() - start) / 1000)
    timed = times[_WARM_UP:]
    row = {"name": model.name, "iterations": count, "time_unit": "us"}
    return {**row, "real_time": float(np.median(timed)), "min_time": min(timed)}


def _compare(spec: TensorSpec, results: Mapping[str, Array], path: str, args: argparse.Namespace) -> dict[str, Any]:
    wanted = values.read_file(path.removeprefix("@"), spec.dtype)
    found = results[spec.name]
    row: dict[str, Any] = {"name": spec.name, "ok": False}
    if wanted.shape != found.shape:
        return {**row, "message": f"shape is {list(found.shape)}, expected {list(wanted.shape)}"}
    x, y = found.astype(np.float64), wanted.astype(np.float64)
    row["ok"] = bool(np.allclose(x, y, args.rtol, args.atol, equal_nan=True))
    error = float(np.max(np.abs(x - y), initial=0.0))
    return {**row, "message": f"largest difference {error:g} (rtol {args.rtol:g}, atol {args.atol:g})"}


def _text(report: Mapping[str, Any], results: Mapping[str, Array]) -> str:
    lines = []
    for row in report["outputs"]:
        head = f"{row['name']}: {row['dtype']}[{', '.join(map(str, row['shape']))}]"
        body = f" -> {row['file']}" if "file" in row else f"\n{np.array2string(results[row['name']], precision=6)}"
        lines.append(head + body)
    for row in report.get("benchmarks", ()):
        lines.append(f"{row['iterations']} calls: median {row['real_time']:.1f} us, fastest {row['min_time']:.1f} us")
    for row in report.get("differences", ()):
        lines.append(f"{row['name']}: {'as expected' if row['ok'] else 'NOT as expected'}, {row['message']}")
    return "\n".join(lines)
