"""Transformer blocks: encoder, decoder, and the two of them with their stacks (Vaswani et al. 2017)."""

from collections.abc import Callable
from typing import Any

from firebox.frontend.functions.activations import gelu
from firebox.frontend.nn.attention import MultiHeadAttention
from firebox.frontend.nn.dropout import Dropout
from firebox.frontend.nn.linear import Linear
from firebox.frontend.nn.module import Module
from firebox.frontend.nn.normalization import LayerNorm
from firebox.frontend.tensor import Tensor


class FeedForward(Module):
    """outer(activation(inner(x))), position by position, with dropout between."""

    def __init__(
        self,
        width: int,
        hidden: int,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = gelu,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.inner = Linear(width, hidden, True, dtype, device)
        self.outer = Linear(hidden, width, True, dtype, device)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.outer(self.dropout(self.activation(self.inner(x))))
        return result


class _Layer(Module):
    """What layers share: residual branches, normalised before (``norm_first``) or after the sum."""

    def __init__(self, norm_first: bool, dropout: float) -> None:
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

    def _added(self, x: Tensor, norm: LayerNorm, branch: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            inner: Tensor = x + self.dropout(branch(norm(x)))
            return inner
        outer: Tensor = norm(x + self.dropout(branch(x)))
        return outer


class TransformerEncoderLayer(_Layer):
    """Attention of (batch, length, width) to itself, then a `FeedForward`.

    Args:
        hidden: width between the two linear layers.
        heads: number of heads of attention; divides ``width``.
        dropout: probability for what both branches add, inside of the second, and for keys to be forgotten.
        norm_first: branches read normalised values; else their sums are normalised.
        causal: a position sees itself and those before only.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: Callable[[Tensor], Tensor] = gelu,
        causal: bool = False,
        eps: float = 1e-5,
        dtype: object = None,
        device: object = None,
    ) -> None:
        super().__init__(norm_first, dropout)
        options: dict[str, Any] = {"attention_dropout": dropout, "dtype": dtype, "device": device}
        self.attention = MultiHeadAttention(width, heads, causal=causal, **options)
        self.feed_forward = FeedForward(width, hidden, dropout, activation, dtype, device)
        self.norm_1 = LayerNorm(width, eps, dtype=dtype, device=device)
        self.norm_2 = LayerNorm(width, eps, dtype=dtype, device=device)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``mask`` as in `MultiHeadAttention`."""
        x = self._added(x, self.norm_1, lambda y: self.attention(y, mask=mask))
        return self._added(x, self.norm_2, self.feed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention of a target to itself, to a memory, then a `FeedForward`; arguments as in `TransformerEncoderLayer`."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: Callable[[Tensor], Tensor] = gelu,
        causal: bool = True,
        eps: float = 1e-5,
        dtype: object = None,
        device: object = None,
    ) -> None:
        super().__init__(norm_first, dropout)
        options: dict[str, Any] = {"attention_dropout": dropout, "dtype": dtype, "device": device}
        self.attention = MultiHeadAttention(width, heads, causal=causal, **options)
        self.cross_attention = MultiHeadAttention(width, heads, **options)
        self.feed_forward = FeedForward(width, hidden, dropout, activation, dtype, device)
        self.norm_1 = LayerNorm(width, eps, dtype=dtype, device=device)
        self.norm_2 = LayerNorm(width, eps, dtype=dtype, device=device)
        self.norm_3 = LayerNorm(width, eps, dtype=dtype, device=device)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """``mask`` is that of the target, ``memory_mask`` says which target sees which part of the memory."""
        x = self._added(x, self.norm_1, lambda y: self.attention(y, mask=mask))
        x = self._added(x, self.norm_2, lambda y: self.cross_attention(y, memory, mask=memory_mask))
        return self._added(x, self.norm_3, self.feed_forward)


class TransformerEncoder(Module):
    """Several `TransformerEncoderLayer`; ``options`` are theirs. With ``norm_first`` a last norm follows."""

    def __init__(self, width: int, heads: int, hidden: int, num_layers: int, **options: Any) -> None:
        self.layers = [TransformerEncoderLayer(width, heads, hidden, **options) for _ in range(num_layers)]
        self.norm = _last_norm(width, options)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Several `TransformerDecoderLayer`; ``options`` are theirs. With ``norm_first`` a last norm follows."""

    def __init__(self, width: int, heads: int, hidden: int, num_layers: int, **options: Any) -> None:
        self.layers = [TransformerDecoderLayer(width, heads, hidden, **options) for _ in range(num_layers)]
        self.norm = _last_norm(width, options)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x if self.norm is None else self.norm(x)


def _last_norm(width: int, options: dict[str, Any]) -> LayerNorm | None:
    """What sums that were never normalised end in."""
    if not options.get("norm_first"):
        return None
    return LayerNorm(width, options.get("eps", 1e-5), dtype=options.get("dtype"), device=options.get("device"))


class Transformer(Module):
    """A `TransformerEncoder` of the source and a `TransformerDecoder` of the target over what it gives."""

    def __init__(
        self, width: int, heads: int, hidden: int, encoder_layers: int = 6, decoder_layers: int = 6, **options: Any
    ) -> None:
        self.encoder = TransformerEncoder(width, heads, hidden, encoder_layers, **options)
        self.decoder = TransformerDecoder(width, heads, hidden, decoder_layers, **options)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(source, source_mask)
        result: Tensor = self.decoder(target, memory, target_mask, memory_mask)
        return result
