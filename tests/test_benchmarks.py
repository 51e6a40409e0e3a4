"""The benchmarks measure what they say, and still run."""

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import firebox as fb
from benchmarks import publish, timing
from benchmarks.results import Report, Result, from_json, markdown, merged, to_json
from benchmarks.timing import Sample, chosen, compare

ROOT = Path(__file__).parents[1]


def options(**other: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"threads": 1, "rounds": 3, "budget": 0.002, **other})


# ---- timing ------------------------------------------------------------------------------------------------------


def test_compare_tells_a_slow_contender_from_a_fast_one() -> None:
    found = compare("naps", {"firebox": lambda: time.sleep(0.001), "other": lambda: time.sleep(0.008)}, options())
    assert found.case == "naps"
    assert 0.001 <= found.least["firebox"] <= found.seconds["firebox"]
    assert found.seconds["other"] >= 0.008
    assert found.ratios["other"] == pytest.approx(found.seconds["other"] / found.seconds["firebox"])


def test_compare_repeats_short_calls_to_fill_a_sample() -> None:
    calls = []
    compare("short", {"firebox": lambda: calls.append(0)}, options(rounds=1))
    assert len(calls) > 1000


def test_disturbed_samples_are_replaced() -> None:
    samples = [Sample(9.0, 0.5), Sample(1.0, 0.0), Sample(8.0, 0.3), Sample(1.1, 0.01), Sample(1.2, 0.0)]
    assert [s.seconds for s in chosen(samples, 3)] == [1.0, 1.1, 1.2]
    assert [s.seconds for s in chosen(samples[:3], 2)] == [1.0, 8.0]  # the least disturbed, where there are no others


def test_waiting_for_a_processor_is_noticed() -> None:
    start = timing.waiting()
    assert start >= 0.0
    assert timing.waiting() >= start


# ---- results -----------------------------------------------------------------------------------------------------


def test_a_ratio_is_that_of_the_process_that_timed_both() -> None:
    first = Report("sums", [Result("sum", 2, {"firebox": 1e-3, "torch": 2e-3})], {"ops": 3})
    second = Report("sums", [Result("sum", 2, {"firebox": 3e-3, "jax": 12e-3})])
    (joined,) = merged([first, second]).results
    assert joined.seconds == {"firebox": 2e-3, "torch": 2e-3, "jax": 12e-3}
    assert joined.ratios == {"torch": 2.0, "jax": 4.0}
    assert merged([first, second]).facts == {"ops": 3}


def test_a_measurement_seen_from_another_contender() -> None:
    timed = Result("step", 1, {"firebox": 4.0, "firebox jit": 1.0, "torch": 2.0})
    seen = timed.of("step, jit", "firebox jit", ["torch", "jax"])
    assert seen.seconds == {"firebox": 1.0, "torch": 2.0}
    assert seen.ratios == {"torch": 2.0}


def test_json_keeps_a_report() -> None:
    report = Report("sums", [Result("sum", 1, {"firebox": 1.0}, {"firebox": 0.5}, {"firebox": 1.0}, 2.0)], {"ops": 3})
    assert from_json(json.loads(to_json(report))) == report


def test_tables() -> None:
    results = [
        Result("sum", 1, {"torch": 3e-6, "firebox": 1.5e-6}, limit=5e-6),
        Result("product", 2, {"firebox": 12.3e-9}),
    ]
    assert markdown(Report("sums", results, {"ops": 1234, "share": 0.5})).splitlines() == [
        "| case | threads | firebox | torch | limit |",
        "|---|---|---|---|---|",
        "| sum | 1 | 1.5 us | 3 us (2.00x) | 5 us |",
        "| product | 2 | 12.3 ns |  |  |",
        "",
        "| what | |",
        "|---|---|",
        "| ops | 1,234 |",
        "| share | 0.5 |",
    ]


def test_publishing_rewrites_blocks_and_nothing_else() -> None:
    report = Report("sums", [Result("sum", 1, {"firebox": 1.0}, limit=2.0), Result("other", 1, {"firebox": 1.0})])
    page = (
        "before\n<!-- benchmarks: limits -->\nold\n<!-- end benchmarks -->\nafter\n"
        "<!-- benchmarks: unknown -->\nkept\n<!-- end benchmarks -->\n"
    )
    once = publish.rewritten(page, publish.blocks({"Python": "3"}, [report]))
    assert once == (
        "before\n<!-- benchmarks: limits -->\n\n"
        "| case | firebox | limit |\n|---|---|---|\n| sum | 1 s | 2 s |\n\n<!-- end benchmarks -->\nafter\n"
        "<!-- benchmarks: unknown -->\nkept\n<!-- end benchmarks -->\n"
    )
    assert publish.rewritten(once, publish.blocks({"Python": "3"}, [report])) == once


def test_the_page_has_a_block_for_each_benchmark() -> None:
    names = importlib.import_module("benchmarks.__main__").NAMES
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for name in (*names, "machine", "limits"):
        assert f"<!-- benchmarks: {name} -->\n" in page, name


# ---- the scripts -------------------------------------------------------------------------------------------------


def test_both_ways_to_train_give_the_same_losses() -> None:
    pytest.importorskip("sklearn")
    steps = importlib.import_module("benchmarks.steps")  # imports peers inside functions
    training = importlib.import_module("benchmarks.training")
    found = steps.firebox_steps(steps.make_task("MLP", 64))
    assert list(found) == ["firebox", "firebox jit"]
    training.check("MLP", found, 5)
    with pytest.raises(SystemExit, match="MLP: the losses of firebox jit differ from ours"):
        training.check("MLP", {"firebox": found["firebox"], "firebox jit": lambda: 9.0}, 2)


def test_native_code_is_timed_without_python() -> None:
    overhead = importlib.import_module("benchmarks.overhead")
    call = overhead.native_code([fb.tensor([1.0, 2.0, 3.0, 4.0]) for _ in range(4)])
    start = time.perf_counter()
    call()
    assert (time.perf_counter() - start) / overhead.LOOP < 5e-6  # a call from Python takes longer


def test_a_quick_run_writes_json_and_tables(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--quick",
        "--only",
        "overhead",
        "--peers",
        "",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "benchmarks.json").read_text())
    assert found["machine"]["Python"].startswith("CPython 3")
    (report,) = map(from_json, found["reports"])
    assert report.name == "overhead"
    assert all(0 < result.seconds["firebox"] < 1e-2 for result in report.results)
    assert (tmp_path / "benchmarks.md").read_text().strip() == done.stdout.strip()
