"""Benchmarks on an OpenCL device, beside PyTorch on the same GPU where it is installed with CUDA.

    python -m benchmarks.opencl [--only matmul,training] [--out out/opencl.json]

writes the results as JSON, which `benchmarks.publish` brings into docs/opencl-benchmarks.md, and prints tables. A line
that fails is reported and left out. ``--profile`` prints the kernels of training steps with their times instead.
"""

import argparse
import functools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from benchmarks import machine, opencl_lines, opencl_training
from benchmarks.opencl_lines import run_line
from benchmarks.opencl_timing import Place, Values, find_place, say
from benchmarks.results import Number, Report, Result, markdown

LINES = {
    "bandwidth": opencl_lines.bandwidth,
    "matmul": opencl_lines.matmul,
    "convolution": opencl_lines.convolution,
    "moves": opencl_lines.moves,
}
NAMES = (*LINES, "launches", "training", "compile")
PREFIX = "opencl "
"""Begins the names of these benchmarks in pages."""
_REFERENCE = "copy"

T = TypeVar("T")


class Run:
    """One run: results by benchmark, and what failed.

    Args:
        place: where to measure.
        chosen: parts of names; only cases that have one of them in theirs are run, all if there are none.
    """

    def __init__(self, place: Place, chosen: Sequence[str]) -> None:
        self.place = place
        self.chosen = chosen
        self.failed: list[str] = []

    def report(self, name: str) -> Report:
        """Run one benchmark."""
        if name in LINES:
            return self._lines(name)
        if name == "launches":
            results, facts = self._guarded(name, functools.partial(opencl_lines.launches, self.place)) or ([], {})
            return Report(PREFIX + name, results, facts)
        if name == "compile":
            return Report(
                PREFIX + name, self._guarded(name, functools.partial(opencl_training.compiling, self.place)) or []
            )
        rows: list[Result] = []
        for training in opencl_training.trainings(self.place):
            if self._is_chosen(training.name):
                rows += (
                    self._guarded(training.name, lambda t=training: opencl_training.run_training(t, self.place)) or []
                )
        return Report(PREFIX + name, rows)

    def profiles(self) -> None:
        """Print the kernels of training steps."""
        for training in opencl_training.trainings(self.place):
            if self._is_chosen(training.name):
                work = functools.partial(opencl_training.profile, training, self.place)
                print(self._guarded(training.name, work) or "", flush=True)

    def _lines(self, name: str) -> Report:
        values = Values(1 << 13 if self.place.quick else 1 << 26)
        found = []
        for line in LINES[name](self.place.quick):
            if self._is_chosen(line.name) or line.name == _REFERENCE:
                result = self._guarded(line.name, functools.partial(run_line, line, self.place, values))
                found += [] if result is None else [result]
        if name == "bandwidth":
            return Report(PREFIX + name, *_of_copy(found))
        return Report(PREFIX + name, found)

    def _is_chosen(self, name: str) -> bool:
        return not self.chosen or any(part in name for part in self.chosen)

    def _guarded(self, name: str, work: Callable[[], T]) -> T | None:
        """The result, or None when it failed: one case shall not take the others with it."""
        start = time.monotonic()
        try:
            found = work()
        except Exception:  # reported, and the exit code says it
            self.failed.append(name)
            say(f"FAILED {name}\n{''.join(traceback.format_exc(limit=-3))[-1500:]}")
            return None
        say(f"{time.monotonic() - start:5.1f} s  {name}")
        return found


def _of_copy(results: list[Result]) -> tuple[list[Result], dict[str, Number]]:
    """The results with their share of the bandwidth of the fastest copy, ours or a peer's."""
    copies = [result for result in results if result.case == _REFERENCE]
    if not copies:
        return results, {}
    ours = copies[0].extra[opencl_lines.GB]
    assert isinstance(ours, float)
    best = ours * copies[0].seconds["firebox"] / min(copies[0].seconds.values())
    shared = []
    for result in results:
        rate = result.extra[opencl_lines.GB]
        assert isinstance(rate, float)
        shared.append(replace(result, extra={**result.extra, "of copy": f"{rate / best:.0%}"}))
    return shared, {"copy, GB/s": round(best)}


def describe(place: Place) -> dict[str, str]:
    """The device, and the versions that results belong to."""
    backend = place.device.backend
    info = getattr(backend, "info", None)
    found = {"device": info.name, "driver": f"{info.platform}, {info.driver}"} if info else {}
    if place.torch is not None and place.peer == "cuda":
        found["GPU of PyTorch"] = f"{place.torch.cuda.get_device_name()}, CUDA {place.torch.version.cuda}"
    known = machine.describe()
    return {**found, **{name: value for name, value in known.items() if name != "load before"}}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code: 1 when a case failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.opencl", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(NAMES), help="benchmarks, separated by commas (default %(default)s)")
    parser.add_argument("--case", action="append", default=[], help="only cases with this in their name; repeatable")
    parser.add_argument("--device", default="opencl:0", help="default %(default)s")
    parser.add_argument("--peer", default="cuda", help="PyTorch's device; empty: no peer (default %(default)s)")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes long to start")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few samples: does it work at all?")
    parser.add_argument("--profile", action="store_true", help="print the kernels of training steps, with times")
    parser.add_argument("--out", type=Path, help="file for the results; results that it has of others are kept")
    options = parser.parse_args(argv)
    unknown = set(options.only.split(",")) - set(NAMES)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as caches:
        for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "FIREBOX_CACHE_DIR"):
            os.environ.setdefault(name, f"{caches}/{name}")
        run = Run(find_place(options.device, options.peer, not options.no_compile, options.quick), options.case)
        if options.profile:
            run.profiles()
        else:
            _measure(run, options.only.split(","), options.out)
    if run.failed:
        say(f"failed: {', '.join(run.failed)}")
    return 1 if run.failed else 0


def _measure(run: Run, names: Sequence[str], out: Path | None) -> None:
    """Run benchmarks; each is written as soon as it is done."""
    about = describe(run.place)
    for name in names:
        report = run.report(name)
        print(f"## {name}\n\n{markdown(report)}\n", flush=True)
        if out is not None:
            _write(out, about, report)


def _write(path: Path, about: dict[str, str], report: Report) -> None:
    """Put a report in the file, in the place of an earlier one of its name."""
    known = json.loads(path.read_text())["reports"] if path.exists() else []
    reports = [old for old in known if old["name"] != report.name] + [asdict(report)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"prefix": PREFIX, "machine": about, "reports": reports}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
