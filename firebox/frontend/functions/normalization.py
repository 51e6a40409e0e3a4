"""Softmax and its kin, moments, and the normalisation layers as functions."""

from collections.abc import Sequence

import numpy as np

from firebox import dims
from firebox.dialects.nd.array import Axes, normalize_axis
from firebox.dialects.nd.params import Literal
from firebox.dims import DimLike
from firebox.errors import ShapeError
from firebox.frontend.functions.linear_algebra import norm
from firebox.frontend.functions.support import A, as_float, differ, one_node, require_float, shape_text, stop_gradient


@one_node
def softmax(x: A, axis: int = -1) -> A:
    """exp(x) / sum(exp(x)) along an axis, shifted by the maximum."""
    x = as_float(x)
    return x.one("softmax", x, axis=normalize_axis(axis, x.rank))


@one_node
def log_softmax(x: A, axis: int = -1) -> A:
    """log(softmax(x)), exact where softmax underflows."""
    x = as_float(x)
    return x.one("log_softmax", x, axis=normalize_axis(axis, x.rank))


@one_node
def softmin(x: A, axis: int = -1) -> A:
    """softmax(-x): the smallest elements have the largest shares."""
    return softmax(-as_float(x), axis)


@one_node
def quiet_softmax(x: A, axis: int = -1) -> A:
    """exp(x) / (1 + sum(exp(x))) along an axis: where all elements are very negative, all shares are small."""
    wide = as_float(x).astype(as_float(x).dtype.compute)
    top = finite_max(wide, normalize_axis(axis, x.rank)).maximum(0.0)
    powers = (wide - top).exp()
    return (powers / (powers.sum(axis, keepdims=True) + (-top).exp())).astype(as_float(x).dtype)


