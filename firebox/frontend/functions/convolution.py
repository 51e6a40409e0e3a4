"""Convolutions (cross-correlations, as in PyTorch) over one to three spatial dims; each is one `nd.contract`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from firebox import dims
from firebox.dialects.nd.ops import contract_spec
from firebox.dims import DimLike
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.spatial import LAYOUTS, Ints, Widths, by_channel, pairs_of
from firebox.frontend.functions.support import A, contract, differ, promote, require_rank, shape_text, tuple_of

Padding = Widths | Literal["same", "valid"]

conv_spec = lru_cache(maxsize=1024)(contract_spec.conv_spec)
conv_transpose_spec = lru_cache(maxsize=1024)(contract_spec.conv_transpose_spec)

_KERNELS = {1: "kernel", 2: "height, width", 3: "depth, height, width"}


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
        padding: zeros on both sides, or (before, after) for each spatial dim; ``"same"`` keeps ceil(size / stride),
            the odd zero at the end; ``"valid"`` is 0. Other than zeros: `pad` first.
        groups: channels in so many groups, each convolved by its own part of the weight.

    Raises:
        ShapeError: ranks, channels, groups or a kernel larger than the padded input.
        UserError: another text as padding.
    """
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: A, weight: A, bias: A | None = None, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1, groups: int = 1
) -> A:
    """Cross-correlation of (N, C, D, H, W) with (out, C / groups, kernel..); arguments and errors as in `conv2d`."""
    return _conv("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def _conv(
    op: str, rank: int, x: A, weight: A, bias: A | None, stride: Ints, padding: Padding, dilation: Ints, groups: int
) -> A:
    x, weight = promote(op, x, weight)
    require_rank(op, x, rank + 2, LAYOUTS[rank])
    require_rank(op, weight, rank + 2, f"weight (out, in / groups, {_KERNELS[rank]})")
    strides, dilations = tuple_of(op, stride, rank, "stride", 1), tuple_of(op, dilation, rank, "dilation", 1)
    _check_channels(op, x, weight.shape[1], weight.shape[0], groups)
    spans = tuple(dims.multiply(k - 1, d) + 1 for k, d in zip(weight.shape[2:], dilations, strict=True))
    low, high = paddings(op, padding, x.shape[2:], spans, strides)
    sizes = [
        dims.floordiv(size + a + b - span, s) + 1
        for size, a, b, span, s in zip(x.shape[2:], low, high, spans, strides, strict=True)
    ]
    _check_sizes(op, x, weight, sizes)
    return _contracted(x, weight, bias, conv_spec(strides, low, dilations, groups > 1), sizes, groups)


def conv_transpose1d(
    x: A,
    weight: A,
    bias: A | None = None,
    stride: Ints = 1,
    padding: Widths = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> A:
    """The transpose of `conv1d`: (N, C, L) with (C, out / groups, kernel); as `conv_transpose2d`."""
    return _conv_transpose("conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: A,
    weight: A,
    bias: A | None = None,
    stride: Ints = 1,
    padding: Widths = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> A:
    """The transpose of `conv2d`: (N, C, H, W) with (C, out / groups, kernel..) to a larger image.

    The size of a spatial dim is (size - 1) * stride - padding before and after + dilation * (kernel - 1) +
    output_padding + 1.

    Raises:
        ShapeError: ranks, channels or groups that do not fit, or an empty result.
    """
    return _conv_transpose("conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    x: A,
    weight: A,
    bias: A | None = None,
    stride: Ints = 1,
    padding: Widths = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> A:
    """The transpose of `conv3d`: (N, C, D, H, W) with (C, out / groups, kernel..); as `conv_transpose2d`."""
    return _conv_transpose("conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation)


def _conv_transpose(
    op: str,
    rank: int,
    x: A,
    weight: A,
    bias: A | None,
    stride: Ints,
    padding: Widths,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> A:
    x, weight = promote(op, x, weight)
    require_rank(op, x, rank + 2, LAYOUTS[rank])
    require_rank(op, weight, rank + 2, f"weight (in, out / groups, {_KERNELS[rank]})")
    strides, dilations = tuple_of(op, stride, rank, "stride", 1), tuple_of(op, dilation, rank, "dilation", 1)
    pads, extra = pairs_of(op, padding, rank, "padding"), tuple_of(op, output_padding, rank, "output_padding", 0)
    channels = weight.shape[0]
    if differ(x.shape[1], channels) or groups < 1 or (isinstance(channels, int) and channels % groups):
        expected = f"{channels} channels, in {groups} groups, for a weight {shape_text(weight)}"
        raise ShapeError("the channels do not fit", op=op, expected=expected, found=shape_text(x))
    sizes = [
        dims.multiply(size - 1, s) - sum(p) + dims.multiply(k - 1, d) + e + 1
        for size, k, s, p, d, e in zip(x.shape[2:], weight.shape[2:], strides, pads, dilations, extra, strict=True)
    ]
    _check_sizes(op, x, weight, sizes)
    spec = conv_transpose_spec(strides, tuple(low for low, _ in pads), dilations, groups > 1)
    return _contracted(x, weight, bias, spec, sizes, groups)


def _contracted(x: A, weight: A, bias: A | None, spec: str, sizes: Sequence[DimLike], groups: int) -> A:
    """The contraction, with channels in groups where there are several, and the bias of each channel."""
    known = {f"y{k}": size for k, size in enumerate(sizes)}
    grouped = groups > 1
    left = _split_groups(x, 1, groups) if grouped else x
    right = _split_groups(weight, 0, groups) if grouped else weight
    result = contract(left, right, spec, known)
    return add_bias(result.flatten(1, 2) if grouped else result, bias)


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


def paddings(
    op: str, padding: Padding, sizes: Sequence[DimLike], spans: Sequence[DimLike], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements to add before and after each spatial dim.

    Args:
        spans: how far the kernel reaches in each.

    Raises:
        ShapeError: numbers that do not fit, or ``"same"`` with a stride and a symbolic size. UserError: another text.
    """
    if not isinstance(padding, str):
        pairs = pairs_of(op, padding, len(sizes), "padding")
    elif padding == "valid":
        pairs = ((0, 0),) * len(sizes)
    elif padding == "same":
        totals = [_same_total(op, *dim) for dim in zip(sizes, spans, strides, strict=True)]
        pairs = tuple((total // 2, total - total // 2) for total in totals)
    else:
        raise UserError("no such padding", op=op, expected="integers, 'same' or 'valid'", found=repr(padding))
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


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


def add_bias(result: A, bias: A | None) -> A:
    """With the bias of each channel (axis 1), if there is one.

    Raises:
        ShapeError: the bias is no vector of as many elements as there are channels.
    """
    if bias is None:
        return result
    if bias.rank != 1 or differ(bias.shape[0], result.shape[1]):
        raise ShapeError("the bias does not fit", op="conv", expected=f"({result.shape[1]},)", found=shape_text(bias))
    return result + by_channel(bias, result.rank)
