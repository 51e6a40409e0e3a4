"""`firebox opt`: passes and dialects, pipelines, what is read and printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from xdsl.universe import Universe

from firebox.frontend import universe
from firebox.frontend.cli.opt import flatten_pipeline
from firebox.frontend.passes import PASSES
from firebox.runtime import container
from tests.frontend.command_line import IR, ROOT


def test_opt_reads_and_writes(firebox: Any, ir: str) -> None:
    once = firebox("opt", ir)
    assert once.code == 0
    Path("b.mlir").write_text(once.out)
    assert firebox("opt", "b.mlir").out == once.out
    assert firebox("opt", ir, "-o", "c.mlir").out == ""
    assert Path("c.mlir").read_text() == once.out


@pytest.mark.parametrize(
    "options",
    [
        ["-p", "nd-canonicalize,nd-fuse"],
        ["--nd-canonicalize", "--nd-fuse"],
        ["--pass-pipeline=builtin.module(nd-canonicalize,nd-fuse)"],
        ["--pass-pipeline", "builtin.module(func.func(nd-canonicalize), nd-fuse)"],
    ],
)
def test_pipelines_in_every_form(firebox: Any, ir: str, options: list[str]) -> None:
    result = firebox("opt", ir, *options)
    assert result.code == 0, result.err
    assert result.out.count("nd.add") == 1
    assert result.out.count("nd.group") == 1


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("", ""),
        ("a,b", "a,b"),
        ("builtin.module(a,b{x=1 y=2,3},c)", "a,b{x=1 y=2,3},c"),
        ("builtin.module(func.func(a),b)", "a,b"),
        ("builtin.module()", ""),
    ],
)
def test_nested_pipelines_are_flattened(text: str, flat: str) -> None:
    assert flatten_pipeline(text) == flat


def test_dumps_have_the_headers_of_mlir(firebox: Any, ir: str) -> None:
    result = firebox("opt", ir, "-p", "nd-canonicalize,nd-fuse", "--mlir-print-ir-after-all")
    headers = re.findall(
        r"^// -----// IR Dump After \w+: (\S+) \('builtin\.module' operation\) //----- //$", result.err, re.M
    )
    assert headers == ["nd-canonicalize", "nd-fuse"]
    last = result.err.rpartition("//----- //\n")[2]
    assert last == result.out.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        (["--mlir-print-ir-before-all"], ["Before nd-expand", "Before nd-canonicalize", "Before nd-fuse"]),
        (["--mlir-print-ir-after=nd-fuse"], ["After nd-fuse"]),
        (["--mlir-print-ir-before=nd-fuse,nd-expand"], ["Before nd-expand", "Before nd-fuse"]),
        (["--mlir-print-ir-after-change"], ["After nd-canonicalize", "After nd-fuse"]),
        (["--mlir-print-ir-after-all", "--mlir-print-ir-after-change"], ["After nd-canonicalize", "After nd-fuse"]),
    ],
)
def test_dumps_are_chosen(firebox: Any, ir: str, options: list[str], headers: list[str]) -> None:
    result = firebox("opt", ir, "-p", "nd-expand,nd-canonicalize,nd-fuse", *options)
    found = re.findall(r"IR Dump (\w+) \w+: (\S+)", result.err)
    assert [" ".join(pair) for pair in found] == headers


def test_dumps_go_to_numbered_files_that_can_be_read(firebox: Any, ir: str) -> None:
    assert firebox("opt", ir, "-p", "nd-canonicalize,nd-fuse", "--mlir-print-ir-tree-dir=d").code == 0
    names = sorted(path.name for path in Path("d").iterdir())
    assert names == ["001_after_nd-canonicalize.mlir", "002_after_nd-fuse.mlir"]
    assert firebox("opt", f"d/{names[0]}", "-p", "nd-fuse").out == firebox("opt", f"d/{names[1]}").out


def test_timing(firebox: Any, ir: str) -> None:
    result = firebox("opt", ir, "-p", "nd-fuse", "--mlir-timing")
    assert "Total Execution Time:" in result.err
    assert "nd-fuse" in result.err


def test_the_input_is_split(firebox: Any, ir: str) -> None:
    Path("two.mlir").write_text(IR + "// -----" + IR)
    result = firebox("opt", "two.mlir", "--split-input-file", "-p", "nd-canonicalize")
    assert result.out.count("// -----\n") == 1
    assert result.out.count("func.func @main") == 2
    Path("two.mlir").write_text(IR + "// -----\n" + IR.replace("nd.mul", "nd.mull"))
    wrong = firebox("opt", "two.mlir", "--split-input-file")
    assert wrong.code == 1
    assert "two.mlir:13:16" in wrong.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nd.mul", "nd.mull"), "a.mlir:5:16"),
        (("%2 :", "%3 :"), "%3"),
        (("-> tensor<4xf32> {", "-> tensor<4xf32"), "a.mlir:3:"),
        (("%1 = nd.add %x, %y :", "%1 = nd.sum %x :"), "a.mlir:4"),
        (("tensor<4xf32>", "tensor<?xf32>"), "have no names"),
        (("%x: tensor<4xf32>", '%x: tensor<?xf32, #nd.dims<"b +">>'), "a.mlir:2:"),
        (("func.return %2", "func.return %2, %2"), "a.mlir:7:1"),
    ],
)
def test_malformed_ir_is_a_failure_with_a_place(firebox: Any, ir: str, change: tuple[str, str], message: str) -> None:
    Path(ir).write_text(IR.replace(*change))
    result = firebox("opt", ir)
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-p", "nd-fusee"], 2, "no such pass: nd-fusee; did you mean nd-fuse"),
        (["-p", "nd-schedule{machine=host}"], 2, "machine"),
        (["-p", "nd-schedule{target=3}"], 2, "Incompatible types"),
        (["-p", "nd-fuse{"], 2, "Error parsing pass pipeline"),
        (["--pass-pipeline=builtin.module(nope)"], 2, "no such pass: nope"),
        (["--nope"], 2, "unrecognized arguments: --nope"),
        (["--verify-each=perhaps"], 2, "expected 0 or 1"),
        (["-p", "nd-schedule{target=pdp11}"], 1, "no such target"),
        (["-p", "nd-lower{to=nowhere}"], 1, "no such phase"),
    ],
)
def test_wrong_options_of_opt(firebox: Any, ir: str, options: list[str], code: int, message: str) -> None:
    result = firebox("opt", ir, *options)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err


def test_diagnostics_can_be_the_output(firebox: Any, ir: str) -> None:
    Path(ir).write_text(IR.replace("nd.mul", "nd.mull"))
    result = firebox("opt", ir, "--parsing-diagnostics")
    assert result.code == 0
    assert "Operation nd.mull is not registered" in result.out


def test_lists_of_passes_and_dialects(firebox: Any) -> None:
    passes = firebox("opt", "--list-passes").out
    assert re.search(r"^nd-fuse +Group ops", passes, re.M)
    assert re.search(r"^canonicalize ", passes, re.M)
    dialects = firebox("opt", "--show-dialects").out.split()
    assert {"nd", "kernel", "plan", "func", "arith"} <= set(dialects)


def test_ours_is_the_universe_that_is_published() -> None:
    assert set(universe.FIREBOX.all_passes) == set(PASSES)
    for name, factory in universe.FIREBOX.all_passes.items():
        assert factory().name == name
    for name, dialect in universe.FIREBOX.all_dialects.items():
        assert dialect().name == name
    assert 'firebox = "firebox.frontend.universe:FIREBOX"' in (ROOT / "pyproject.toml").read_text()


class _Point:
    """An entry point as `importlib.metadata` gives it."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.value = name, value

    def load(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_a_broken_plugin_is_reported_and_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, firebox: Any, ir: str
) -> None:
    twice = Universe(all_passes={"nd-fuse": universe.FIREBOX.all_passes["nd-expand"]})
    points = [_Point("broken", ImportError("no module named foo")), _Point("odd", 3), _Point("twice", twice)]
    monkeypatch.setattr(universe, "entry_points", lambda group: points)
    assert firebox("opt", ir, "-p", "nd-fuse").out.count("nd.group") == 1
    for text in ("broken cannot be loaded: ImportError: no module named foo", "odd is not", "twice defines nd-fuse"):
        assert text in caplog.text


def test_sections_are_named_in_the_documentation() -> None:
    text = (ROOT / "docs" / "artifact.md").read_text()
    assert f"format: {container.FORMAT}" in text
    for section in ("manifest", "nd", "locations", "program:T", "code:T", "pool:T", "weights"):
        assert f"`{section}`" in text
