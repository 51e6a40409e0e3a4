"""The command line as its users call it."""

import io
import sys
from pathlib import Path

import pytest

from firebox.frontend.cli.main import main

IR = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nd.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mlir").write_text(IR)


def test_opt_reads_stdin_for_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(IR.encode())))
    assert main(["opt", "-", "-p", "nd-fuse"]) == 0
    assert capsys.readouterr().out.count("nd.group") == 1


def test_opt_prints_between_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "a.mlir", "-p", "nd-expand,nd-fuse", "--print-between-passes"]) == 0
    shown = capsys.readouterr()
    assert [name in shown.err for name in ("nd-expand", "nd-fuse")] == [True, True]
    assert shown.out.count("func.func @main") == 1


def test_a_file_that_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.mlir").write_bytes(b"\xff\xfe\x00")
    for command in (["opt", "b.mlir"], ["compile", "b.mlir"]):
        assert main(command) == 1
        assert "b.mlir: not text" in capsys.readouterr().err


def test_kernels_of_a_model_of_layers_name_the_layers(capsys: pytest.CaptureFixture[str]) -> None:
    """No line of a user stands behind the calls, and what started the command line is no program of the user's."""
    Path("net.py").write_text(
        "import firebox as fb\nfrom firebox import nn\n\n\ndef net():\n    return nn.Linear(4, 2)\n"
    )
    assert main(["compile", "net.py:net", "--input", "x: f32[b, 4]", "-o", "net.fbox"]) == 0
    capsys.readouterr()
    assert main(["inspect", "net.fbox"]) == 0
    assert "firebox/frontend/nn/linear.py:" in capsys.readouterr().out
