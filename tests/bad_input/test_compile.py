"""`firebox compile`: sources, descriptions of inputs, weights and options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firebox.errors import UserError
from firebox.frontend.aot import emit
from firebox.frontend.cli.main import main
from firebox.frontend.source import trace
from firebox.lowering.pipeline import PHASES
from firebox.runtime.target import PRESET_NAMES

SAFETENSORS = pytest.importorskip("safetensors.numpy")
Run = Callable[..., tuple[int, str]]

MODEL = """
import sys
import firebox as fb

class Net(fb.nn.Module):
    def __init__(self):
        self.layer = fb.nn.Linear(8, 3)
    def forward(self, x):
        return self.layer(x)

net = Net()
number = 3

def add(x, y): return x + y
def square(x): return x @ fb.ones(5, 5)
def branch(x): return x if x.sum() > 0 else -x
def size(x): return x if x.shape[0] > 3 else -x
def fails(x): raise ValueError("no")
def ends(x): sys.exit(7)
def scaled(x, *, scale): return x * scale
def text(x): return "no tensor"
def sixth(x): return x[5]
def draws(x): return x + fb.rand(8)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line beside a model; gives the exit code and what went to stderr. Failures print nothing."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)

    def call(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        assert code == 0 or captured.out == ""
        assert "Traceback" not in captured.err
        return code, captured.err.removeprefix(f"firebox {arguments[0]}: error: ").replace(f"{tmp_path}/", "")

    return call


X = "x: f32[b, 8]"
SOURCES: dict[str, tuple[str, str, int, str]] = {
    "no name": ("model.py", X, 2, "not a source\n  expected: file.py:NAME, package.module:NAME or file.mlir"),
    "an empty name": ("model.py:", X, 2, "not a source"),
    "another name": ("model.py:model", X, 2, "model.py: no such name in the file\n  expected: one of Net, net, add"),
    "a number": ("model.py:number", X, 2, "model.py:number: neither a model nor a function\n  found:    int"),
    "no file": ("nowhere.py:net", X, 1, "nowhere.py: No such file"),
    "no module": ("nowhere.net:net", X, 1, "no such module\n  expected: file.py:NAME or package.module:NAME"),
    "an input too few": (
        "model.py:add",
        X,
        1,
        "compile: the inputs are not the arguments of the function: missing a required argument: 'y'\n"
        "  expected: inputs for (x, y)\n  found:    x: f32[b, 8]",
    ),
    "an input too many": (
        "model.py:net",
        f"{X}; y: f32[b]",
        1,
        "compile: the inputs are not the arguments of the function: too many positional arguments\n"
        "  expected: inputs for (x)\n  found:    x: f32[b, 8]; y: f32[b]",
    ),
    "an option without a value": ("model.py:scaled", X, 1, "compile: the inputs are not the arguments of the function"),
    "shapes of the inputs": (
        "model.py:add",
        "x: f32[b, 8]; y: f32[b, 7]",
        1,
        "add: shapes do not broadcast\n  expected: sizes that are equal or 1, from the last dim on\n"
        "  found:    (b, 8) and (b, 7), differing at dim -1\n  at:       model.py:14",
    ),
    "a shape that does not fit the model": (
        "model.py:net",
        "x: f32[b, 7]",
        1,
        "linear: the last dim of the input is not that of the weight\n"
        "  expected: (.., 8) for a weight (out, in) = (3, 8)\n  found:    (b, 7)\n  at:       model.py:9",
    ),
    "a shape that does not fit the function": ("model.py:square", X, 1, "matmul: the inner dims differ"),
    "a branch": ("model.py:branch", X, 1, "bool: Python cannot branch on a traced value"),
    "a size in a condition": ("model.py:size", X, 1, "gt: a size is known only when the program runs"),
    "a range in which nothing fits": (
        "model.py:sixth",
        "x: f32[b], b<=5",
        1,
        "slice: no size in the range of a dim fits\n  expected: b >= 6\n  found:    0 <= b <= 5\n"
        "  at:       model.py:22",
    ),
    "random numbers": ("model.py:draws", X, 1, "compile: the function draws random numbers"),
    "a result that is no tensor": (
        "model.py:text",
        X,
        1,
        "compile: a result is no tensor\n  expected: tensors\n  found:    out0: 'no tensor'",
    ),
    "an exception": ("model.py:fails", X, 1, "ValueError: no\n  at:       model.py:18"),
    "an exit": ("model.py:ends", X, 1, "the code ends the process\n  found:    SystemExit(7)\n  at:       model.py:19"),
    "no description": ("model.py:net", "x f32", 1, "not an input description\n  expected: like x: f32[b, 1, 8, 8]"),
    "no element type": ("model.py:net", "x: f33[8]", 1, "input x: no such element type"),
    "no shape": ("model.py:net", "x: f32[8,", 1, "not an input description"),
    "a negative size": ("model.py:net", "x: f32[-8]", 1, "input x: a negative size\n  found:    -8"),
    "an empty range": ("model.py:net", f"{X}, 5<=b<=4", 1, "b: no size is in this range\n  found:    5 <= b <= 4"),
    "a range of no dim": ("model.py:net", f"{X}, 5<=c", 1, "c: the range of a dim that no input has"),
    "a reserved name": ("model.py:add", "x: f32[i0]; y: f32[i0]", 1, "dims: a dim has a reserved name"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_and_inputs(run: Run, name: str) -> None:
    source, inputs, code, message = SOURCES[name]
    found, said = run("compile", source, "--input", inputs, "-o", "out.fbox")
    assert found == code, said
    assert said.startswith(message), said
    assert not Path("out.fbox").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nowhere_to_be_found",
            "ModuleNotFoundError: No module named 'nowhere_to_be_found'\n  at:       bad.py:1",
        ),
        ("\nx = (", "SyntaxError: '(' was never closed\n  at:       bad.py:2"),
        ("x = 1\n1 / 0", "ZeroDivisionError: division by zero\n  at:       bad.py:2"),
        ("import sys\nsys.exit(3)", "the code ends the process\n  found:    SystemExit(3)\n  at:       bad.py:2"),
        ("import numpy as np\nnp.zeros(-1)", "ValueError: negative dimensions are not allowed\n  at:       bad.py:2"),
        ("\0", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_files_that_fail_on_import(run: Run, text: str, message: str) -> None:
    Path("bad.py").write_text(text)
    found, said = run("compile", "bad.py:net", "--input", X)
    assert found == 1
    assert said.startswith(message), said


WEIGHT, BIAS = np.ones((3, 8), np.float32), np.ones(3, np.float32)
WEIGHTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (
        {"layer.weight": WEIGHT},
        "load_state_dict: the state does not fit the model; nothing was loaded\n"
        "  expected: 2 entries, one for each parameter and buffer\n  found:    missing: layer.bias",
    ),
    "unexpected": (
        {"layer.weight": WEIGHT, "layer.bias": BIAS, "other": BIAS},
        "load_state_dict: the state does not fit the model; nothing was loaded\n"
        "  expected: 2 entries, one for each parameter and buffer\n  found:    unexpected: other",
    ),
    "misshaped": (
        {"layer.weight": WEIGHT[:, 1:], "layer.bias": BIAS},
        "load_state_dict: shapes do not fit; nothing was loaded\n"
        "  found:    layer.weight: expected (3, 8), found (3, 7)",
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(run: Run, name: str) -> None:
    arrays, message = WEIGHTS[name]
    SAFETENSORS.save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, "w.safetensors")
    found, said = run("compile", "model.py:net", "--input", X, "--weights", "w.safetensors", "-o", "out.fbox")
    assert (found, Path("out.fbox").exists()) == (1, False)
    assert said.startswith(message), said


def test_files_of_weights(run: Run) -> None:
    for path, message in (
        ("nowhere.safetensors", "load: no such file\n  found:    nowhere.safetensors"),
        (".", "load: cannot be read: Is a directory\n  found:    ."),
        ("model.py", "load: not a safetensors file\n  found:    model.py: "),
    ):
        found, said = run("compile", "model.py:net", "--input", X, "--weights", path)
        assert (found, said.startswith(message)) == (1, True), said
    found, said = run("compile", "model.py:add", "--input", X, "--weights", "model.py")
    assert (found, said) == (1, "weights: weights are for models\n  expected: a Module\n  found:    function\n")
    assert run("compile", "ok.mlir", "--weights", "w")[0] == 2


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["--compile-to", "fusion"],
            2,
            f"--compile-to: no such phase\n  expected: {', '.join(PHASES)}\n  found:    fusion",
        ),
        (["--target", "pdp11"], 1, f"target: no such target\n  expected: one of {', '.join(PRESET_NAMES)}"),
        (["--target", "host,host"], 1, "target: give each target once\n  found:    host, host"),
        (
            ["--checkpoint", "some"],
            1,
            "checkpoint: no such strategy\n  expected: balanced, budget, none, recompute-cheap",
        ),
        (["-o", "nowhere/out.fbox"], 1, "nowhere: No such directory"),
        (["-o", "."], 1, ".: Is a directory"),
        (["-o", "/proc/nowhere"], 1, "/proc/nowhere: "),
        (["--emit", "llvm", "-o", "nowhere/out.ll"], 1, "nowhere/out.ll: No such file or directory"),
    ],
)
def test_options_of_compile(run: Run, options: list[str], code: int, message: str) -> None:
    found, said = run("compile", "model.py:net", "--input", X, *options)
    assert found == code, said
    assert said.startswith(message), said


def test_a_kind_that_cannot_be_emitted(run: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        run("compile", "model.py:net", "--input", X, "--emit", "nothing")
    assert ended.value.code == 2
    source = trace(lambda x: x + 1, "x: f32[4]")
    with pytest.raises(
        UserError, match="emit: nothing of this kind can be emitted\n  expected: mlir, kernels, opencl, llvm"
    ):
        emit(source, "nothing")  # type: ignore[arg-type]
