"""Timing of contenders against each other: interleaved rounds in random order, medians, ratios."""

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """Median seconds per call of each contender, ours first."""

    name: str
    seconds: Mapping[str, float]

    def ratio(self, peer: str) -> float:
        """The peer's time over ours: above 1 we are faster."""
        return self.seconds[peer] / self.seconds["firebox"]

    def row(self) -> str:
        """A line of a Markdown table."""
        ours = self.seconds["firebox"]
        ratios = " | ".join(f"{self.ratio(p):.2f}" for p in self.seconds if p != "firebox")
        return f"| {self.name} | {_time(ours)} | {ratios} |"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-2 else f"{seconds * 1e3:.1f} ms"


def compare(name: str, contenders: Mapping[str, Call], rounds: int = 15, budget: float = 0.02) -> Result:
    """Time contenders in turn, in another random order each round.

    Args:
        name: of the case.
        contenders: callables that return when their work is done.
        rounds: samples per contender.
        budget: seconds per sample; calls are repeated to fill it.
    """
    repeats = {}
    for key, call in contenders.items():
        call()
        call()
        repeats[key] = max(1, int(budget / max(_once(call, 1), 1e-7)))
    samples: dict[str, list[float]] = {key: [] for key in contenders}
    order = list(contenders)
    shuffle = random.Random(0)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for key in order:
            samples[key].append(_once(contenders[key], repeats[key]))
    return Result(name, {key: statistics.median(values) for key, values in samples.items()})


def _once(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def table(results: list[Result]) -> str:
    """A Markdown table: our time, and each peer's time over ours."""
    peers = [p for p in results[0].seconds if p != "firebox"]
    head = "| case | firebox | " + " | ".join(f"{p} / ours" for p in peers) + " |"
    return "\n".join([head, "|---" * (len(peers) + 2) + "|", *(r.row() for r in results)])


def fair_process(threads: int) -> None:
    """Start the script anew, once, with every library kept to ``threads`` threads and processors.

    The C library keeps freed memory, so that peers which allocate with it do not pay for fresh pages in each call. Call
    before importing any of the libraries.
    """
    if os.environ.get("FIREBOX_BENCHMARK") == str(threads):
        return
    environment = dict(os.environ, FIREBOX_BENCHMARK=str(threads))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FIREBOX_NUM_THREADS"):
        environment[name] = str(threads)
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"):
        environment[name] = str(1 << 30)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def report(results: list[Result]) -> None:
    """Print the table, or JSON with ``--json``."""
    if "--json" in sys.argv:
        print(json.dumps({r.name: dict(r.seconds) for r in results}, indent=1))
    else:
        print(table(results))
