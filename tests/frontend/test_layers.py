"""Layers with parameters against recorded values and gradients of PyTorch's, and what else layers promise."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox.errors import IndexRangeError, ShapeError, UserError
from firebox.frontend import nn
from firebox.frontend.functions.activations import relu
from firebox.frontend.functions.padding import pad
from firebox.frontend.functions.shape import concat
from firebox.frontend.nn import functional as F
from firebox.frontend.tensor import Tensor, tensor
from firebox.frontend.transform import grad
from tests.frontend import recorded
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(31)


class Held:
    """Stands for a parameter, with a tensor that is an operand of the test."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


def fill(module: nn.Module, path: str, value: Tensor) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        module = getattr(module, parent)
    assert getattr(module, name).value.shape == value.shape
    setattr(module, name, Held(value))


def filled(make: Callable[[], nn.Module], inputs: int, call: Callable[[Any], Tensor] | None = None) -> Any:
    """A function of inputs and parameters, in the order of the module's parameters."""

    def function(*operands: Tensor) -> Tensor:
        module = make().eval()
        for path, value in zip([p for p, _ in module.named_parameters()], operands[inputs:], strict=True):
            fill(module, path, value)
        result: Any = module(*operands[:inputs])
        found: Tensor = result if call is None else call(result)
        return found

    return function


def everything(result: Any) -> Tensor:
    outputs, state = result
    parts: list[Tensor] = [outputs, *(state if isinstance(state, tuple) else (state,))]
    return concat([part.reshape((-1,)) for part in parts])


def pytorch_order(decoder: bool) -> list[Any]:
    """Where each parameter of PyTorch's transformer layers goes; a triple splits the joint projection."""
    names: list[Any] = []
    for part in ("attention", "cross_attention")[: 1 + decoder]:
        for kind in ("weight", "bias"):
            names.append([f"{part}.{which}.{kind}" for which in ("query", "key", "value")])
        names += [f"{part}.output.weight", f"{part}.output.bias"]
    names += [f"feed_forward.{which}.{kind}" for which in ("inner", "outer") for kind in ("weight", "bias")]
    return names + [f"norm_{k}.{kind}" for k in range(1, 3 + decoder) for kind in ("weight", "bias")]


def transformer(make: Callable[[], nn.Module], inputs: int) -> Any:
    def function(*operands: Tensor) -> Tensor:
        module = make().eval()
        for path, value in zip(pytorch_order(inputs == 2), operands[inputs:], strict=True):
            for k, one in enumerate(path if isinstance(path, list) else [path]):
                rows = value.shape[0] // 3 if isinstance(path, list) else value.shape[0]
                fill(module, one, value[k * rows : (k + 1) * rows])
        result: Tensor = module(*operands[:inputs])
        return result

    return function


def lstm_cell(result: Sequence[Tensor]) -> Tensor:
    return concat(list(result))


CASES: dict[str, Any] = {
    "rnn": filled(lambda: nn.RNN(3, 4), 1, everything),
    "rnn_relu": filled(lambda: nn.RNN(3, 4, bias=False, batch_first=False, nonlinearity="relu"), 2, everything),
    "lstm": filled(lambda: nn.LSTM(3, 2, 2, bidirectional=True), 1, everything),
    "gru": filled(lambda: nn.GRU(3, 2, 2, bidirectional=True), 2, everything),
    "lstm_cell": filled(lambda: nn.LSTMCell(3, 4), 1, lstm_cell),
    "gru_cell": filled(lambda: nn.GRUCell(3, 4), 2),
    "bilinear": filled(lambda: nn.Bilinear(3, 4, 2), 2),
    "encoder_layer": transformer(lambda: nn.TransformerEncoderLayer(4, 2, 6, activation=relu, causal=True), 1),
    "encoder_layer_first": transformer(lambda: nn.TransformerEncoderLayer(4, 2, 6, norm_first=True), 1),
    "decoder_layer": transformer(lambda: nn.TransformerDecoderLayer(4, 2, 6, activation=relu), 2),
    "bag_mean": lambda w, i: F.embedding_bag(i, w, padding_idx=1),
    "bag_max": lambda w, i: F.embedding_bag(i, w, mode="max", padding_idx=1),
    "bag_offsets": lambda w, i, o: F.embedding_bag(i, w, o),
    "bag_weighted": lambda w, i, s: F.embedding_bag(i, w, None, "sum", s),
    "prelu": filled(lambda: nn.PReLU(3), 1),
}


def test_every_recorded_case_is_tested() -> None:
    assert sorted(CASES) == sorted(recorded.cases("layers"))


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_gradients(name: str) -> None:
    recorded.check("layers", name, CASES[name], 1e-8)


# ---- recurrent ---------------------------------------------------------------------------------------------------


