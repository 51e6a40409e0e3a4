"""Modules: what is found in them, under which path, their state, their modes; and each layer against its function."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import firebox.frontend.random as random
from firebox import dtypes
from firebox.errors import InputError, ShapeError, UserError
from firebox.frontend import nn, optim
from firebox.frontend.nn import functional as F
from firebox.frontend.nn import init
from firebox.frontend.tensor import Tensor, tensor

RNG = np.random.default_rng(9)


@dataclass
class Pair:
    first: nn.Linear
    scale: float
    second: nn.Linear


class Nested(nn.Module):
    """Fields of every kind: module, list, tuple, dict, dataclass, a parameter of its own, a shared one, constants."""

    def __init__(self) -> None:
        self.own = nn.Param(np.ones(2, np.float32))
        self.blocks = [nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2))]
        self.pair = Pair(nn.Linear(2, 2, bias=False), 0.5, nn.Linear(2, 2, bias=False))
        self.named = {"a": (nn.Embedding(4, 2), "text"), "b": None}
        self.shared = self.pair.first.weight
        self.counter = nn.Buffer(np.zeros(1, np.int64))
        self.table = np.arange(3)
        self.function = F.relu
        self.me = self


PATHS = [
    "own",
    "blocks.0.weight",
    "blocks.0.bias",
    "blocks.1.1.weight",
    "blocks.1.1.bias",
    "pair.first.weight",
    "pair.second.weight",
    "named.a.0.weight",
]


def test_parameters_are_found_everywhere_once_and_in_order() -> None:
    model = Nested()
    assert [path for path, _ in model.named_parameters()] == PATHS
    assert [path for path, _ in model.named_buffers()] == ["counter"]
    assert model.num_params == 2 + 6 + 3 + 6 + 2 + 4 + 4 + 8
    assert dict(model.named_parameters())["pair.first.weight"] is model.shared
    assert [path for path, _ in model.named_modules()] == [
        "",
        "blocks.0",
        "blocks.1",
        "blocks.1.0",
        "blocks.1.1",
        "pair.first",
        "pair.second",
        "named.a.0",
    ]


def test_state_goes_out_and_in() -> None:
    source, target = Nested(), Nested()
    state = source.state_dict()
    assert list(state) == [*PATHS, "counter"]
    target.load_state_dict({key: value.numpy() for key, value in state.items()})
    for key, value in target.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[key].numpy())


def test_a_shared_parameter_may_come_under_any_of_its_names() -> None:
    model = Nested()
    state: dict[str, Any] = dict(model.state_dict())
    state["shared"] = np.full((2, 2), 7.0)
    del state["pair.first.weight"]
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.pair.first.weight.numpy(), np.full((2, 2), 7.0, np.float32))


def test_load_names_what_does_not_fit_and_then_changes_nothing() -> None:
    model = Nested()
    before = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    state: dict[str, Any] = {key: np.zeros(value.shape) for key, value in model.state_dict().items()}
    del state["own"]
    state["extra.weight"] = np.zeros(1)
    with pytest.raises(InputError) as caught:
        model.load_state_dict(state)
    assert "missing: own; unexpected: extra.weight" in str(caught.value)
    state["blocks.0.bias"] = np.zeros(4)
    with pytest.raises(ShapeError) as shape_error:
        model.load_state_dict(state, strict=False)
    assert "blocks.0.bias: expected (3,), found (4,)" in str(shape_error.value)
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    state["blocks.0.bias"] = np.zeros(3)
    model.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(model.blocks[0].bias.numpy(), np.zeros(3))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model.own.numpy(), np.ones(2))


def test_modes_reach_everything() -> None:
    model = Nested()
    assert all(module.training for module in model.modules())
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


def test_freeze_and_unfreeze() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].freeze()
    model(tensor(np.ones((3, 2), np.float32))).sum().backward()
    grads = {path: p.grad is not None for path, p in model.named_parameters()}
    assert grads == {"0.weight": False, "0.bias": False, "1.weight": True, "1.bias": True}
    model.table = nn.Param(np.arange(3))  # type: ignore[attr-defined]
    model.unfreeze()
    assert all(p.requires_grad == p.dtype.is_float for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_to_casts_floats_only() -> None:
    model = Nested()
    assert model.to(dtypes.bf16) is model
    assert model.own.dtype is dtypes.bf16
    assert model.counter.dtype is dtypes.i64
    assert all(p.requires_grad for p in model.parameters())
    model.to("cpu", dtype="f64")
    assert {p.dtype for p in model.parameters()} == {dtypes.f64}


def test_to_comes_before_the_optimizer() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    optim.SGD(model)
    assert model.to("f32") is model
    with pytest.raises(UserError, match=r"found:    0.weight"):
        model.to("f64")
    assert {p.dtype for p in model.parameters()} == {dtypes.f32}


def test_map_and_apply() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model.map(lambda path, cell: cell.value * 0 + (1 if path.endswith("weight") else 2))
    np.testing.assert_array_equal(model[0].weight.numpy(), np.ones((2, 2)))
    np.testing.assert_array_equal(model[0].bias.numpy(), [2.0, 2.0])
    seen: list[str] = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["ReLU", "Linear", "Sequential"]


def test_deepcopy_is_independent() -> None:
    model = nn.Linear(2, 2)
    other = copy.deepcopy(model)
    other.weight.value = np.zeros((2, 2), np.float32)
    assert np.abs(model.weight.numpy()).sum() > 0


def test_repr_is_a_tree() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.body = nn.Sequential(nn.Linear(2, 3), nn.GELU("tanh"))
            self.heads = [nn.Linear(3, 1, bias=False)]

    assert repr(Net()) == (
        "Net(\n"
        "  (body): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "    (1): GELU(approximate='tanh')\n"
        "  )\n"
        "  (heads.0): Linear(in_features=3, out_features=1, bias=False)\n"
        ")"
    )


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Nested defines no forward"):
        Nested()(1)


# ---- layers ------------------------------------------------------------------------------------------------------


def image(*shape: int) -> Tensor:
    return tensor(RNG.normal(size=shape).astype(np.float32))


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[[Any, Tensor], Tensor]]] = {
    "linear": (lambda: nn.Linear(4, 3), (2, 5, 4), lambda m, x: F.linear(x, m.weight, m.bias)),
    "conv1d": (
        lambda: nn.Conv1d(4, 6, 3, 2, "valid", groups=2),
        (2, 4, 9),
        lambda m, x: F.conv1d(x, m.weight, m.bias, 2, 0, 1, 2),
    ),
    "conv2d": (
        lambda: nn.Conv2d(3, 4, (3, 2), padding="same", bias=False),
        (2, 3, 5, 6),
        lambda m, x: F.conv2d(x, m.weight, padding="same"),
    ),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2),
        (2, 4, 5, 4),
        lambda m, x: F.conv_transpose2d(x, m.weight, m.bias, 2, 1, 1, 2),
    ),
    "layer_norm": (lambda: nn.LayerNorm(6), (3, 6), lambda m, x: F.layer_norm(x, 6, m.weight, m.bias)),
    "rms_norm": (lambda: nn.RMSNorm((2, 3)), (4, 2, 3), lambda m, x: F.rms_norm(x, (2, 3), m.weight)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3), lambda m, x: F.group_norm(x, 2, m.weight, m.bias)),
    "max_pool": (lambda: nn.MaxPool2d(2), (1, 2, 4, 6), lambda m, x: F.max_pool2d(x, 2)),
    "avg_pool": (lambda: nn.AvgPool2d(3, 2, 1, False), (1, 2, 5, 6), lambda m, x: F.avg_pool2d(x, 3, 2, 1, False)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(1), (1, 2, 5, 6), lambda m, x: x.mean((2, 3), keepdims=True)),
    "flatten": (lambda: nn.Flatten(), (2, 3, 4), lambda m, x: x.reshape(2, 12)),
    "identity": (lambda: nn.Identity(), (2, 3), lambda m, x: x),
    "relu": (lambda: nn.ReLU(), (2, 3), lambda m, x: F.relu(x)),
    "leaky_relu": (lambda: nn.LeakyReLU(0.3), (2, 3), lambda m, x: F.leaky_relu(x, 0.3)),
    "gelu": (lambda: nn.GELU("tanh"), (2, 3), lambda m, x: F.gelu(x, "tanh")),
    "silu": (lambda: nn.SiLU(), (2, 3), lambda m, x: F.silu(x)),
    "softplus": (lambda: nn.Softplus(2.0), (2, 3), lambda m, x: F.softplus(x, 2.0)),
    "elu": (lambda: nn.ELU(0.5), (2, 3), lambda m, x: F.elu(x, 0.5)),
    "hardtanh": (lambda: nn.Hardtanh(-0.5, 0.5), (2, 3), lambda m, x: F.hard_tanh(x, -0.5, 0.5)),
    "glu": (lambda: nn.GLU(0), (2, 3), lambda m, x: F.glu(x, 0)),
    "softmax": (lambda: nn.Softmax(0), (2, 3), lambda m, x: F.softmax(x, 0)),
    "log_softmax": (lambda: nn.LogSoftmax(0), (2, 3), lambda m, x: F.log_softmax(x, 0)),
}


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers_are_their_functions(name: str) -> None:
    make, shape, function = LAYERS[name]
    layer, x = make(), image(*shape)
    np.testing.assert_array_equal(layer(x).numpy(), function(layer, x).numpy())
    assert repr(layer).startswith(type(layer).__name__)


def test_embedding() -> None:
    layer = nn.Embedding(5, 3)
    np.testing.assert_array_equal(layer(tensor(np.array([[4, 0]]))).numpy(), layer.weight.numpy()[[[4, 0]]])


def test_batch_norm_trains_by_the_batch_and_keeps_running_statistics() -> None:
    """Normalised by the biased variance; the running variance takes the unbiased one (PyTorch)."""
    layer = nn.BatchNorm2d(3, momentum=0.25)
    x = RNG.normal(size=(4, 3, 5, 5)).astype(np.float32) * 2 + 1
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    expected = (x - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    np.testing.assert_allclose(layer(tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert layer.running_mean is not None and layer.running_var is not None
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * variance * 100 / 99, rtol=1e-5)
    before = layer.running_var.numpy().copy()
    layer.eval()
    running = (layer.running_mean.numpy()[:, None, None], layer.running_var.numpy()[:, None, None])
    np.testing.assert_allclose(
        layer(tensor(x)).numpy(), (x - running[0]) / np.sqrt(running[1] + 1e-5), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(layer.running_var.numpy(), before)
    assert [path for path, _ in layer.named_buffers()] == ["running_mean", "running_var"]


def test_batch_norm_statistics_do_not_hold_on_to_derivatives() -> None:
    layer = nn.BatchNorm1d(2)
    x = tensor(RNG.normal(size=(6, 2)), requires_grad=True)
    for _ in range(2):
        (layer(x.float()) ** 3).sum().backward()
    assert layer.running_mean is not None and not layer.running_mean.requires_grad
    assert x.grad is not None
    with pytest.raises(ShapeError, match="rank 2 or 3"):
        layer(image(2, 2, 3, 3))


def test_dropout_drops_in_training_only() -> None:
    random.manual_seed(5)
    layer, x = nn.Dropout(0.25), tensor(np.ones(20000, np.float32))
    dropped = layer(x).numpy()
    assert set(np.unique(dropped)) == {np.float32(0.0), np.float32(1.0 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.01
    assert not np.array_equal(dropped, layer(x).numpy())
    random.manual_seed(5)
    np.testing.assert_array_equal(layer(x).numpy(), dropped)
    assert layer.eval()(x) is x
    np.testing.assert_array_equal(nn.Dropout(1.0)(x).numpy(), np.zeros(20000))
    with pytest.raises(UserError, match="not a probability"):
        nn.Dropout(1.5)


def test_dropout_gradient_uses_the_same_mask() -> None:
    x = tensor(np.ones(100, np.float32), requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def attend(m: nn.MultiHeadAttention, q: np.ndarray[Any, Any], kv: np.ndarray[Any, Any], mask: Any) -> Any:
    """By the formula, in NumPy."""

    def project(layer: nn.Linear, x: Any) -> Any:
        assert layer.bias is not None
        y = x @ layer.weight.numpy().T + layer.bias.numpy()
        return y.reshape(*y.shape[:2], m.heads, -1).swapaxes(1, 2)

    scores = project(m.query, q) @ project(m.key, kv).swapaxes(-1, -2) / np.sqrt(m.width // m.heads) + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    out = (e / e.sum(-1, keepdims=True) @ project(m.value, kv)).swapaxes(1, 2).reshape(q.shape)
    assert m.output.bias is not None
    return out @ m.output.weight.numpy().T + m.output.bias.numpy()


def test_multi_head_attention() -> None:
    q, kv = RNG.normal(size=(2, 4, 6)), RNG.normal(size=(2, 5, 3))
    cross = nn.MultiHeadAttention(6, 2, context_width=3, dtype="f64")
    np.testing.assert_allclose(cross(tensor(q), tensor(kv)).numpy(), attend(cross, q, kv, 0.0), rtol=1e-10)
    causal = nn.MultiHeadAttention(6, 3, causal=True, dtype="f64")
    mask = np.where(np.tril(np.ones((4, 4), bool)), 0.0, -np.inf)
    np.testing.assert_allclose(causal(tensor(q)).numpy(), attend(causal, q, q, mask), rtol=1e-10)
    moved = q.copy()
    moved[:, 3] += 1.0
    np.testing.assert_array_equal(causal(tensor(moved)).numpy()[:, :3], causal(tensor(q)).numpy()[:, :3])
    with pytest.raises(ShapeError, match="multiple of heads"):
        nn.MultiHeadAttention(6, 4)


# ---- initial values ----------------------------------------------------------------------------------------------


def test_the_seed_decides_the_model() -> None:
    random.manual_seed(3)
    first = nn.Linear(4, 4).weight.numpy().copy()
    second = nn.Linear(4, 4).weight.numpy().copy()
    random.manual_seed(3)
    np.testing.assert_array_equal(nn.Linear(4, 4).weight.numpy(), first)
    assert not np.array_equal(first, second)


def test_default_bounds_are_pytorchs() -> None:
    for layer in (nn.Linear(100, 50), nn.Conv2d(4, 64, 5)):  # 100 inputs each
        state = {path: value.numpy() for path, value in layer.state_dict().items()}
        assert init.fans(state["weight"].shape)[0] == 100
        assert np.abs(state["bias"]).max() <= 0.1
        assert 0.099 < np.abs(state["weight"]).max() <= 0.1


def test_initial_distributions() -> None:
    shape = (200, 300)
    assert abs(init.xavier_uniform(shape).numpy().std() - np.sqrt(2 / 500)) < 1e-3
    assert abs(init.xavier_normal(shape).numpy().std() - np.sqrt(2 / 500)) < 1e-3
    assert abs(init.kaiming_normal(shape).numpy().std() - np.sqrt(2 / 300)) < 1e-3
    assert abs(init.kaiming_uniform(shape, gain=1.0).numpy().std() - np.sqrt(1 / 300)) < 1e-3
    np.testing.assert_array_equal(init.constant((2,), 3.0).numpy(), [3.0, 3.0])
    with pytest.raises(ShapeError, match="two dims"):
        init.fans((3,))


def test_parameters_may_be_of_any_type() -> None:
    assert nn.Linear(2, 2, dtype="f16").weight.dtype is dtypes.f16
    assert nn.BatchNorm1d(2, dtype=dtypes.f64).running_var.dtype is dtypes.f64  # type: ignore[union-attr]
