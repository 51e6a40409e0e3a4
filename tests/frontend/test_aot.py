"""Ahead of time: from functions, models and IR to artifacts that compute the same."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firebox.errors import InputError, UserError
from firebox.frontend import aot, random, transform
from firebox.frontend.aot import parse_targets, portable
from firebox.frontend.cells import Buffer as StateBuffer
from firebox.frontend.cells import Param
from firebox.frontend.nn.linear import Linear
from firebox.frontend.nn.module import Module
from firebox.frontend.record import safetensors
from firebox.frontend.source import from_text
from firebox.frontend.tensor import as_tensor
from firebox.lowering.pipeline import PHASES
from firebox.runtime.session import Model, load
from firebox.runtime.target import Target
from tests.frontend.artifacts import INPUTS, IR, MODEL, W, X

ROOT = Path(__file__).parents[2]


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
    with pytest.raises(UserError, match=r"a\.mlir:6:"):
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
    target = model.build.target
    assert isinstance(target, Target) and target.missing_on_host() == ()


def test_targets_in_every_form() -> None:
    v3, v4 = Target.parse("x86-64-v3"), Target.parse("x86-64-v4")
    assert parse_targets("x86-64-v3, x86-64-v4") == [v3, v4]
    assert parse_targets(v3) == [v3]
    assert parse_targets([v3, "x86-64-v4"]) == [v3, v4]
    wrongs: tuple[Any, ...] = ([], "x86-64,x86-64", "pdp11")
    for wrong in wrongs:
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


# ---- from functions and models ---------------------------------------------------------------------------------------


class Net(Module):
    def __init__(self) -> None:
        self.first = Linear(8, 16)
        self.second = Linear(16, 4, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        return {"logits": self.second(h * h), "hidden": h}


def numpy_net(state: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    h = x @ state["first.weight"].T + state["first.bias"]
    return {"logits": (h * h) @ state["second.weight"].T, "hidden": h}


def state_of(net: Module) -> dict[str, np.ndarray]:
    return {path: np.asarray(value) for path, value in net.state_dict().items()}


@pytest.fixture
def net() -> Net:
    random.manual_seed(1)
    return Net()


def check(results: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(results) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_model_becomes_a_file_that_computes_the_same(net: Net, tmp_path: Path, batch: int) -> None:
    compiled = aot.compile(net, "x: f32[b, 8], 1<=b<=64", path=tmp_path / "net.fbox")
    x = np.linspace(-2, 2, batch * 8, dtype=np.float32).reshape(batch, 8)
    expected = numpy_net(state_of(net), x)
    check(compiled(x), expected)
    check(load(tmp_path / "net.fbox")(x=x), expected)
    check({name: np.asarray(value) for name, value in net(as_tensor(x)).items()}, expected)


def test_parameters_are_weights_named_by_their_paths(net: Net) -> None:
    artifact = aot.compile(net, "x: f32[b, 8]").artifact
    assert {weight.name: weight.array.shape for weight in artifact.weights} == {
        "first.weight": (16, 8), "first.bias": (16,), "second.weight": (4, 16)
    }  # fmt: skip
    assert artifact.name == "Net"
    assert str(artifact.signature) == "(x: f32[b, 8]) -> (logits: f32[b, 4], hidden: f32[b, 16])"
    assert artifact.weight_bytes() == 4 * (16 * 8 + 16 + 4 * 16)


def test_weights_from_a_file_or_a_mapping(net: Net, tmp_path: Path) -> None:
    before = state_of(net)
    other = {name: value + 1 for name, value in before.items()}
    safetensors.save(other, tmp_path / "w.safetensors")
    for weights in (other, tmp_path / "w.safetensors", str(tmp_path / "w.safetensors")):
        check(aot.compile(net, "x: f32[b, 8]", weights=weights)(X), numpy_net(other, X))
    check({"first.bias": state_of(net)["first.bias"]}, {"first.bias": before["first.bias"]})  # the model is as it was
    with pytest.raises(InputError, match=r"missing: second\.weight"):
        aot.compile(net, "x: f32[b, 8]", weights={k: v for k, v in other.items() if k != "second.weight"})
    with pytest.raises(UserError, match="weights are for models"):
        aot.compile(lambda x: x, "x: f32[b, 8]", weights=other)


def test_a_shared_parameter_is_stored_once() -> None:
    net = Net()
    net.second.weight = net.first.weight
    tied = [net.first.weight]

    def forward(x: Any) -> Any:
        return net.first(x) @ tied[0]

    artifact = aot.compile(forward, "x: f32[b, 8]").artifact
    assert [weight.name for weight in artifact.weights] == ["net.first.weight", "net.first.bias"]


def test_inputs_go_by_name_or_by_position() -> None:
    def subtract(a: Any, b: Any) -> Any:
        return a - b

    one, two = np.float32(1), np.float32(2)
    assert aot.compile(subtract, "b: f32; a: f32")(b=one, a=two) == 1
    assert aot.compile(subtract, "x: f32; y: f32")(x=one, y=two) == -1


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x * x, ["out0"]),
        (lambda x: (x * x, x + x), ["out0", "out1"]),
        (lambda x: {"a": x * x, "b": [x + x, x - x]}, ["a", "b.0", "b.1"]),
    ],
)
def test_names_of_outputs(function: Any, names: list[str]) -> None:
    assert [spec.name for spec in aot.compile(function, "x: f32[3]").outputs] == names


def test_captured_tensors_are_weights() -> None:
    table = as_tensor(W)
    artifact = aot.compile(lambda x: x * table, "x: f32[b, 8]").artifact
    assert [(weight.name, weight.array.tolist()) for weight in artifact.weights] == [("constant", W.tolist())]


def test_an_input_and_a_weight_may_have_one_name() -> None:
    x = Param(W)
    model = aot.compile(lambda y: y * x, "y: f32[b, 8]")
    np.testing.assert_array_equal(model(X), X * W)
    clash = {"x": x}
    model = aot.compile(lambda x: x * clash["x"], "x: f32[b, 8]")
    np.testing.assert_array_equal(model(X), X * W)


class Counting(Module):
    def __init__(self) -> None:
        self.count = StateBuffer(np.float32(0))

    def forward(self, x: Any) -> Any:
        self.count.value = self.count + 1
        return x * self.count


def test_updates_of_state_are_refused() -> None:
    with pytest.raises(UserError, match="updates state"):
        aot.compile(Counting(), "x: f32[3]")


def test_results_must_be_tensors() -> None:
    with pytest.raises(UserError, match="a result is no tensor"):
        aot.compile(lambda x: (x, 3), "x: f32[3]")


def test_gradients_can_be_compiled(net: Net) -> None:
    def loss_and_gradient(x: Any) -> Any:
        return transform.value_and_grad(lambda v: (v * v * v).sum())(x)

    value, gradient = aot.compile(loss_and_gradient, "x: f32[b, 8]").run({"x": X}).values()
    np.testing.assert_allclose(value, (X**3).sum(), rtol=1e-4)
    np.testing.assert_allclose(gradient, 3 * X * X, rtol=1e-5)


def test_export_gives_ir_that_compiles_to_the_same(net: Net, tmp_path: Path) -> None:
    text = aot.export(net, "x: f32[b, 8]", tmp_path / "net.mlir")
    assert (tmp_path / "net.mlir").read_text() == text
    model = Model(aot.build(from_text(text, "net.mlir")))
    state = state_of(net)
    results = model.run({"x": X, **state})
    np.testing.assert_array_equal(results["out0"], aot.compile(net, "x: f32[b, 8]")(X)["logits"])


_BUILD = """
import sys
sys.path.insert(0, sys.argv[1])
from firebox.frontend import aot, random, transform
import model
aot.compile(model.net(), "x: f32[b, 8], 1<=b<=64", path=sys.argv[2], target="x86-64-v3")
"""


def test_builds_are_identical_wherever_they_are_made(tmp_path: Path) -> None:
    contents = set()
    for number, name in enumerate(("here", "a longer place")):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "model.py").write_text(MODEL)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": str(number),
            "FIREBOX_NUM_THREADS": str(1 + number),
            "FIREBOX_CACHE_DIR": str(directory / "cache"),
        }
        command = [sys.executable, "-c", _BUILD, str(directory), str(directory / "out.fbox")]
        subprocess.run(command, check=True, env=environment, cwd=directory)
        contents.add((directory / "out.fbox").read_bytes())
    assert len(contents) == 1
    assert b"model.py:11" in next(iter(contents))
