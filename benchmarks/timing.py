"""Timing of contenders against each other: interleaved rounds in random order, medians, disturbed samples repeated.

Every script has the options of `arguments`, starts itself anew through `fair_process` before it imports a library,
times its cases with `compare` and ends with `report`.
"""

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import Report, Result, markdown, to_json

Call = Callable[[], object]

PEERS = ("torch", "jax")
SETTLE = 0.03
"""Seconds before a sample on several threads, in which the workers of whoever ran last stop spinning."""
_CALM = 0.02  # share of a sample for which threads of ours may have waited for a processor
_ATTEMPTS = 3  # samples taken at most, in terms of those wanted


def arguments(documented: str | None, rounds: int = 15) -> argparse.Namespace:
    """Options that every script has."""
    parser = argparse.ArgumentParser(description=documented, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of every contender (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=rounds, help="samples of each contender (default %(default)s)")
    parser.add_argument("--peers", default=",".join(PEERS), help="libraries to compare with (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few and short samples: does it work at all?")
    parser.add_argument("--json", action="store_true", help="print numbers for programs instead of a table")
    options = parser.parse_args()
    options.peers = [peer for peer in options.peers.split(",") if peer]
    options.budget = 0.002 if options.quick else 0.02
    options.rounds = min(options.rounds, 3) if options.quick else options.rounds
    return options


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
    os.sched_setaffinity(0, _cores(threads))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _cores(threads: int) -> list[int]:
    """Processors of different cores, as long as there are any."""
    allowed = sorted(os.sched_getaffinity(0))
    first: dict[str, int] = {}
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    apart = list(first.values())
    return (apart + [cpu for cpu in allowed if cpu not in apart])[:threads]


# ---- samples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds per call, and for which share of it some thread of ours waited for a processor."""

    seconds: float
    waited: float


def compare(case: str, contenders: Mapping[str, Call], options: argparse.Namespace) -> Result:
    """Time contenders in turn, in another random order each round.

    A sample in which the system let one of our threads wait is disturbed, and repeated; a contender that is disturbed
    every time (jax has more threads than processors) is judged by its least disturbed samples.

    Args:
        case: name of what is timed.
        contenders: callables that return when their work is done.
        options: of the script: ``rounds`` samples of ``budget`` seconds (calls are repeated to fill them).
    """
    settle = SETTLE if options.threads > 1 and len(contenders) > 1 else 0.0
    repeats = {key: _repeats(call, options.budget) for key, call in contenders.items()}
    samples: dict[str, list[Sample]] = {key: [] for key in contenders}
    shuffle = random.Random(0)
    for _ in range(options.rounds * _ATTEMPTS):
        order = [key for key in contenders if _calm(samples[key]) < options.rounds]
        shuffle.shuffle(order)
        for key in order:
            time.sleep(settle)
            samples[key].append(_sample(contenders[key], repeats[key]))
    kept = {key: chosen(found, options.rounds) for key, found in samples.items()}
    return Result(
        case,
        options.threads,
        {key: statistics.median(s.seconds for s in found) for key, found in kept.items()},
        {key: min(s.seconds for s in found) for key, found in kept.items()},
        {key: _calm(samples[key]) / len(samples[key]) for key in contenders},
    )


def chosen(samples: Sequence[Sample], count: int) -> list[Sample]:
    """The least disturbed samples; calm ones are equal, whatever they took."""
    return sorted(samples, key=lambda sample: max(sample.waited, _CALM))[:count]


def _calm(samples: Sequence[Sample]) -> int:
    return sum(s.waited <= _CALM for s in samples)


def _repeats(call: Call, budget: float) -> int:
    """Calls that fill a sample. The first ones compile, and compile again once they see what changes."""
    for _ in range(4):
        call()
    return max(1, int(budget / max(min(_once(call, 1) for _ in range(3)), 1e-7)))


def _once(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _sample(call: Call, repeats: int) -> Sample:
    for _ in range(max(1, repeats // 10)):  # caches and threads warm up again
        call()
    waited, start = waiting(), time.perf_counter()
    seconds = _once(call, repeats)
    return Sample(seconds, (waiting() - waited) / (time.perf_counter() - start))


def waiting() -> float:
    """Seconds that all threads of this process together have been ready to run and did not."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # the thread has ended, or this kernel does not count
            continue
    return total * 1e-9


def report(
    name: str, results: Sequence[Result], options: argparse.Namespace, facts: Mapping[str, Any] | None = None
) -> None:
    """Print the table, or JSON with ``--json``."""
    made = Report(name, list(results), dict(facts or {}))
    print(to_json(made) if options.json else markdown(made))