@one_node
def logsumexp(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """log(sum(exp(x))), shifted by the maximum; -inf where every element is -inf, and inf where one is inf."""
    x = as_float(x)
    top = finite_max(x, axis)
    result = (x - top).exp().sum(axis, keepdims=True).log() + top
    return result if keepdims else result.squeeze(x.axes(axis))


def finite_max(x: A, axis: Axes) -> A:
    """What to shift by before exp: the maximum over axes, which stay; 0 where it is not finite. Without derivatives."""
    top = stop_gradient(x.max(axis, keepdims=True))
    return top.isfinite().where(top, 0.0)


def mean(x: A, axis: Axes = None, keepdims: bool = False) -> A:
    """Arithmetic mean as a float."""
    return x.mean(axis, keepdims)


def var(x: A, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> A:
    """Mean of squared deviations, the divisor lowered by ``correction`` (0 as in NumPy; 1 is unbiased)."""
    x = as_float(x)
    deviation = x - x.mean(axis, keepdims=True)
    squares = deviation * deviation
    if correction == 0:
        return squares.mean(axis, keepdims)
    return _divide(squares.sum(axis, keepdims), x, dims.product(x.shape[a] for a in x.axes(axis)), correction)


def _divide(total: A, x: A, count: DimLike, correction: float) -> A:
    """total / max(count - correction, 0)."""
    if isinstance(count, int):
        left = max(count - correction, 0.0)
        return total * (1.0 / left) if left else total / 0.0
    return total / (x.size_of(count) - correction).maximum(0.0)


def std(x: A, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> A:
    """Square root of `var`."""
    return var(x, axis, keepdims, correction).sqrt()


@one_node
def layer_norm(
    x: A, normalized_shape: int | Sequence[DimLike], weight: A | None = None, bias: A | None = None, eps: float = 1e-5
) -> A:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims, whose sizes are ``normalized_shape``.

    Raises:
        ShapeError: the last dims have other sizes. DTypeError: x is not floating.
    """
    require_float("layer_norm", x)
    axes = _last_axes("layer_norm", x, normalized_shape)
    return _affine(_standardize(x, axes, eps), weight, bias)


@one_node
def rms_norm(x: A, normalized_shape: int | Sequence[DimLike], weight: A | None = None, eps: float = 1e-5) -> A:
    """x / sqrt(mean(x^2) + eps) * weight over the last dims, of sizes ``normalized_shape`` (Zhang, Sennrich 2019).

    Raises:
        ShapeError: the last dims have other sizes. DTypeError: x is not floating.
    """
    require_float("rms_norm", x)
    axes = _last_axes("rms_norm", x, normalized_shape)
    return _affine(x * ((x * x).mean(axes, keepdims=True) + eps).rsqrt(), weight, None)


@one_node
def batch_norm(x: A, mean: A, variance: A, weight: A | None = None, bias: A | None = None, eps: float = 1e-5) -> A:
    """(x - mean) / sqrt(variance + eps) * weight + bias by channel (axis 1), with the statistics given.

    Raises:
        ShapeError: x has no axis 1, or a vector is not of its size. DTypeError: x is not floating.
    """
    require_float("batch_norm", x)
    for name, vector in (("mean", mean), ("variance", variance), ("weight", weight), ("bias", bias)):
        if vector is not None:
            _check_channels("batch_norm", x, name, vector)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    result = (x - _by_channel(x, mean)) * _by_channel(x, scale)
    return result if bias is None else result + _by_channel(x, bias)


def batch_statistics(x: A) -> tuple[A, A]:
    """Mean and biased variance of each channel (axis 1) over all other axes."""
    axes = tuple(k for k in range(x.rank) if k != 1)
    return x.mean(axes), var(x, axes)


@one_node
def group_norm(x: A, num_groups: int, weight: A | None = None, bias: A | None = None, eps: float = 1e-5) -> A:
    """Standardise each of ``num_groups`` groups of channels (axis 1) of each sample, then scale by channel.

    Raises:
        ShapeError: the channels do not divide into the groups. DTypeError: x is not floating.
    """
    require_float("group_norm", x)
    channels = x.shape[1] if x.rank > 1 else 0
    if not isinstance(channels, int) or not channels or channels % num_groups:
        expected, found = f"a multiple of {num_groups} channels (axis 1)", shape_text(x)
        raise ShapeError("the channels do not divide into groups", op="group_norm", expected=expected, found=found)
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            _check_channels("group_norm", x, name, vector)
    split = x.reshape((x.shape[0], num_groups, channels // num_groups, *x.shape[2:]))
    normal = _standardize(split, tuple(range(2, split.rank)), eps).reshape(x.shape)
    scaled = normal if weight is None else normal * _by_channel(x, weight)
    return scaled if bias is None else scaled + _by_channel(x, bias)


@one_node
def instance_norm(x: A, weight: A | None = None, bias: A | None = None, eps: float = 1e-5) -> A:
    """Group norm with one channel a group."""
    channels = x.shape[1] if x.rank > 1 else 0
    return group_norm(x, channels if isinstance(channels, int) and channels else 1, weight, bias, eps)


@one_node
def local_response_norm(x: A, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> A:
    """x / (k + alpha * mean of squares of the ``size`` channels around each)^beta (Krizhevsky et al. 2012).

    Channels that do not exist count as 0; of an even ``size`` one more lies before.

    Raises:
        ShapeError: x has no axis 1, or ``size`` is below 1. DTypeError: x is not floating.
    """
    require_float("local_response_norm", x)
    if x.rank < 2 or size < 1:
        expected, found = "(N, C, ..) and a size of 1 or more", f"{shape_text(x)}, size {size}"
        raise ShapeError("no channels to normalise over", op="local_response_norm", expected=expected, found=found)
    squares = x * x
    around = squares.one(
        "window",
        squares,
        axes=(1,),
        sizes=(size,),
        strides=(1,),
        dilations=(1,),
        low=(size // 2,),
        high=((size - 1) // 2,),
        value=Literal.of(np.zeros((), x.dtype.numpy)),
    )
    return x / (around.sum(-1) * (alpha / size) + k) ** beta


@one_node
def weight_norm(direction: A, magnitude: A, axis: int | None = 0) -> A:
    """direction / |direction| * magnitude, the norm taken over all axes but one, or over all (Salimans, Kingma 2016).

    Args:
        magnitude: broadcasts to ``direction``: of size 1 in all axes but ``axis``, or of one element for None.
    """
    require_float("weight_norm", direction)
    kept = () if axis is None else (normalize_axis(axis, direction.rank),)
    others = tuple(k for k in range(direction.rank) if k not in kept)
    return direction * ((direction * direction).sum(others, keepdims=True).rsqrt() * magnitude)


@one_node
def normalize(x: A, order: float = 2.0, axis: int = -1, eps: float = 1e-12) -> A:
    """x / max(norm, eps) along an axis; see `norm` for the orders."""
    x = as_float(x)
    if order == 2:
        return x * (x * x).sum(axis, keepdims=True).maximum(eps**2).rsqrt()
    return x / norm(x, order, axis, keepdims=True).maximum(eps)


def _standardize(x: A, axes: tuple[int, ...], eps: float) -> A:
    centred = x - x.mean(axes, keepdims=True)
    return centred * ((centred * centred).mean(axes, keepdims=True) + eps).rsqrt()


def _affine(x: A, weight: A | None, bias: A | None) -> A:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _last_axes(op: str, x: A, normalized_shape: int | Sequence[DimLike]) -> tuple[int, ...]:
    wanted = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    last = x.shape[x.rank - len(wanted) :] if len(wanted) <= x.rank else ()
    if len(last) != len(wanted) or any(differ(a, b) for a, b in zip(last, wanted, strict=True)):
        text = f"(.., {', '.join(map(str, wanted))})"
        raise ShapeError("the last dims are not those to normalise", op=op, expected=text, found=shape_text(x))
    return tuple(range(x.rank - len(wanted), x.rank))


def _check_channels(op: str, x: A, name: str, vector: A) -> None:
    if x.rank < 2 or vector.rank != 1 or differ(vector.shape[0], x.shape[1]):
        raise ShapeError(
            f"{name} does not fit the channels (axis 1) of the input",
            op=op,
            expected=f"({x.shape[1] if x.rank > 1 else 'channels'},)",
            found=f"{shape_text(vector)} for an input {shape_text(x)}",
        )


def _by_channel(x: A, vector: A) -> A:
    """A vector over axis 1 of x, shaped to broadcast."""
    return vector.reshape((-1, *(1,) * (x.rank - 2)))
