"""Scaled dot-product attention, composed of two contractions and a softmax."""

import math

from firebox.dims import DimLike
from firebox.dtypes import i32
from firebox.errors import DTypeError, ShapeError
from firebox.frontend.functions.linear_algebra import matmul
from firebox.frontend.functions.normalization import softmax
from firebox.frontend.functions.support import A, differ, one_node, require_float, shape_text


@one_node
def scaled_dot_product_attention(
    query: A, key: A, value: A, mask: A | None = None, is_causal: bool = False, scale: float | None = None
) -> A:
    """softmax(query @ key.T * scale + mask) @ value.

    Args:
        query: (.., L, E). key: (.., S, E). value: (.., S, V). Leading dims broadcast as in `matmul`.
        mask: bools, true where a query may see a key, or floats that are added; broadcasts to (.., L, S).
        is_causal: query i sees the keys 0 to i only (added to ``mask``, if there is one).
        scale: default 1 / sqrt(E).

    A query that may see no key gives NaN, as in PyTorch.

    Raises:
        ShapeError: sizes that do not fit. DTypeError: a mask that is neither bool nor floating.
    """
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
    scores = matmul(query * _scale(query, scale), key.swapaxes(-1, -2))
    return matmul(softmax(_masked(scores, mask, is_causal), -1), value)


def _scale(query: A, scale: float | None) -> A | float:
    size = query.shape[-1]
    if scale is not None:
        return scale
    return 1.0 / math.sqrt(size) if isinstance(size, int) else query.size_of(size).rsqrt()


def _masked(scores: A, mask: A | None, is_causal: bool) -> A:
    if mask is not None and mask.dtype.is_int:
        raise DTypeError("the mask must be bool or floating", op="attention", found=mask.dtype.name)
    if mask is not None:
        scores = mask.where(scores, -math.inf) if mask.dtype.is_bool else scores + mask
    if is_causal:
        scores = causal_mask(scores, scores.shape[-2], scores.shape[-1]).where(scores, -math.inf)
    return scores


def causal_mask(like: A, queries: DimLike, keys: DimLike) -> A:
    """Bools (queries, keys): true where key <= query, the first query seeing the first key."""
    rows = like.one("iota", shape=(queries, 1), axis=0, dtype=i32)
    columns = like.one("iota", shape=(1, keys), axis=1, dtype=i32)
    return columns <= rows
