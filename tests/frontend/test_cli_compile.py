"""`firebox compile`: what it writes, what it prints, its options."""

from pathlib import Path

import numpy as np
import pytest

import firebox as fb
from firebox.frontend.cli.main import main
from firebox.frontend.record import safetensors
from tests.frontend.artifacts import INPUTS, IR, MODEL, W, X


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
        (["a.mlir", "-o", "nowhere/a.fbox"], 1, "nowhere: No such directory"),
        (["good.py:model", "--input", "x: f32[2, 8]", "--weights", "none.safetensors"], 1, "no such file"),
        (["good.py:net", "--input", "x: f32[2, 8]", "--weights", "none.safetensors"], 1, "weights are for models"),
        (["model.py"], 2, "not a source"),
        (["model.py:net"], 1, "model.py: No such file"),
        (["bad.mlir"], 1, "bad.mlir:1:"),
        (["wrong.py:net"], 1, "ZeroDivisionError: division by zero\n  at:       "),
        (["syntax.py:net"], 1, "SyntaxError"),
        (["good.py:other"], 2, "no such name in the file"),
        (["good.py:number"], 2, "neither a model nor a function"),
        (["no.such.package:net"], 1, "no such module"),
    ],
)
def test_wrong_command_lines(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    (here / "bad.mlir").write_text("func.func")
    (here / "wrong.py").write_text("x = 1\ny = x / 0\n")
    (here / "syntax.py").write_text("def net(:\n")
    (here / "good.py").write_text(
        "number = 3\ndef net(x):\n    return x\nfrom firebox import nn\nmodel = nn.Linear(8, 4)\n"
    )
    found, out, err = run(capsys, "compile", *arguments)
    assert (found, out) == (code, ""), err
    assert message in err
    assert "Traceback" not in err


def test_compile_a_model_from_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "model.py").write_text(MODEL)
    state = {"first.weight": np.full((4, 8), 2, np.float32), "first.bias": np.ones(4, np.float32)}
    safetensors.save(state, "w.safetensors")
    code, out, err = run(
        capsys,
        "compile",
        "model.py:net",
        "--weights",
        "w.safetensors",
        "--input",
        "x: f32[b, 8], 1<=b<=4096",
        "-o",
        "m.fbox",
    )
    assert (code, out) == (0, ""), err
    np.save("x.npy", X)
    np.save("y.npy", (X @ state["first.weight"].T + 1) * 2)
    assert run(capsys, "run", "m.fbox", "--input", "@x.npy", "--expected", "y.npy")[0] == 0
    code, _, err = run(capsys, "run", "m.fbox", "--input", "f32[5000,8]")
    assert code == 3
    assert "input x: dim 0 is b=5000, expected 1 <= b <= 4096; got f32[5000,8] for x: f32[b, 8]" in err


def test_an_error_in_the_models_code_names_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "model.py").write_text("def net(x):\n    y = x @ x\n    return y\ndef bad(x):\n    return x.nonsense\n")
    code, _, err = run(capsys, "compile", "model.py:net", "--input", "x: f32[3, 4]")
    assert code == 1
    assert "model.py:2" in err
    code, _, err = run(capsys, "compile", "model.py:bad", "--input", "x: f32[3, 4]")
    assert code == 1
    assert "AttributeError" in err
    assert "model.py:5" in err


def test_a_derivative_compiles() -> None:
    """Its signature is that of the function it wraps, but it takes its arguments by position."""
    model = fb.compile(fb.grad(lambda x: (x * x * x).sum()), "x: f32[4]")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(model(x=x), 3 * x * x)
