"""The messages that docs/errors.md shows: each function goes wrong in one way."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import firebox as fb
from firebox.dialects.nd import Kind, NdOp, register
from firebox.errors import FireboxError
from firebox.frontend.cli.main import main
from tests.conftest import Golden


def shapes() -> None:
    fb.ones(2, 3) + fb.ones(4)


def types() -> None:
    fb.ones(3).take(fb.tensor([0.0, 1.0]))


def write() -> None:
    x = fb.zeros(3)
    x[0] = 1.0


def branch() -> None:
    @fb.jit
    def step(x: fb.Tensor) -> fb.Tensor:
        return x if x.sum() > 0 else -x

    step(fb.ones(3))


def twice() -> None:
    w = fb.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    loss.backward()


def index() -> None:
    table = fb.ones(3, 2)
    rows = table.take(fb.tensor([0, 7]))  # what is in the tensor is not known yet
    rows.numpy()


def model_input() -> None:
    model = fb.compile(lambda x: x * 2.0, "x: f32[b, 8], 1<=b<=64", name="double")
    model(x=np.zeros((100, 8), np.float32))


def op_not_registered() -> None:
    fb.apply("signal.fft", fb.ones(8))


def incomplete_op() -> None:
    @register
    class Hypot(NdOp):
        name = "special.incomplete"
        kind = Kind.MAP


CASES = [shapes, types, write, branch, twice, index, model_input, op_not_registered, incomplete_op]


@pytest.mark.parametrize("call", CASES, ids=lambda call: call.__name__)
def test_the_message(call: Callable[[], None], golden: Golden) -> None:
    """As it is shown, but for the name and line of this file, which stand as ``model.py:12``."""
    with pytest.raises(FireboxError) as raised:
        call()
    kind = type(raised.value).__name__
    text = re.sub(rf"{re.escape(__file__)}:\d+", "model.py:12", f"{kind}: {raised.value}\n")
    assert "/" not in text.replace("[", "").replace("]", ""), "a path of this machine"
    golden(f"errors/{call.__name__}.txt", text)


def test_messages_of_the_command_line(golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.fbox"
    fb.compile(lambda x: x * 2.0, "x: f32[b, 8], 1<=b<=64", name="double", path=model)
    data = bytearray(model.read_bytes())
    data[72] ^= 1  # a letter of the section table
    (tmp_path / "damaged.fbox").write_bytes(data)
    said = []
    for code, arguments in (
        (1, ["opt", "missing.mlir"]),
        (2, ["opt", "-p", "nd-fus"]),
        (2, ["complie"]),
        (3, ["run", str(model), "--input", "x=f32[100,8]"]),
        (4, ["inspect", str(tmp_path / "damaged.fbox")]),
    ):
        assert main(arguments) == code
        shown = " ".join(arguments).replace(f"{tmp_path}/", "")
        said.append(f"$ firebox {shown}\n{capsys.readouterr().err.replace(f'{tmp_path}/', '')}$ echo $?\n{code}\n")
    golden("errors/commands.txt", "\n".join(said))
