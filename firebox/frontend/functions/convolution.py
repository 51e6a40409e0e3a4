"""Convolutions (cross-correlations, as in PyTorch) over (N, C, L) and (N, C, H, W); each is one `nd.contract`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from firebox import dims
from firebox.dialects.nd.ops import contract_spec
from firebox.dims import DimLike
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.support import A, contract, differ, promote, require_rank, shape_text, tuple_of

Ints = int | Sequence[int]
Padding = Ints | Literal["same", "valid"]

conv_spec = lru_cache(maxsize=1024)(contract_spec.conv_spec)
conv_transpose_spec = lru_cache(maxsize=1024)(contract_spec.conv_transpose_spec)

_LAYOUTS = {1: "(N, C, L)", 2: "(N, C, H, W)"}


def conv1d(
    x: A, weight: A, bias: A | None = None, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1, groups: int = 1
) -> A:
    """Cross-correlation of (N, C, L) with (out, C / groups, kernel); arguments and errors as in `conv2d`."""
    return _conv("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: A, weight: A, bias: A | None = None, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1, groups: int = 1
) -> A:
    """Cross-correlation of (N, C, H, W) with (out, C / groups, kernel height, kernel width).

    Args:
        bias: (out,), added to each channel.
        stride, dilation: one number, or one for each spatial dim.
        padding: zeros on both sides; ``"same"`` keeps ceil(size / stride), the odd zero at the end; ``"valid"`` is 0.
        groups: channels in so many groups, each convolved by its own part of the weight.

    Raises:
        ShapeError: ranks, channels, groups or a kernel larger than the padded input.
        UserError: another text as padding.
    """
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def _conv(
    op: str, rank: int, x: A, weight: A, bias: A | None, stride: Ints, padding: Padding, dilation: Ints, groups: int
) -> A:
    x, weight = promote(op, x, weight)
    require_rank(op, x, rank + 2, _LAYOUTS[rank])
    require_rank(op, weight, rank + 2, f"weight (out, in / groups, {'kernel' if rank == 1 else 'height, width'})")
    strides, dilations = tuple_of(op, stride, rank, "stride", 1), tuple_of(op, dilation, rank, "dilation", 1)
    _check_channels(op, x, weight.shape[1], weight.shape[0], groups)
    spans = tuple(dims.multiply(k - 1, d) + 1 for k, d in zip(weight.shape[2:], dilations, strict=True))
    low, high = _paddings(op, padding, x.shape[2:], spans, strides)
    sizes = [
        dims.floordiv(size + a + b - span, s) + 1
        for size, a, b, span, s in zip(x.shape[2:], low, high, spans, strides, strict=True)
    ]
    _check_sizes(op, x, weight, sizes)
    known = {f"y{k}": size for k, size in enumerate(sizes)}
    grouped = groups > 1
    left = _split_groups(x, 1, groups) if grouped else x
    right = _split_groups(weight, 0, groups) if grouped else weight
    result = contract(left, right, conv_spec(strides, low, dilations, grouped), known)
    return _finish(result.flatten(1, 2) if grouped else result, bias)


def conv_transpose2d(
    x: A,
    weight: A,
    bias: A | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> A:
    """The transpose of `conv2d`: (N, C, H, W) with (C, out / groups, kernel..) to a larger image.

    The size of a spatial dim is (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1.

    Raises:
        ShapeError: ranks, channels or groups that do not fit, or an empty result.
    """
    op = "conv_transpose2d"
    x, weight = promote(op, x, weight)
    require_rank(op, x, 4, _LAYOUTS[2])
    require_rank(op, weight, 4, "weight (in, out / groups, height, width)")
    strides, dilations = tuple_of(op, stride, 2, "stride", 1), tuple_of(op, dilation, 2, "dilation", 1)
    pads, extra = tuple_of(op, padding, 2, "padding", 0), tuple_of(op, output_padding, 2, "output_padding", 0)
    channels = weight.shape[0]
    if differ(x.shape[1], channels) or (isinstance(channels, int) and channels % groups):
        expected = f"{channels} channels, in {groups} groups, for a weight {shape_text(weight)}"
        raise ShapeError("the channels do not fit", op=op, expected=expected, found=shape_text(x))
    sizes = [
        dims.multiply(size - 1, s) - 2 * p + dims.multiply(k - 1, d) + e + 1
        for size, k, s, p, d, e in zip(x.shape[2:], weight.shape[2:], strides, pads, dilations, extra, strict=True)
    ]
    _check_sizes(op, x, weight, sizes)
    known = {f"y{k}": size for k, size in enumerate(sizes)}
    grouped = groups > 1
    left = _split_groups(x, 1, groups) if grouped else x
    right = _split_groups(weight, 0, groups) if grouped else weight
    result = contract(left, right, conv_transpose_spec(strides, pads, dilations, grouped), known)
    return _finish(result.flatten(1, 2) if grouped else result, bias)


def _check_channels(op: str, x: A, per_group: DimLike, out: DimLike, groups: int) -> None:
    if differ(x.shape[1], dims.multiply(per_group, groups)):
        expected = f"{dims.multiply(per_group, groups)} channels (axis 1): {per_group} a group, {groups} groups"
        is_last = x.rank == 4 and x.shape[-1] == per_group
        hint = "the layout is channels first: x.transpose(0, 3, 1, 2)" if is_last else ""
        raise ShapeError("the channels do not fit", op=op, expected=expected, found=shape_text(x), hint=hint)
    if groups < 1 or (isinstance(out, int) and out % groups):
        raise ShapeError("out channels must be a multiple of groups", op=op, found=f"{out} channels, {groups} groups")


def _check_sizes(op: str, x: A, weight: A, sizes: Sequence[DimLike]) -> None:
    if any(isinstance(size, int) and size < 1 for size in sizes):
        found = f"input {shape_text(x)}, weight {shape_text(weight)}: an output of {tuple(sizes)}"
        raise ShapeError("the kernel is larger than the padded input", op=op, found=found)


def _paddings(
    op: str, padding: Padding, sizes: Sequence[DimLike], spans: Sequence[DimLike], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[DimLike, ...]]:
    """Zeros before and after each spatial dim."""
    if isinstance(padding, str):
        return _named_padding(op, padding, sizes, spans, strides)
    both = tuple_of(op, padding, len(sizes), "padding", 0)
    return both, both


def _named_padding(
    op: str, padding: str, sizes: Sequence[DimLike], spans: Sequence[DimLike], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[DimLike, ...]]:
    if padding == "valid":
        return (0,) * len(sizes), (0,) * len(sizes)
    if padding != "same":
        raise UserError("no such padding", op=op, expected="integers, 'same' or 'valid'", found=repr(padding))
    low: list[int] = []
    high: list[DimLike] = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        total = _same_total(op, size, span, stride)
        low.append(total // 2)
        high.append(total - total // 2)
    return tuple(low), tuple(high)


def _same_total(op: str, size: DimLike, span: DimLike, stride: int) -> int:
    """Zeros that keep ceil(size / stride) positions."""
    total = span - 1 if stride == 1 else dims.multiply(dims.ceildiv(size, stride) - 1, stride) + span - size
    if not isinstance(total, int):
        hint = "give padding as numbers"
        raise ShapeError("'same' with a stride needs sizes known when traced", op=op, found=f"size {size}", hint=hint)
    return max(total, 0)


def _split_groups(x: A, axis: int, groups: int) -> A:
    """An axis as (groups, size / groups)."""
    size = dims.floordiv(x.shape[axis], groups)
    return x.reshape((*x.shape[:axis], groups, size, *x.shape[axis + 1 :]))


def _finish(result: A, bias: A | None) -> A:
    """Add the bias to each channel (axis 1)."""
    if bias is None:
        return result
    if bias.rank != 1 or differ(bias.shape[0], result.shape[1]):
        raise ShapeError("the bias does not fit", op="conv", expected=f"({result.shape[1]},)", found=shape_text(bias))
    return result + bias.reshape((-1, *(1,) * (result.rank - 2)))