def test_parameters_of_recurrences_have_the_names_of_pytorch(frontend: None) -> None:
    names = [path for path, _ in nn.LSTM(3, 2, 2, bidirectional=True).named_parameters()]
    assert names[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]
    assert names[-1] == "bias_hh_l1_reverse" and len(names) == 16


def test_a_layer_is_its_cell_step_by_step(frontend: None) -> None:
    layer, cell = nn.GRU(3, 4, bias=False), nn.GRUCell(3, 4, bias=False)
    for kind in ("ih", "hh"):
        setattr(cell, f"weight_{kind}", getattr(layer, f"weight_{kind}_l0"))
    x = tensor(RNG.normal(size=(2, 3, 3)).astype(np.float32))
    outputs, last = layer(x)
    state = None
    for t in range(3):
        state = cell(x[:, t], state)
        np.testing.assert_allclose(outputs[:, t].numpy(), state.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(last.numpy()[0], outputs.numpy()[:, -1])


def test_one_program_for_sequences_of_any_length(frontend: None) -> None:
    layer = nn.LSTM(3, 4, bidirectional=True)
    model = fb.compile(lambda x: layer(x)[0], "x: f32[b, t, 3]")
    for batch, length in [(2, 1), (1, 7)]:
        x = RNG.normal(size=(batch, length, 3)).astype(np.float32)
        np.testing.assert_allclose(model(x), layer(tensor(x))[0].numpy(), rtol=1e-5, atol=1e-6)


def test_recurrences_say_what_does_not_fit(frontend: None) -> None:
    layer, x = nn.LSTM(3, 4), tensor(np.ones((2, 5, 3), np.float32))
    with pytest.raises(ShapeError, match="the input does not fit"):
        layer(x[:, :, :2])
    with pytest.raises(ShapeError, match="the state does not fit"):
        layer(x, (tensor(np.ones((1, 2, 4), np.float32)),))
    with pytest.raises(ShapeError, match="the sequence is empty"):
        layer(x[:, :0])
    with pytest.raises(UserError, match="no such nonlinearity"):
        nn.RNN(3, 4, nonlinearity="gelu")


# ---- positions ---------------------------------------------------------------------------------------------------


def test_positional_encoding(frontend: None) -> None:
    layer = nn.PositionalEncoding(5, max_length=7)
    rates = 10000.0 ** (-np.arange(0, 5, 2) / 5)
    angles = np.arange(2, 6)[:, None] * rates
    expected = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(4, 6)[:, :5]
    found = layer(tensor(np.zeros((2, 4, 5), np.float32)), start=2).numpy()
    np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 4, 5)), atol=1e-6)
    with pytest.raises(ShapeError, match="the sequence does not fit"):
        layer(tensor(np.zeros((2, 6, 5), np.float32)), start=2)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_encoding(interleaved: bool) -> None:
    """Products of turned vectors depend on the difference of their positions only."""
    x = RNG.normal(size=(3, 6))
    angles = np.arange(2, 5)[:, None] * 100.0 ** (-np.arange(2) / 2)
    pairs = x[:, :4].reshape(3, 2, 2) if interleaved else x[:, :4].reshape(3, 2, 2).swapaxes(1, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
    parts = np.stack([turned.real, turned.imag], 2 if interleaved else 1).reshape(3, 4)
    layer = nn.RotaryEncoding(4, 100.0, interleaved)
    np.testing.assert_allclose(layer(tensor(x), 2).numpy(), np.concatenate([parts, x[:, 4:]], 1), rtol=1e-10)
    check_gradient(lambda t: layer(t, 2), x)


# ---- other layers ------------------------------------------------------------------------------------------------


def test_embedding_with_a_padding_row(frontend: None) -> None:
    layer = nn.Embedding(4, 3, padding_idx=-3)
    assert not layer.weight.value.numpy()[1].any() and layer.weight.value.numpy()[0].any()
    layer(tensor(np.array([[1, 2], [1, 1]]))).sum().backward()
    assert layer.weight.grad is not None
    np.testing.assert_array_equal(layer.weight.grad.numpy()[:, 0], [0, 0, 1, 0])
    with pytest.raises(IndexRangeError, match="no such row"):
        nn.Embedding(4, 3, padding_idx=4)


def test_a_negative_padding_row_counts_from_the_end(frontend: None) -> None:
    rows, weight = tensor(np.array([[1, 3], [3, 3]])), tensor(np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal(F.embedding_bag(rows, weight, padding_idx=-1).numpy(), [[3, 4, 5], [0, 0, 0]])
    gradient = grad(lambda w: F.embedding(rows, w, -1).sum())(weight)
    np.testing.assert_array_equal(gradient.numpy()[:, 0], [0, 1, 0, 0])


def test_bags_say_what_does_not_fit(frontend: None) -> None:
    layer, rows = nn.EmbeddingBag(4, 3, "max"), tensor(np.array([0, 1, 2]))
    assert layer(rows.reshape(1, 3)).shape == (1, 3)
    with pytest.raises(ShapeError, match="wrong number of dims"):
        layer(rows)
    with pytest.raises(UserError, match="takes no offsets"):
        layer(rows, tensor(np.array([0])))
    with pytest.raises(UserError, match="with mode 'sum' only"):
        layer(rows.reshape(1, 3), None, tensor(np.ones((1, 3))))


def test_weight_norm_starts_with_the_same_weight(frontend: None) -> None:
    layer = nn.Linear(3, 4)
    x = tensor(RNG.normal(size=(2, 3)).astype(np.float32))
    before = layer(x).numpy()
    assert nn.weight_norm(layer) is layer
    assert [path for path, _ in layer.named_parameters()] == ["weight.direction", "weight.magnitude", "bias"]
    np.testing.assert_allclose(layer(x).numpy(), before, rtol=1e-5, atol=1e-6)
    layer(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    with pytest.raises(UserError, match=r"no such parameter[\s\S]*bias"):
        nn.weight_norm(layer)


def test_spectral_norm_divides_by_the_largest_singular_value(frontend: None) -> None:
    layer = nn.spectral_norm(nn.Conv1d(3, 4, 2), iterations=20)
    weight = layer.weight.weight.value.numpy()  # type: ignore[attr-defined]
    largest = np.linalg.svd(weight.reshape(4, 6))[1][0]
    x = tensor(RNG.normal(size=(1, 3, 5)).astype(np.float32))
    layer(x)
    np.testing.assert_allclose(layer.weight.value.numpy(), weight / largest, rtol=1e-3, atol=1e-5)
    assert [path for path, _ in layer.named_buffers()] == ["weight.vector"]
    before = layer.weight.vector.value.numpy()  # type: ignore[attr-defined]
    layer.eval()(x)
    np.testing.assert_array_equal(layer.weight.vector.value.numpy(), before)  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_convolutions_pad_with_their_own_elements(mode: Any, frontend: None) -> None:
    layer = nn.Conv2d(2, 3, (3, 2), padding="same", padding_mode=mode)
    x = tensor(RNG.normal(size=(1, 2, 4, 5)).astype(np.float32))
    expected = F.conv2d(pad(x, ((1, 1), (0, 1)), mode=mode), layer.weight.value, layer.bias.value)  # type: ignore[union-attr]
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="no such padding_mode"):
        nn.Conv1d(1, 1, 1, padding_mode="mirror")  # type: ignore[arg-type]


def test_attention_with_shared_heads(frontend: None) -> None:
    layer = nn.MultiHeadAttention(8, 4, kv_heads=2)
    assert layer.key.weight.value.shape == (4, 8)
    x = tensor(RNG.normal(size=(2, 3, 8)).astype(np.float32))
    full = nn.MultiHeadAttention(8, 4)
    for part in ("query", "output"):
        setattr(full, part, getattr(layer, part))
    for part in ("key", "value"):
        for kind in ("weight", "bias"):
            shared = getattr(getattr(layer, part), kind).value.numpy()
            twice = np.repeat(shared.reshape(2, 2, -1), 2, 0).reshape(8, *shared.shape[1:])
            getattr(getattr(full, part), kind).value = tensor(twice)
    np.testing.assert_allclose(layer(x).numpy(), full(x).numpy(), rtol=1e-4, atol=1e-5)
    dropped = nn.MultiHeadAttention(8, 4, attention_dropout=0.5)
    assert not np.array_equal(dropped(x).numpy(), dropped(x).numpy())
    np.testing.assert_array_equal(dropped.eval()(x).numpy(), dropped(x).numpy())
    with pytest.raises(ShapeError, match="multiple of kv_heads"):
        nn.MultiHeadAttention(8, 4, kv_heads=3)


def test_a_transformer_of_both(frontend: None) -> None:
    model = nn.Transformer(4, 2, 8, 1, 1, norm_first=True).eval()
    source, target = (tensor(RNG.normal(size=(2, n, 4)).astype(np.float32)) for n in (5, 3))
    found = model(source, target)
    assert found.shape == (2, 3, 4)
    changed = np.array(target.numpy())
    changed[:, 2] += 1.0
    np.testing.assert_allclose(model(source, tensor(changed)).numpy()[:, :2], found.numpy()[:, :2], rtol=1e-5)


def test_losses_as_modules(frontend: None) -> None:
    logits, target = tensor(RNG.normal(size=(4, 3)).astype(np.float32)), tensor(np.array([0, 2, 1, 1]))
    loss = nn.CrossEntropyLoss(weight=np.array([1.0, 2.0, 3.0], np.float32), label_smoothing=0.1)
    expected = F.cross_entropy(logits, target, tensor(np.array([1, 2, 3], np.float32)), label_smoothing=0.1)
    np.testing.assert_allclose(loss(logits, target).numpy(), expected.numpy(), rtol=1e-6)
    assert [path for path, _ in loss.named_buffers()] == ["options.weight"]
    assert repr(nn.HuberLoss(delta=0.5)) == "HuberLoss(delta=0.5)"
    with pytest.raises(UserError, match=r"no such option[\s\S]*reduction"):
        nn.MSELoss(margin=1.0)


def test_every_layer_says_what_it_is(frontend: None) -> None:
    layers = [
        nn.Conv3d(1, 2, 3, padding=1),
        nn.ConvTranspose1d(2, 2, 3, groups=2),
        nn.DeformConv2d(2, 2, 3),
        nn.MaxPool3d(2),
        nn.AvgPool1d(2, 1),
        nn.LPPool2d(2.0, 2),
        nn.AdaptiveMaxPool2d((2, None)),
        nn.MaxUnpool2d(2),
        nn.Unfold(3),
        nn.Fold(4, 3),
        nn.PixelShuffle(2),
        nn.PixelUnshuffle(2),
        nn.ChannelShuffle(2),
        nn.Pad([(1, 2)], mode="replicate"),
        nn.Upsample(scale_factor=(2, 3), mode="bilinear"),
        nn.InstanceNorm2d(3, affine=True),
        nn.LocalResponseNorm(3),
        nn.Dropout2d(0.1),
        nn.GaussianNoise(0.1),
        nn.RReLU(),
        nn.Softshrink(0.1),
        nn.Threshold(0.1, 2.0),
        nn.CELU(2.0),
        nn.LSTM(2, 3, bidirectional=True),
        nn.GRUCell(2, 3),
        nn.Bilinear(2, 3, 4),
        nn.RotaryEncoding(4),
        nn.PositionalEncoding(4, 8),
        nn.CTCLoss(blank=1),
    ]
    for layer in layers:
        text = repr(layer)
        assert text.startswith(type(layer).__name__ + "(") and "object at" not in text


def test_spatial_layers_are_their_functions(frontend: None) -> None:
    x = tensor(np.abs(RNG.normal(size=(1, 4, 4, 4))).astype(np.float32))
    pairs: list[tuple[nn.Module, Tensor]] = [
        (nn.MaxPool2d(2, ceil_mode=True), F.max_pool2d(x, 2)),
        (nn.AvgPool2d(3, 2, 1, False), F.avg_pool2d(x, 3, 2, 1, False)),
        (nn.LPPool2d(2.0, 2), F.lp_pool2d(x, 2.0, 2)),
        (nn.AdaptiveAvgPool2d(3), F.adaptive_avg_pool2d(x, 3)),
        (nn.AdaptiveMaxPool2d(3), F.adaptive_max_pool2d(x, 3)),
        (nn.Sequential(nn.Unfold(2, stride=2), nn.Fold(4, 2, stride=2)), x),
        (nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(2)), x),
        (nn.ChannelShuffle(2), F.channel_shuffle(x, 2)),
        (nn.Pad([1], 2.0), F.pad(x, [1], 2.0)),
        (nn.Upsample(8), F.interpolate(x, 8)),
        (nn.InstanceNorm2d(4), F.instance_norm(x)),
        (nn.LocalResponseNorm(2), F.local_response_norm(x, 2)),
        (nn.Softmin(1), F.softmin(x, 1)),
        (nn.QuietSoftmax(1), F.quiet_softmax(x, 1)),
        (nn.LogSoftmax(1), F.log_softmax(x, 1)),
        (nn.Hardshrink(0.3), F.hard_shrink(x, 0.3)),
        (nn.Tanhshrink(), F.tanh_shrink(x)),
        (nn.Dropout2d(0.5).eval(), x),
    ]
    for module, expected in pairs:
        np.testing.assert_allclose(module(x).numpy(), expected.numpy(), rtol=1e-6, err_msg=repr(module))
    values, places = F.max_pool2d_with_indices(x, 2)
    assert nn.MaxUnpool2d(2)(values, places).numpy().sum() == pytest.approx(values.numpy().sum())
    assert nn.SwiGLU(4, 3)(x).shape == (1, 4, 4, 3)
    assert nn.ConvTranspose1d(4, 2, 3)(x[:, :, 0]).shape == (1, 2, 6)
    offset = tensor(np.zeros((1, 8, 3, 3), np.float32))
    assert nn.DeformConv2d(4, 5, 2)(x, offset).shape == (1, 5, 3, 3)
