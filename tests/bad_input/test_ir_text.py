"""MLIR text and pipelines: malformed, of wrong types, of another form than a program has; the place is shown."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firebox.errors import UserError
from firebox.frontend import aot
from firebox.frontend.cli.main import main
from firebox.frontend.source import from_text
from firebox.runtime.session import Model

Run = Callable[..., tuple[int, str]]

IR = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nd.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; gives the exit code and what went to stderr. Failures print nothing."""
    monkeypatch.chdir(tmp_path)
    Path("a.mlir").write_text(IR)

    def call(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        assert code == 0 or captured.out == ""
        assert "Traceback" not in captured.err
        return code, captured.err

    return call


MALFORMED: dict[str, tuple[tuple[str, str], str]] = {
    "an unknown op": (("nd.add", "nd.addd"), "a.mlir:2:16"),
    "an unknown value": (("func.return %0", "func.return %1"), "a.mlir:3:15"),
    "an unclosed brace": (("\n}", ""), "a.mlir:4:1"),
    "an unclosed type": (("tensor<4xf32>)", "tensor<4xf32)"), "a.mlir:1:"),
    "a negative size": (("%x: tensor<4xf32>", "%x: tensor<-4xf32>"), "a.mlir:1:"),
    "dims without names": (("tensor<4xf32>", "tensor<?xf32>"), "dynamic dims of tensor<?xf32> have no names"),
    "names that are no expression": (("%x: tensor<4xf32>", '%x: tensor<?xf32, #nd.dims<"b +">>'), "a.mlir:1:"),
    "an operand of another type": (("(tensor<4xf32>, tensor", "(tensor<4xf64>, tensor"), "a.mlir:2:15"),
    "a result of another type": (("-> tensor<4xf32>\n", "-> tensor<4xf64>\n"), "a.mlir:3:15"),
    "a return of too much": (("func.return %0 : tensor", "func.return %0, %0 : tensor<4xf32>, tensor"), "a.mlir"),
}


@pytest.mark.parametrize("command", ["opt", "compile"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_text(run: Run, name: str, command: str) -> None:
    change, place = MALFORMED[name]
    assert change[0] in IR
    Path("a.mlir").write_text(IR.replace(*change))
    found, said = run(command, "a.mlir")
    assert found == 1
    assert place in said, said


SLICE = """%1 = nd.slice %x {start = #nd.dims<"2">, stop = #nd.dims<"9">, step = array<i64: 1>} """
SUM = "%1 = nd.reduce_sum %x {axes = array<i64: AXIS>, keepdims = false} "
WRONG_TYPES: dict[str, tuple[str, str]] = {
    "bounds": (
        SLICE + ": (tensor<4xf32>) -> tensor<7xf32>",
        "slice: bad bounds at axis 0\n  expected: 0 <= start <= stop <= size, step > 0\n"
        "  found:    start 2, stop 9, size 4, step 1",
    ),
    "an axis": (
        SUM.replace("AXIS", "7") + ": (tensor<4xf32>) -> tensor<f32>",
        "reduce_sum: axis out of range\n  expected: 0 <= axis < 1\n  found:    7",
    ),
    "a result": (
        SUM.replace("AXIS", "0") + ": (tensor<4xf32>) -> tensor<2xf32>",
        "nd.reduce_sum: results must be (f32[]), found (f32[2])",
    ),
    "an element type": (
        "%1 = nd.cast %x {dtype = i33} : (tensor<4xf32>) -> tensor<4xi33>",
        "i33 is not an element type",
    ),
    "a missing parameter": (
        "%1 = nd.reduce_sum %x {keepdims = false} : (tensor<4xf32>) -> tensor<f32>",
        "nd.reduce_sum: parameter 'axes' must be integers",
    ),
    "a spec": (
        '%1 = nd.contract %x, %x {spec = "m k, -> (", sizes = #nd.dims<"4">}'
        " : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
        "contract: malformed spec",
    ),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_ops_of_wrong_types(run: Run, name: str) -> None:
    op, message = WRONG_TYPES[name]
    Path("a.mlir").write_text(IR.replace("  func.return", f"  {op}\n  func.return"))
    found, said = run("compile", "a.mlir")
    assert (found, said.rstrip().endswith("at:       a.mlir:3")) == (1, True), said
    assert said.startswith(f"firebox compile: error: a.mlir: invalid IR: {message}"), said
    found, said = run("opt", "a.mlir")
    assert (found, said.rstrip().endswith("in the input, at a.mlir:3")) == (1, True), said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Could not parse entire input!"),
        ("builtin.module {}", "the module has no function @main"),
        (IR.replace("@main", "@other"), "the module has no function @main"),
        ("func.func private @main(tensor<4xf32>) -> tensor<4xf32>", "@main: no straight line"),
        (
            IR.replace("nd.add %x, %y", "func.call @main(%x, %y)"),
            "func.call: cannot be grouped\n  expected: ops of the nd dialect without groups\n  at:       a.mlir:2",
        ),
        (IR.replace("tensor<4xf32>", 'tensor<?xf32, #nd.dims<"i0">>'), "dims: a dim has a reserved name"),
        ("builtin.module {" * 4000 + "}" * 4000, "a.mlir: nested too deeply"),
        ("\0", "a.mlir:1:1"),
    ],
)
def test_what_is_no_program(run: Run, text: str, message: str) -> None:
    Path("a.mlir").write_text(text)
    found, said = run("compile", "a.mlir")
    assert found == 1
    assert message in said, said


def test_files(run: Run) -> None:
    Path("b.mlir").write_bytes(b"\xff\xfe")
    for command in ("opt", "compile"):
        assert run(command, "nowhere.mlir") == (
            1,
            f"firebox {command}: error: nowhere.mlir: No such file or directory\n",
        )
        assert "b.mlir: not text: invalid start byte at byte 0" in run(command, "b.mlir")[1]
    assert run("opt", ".") == (1, "firebox opt: error: .: Is a directory\n")
    assert run("opt", "a.mlir", "-o", "nowhere/b.mlir")[0] == 1
    found, said = run("compile", "a.mlir", "--input", "in0: f32[5]; in1: f32[4]")
    assert found == 1
    assert "a.mlir: not the inputs of @main\n  expected: in0: f32[4]; in1: f32[4]\n" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(run: Run) -> None:
    Path("a.mlir").chmod(0)
    assert run("opt", "a.mlir") == (1, "firebox opt: error: a.mlir: Permission denied\n")


@pytest.mark.parametrize(
    ("pipeline", "code", "message"),
    [
        ("nd-fusee", 2, "passes: no such pass: nd-fusee; did you mean nd-fuse"),
        ("nd-fuse{", 2, "passes: Error parsing pass pipeline specification:\npass-pipeline:1:9\nnd-fuse{\n        ^"),
        ("nd-fuse}", 2, "pass-pipeline:1:8"),
        (",", 2, "pass-pipeline:1:1"),
        ("nd-fuse{x=1}", 2, 'Provided arguments ["x"] not found in expected arguments []'),
        ("nd-lower{to=nowhere}", 1, "pipeline: no such phase\n  expected: trace, expand, canonicalize"),
        ("nd-lower{target=pdp11}", 1, "target: no such target"),
        ("nd-checkpoint{strategy=some}", 1, "checkpoint: no such strategy"),
        ("nd-fuse,nd-fuse", 1, "nd.group: cannot be grouped"),
        ("nd-lower,nd-fuse", 1, "module: the module has no function @main"),
    ],
)
def test_pipelines(run: Run, pipeline: str, code: int, message: str) -> None:
    found, said = run("opt", "a.mlir", "-p", pipeline)
    assert found == code, said
    assert message in said, said


def test_lines_of_the_text_are_the_places_of_ops() -> None:
    """Also at run time, and in files of several parts."""
    text = """
        func.func @main(%x: tensor<4xf32>, %i: tensor<?xi64, #nd.dims<"n">>) -> tensor<?xf32, #nd.dims<"n">> {
          %0 = nd.gather %x, %i {axis = 0 : i64}
            : (tensor<4xf32>, tensor<?xi64, #nd.dims<"n">>) -> tensor<?xf32, #nd.dims<"n">>
          func.return %0 : tensor<?xf32, #nd.dims<"n">>
        }
    """
    model = Model(aot.build(from_text(text, "rows.mlir")))
    np.testing.assert_array_equal(model(np.arange(4, dtype=np.float32), [3, 0]), [3, 0])
    with pytest.raises(IndexError, match=r"at: +rows\.mlir:3"):
        model(np.zeros(4, np.float32), [4])
    with pytest.raises(UserError, match=r"two\.mlir:2:16"):
        from_text(IR.replace("nd.add", "nd.addd"), "two.mlir")


def test_bounds_that_hold_for_some_sizes_only() -> None:
    """What a verifier cannot know is a condition of the program."""
    text = """
        func.func @main(%x: tensor<?xf32, #nd.dims<"b">>) -> tensor<1xf32> {
          %0 = nd.slice %x {start = #nd.dims<"100000000">, stop = #nd.dims<"100000001">, step = array<i64: 1>}
            : (tensor<?xf32, #nd.dims<"b">>) -> tensor<1xf32>
          func.return %0 : tensor<1xf32>
        }
    """
    model = Model(aot.build(from_text(text, "far.mlir")))
    with pytest.raises(ValueError, match="dim 0 is b=3, expected 100000001 <= b"):
        model(np.zeros(3, np.float32))
