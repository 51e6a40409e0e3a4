"""Times of whole processes and of first calls: imports, the command line, the first training step, compiling a kernel.

    python -m benchmarks.startup

Every sample is a fresh process, timed from before it is started. "Cold" means an empty cache directory.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.results import OURS, Result
from benchmarks.timing import arguments, report

ROOT = Path(__file__).parents[1]
INPUT = "x: f32[b, 1, 8, 8], 1<=b<=4096"

Marks = dict[str, float]


@contextmanager
def cold() -> Iterator[dict[str, str]]:
    """An environment in which every cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"FIREBOX_CACHE_DIR": f"{folder}/firebox", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch"}


def run(arguments: list[str], extra: dict[str, str]) -> tuple[Marks, Any]:
    """Run Python; returns seconds of the whole process with the moment it began, and what it printed as JSON.

    Raises:
        CalledProcessError: it failed.
    """
    environment = {**os.environ, **extra, "PYTHONPATH": str(ROOT)}
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    end = time.monotonic()
    printed = json.loads(done.stdout) if done.stdout.startswith(b"{") else {}
    return {"start": start, "process": end - start}, printed


def function(name: str, *args: str) -> list[str]:
    """Command line of a function of `benchmarks.first`."""
    return ["-c", f"from benchmarks.first import {name}; {name}({', '.join(map(repr, args))})"]


def median(sample: Callable[[], Marks], rounds: int) -> Marks:
    """Medians of what samples give, by name."""
    found = [sample() for _ in range(rounds)]
    return {name: statistics.median(marks[name] for marks in found) for name in found[0]}


class Startup:
    """The measurements; each gives results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rounds = 1 if options.quick else options.rounds
        self.peers = [peer for peer in options.peers if importlib.util.find_spec(peer)]

    def _result(self, case: str, seconds: Marks, limit: float | None = None) -> Result:
        return Result(case, self.options.threads, seconds, limit=limit)

    def _process(self, arguments: list[str], extra: dict[str, str]) -> float:
        run(arguments, extra)  # reads files into memory, writes byte code, fills the cache
        return median(lambda: run(arguments, extra)[0], self.rounds)["process"]

    def imports(self) -> list[Result]:
        with cold() as extra:
            empty = self._process(["-c", "pass"], extra)
            runtime = self._process(["-c", "import firebox.runtime"], extra)
            loader = self._process(["-c", "import firebox.runtime; firebox.runtime.load"], extra)
            names = {OURS: "firebox as fb; fb.nn, fb.optim, fb.tensor", "numpy": "numpy"}
            names |= {peer: peer for peer in self.peers}
            whole = {key: self._process(["-c", f"import {name}"], extra) for key, name in names.items()}
        return [
            self._result("process that does nothing", {OURS: empty}),
            self._result("process that imports `firebox.runtime`", {OURS: runtime}, 0.2),
            self._result("process that imports all of it that runs artifacts, NumPy included", {OURS: loader}),
            self._result("process that imports all of `firebox` (others: of the library)", whole),
        ]

    def command_line(self) -> list[Result]:
        with cold() as extra, tempfile.TemporaryDirectory() as folder:
            run(function("artifact", folder), extra)
            model, weights = f"{ROOT}/examples/digits.py:model", f"{folder}/w.safetensors"
            output = ["-o", f"{folder}/digits.fbox"]
            compiling = ["-m", "firebox", "compile", model, "--weights", weights, "--input", INPUT, *output]

            def first() -> Marks:
                with cold() as empty:
                    return run(compiling, empty)[0]

            slow = median(first, self.rounds)["process"]
            again = self._process(compiling, extra)
            running = ["-m", "firebox", "run", f"{folder}/digits.fbox", "--input", f"x=@{folder}/x.npy"]
            ran = self._process([*running, "--output", f"{folder}/y.npy"], extra)
        return [
            self._result("`firebox run digits.fbox`", {OURS: ran}, 0.3),
            self._result("`firebox compile`, cold", {OURS: slow}),
            self._result("`firebox compile`, code in the cache", {OURS: again}),
        ]

    def training(self) -> list[Result]:
        def sample() -> Marks:
            with cold() as extra:
                first, made = run(function("step"), extra)
                second, cached = run(function("step"), extra)
            return {
                "cold": made["first"] - first["start"],
                "cold 2": made["second"] - first["start"],
                "warm": cached["first"] - second["start"],
                "warm 2": cached["second"] - second["start"],
            }

        found = median(sample, self.rounds)
        return [
            self._result("digits, process start to first step, cold", {OURS: found["cold"]}, 3.0),
            self._result("the same to second step (parameters are no longer initialised)", {OURS: found["cold 2"]}),
            self._result("digits, process start to first step, second process", {OURS: found["warm"]}, 0.7),
            self._result("the same to second step", {OURS: found["warm 2"]}),
        ]

    def kernel(self) -> list[Result]:
        loading: Marks = {}
        call: Marks = {}
        for name in (OURS, *self.peers):

            def sample(name: str = name) -> Marks:
                with cold() as extra:
                    found: Marks = run(function(f"{name}_kernel"), extra)[1]
                return found

            key = "torch.compile" if name == "torch" else name
            found = median(sample, self.rounds)
            loading[key], call[key] = found["loading"], found["call"]
        with cold() as extra:
            parts = median(lambda: run(function("firebox_parts"), {**extra, "FIREBOX_CACHE_SIZE": "0"})[1], self.rounds)
        return [
            self._result("first compilation in a process (2 ops)", loading),
            self._result("first call of a fused kernel of 6 ops, compiler loaded", call, 0.1),
            self._result("of this, lowering in Python", {OURS: parts["python"]}),
            self._result("of this, LLVM", {OURS: parts["llvm"]}),
        ]


def main() -> None:
    options = arguments(__doc__, rounds=7)
    measured = Startup(options)
    results = [*measured.imports(), *measured.command_line(), *measured.training(), *measured.kernel()]
    with cold() as extra:
        loaded = run(function("modules"), extra)[1]["loaded"]
    report("startup", results, options, {"compilers loaded by `firebox.runtime`": ", ".join(loaded) or "none"})


if __name__ == "__main__":
    main()
