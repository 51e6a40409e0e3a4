"""Counts that decide speed, on every machine the same: ops, groups, kernels and programs of training steps."""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import firebox as fb
from benchmarks.observe import Compilation, compilations, lowered
from firebox import nn, optim
from firebox.frontend import execute
from firebox.lowering.pipeline import run_to
from firebox.runtime.target import Target

EXAMPLES = str(Path(__file__).parents[1] / "examples")
TARGET = Target.parse("x86-64-v4")
LAYERS = 6
STEPS = 5
BATCH, LENGTH, VOCAB = 16, 64, 96
COSTLY = ("nd.contract", "nd.exp", "nd.log", "nd.tanh", "nd.sqrt", "nd.rsqrt", "nd.expm1")

Step = Callable[[fb.Tensor, fb.Tensor], fb.Tensor]


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    fb.manual_seed(0)
    execute.forget_programs()
    fb.reset_stats()
    yield
    execute.forget_programs()


def training_step(net: nn.Module, optimizer: optim.Optimizer) -> Step:
    def update(x: fb.Tensor, y: fb.Tensor) -> fb.Tensor:
        loss: fb.Tensor = fb.cross_entropy(net(x), y, axis=-1)
        loss.backward()
        optimizer.step()
        return loss

    return update


def module(function: Callable[..., Any], *specs: str) -> ModuleOp:
    return fb.jit(function).lower(*map(fb.spec, specs)).module()


def compiled(function: Callable[..., Any], *specs: str) -> Compilation:
    return lowered(module(function, *specs), TARGET)


# ---- the GPT -----------------------------------------------------------------------------------------------------


Gpt = tuple[Compilation, ModuleOp, int]


