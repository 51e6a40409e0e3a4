"""Program descriptions: text form, and what is refused when it comes from a file."""

import json
from typing import Any

import pytest

from firebox import dims
from firebox.dims import dim
from firebox.dtypes import f32, i64
from firebox.errors import ArtifactError
from firebox.runtime.program import Guard, KernelInfo, Program
from firebox.signature import TensorSpec

B = dim("b")
PROGRAM = Program(
    name="step",
    inputs=(TensorSpec("x", f32, (B, 8)), TensorSpec("index", i64)),
    outputs=(TensorSpec("y", f32, (B, 8)), TensorSpec("loss", f32)),
    dims=("b",),
    arena=B * 64 * dim("threads") + 128,
    aliases=((0, 0),),
    guards=(Guard(B, 8, 1),),
    entry="main",
    kernels=(KernelInfo("k0", "loops", ("nd.add", "nd.mul"), "model.py:3"),),
    ops=("add", "mul"),
    locations=("model.py:3", "model.py:4"),
)


def test_json_gives_the_same_program() -> None:
    text = PROGRAM.to_json()
    assert Program.from_json(text) == PROGRAM
    assert Program.from_json(text.encode()) == PROGRAM
    assert Program.from_json(text).to_json() == text


def test_json_is_canonical() -> None:
    data = json.loads(PROGRAM.to_json())
    assert json.dumps(data, sort_keys=True, separators=(",", ":")) == PROGRAM.to_json()
    assert data["arena"] == "64*b*threads + 128"
    assert data["inputs"][0] == {"name": "x", "dtype": "f32", "shape": ["b", 8]}


def test_locations_can_be_taken_out() -> None:
    bare = PROGRAM.without_locations()
    assert "model.py" not in bare.to_json()
    assert bare.kernels[0].ops == ("nd.add", "nd.mul")


def test_the_signature_is_that_of_the_tensors() -> None:
    assert str(PROGRAM.signature) == "(x: f32[b, 8], index: i64[]) -> (y: f32[b, 8], loss: f32[])"


def test_guards_say_which_sizes_fit() -> None:
    assert PROGRAM.unmet({"b": 8}) is None
    guard = PROGRAM.unmet({"b": 7})
    assert guard is not None
    assert (str(guard), guard.names) == ("b >= 8", ("b",))
    assert (PROGRAM.op_name(guard.op), PROGRAM.location(guard.op)) == ("mul", "model.py:4")
    assert (PROGRAM.op_name(9), PROGRAM.location(9)) == ("step", "")
    assert not Guard(B, dims.mod(1, B)).holds({"b": 0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 3),
        ("inputs", {}),
        ("inputs", [{"name": "x", "dtype": "f32"}]),
        ("inputs", [{"name": "x", "dtype": "f33", "shape": []}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": [-1]}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": [True]}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": ["b +"]}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": ["(" * 4000]}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": ["b"] * 65}]),
        ("inputs", [{"name": "", "dtype": "f32", "shape": []}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": ["n"]}]),
        ("inputs", [{"name": "x", "dtype": "f32", "shape": ["b"]}] * 2),
        ("outputs", [{"name": "y", "dtype": "f32", "shape": ["n"]}]),
        ("dims", "b"),
        ("dims", ["b", "b"]),
        ("dims", ["b c"]),
        ("arena", -1),
        ("arena", 1.5),
        ("arena", "n"),
        ("arena", "b // 0"),
        ("arena", None),
        ("aliases", [[0]]),
        ("aliases", [[0, -1]]),
        ("aliases", [[2, 0]]),
        ("aliases", [[0, 2]]),
        ("aliases", [[0, 0], [0, 0]]),
        ("aliases", [[0, 1]]),
        ("aliases", [[True, 0]]),
        ("guards", [1]),
        ("guards", [{"condition": "b >= 8"}]),
        ("guards", [{"condition": "b >= 8", "op": "1"}]),
        ("guards", [{"condition": "b % 8 == 0", "op": 1}]),
        ("guards", [{"condition": "n >= 8", "op": 1}]),
        ("guards", [{"condition": "b >= (", "op": 1}]),
        ("ops", [3]),
        ("entry", "a b"),
        ("entry", "x" * 600),
        ("kernels", [{}]),
        ("kernels", [{"name": "k", "kind": "loops", "ops": "nd.add", "location": ""}]),
        ("locations", [None]),
        ("unknown", 0),
    ],
)
def test_a_wrong_field_is_refused(field: str, value: Any) -> None:
    data = {**json.loads(PROGRAM.to_json()), field: value}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    with pytest.raises(ArtifactError):
        Program.from_json(text)


def test_a_missing_field_is_refused() -> None:
    whole = json.loads(PROGRAM.to_json())
    for field in whole:
        rest = {key: value for key, value in whole.items() if key != field}
        with pytest.raises(ArtifactError):
            Program.from_json(json.dumps(rest, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", "1", "NaN", "[" * 50_000, b"\xff", '{"a": 1}', '{"a":1,"a":1}']
)
def test_what_is_no_canonical_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ArtifactError):
        Program.from_json(text)
