"""Run the benchmarks, each in processes of its own, and write what they found.

    python -m benchmarks [--out out] [--only training] [--quick]

writes ``out/benchmarks.json`` and ``out/benchmarks.md``. `benchmarks.publish` brings the tables into the pages.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.publish import page
from benchmarks.results import Report, from_json, merged
from benchmarks.timing import PEERS

ROOT = Path(__file__).parents[1]
ONCE = ("startup", "overhead")
"""Benchmarks for which the number of threads means nothing."""
NAMES = ("kernels", "cpu", "training", "gpt", *ONCE)


def runs(name: str, threads: Sequence[int], peers: Sequence[str]) -> list[list[str]]:
    """Options of the processes that make up a benchmark.

    On several threads each peer has a process of its own: idle workers of one library spin on the processor that the
    next one needs.
    """
    found = []
    for count in [1] if name in ONCE else threads:
        shares = [",".join(peers)] if count == 1 or not peers else list(peers)
        found += [["--threads", str(count), "--peers", share] for share in shares]
    return found


def run(name: str, options: Sequence[str], caches: str) -> Report:
    """One process.

    Raises:
        CalledProcessError: it failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= {"FIREBOX_CACHE_DIR": f"{caches}/firebox", "TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch"}
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *options]
    print(f"{name} {' '.join(options)}", file=sys.stderr, flush=True)
    start = time.monotonic()
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    print(f"    {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return from_json(json.loads(done.stdout))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code: 1 when a benchmark failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory for the results (default %(default)s)")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this one; may be given several times")
    parser.add_argument("--quick", action="store_true", help="few and short samples: do they work at all?")
    parser.add_argument("--peers", default=",".join(PEERS), help="libraries to compare with, where they are installed")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default %(default)s)")
    options = parser.parse_args(argv)

    machine = describe()
    peers = [peer for peer in options.peers.split(",") if peer and importlib.util.find_spec(peer)]
    threads = [int(count) for count in options.threads.split(",") if int(count) <= len(os.sched_getaffinity(0))]
    reports: list[Report] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as caches:
        for name in options.only or NAMES:
            parts = []
            for flags in runs(name, threads, [peer for peer in peers if name != "gpt" or peer == "torch"]):
                try:
                    parts.append(run(name, [*flags, *["--quick"] * options.quick], caches))
                except subprocess.CalledProcessError:
                    failed.append(f"{name} {' '.join(flags)}")
            if parts:
                reports.append(merged(parts))

    options.out.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine, "reports": [asdict(report) for report in reports]}
    (options.out / "benchmarks.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "benchmarks.md").write_text(page(machine, reports))
    print(page(machine, reports))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