@pytest.fixture(scope="module")
def gpt() -> Gpt:
    """The step of the GPT of examples/gpt.py with 6 layers: compiled; before fusion; its forward contractions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        example = importlib.import_module("gpt")
        sys.modules.pop("gpt")
    model = example.GPT(example.Config(VOCAB, layers=LAYERS, context=LENGTH))
    update = training_step(model, example.make_optimizer(model, 1e-3))
    tokens = f"i32[{BATCH}, {LENGTH}]"
    forward = run_to(module(model.__call__, tokens), TARGET, "layout")
    step = module(update, tokens, tokens)
    plain = run_to(step.clone(), TARGET, "layout")
    return lowered(step, TARGET), plain, sum(op.name == "nd.contract" for op in forward.walk())


def test_gpt_ops_groups_and_kernels(gpt: Gpt) -> None:
    found, _, _ = gpt
    assert found.nd_ops("expand") < 3000
    assert found.nd_ops("layout") < 1300  # 1,138 when this was written
    assert len(found.labels) < 80
    assert len(found.labels) <= 56  # 50
    assert found.kernels <= 54  # 48
    assert len(found.groups) <= 260  # 240


def test_gpt_layers_share_their_kernels(gpt: Gpt) -> None:
    found, _, _ = gpt
    uses = Counter(group.label for group in found.groups)
    assert sum(count >= LAYERS - 1 for count in uses.values()) >= 28  # of those that a layer is made of


def test_gpt_contracts_three_times_as_often_as_forward_alone(gpt: Gpt) -> None:
    found, _, forward = gpt
    assert forward == 6 * LAYERS + 1  # qkv, scores, values, output, two of the MLP; and the head
    assert found.ops["layout"]["nd.contract"] == 3 * forward
    assert sum(group.kind == "contract" for group in found.groups) == 3 * forward


def test_gpt_computes_nothing_twice(gpt: Gpt) -> None:
    found, plain, _ = gpt
    same = Counter(
        (op.name, op.operands, tuple(sorted(op.attributes.items(), key=lambda pair: pair[0])), tuple(op.result_types))
        for op in plain.walk()
        if op.name.startswith("nd.") and op.results
    )
    assert [key[0] for key, count in same.items() if count > 1] == []
    for name in COSTLY:
        assert found.ops["schedule"][name] == found.ops["layout"][name], name


def test_gpt_updates_each_flat_buffer_in_one_kernel(gpt: Gpt) -> None:
    found, _, _ = gpt
    updates = [group for group in found.groups if group.ops.count("nd.sqrt") and len(group.domain) == 1]
    assert len(updates) == 2  # with weight decay, and without
    assert found.ops["layout"]["nd.pack"] == 2


# ---- the digits --------------------------------------------------------------------------------------------------


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def convolutional() -> nn.Module:
    layers = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def test_the_usual_loop_is_one_program_a_step() -> None:
    net = perceptron()
    update = training_step(net, optim.AdamW(net, lr=1e-2))
    rng = np.random.default_rng(0)
    x, y = rng.random((64, 64), np.float32), rng.integers(0, 10, 64)
    losses = []
    with compilations() as found:
        for step in range(1, STEPS + 1):
            losses.append(float(update(fb.tensor(x), fb.tensor(y)).item()))
            counts = fb.stats()
            assert counts["programs_run"] == step
            assert counts["programs_compiled"] == min(step, 2)  # the first initialises the parameters too
            assert counts["nodes_recomputed"] == 0
    assert losses == sorted(losses, reverse=True)
    assert len(found) == 2
    assert {made.ops["layout"]["nd.contract"] for made in found} == {8}


@pytest.mark.parametrize(
    ("make", "image", "contractions", "groups"),
    [(perceptron, "64", 3 * 3 - 1, 19), (convolutional, "1, 8, 8", 3 * 4 - 1, 25)],
    ids=["MLP", "CNN"],
)
def test_a_step_on_digits(make: Callable[[], nn.Module], image: str, contractions: int, groups: int) -> None:
    """The first layer needs no gradient by its input."""
    net = make()
    made = compiled(training_step(net, optim.AdamW(net)), f"f32[64, {image}]", "i64[64]")
    assert made.ops["layout"]["nd.contract"] == contractions
    assert sum(group.kind == "contract" for group in made.groups) == contractions
    assert len(made.groups) <= groups
    for name in COSTLY:
        assert made.ops["schedule"][name] == made.ops["layout"][name], name


def test_all_parameters_are_updated_by_one_kernel() -> None:
    net = perceptron()
    optimizer = optim.AdamW(net)
    made = compiled(training_step(net, optimizer), "f32[64, 64]", "i64[64]")
    (unit,) = optimizer.groups[0].units
    updates = [group for group in made.groups if group.domain == (unit.storage.size,)]
    assert sorted(group.kind for group in updates) == ["loops", "opaque"]  # the update, and the gradients laid out flat
    assert [group.ops for group in updates if group.kind == "opaque"] == [("nd.pack",)]


def test_activations_run_with_their_contraction() -> None:
    net = perceptron()
    made = compiled(net.__call__, "f32[64, 64]")
    assert [group.kind for group in made.groups] == ["contract"] * 3


# ---- row kernels -------------------------------------------------------------------------------------------------


def norm(x: fb.Tensor, weight: fb.Tensor, bias: fb.Tensor) -> fb.Tensor:
    return fb.layer_norm(x, (1024,), weight, bias)


def softmax(x: fb.Tensor) -> fb.Tensor:
    return fb.softmax(x, -1)


def softmax_and_gradient(x: fb.Tensor, cotangent: fb.Tensor) -> Any:
    value, pull = fb.vjp(softmax, x)
    return value, pull(cotangent)


def norm_and_gradient(x: fb.Tensor, weight: fb.Tensor, bias: fb.Tensor, cotangent: fb.Tensor) -> Any:
    value, pull = fb.vjp(lambda x: norm(x, weight, bias), x)
    return value, pull(cotangent)


@pytest.mark.parametrize("function", [softmax, softmax_and_gradient, norm, norm_and_gradient], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", ["64", "b"])
def test_a_row_function_is_one_kernel(function: Callable[..., Any], rows: str) -> None:
    x = f"f32[{rows}, 1024]"
    specs = {softmax: [x], softmax_and_gradient: [x, x], norm: [x, "f32[1024]", "f32[1024]"]}
    made = compiled(function, *specs.get(function, [x, "f32[1024]", "f32[1024]", x]))
    assert [group.kind for group in made.groups] == ["loops"]
    assert made.kernels == 1


@pytest.mark.parametrize("rows", ["1024", "b"])
def test_cross_entropy_and_its_gradient_read_the_scores_once(rows: str) -> None:
    """Besides, the rows that count are counted, and the mean is taken: both over one number a row."""

    def loss(x: fb.Tensor, y: fb.Tensor) -> Any:
        return fb.value_and_grad(lambda x: fb.cross_entropy(x, y))(x)

    made = compiled(loss, f"f32[{rows}, 1000]", f"i64[{rows}]")
    wide = [group for group in made.groups if 1000 in group.domain]
    assert len(wide) == 1
    assert made.kernels <= 3
    assert made.ops["schedule"]["nd.exp"] == 1
