"""Layers of one matrix: `Linear` and `Embedding`."""

from firebox.frontend.cells import Param
from firebox.frontend.functions.linear_algebra import linear
from firebox.frontend.functions.shape import embedding
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module, value_of
from firebox.frontend.tensor import Tensor


class Linear(Module):
    """``y = x @ weight.T + bias`` over the last dim; ``weight`` is (out, in), as in PyTorch.

    Weight and bias start uniform in +-1/sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: object = None, device: object = None
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Param(init.kaiming_uniform((out_features, in_features), in_features, dtype, device))
        self.bias = Param(init.fan_uniform((out_features,), in_features, dtype, device)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight.value, value_of(self.bias))

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, looked up by integers; ``weight`` is (rows, features) and starts as N(0, 1)."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: object = None, device: object = None) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Param(init.normal((num_embeddings, embedding_dim), 0.0, 1.0, dtype, device))

    def forward(self, indices: Tensor) -> Tensor:
        return embedding(indices, self.weight.value)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
