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
from benchmarks import opencl_lines, opencl_timing, publish, timing
from benchmarks.results import Report, Result, from_json, markdown, merged, to_json
from benchmarks.timing import Sample, chosen, compare
from firebox.runtime import opencl

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


def test_time_on_a_device_ends_with_the_wait() -> None:
    queue: list[float] = []

    def wait() -> None:
        time.sleep(sum(queue))
        queue.clear()

    place = opencl_timing.Place(fb.Device("cpu"), quick=True)
    contender = opencl_timing.Contender(lambda: queue.append(0.004), wait)
    found = opencl_timing.compare({"firebox": contender}, place)
    assert found.seconds["firebox"] >= found.least["firebox"] >= 0.004
    assert found.host["firebox"] < 0.004


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


def test_the_opencl_page_has_a_block_for_each_benchmark() -> None:
    names = importlib.import_module("benchmarks.opencl").NAMES
    page = (ROOT / "docs" / "opencl-benchmarks.md").read_text()
    for name in (*names, "machine"):
        assert f"<!-- benchmarks: opencl {name} -->\n" in page, name
    assert "<!-- benchmarks: opencl highlights -->\n" in (ROOT / "README.md").read_text()


def test_blocks_of_a_device_have_names_of_their_own() -> None:
    result = Result("AdamW update", 1, {"firebox": 1e-3}, extra={"GB/s": 2500.0})
    found = publish.blocks({"device": "a GPU"}, [Report("opencl bandwidth", [result])], "opencl ")
    assert found["opencl machine"] == "| | |\n|---|---|\n| device | a GPU |"
    assert found["opencl bandwidth"] == "| case | firebox | GB/s |\n|---|---|---|\n| AdamW update | 1 ms | 2500 |"
    assert found["opencl highlights"] == "| case | firebox |\n|---|---|\n| AdamW update | 1 ms |"
    assert "machine" not in found


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


@pytest.mark.skipif(not opencl.count(), reason="no OpenCL device")
def test_a_quick_run_on_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = importlib.import_module("benchmarks.opencl")
    out = tmp_path / "opencl.json"
    run = ["--quick", "--peer", "", "--out", str(out)]
    chosen = ["--case", "sum over", "--case", "x @ w.T, 32, f32"]
    assert script.main([*run, "--only", "bandwidth,matmul", *chosen]) == 0
    assert script.main([*run, "--only", "launches"]) == 0
    found = json.loads(out.read_text())
    reports = {report.name: report for report in map(from_json, found["reports"])}
    assert found["machine"]["device"]
    assert list(reports) == ["opencl bandwidth", "opencl matmul", "opencl launches"]
    assert [r.case for r in reports["opencl bandwidth"].results] == ["copy", "sum over axis 0", "sum over axis 1"]
    assert reports["opencl bandwidth"].results[0].extra["of copy"] == "100%"
    assert [r.case for r in reports["opencl matmul"].results] == ["x @ w.T, 32, f32"]
    assert "host us per kernel" in reports["opencl launches"].facts
    assert "| sum over axis 1 |" in capsys.readouterr().out


@pytest.mark.skipif(not opencl.count(), reason="no OpenCL device")
def test_a_case_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = importlib.import_module("benchmarks.opencl")
    lines = [
        opencl_lines.Line(name, function, function, (opencl_lines.Input((4,)),), 16.0)
        for name, function in (("good", lambda x: x + 1), ("bad", lambda x: x.no_such_thing))
    ]
    monkeypatch.setitem(script.LINES, "moves", lambda quick: iter(lines))
    assert script.main(["--quick", "--peer", "", "--only", "moves"]) == 1
    told = capsys.readouterr()
    assert "| good |" in told.out and "| bad |" not in told.out
    assert "failed: bad" in told.err and "no_such_thing" in told.err


@pytest.mark.skipif(not opencl.count(), reason="no OpenCL device")
def test_training_on_a_device_is_timed_and_profiled() -> None:
    training = importlib.import_module("benchmarks.opencl_training")
    place = opencl_timing.Place(fb.Device("opencl:0"), quick=True)
    mlp = next(training.trainings(place))
    usual, jitted = training.run_training(mlp, place)
    assert (usual.case, jitted.case) == ("MLP, batch 8, usual loop", "MLP, batch 8, `fb.jit`")
    assert 10 <= jitted.extra["launches"] <= 25
    assert jitted.extra["kernels us"] > 0
    assert "contract" in training.profile(mlp, place)
