"""Ahead of time: from functions, models and IR to artifacts that compute the same."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firebox.errors import InputError, UserError
from firebox.frontend import aot
from firebox.frontend.aot import parse_targets, portable
from firebox.frontend.cli.main import main
from firebox.frontend.source import from_text
from firebox.lowering.pipeline import PHASES
from firebox.runtime.artifact import Artifact
from firebox.runtime.session import Model, load
from firebox.runtime.target import Target

IR = """
builtin.module {
  func.func @main(%x: tensor<?x8xf32, #nd.dims<"b, 8">> {nd.name = "x"}, %w: tensor<8xf32> {nd.name = "w"})
      -> tensor<?x8xf32, #nd.dims<"b, 8">> {
    %0 = nd.add %x, %w : (tensor<?x8xf32, #nd.dims<"b, 8">>, tensor<8xf32>) -> tensor<?x8xf32, #nd.dims<"b, 8">>
    %1 = nd.mul %0, %0 : (tensor<?x8xf32, #nd.dims<"b, 8">>, tensor<?x8xf32, #nd.dims<"b, 8">>)
      -> tensor<?x8xf32, #nd.dims<"b, 8">>
    func.return %1 : tensor<?x8xf32, #nd.dims<"b, 8">>
  }
}
"""
W = np.arange(8, dtype=np.float32)
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
INPUTS = "x: f32[b, 8], 1<=b<=64; w: f32[8]"


# ---- from IR ---------------------------------------------------------------------------------------------------------


def test_ir_becomes_a_model() -> None:
    model = Model(aot.build(from_text(IR, "double.mlir", INPUTS)))
    np.testing.assert_array_equal(model(X, W), (X + W) * (X + W))
    assert model.name == "double"
    assert str(model.signature) == "(x: f32[b, 8], w: f32[8]) -> (out0: f32[b, 8]), 1 <= b <= 64"
    with pytest.raises(InputError, match="b=65, expected 1 <= b <= 64"):
        model(np.zeros((65, 8), np.float32), W)


def test_ranges_are_those_given() -> None:
    assert from_text(IR, "a.mlir").signature.ranges == {}
    with pytest.raises(UserError, match=r"not the inputs of @main(.|\n)*expected: x: f32\[b, 8\]; w: f32\[8\]"):
        from_text(IR, "a.mlir", "x: f32[b, 9]; w: f32[8]")


def test_malformed_ir_names_the_place() -> None:
    with pytest.raises(UserError, match="a.mlir:6:"):
        from_text(IR.replace("nd.mul", "nd.mull"), "a.mlir")


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_can_be_shown(phase: str) -> None:
    text = aot.stage(from_text(IR, "a.mlir"), phase)
    signs = {"trace": "nd.mul", "fuse": "nd.group", "schedule": "schedule", "bufferize": "plan.", "emit": "define void"}
    assert signs.get(phase, "nd.mul" if PHASES.index(phase) < PHASES.index("generate") else "func.func") in text


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("mlir", "nd.mul"),
        ("kernels", "vector."),
        ("llvm", "define void @main"),
        ("asm", ".globl"),
        ("object", b"\x7fELF"),
    ],
)
def test_every_kind_can_be_emitted(kind: aot.Kind, sign: str | bytes) -> None:
    content = aot.emit(from_text(IR, "a.mlir"), kind)
    assert sign in content  # type: ignore[operator]


def test_showing_a_stage_leaves_the_source_alone() -> None:
    source = from_text(IR, "a.mlir")
    before = aot.emit(source, "mlir")
    for phase in PHASES:
        aot.stage(source, phase)
    aot.build(source)
    assert aot.emit(source, "mlir") == before


def test_code_for_other_machines() -> None:
    source = from_text(IR, "a.mlir")
    assert b"\xb7\x00" in bytes(aot.emit(source, "object", "aarch64")[18:20])  # type: ignore[arg-type]
    assert "zmm" in str(aot.emit(source, "asm", "x86-64-v4"))
    assert "zmm" not in str(aot.emit(source, "asm", "x86-64-v3"))


def test_one_artifact_for_several_targets(tmp_path: Path) -> None:
    artifact = aot.build(from_text(IR, "a.mlir"), "x86-64,x86-64-v3,aarch64")
    artifact.write(tmp_path / "a.fbox")
    model = load(tmp_path / "a.fbox")
    np.testing.assert_allclose(model(X, W), (X + W) ** 2, rtol=1e-6)
    assert model.build.target.missing_on_host() == ()


def test_targets_in_every_form() -> None:
    v3, v4 = Target.parse("x86-64-v3"), Target.parse("x86-64-v4")
    assert parse_targets("x86-64-v3, x86-64-v4") == [v3, v4]
    assert parse_targets(v3) == [v3]
    assert parse_targets([v3, "x86-64-v4"]) == [v3, v4]
    for wrong in ([], "x86-64,x86-64", "pdp11"):
        with pytest.raises(UserError):
            parse_targets(wrong)
    with pytest.raises(UserError, match="one target at a time"):
        aot.stage(from_text(IR, "a.mlir"), "fuse", "x86-64,aarch64")


def test_a_model_for_another_machine_fails_when_it_is_called(tmp_path: Path) -> None:
    name = "aarch64" if Target.host().arch == "x86_64" else "x86-64"
    model = Model(aot.build(from_text(IR, "a.mlir"), name))
    with pytest.raises(Exception, match="no code for this machine"):
        model(X, W)


def test_locations_do_not_depend_on_where_the_source_lies(tmp_path: Path) -> None:
    package = tmp_path / "net" / "layers"
    package.mkdir(parents=True)
    (tmp_path / "net" / "__init__.py").touch()
    (package / "__init__.py").touch()
    assert portable(f"{package}/linear.py:31") == "net/layers/linear.py:31"
    assert portable(f"{tmp_path}/model.py:7") == "model.py:7"
    assert portable("unknown") == "unknown"
    assert portable("") == ""


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mlir").write_text(IR)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_compile_and_run_ir(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compile", "a.mlir", "--input", INPUTS, "-o", "a.fbox")
    assert (code, out) == (0, "")
    assert "a.fbox: a(x: f32[b, 8], w: f32[8]) -> (out0: f32[b, 8]), 1 <= b <= 64 for" in err
    np.save("x.npy", X)
    np.save("y.npy", (X + W) ** 2)
    assert (
        run(capsys, "run", "a.fbox", "--input", "x=@x.npy", "--input", "w=[0,1,2,3,4,5,6,7]", "--expected", "y.npy")[0]
        == 0
    )
    assert run(capsys, "run", "a.fbox", "--input", "x=f32[65,8]", "--input", "w=f32[8]")[0] == 3


def test_compile_shows_stages(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nd.group" in run(capsys, "compile", "a.mlir", "--compile-to", "fuse")[1]
    assert "define void @main" in run(capsys, "compile", "a.mlir", "--emit=llvm")[1]
    assert run(capsys, "compile", "a.mlir", "--emit=object", "-o", "a.o")[0] == 0
    assert (here / "a.o").read_bytes()[:4] == b"\x7fELF"
    mlir = run(capsys, "compile", "a.mlir", "--emit=mlir")[1]
    (here / "b.mlir").write_text(mlir)
    assert run(capsys, "compile", "b.mlir", "--emit=mlir")[1] == mlir


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.mlir", "--compile-to", "fusion"], 2, "no such phase"),
        (["a.mlir", "--emit", "wasm"], 2, "invalid choice"),
        (["a.mlir", "--target", "pdp11"], 1, "no such target"),
        (["a.mlir", "--input", "x: f32[b"], 1, "not an input description"),
        (["a.mlir", "--weights", "w.safetensors"], 2, "takes its weights as inputs"),
        (["b.mlir"], 1, "b.mlir: No such file"),
        (["model.py"], 2, "not a source"),
        (["model.py:net"], 1, "model.py: No such file"),
        (["bad.mlir"], 1, "bad.mlir:1:"),
        (["wrong.py:net"], 1, "ZeroDivisionError: division by zero\n  at:       "),
        (["syntax.py:net"], 1, "SyntaxError"),
        (["good.py:other"], 2, "no such name in the file"),
        (["good.py:number"], 2, "neither a model nor a function"),
        (["no.such.package:net"], 1, "ModuleNotFoundError"),
    ],
)
def test_wrong_command_lines(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    (here / "bad.mlir").write_text("func.func")
    (here / "wrong.py").write_text("x = 1\ny = x / 0\n")
    (here / "syntax.py").write_text("def net(:\n")
    (here / "good.py").write_text("number = 3\ndef net(x):\n    return x\n")
    found, out, err = run(capsys, "compile", *arguments)
    assert (found, out) == (code, ""), err
    assert message in err
    assert "Traceback" not in err
