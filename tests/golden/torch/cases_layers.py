"""Cases of layers with parameters, which are operands; the names are those of `tests/frontend/test_layers.py`."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

torch: Any = importlib.import_module("torch")
RNG = np.random.default_rng(8)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def layer(module: Any, inputs: tuple[Any, ...], call: Callable[..., Any] | None = None) -> Any:
    """A case of a module: its inputs, then its parameters in order."""
    module = module.double().eval()
    names = [name for name, _ in module.named_parameters()]
    weights = tuple(normal(*p.shape) * 0.5 for p in module.parameters())

    def function(*operands: Any) -> Any:
        values = dict(zip(names, operands[len(inputs) :], strict=True))
        result = torch.func.functional_call(module, values, operands[: len(inputs)])
        return call(result) if call is not None else result

    return function, (*inputs, *weights)


def everything(result: Any) -> Any:
    """Outputs and last states of a recurrence in one vector."""
    outputs, state = result
    parts = [outputs, *(state if isinstance(state, tuple) else (state,))]
    return torch.cat([part.reshape(-1) for part in parts])


def masked(module: Any, mask: Any) -> Any:
    class Masked(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Any) -> Any:
            return self.inner(*inputs, mask)

    return Masked()


nn = torch.nn
F: Any = importlib.import_module("torch.nn.functional")
TABLE = normal(5, 2)
BAGS = np.array([[0, 1, 3], [1, 1, 1], [2, 4, 2]])
CAUSAL = torch.triu(torch.full((3, 3), -float("inf"), dtype=torch.float64), 1)
SMALL = {"dropout": 0.1, "batch_first": True}

CASES: dict[str, Any] = {
    "rnn": layer(nn.RNN(3, 4, batch_first=True), (normal(2, 5, 3),), everything),
    "rnn_relu": layer(nn.RNN(3, 4, 1, "relu", False), (normal(3, 2, 3), normal(1, 2, 4)), everything),
    "lstm": layer(nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True), (normal(2, 4, 3),), everything),
    "gru": layer(nn.GRU(3, 2, 2, batch_first=True, bidirectional=True), (normal(2, 4, 3), normal(4, 2, 2)), everything),
    "lstm_cell": layer(nn.LSTMCell(3, 4), (normal(2, 3),), torch.cat),
    "gru_cell": layer(nn.GRUCell(3, 4), (normal(2, 3), normal(2, 4))),
    "bilinear": layer(nn.Bilinear(3, 4, 2), (normal(5, 3), normal(5, 4))),
    "encoder_layer": layer(masked(nn.TransformerEncoderLayer(4, 2, 6, **SMALL), CAUSAL), (normal(2, 3, 4),)),
    "encoder_layer_first": layer(
        nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", norm_first=True, **SMALL), (normal(2, 3, 4),)
    ),
    "decoder_layer": layer(
        masked(nn.TransformerDecoderLayer(4, 2, 6, **SMALL), CAUSAL), (normal(2, 3, 4), normal(2, 5, 4))
    ),
    "bag_mean": (lambda w, i: F.embedding_bag(i, w, padding_idx=1), (TABLE, BAGS)),
    "bag_max": (lambda w, i: F.embedding_bag(i, w, mode="max", padding_idx=1), (TABLE, BAGS)),
    "bag_offsets": (lambda w, i, o: F.embedding_bag(i, w, o), (TABLE, BAGS.reshape(-1), np.array([0, 2, 2, 5]))),
    "bag_weighted": (
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        (TABLE, BAGS, normal(3, 3)),
    ),
    "prelu": layer(nn.PReLU(3), (normal(2, 3, 4),)),
}
