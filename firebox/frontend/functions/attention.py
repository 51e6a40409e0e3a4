"""Scaled dot-product attention, composed of two contractions and a softmax."""

import math
from typing import cast

from firebox import dims
from firebox.dims import DimLike
from firebox.dtypes import i32
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.functions.dropout import dropout
from firebox.frontend.functions.linear_algebra import matmul
from firebox.frontend.functions.normalization import quiet_softmax, softmax
from firebox.frontend.functions.support import A, differ, one_node, require_float, shape_text
from firebox.frontend.random import Generator
from firebox.frontend.tensor import Tensor


def scaled_dot_product_attention(
    query: A,
    key: A,
    value: A,
    mask: A | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
    generator: Generator | None = None,
    quiet: bool = False,
) -> A:
    """softmax(query @ key.T * scale + mask) @ value.

    Args:
        query: (.., L, E). key: (.., S, E). value: (.., S, V). Leading dims broadcast as in `matmul`.
        mask: bools, true where a query may see a key, or floats that are added; broadcasts to (.., L, S).
        is_causal: query i sees the keys 0 to i only (added to ``mask``, if there is one).
        scale: default 1 / sqrt(E).
        enable_gqa: the heads of queries (axis -3) are a multiple of those of keys and values, which they share.
        softcap: scores are softcap * tanh(scores / softcap), before the mask.
        dropout_p: probability with which a query forgets a key; 0 unless training.
        quiet: `quiet_softmax` in place of softmax, so that a query may take little of every key.

    A query that may see no key gives 0, as in PyTorch.

    Raises:
        ShapeError: sizes that do not fit. DTypeError: a mask that is neither bool nor floating.
        UserError: a softcap that is not positive, or dropout that is no probability.
    """
    _check(query, key, value, mask, softcap)
    if enable_gqa:
        query, key, value, mask = _grouped(query, key, value, mask)
    if dropout_p == 0.0:
        seen = _attention(query, key, value, mask, is_causal, scale, softcap, quiet)
    else:
        weights = _weights(query, key, mask, is_causal, scale, softcap, quiet)
        if not isinstance(weights, Tensor):
            raise DTypeError("dropout needs tensors", op="attention", found=type(weights).__name__)
        seen = matmul(cast(A, dropout(weights, dropout_p, True, generator)), value)
    return seen.flatten(-4, -3) if enable_gqa else seen


def _check(query: A, key: A, value: A, mask: A | None, softcap: float | None) -> None:
    for x in (query, key, value):
        require_float("attention", x)
        if x.rank < 2:
            expected = "(.., length, size)"
            raise ShapeError("needs at least two dims", op="attention", expected=expected, found=shape_text(x))
    if differ(query.shape[-1], key.shape[-1]) or differ(key.shape[-2], value.shape[-2]):
        raise ShapeError(
            "sizes do not fit",
            op="attention",
            expected="query (.., L, E), key (.., S, E), value (.., S, V)",
            found=", ".join(map(shape_text, (query, key, value))),
        )
    if mask is not None and mask.dtype.is_int:
        raise DTypeError("the mask must be bool or floating", op="attention", found=mask.dtype.name)
    if softcap is not None and softcap <= 0:
        raise UserError("bad softcap", op="attention", expected="a positive number, or None", found=softcap)


def _grouped(query: A, key: A, value: A, mask: A | None) -> tuple[A, A, A, A | None]:
    """Heads of queries as (heads of keys, queries of each): keys and values are read in place by every query."""
    heads, kept = (x.shape[-3] if x.rank > 2 else 0 for x in (query, key))
    divides = isinstance(heads, int) and isinstance(kept, int) and kept and heads % kept == 0
    if not divides or value.rank < 3 or value.shape[-3] != kept:
        raise ShapeError(
            "the heads do not divide",
            op="attention",
            expected="query (.., a multiple of H, L, E), key (.., H, S, E), value (.., H, S, V)",
            found=", ".join(map(shape_text, (query, key, value))),
        )
    split = query.reshape((*query.shape[:-3], kept, dims.floordiv(heads, kept), *query.shape[-2:]))
    if mask is not None and mask.rank > 2:
        inner = (1, 1) if mask.shape[-3] == 1 else (kept, dims.floordiv(heads, kept))
        mask = mask.reshape((*mask.shape[:-3], *inner, *mask.shape[-2:]))
    return split, key.expand_dims(-3), value.expand_dims(-3), mask


@one_node
def _attention(
    query: A, key: A, value: A, mask: A | None, is_causal: bool, scale: float | None, softcap: float | None, quiet: bool
) -> A:
    return matmul(_weights(query, key, mask, is_causal, scale, softcap, quiet), value)


@one_node
def _weights(
    query: A, key: A, mask: A | None, is_causal: bool, scale: float | None, softcap: float | None, quiet: bool
) -> A:
    """How much each query takes of each key, (.., L, S)."""
    shares = quiet_softmax if quiet else softmax
    scores = matmul(query * _scale(query, scale), key.swapaxes(-1, -2))
    if softcap is not None:
        scores = (scores * (1.0 / softcap)).tanh() * softcap
    allowed = causal_mask(scores, scores.shape[-2], scores.shape[-1]) if is_causal else None
    if mask is None:
        return shares(scores if allowed is None else allowed.where(scores, -math.inf), -1)
    if not mask.dtype.is_bool:
        scores = scores + mask
    given = mask if mask.dtype.is_bool else mask > -math.inf
    allowed = given if allowed is None else given & allowed
    sees = allowed.any(-1, keepdims=True)  # a softmax of nothing but -inf would be NaN, also in the gradient
    return sees.where(shares(sees.where(allowed.where(scores, -math.inf), 0.0), -1), 0.0)


def _scale(query: A, scale: float | None) -> A | float:
    size = query.shape[-1]
    if scale is not None:
        return scale
    return 1.0 / math.sqrt(size) if isinstance(size, int) else query.size_of(size).rsqrt()


def causal_mask(like: A, queries: DimLike, keys: DimLike) -> A:
    """Bools (queries, keys): true where key <= query, the first query seeing the first key."""
    rows = like.one("iota", shape=(queries, 1), axis=0, dtype=i32)
    columns = like.one("iota", shape=(1, keys), axis=1, dtype=i32)
    return columns <= rows
