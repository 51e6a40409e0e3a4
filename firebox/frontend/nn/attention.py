"""`MultiHeadAttention`."""

from firebox.errors import ShapeError
from firebox.frontend.functions.attention import scaled_dot_product_attention
from firebox.frontend.functions.dropout import check_probability
from firebox.frontend.nn.dropout import Dropout
from firebox.frontend.nn.linear import Linear
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class MultiHeadAttention(Module):
    """Attention by several heads (Vaswani et al. 2017) over (batch, length, width).

    Args:
        width: size of queries and of the output.
        heads: number of heads; divides ``width``.
        bias: whether the four projections have one.
        dropout: probability with which elements of the output are dropped in training.
        causal: a position sees itself and those before only.
        context_width: size of keys and values, where it is not ``width``.
        kv_heads: number of heads of keys and values, which groups of ``heads`` share (Ainslie et al. 2023); divides it.
        attention_dropout: probability with which a query forgets a key in training.
        quiet: heads may take little of every key, as in `quiet_softmax`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        context_width: int | None = None,
        kv_heads: int | None = None,
        attention_dropout: float = 0.0,
        quiet: bool = False,
        dtype: object = None,
        device: object = None,
    ) -> None:
        if width % heads:
            found = f"width {width}, {heads} heads"
            raise ShapeError("width must be a multiple of heads", op="MultiHeadAttention", found=found)
        self.kv_heads = heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads:
            found = f"{heads} heads, {kv_heads} of keys"
            raise ShapeError("heads must be a multiple of kv_heads", op="MultiHeadAttention", found=found)
        source = context_width if context_width is not None else width
        self.width = width
        self.heads = heads
        self.causal = causal
        self.query = Linear(width, width, bias, dtype, device)
        shared = width // heads * self.kv_heads
        self.key = Linear(source, shared, bias, dtype, device)
        self.value = Linear(source, shared, bias, dtype, device)
        self.output = Linear(width, width, bias, dtype, device)
        self.dropout = Dropout(dropout)
        check_probability("MultiHeadAttention", attention_dropout)
        self.attention_dropout = attention_dropout
        self.quiet = quiet

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Attention of ``query`` to ``key`` (default: itself) with values ``value`` (default: the keys).

        ``mask`` broadcasts to (batch, heads, queries, keys): bools, true where allowed, or floats to add.
        """
        key = query if key is None else key
        value = key if value is None else value
        queries = self._heads(self.query(query), self.heads)
        keys, values = self._heads(self.key(key), self.kv_heads), self._heads(self.value(value), self.kv_heads)
        seen = scaled_dot_product_attention(
            queries,
            keys,
            values,
            mask,
            self.causal,
            enable_gqa=self.kv_heads != self.heads,
            dropout_p=self.attention_dropout if self.training else 0.0,
            quiet=self.quiet,
        )
        merged = seen.swapaxes(1, 2).reshape((*query.shape[:-1], self.width))
        result: Tensor = self.dropout(self.output(merged))
        return result

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        """(batch, length, width) as (batch, heads, length, width / heads)."""
        if x.rank != 3:
            expected = "(batch, length, width)"
            raise ShapeError("wrong number of dims", op="MultiHeadAttention", expected=expected, found=x.shape)
        return x.reshape((x.shape[0], x.shape[1], heads, self.width // self.heads)).swapaxes(1, 2)

    def extra_repr(self) -> str:
        return f"width={self.width}, heads={self.heads}, causal={self.causal}"
