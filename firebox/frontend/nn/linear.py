"""Layers of one array: `Linear`, `Bilinear`, `Embedding` and `EmbeddingBag`."""

from firebox.errors import IndexRangeError
from firebox.frontend.cells import Param
from firebox.frontend.functions.bilinear import bilinear
from firebox.frontend.functions.embedding_bag import BagMode, embedding_bag
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


class Bilinear(Module):
    """``y[o] = a . weight[o] . b + bias[o]`` over the last dims of two inputs; ``weight`` is (out, in1, in2)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        shape = (out_features, in1_features, in2_features)
        self.weight = Param(init.fan_uniform(shape, in1_features, dtype, device))
        self.bias = Param(init.fan_uniform((out_features,), in1_features, dtype, device)) if bias else None

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return bilinear(a, b, self.weight.value, value_of(self.bias))

    def extra_repr(self) -> str:
        out, first, second = self.weight.value.shape
        return f"in1_features={first}, in2_features={second}, out_features={out}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, looked up by integers; ``weight`` is (rows, features) and starts as N(0, 1).

    The row ``padding_idx``, if there is one, starts as zeros and gets no gradient.

    Raises:
        IndexRangeError: no such row as ``padding_idx``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        weight = init.normal((num_embeddings, embedding_dim), 0.0, 1.0, dtype, device)
        self.padding_idx = padding_idx
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                expected = f"a row of {num_embeddings}"
                raise IndexRangeError("no such row", op="Embedding", expected=expected, found=padding_idx)
            self.padding_idx = padding_idx % num_embeddings
            weight = weight.at[self.padding_idx].set(0.0)
        self.weight = Param(weight)

    def forward(self, indices: Tensor) -> Tensor:
        return embedding(indices, self.weight.value, self.padding_idx)

    def extra_repr(self) -> str:
        padding = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class EmbeddingBag(Module):
    """Sums, means or maxima of bags of rows of a table; ``weight`` is (rows, features) and starts as N(0, 1)."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: BagMode = "mean",
        padding_idx: int | None = None,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode: BagMode = mode
        self.padding_idx = padding_idx
        self.weight = Param(init.normal((num_embeddings, embedding_dim), 0.0, 1.0, dtype, device))

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Arguments as in `embedding_bag`."""
        return embedding_bag(indices, self.weight.value, offsets, self.mode, per_sample_weights, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
