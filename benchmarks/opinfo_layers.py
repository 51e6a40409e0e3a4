"""Which function of Firebox is which of PyTorch's: layers, activations, losses, normalisation, pooling."""

from collections.abc import Sequence
from typing import Any

from benchmarks.opinfo_support import Function, NotTried, fb, only

F = fb.nn.functional

ACTIVATIONS: dict[str, Function] = {
    "nn.functional.relu": lambda x, inplace=False: F.relu(x),
    "nn.functional.relu6": lambda x, inplace=False: F.relu6(x),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01, inplace=False: F.leaky_relu(x, negative_slope),
    "nn.functional.elu": lambda x, alpha=1.0, inplace=False: F.elu(x, alpha),
    "nn.functional.celu": lambda x, alpha=1.0, inplace=False: F.celu(x, alpha),
    "nn.functional.selu": lambda x, inplace=False: F.selu(x),
    "nn.functional.silu": lambda x, inplace=False: F.silu(x),
    "nn.functional.mish": lambda x, inplace=False: F.mish(x),
    "nn.functional.gelu": lambda x, approximate="none": F.gelu(x, approximate),
    "nn.functional.glu": lambda x, axis=-1: F.glu(x, axis),
    "nn.functional.prelu": lambda x, weight: F.prelu(x, weight),
    "nn.functional.hardswish": lambda x, inplace=False: F.hard_swish(x),
    "nn.functional.hardsigmoid": lambda x, inplace=False: F.hard_sigmoid(x),
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: F.hard_tanh(x, min_val, max_val),
    "nn.functional.hardshrink": lambda x, lambd=0.5: F.hard_shrink(x, lambd),
    "nn.functional.softshrink": lambda x, lambd=0.5: F.soft_shrink(x, lambd),
    "nn.functional.logsigmoid": lambda x: F.log_sigmoid(x),
    "nn.functional.softsign": lambda x: F.softsign(x),
    "nn.functional.softplus": lambda x, beta=1.0, threshold=20.0: softplus(x, beta, threshold),
    "nn.functional.tanhshrink": lambda x: F.tanh_shrink(x),
    "nn.functional.threshold": lambda x, threshold, value, inplace=False: F.threshold(x, threshold, value),
    "nn.functional.rrelu": lambda x, lower=1 / 8, upper=1 / 3, training=False, inplace=False: rrelu(
        x, lower, upper, training
    ),
    "softmax": lambda x, axis, dtype=None: F.softmax(typed(x, dtype), axis),
    "softmax with_dtype": lambda x, axis, dtype=None: F.softmax(typed(x, dtype), axis),
    "log_softmax": lambda x, axis, dtype=None: F.log_softmax(typed(x, dtype), axis),
    "log_softmax with_dtype": lambda x, axis, dtype=None: F.log_softmax(typed(x, dtype), axis),
    "nn.functional.softmin": lambda x, axis, dtype=None: F.softmin(typed(x, dtype), axis),
    "nn.functional.softmin with_dtype": lambda x, axis, dtype=None: F.softmin(typed(x, dtype), axis),
    "logit": lambda x, eps=None: fb.logit(x, eps),
}

LOSSES: dict[str, Function] = {
    "nn.functional.cross_entropy": lambda x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0: (  # noqa: E501
        F.cross_entropy(x, target, weight, reduction, label_smoothing, ignore_index)
    ),
    "nn.functional.nll_loss": lambda x, target, weight=None, ignore_index=-100, reduction="mean": F.nll_loss(
        x, target, weight, reduction, ignore_index, 1 if x.ndim > 1 else 0
    ),
    "nn.functional.mse_loss": "mse_loss",
    "nn.functional.l1_loss": "l1_loss",
    "nn.functional.smooth_l1_loss": "smooth_l1_loss",
    "nn.functional.huber_loss": "huber_loss",
    "nn.functional.soft_margin_loss": "soft_margin_loss",
    "nn.functional.margin_ranking_loss": "margin_ranking_loss",
    "nn.functional.hinge_embedding_loss": "hinge_embedding_loss",
    "nn.functional.cosine_embedding_loss": "cosine_embedding_loss",
    "nn.functional.multi_margin_loss": lambda x, *args, **kw: multi_margin_loss(x, *args, **kw),
    "nn.functional.multilabel_margin_loss": lambda x, *args, **kw: classes(F.multilabel_margin_loss, x, *args, **kw),
    "nn.functional.multilabel_soft_margin_loss": "multilabel_soft_margin_loss",
    "nn.functional.triplet_margin_loss": "triplet_margin_loss",
    "nn.functional.triplet_margin_with_distance_loss": (
        lambda *x, margin=1.0, swap=False, reduction="mean", distance_function=None: (
            F.triplet_margin_with_distance_loss(*x, margin=margin, swap=swap, reduction=reduction)
        )
    ),
    "nn.functional.kl_div": "kl_div",
    "nn.functional.poisson_nll_loss": "poisson_nll_loss",
    "nn.functional.gaussian_nll_loss": lambda x, target, *args, **kw: gaussian_nll_loss(x, target, *args, **kw),
    "nn.functional.binary_cross_entropy": lambda x, target, weight=None, reduction="mean": F.binary_cross_entropy(
        x, target, reduction, weight
    ),
    "nn.functional.binary_cross_entropy_with_logits": lambda x, target, weight=None, pos_weight=None, reduction="mean": (  # noqa: E501
        F.bce_with_logits(x, target, weight, reduction, pos_weight)
    ),
    "nn.functional.ctc_loss": lambda x, targets, sizes, lengths, blank=0, reduction="mean", zero_infinity=False: (
        F.ctc_loss(x, targets, vector(sizes), vector(lengths), blank, reduction, zero_infinity)
    ),
    "nn.functional.linear_cross_entropy": "linear_cross_entropy",
    "nn.functional.cosine_similarity": lambda x, y, axis=1, eps=1e-8: F.cosine_similarity(x, y, axis, eps),
    "nn.functional.pairwise_distance": lambda x, y, p=2.0, eps=1e-6, keepdims=False: pairwise_distance(
        x, y, p, eps, keepdims
    ),
}

NORMALIZATION: dict[str, Function] = {
    "nn.functional.layer_norm": "layer_norm",
    "nn.functional.rms_norm": lambda x, shape, weight=None, eps=None: F.rms_norm(x, shape, weight, eps or 2.0**-23),
    "nn.functional.group_norm": "group_norm",
    "nn.functional.local_response_norm": "local_response_norm",
    "nn.functional.batch_norm": lambda x, *args, **kw: batch_norm(x, *args, **kw),
    "nn.functional.instance_norm": lambda x, weight=None, bias=None, use_input_stats=True, eps=1e-5, **running: (
        instance_norm(x, weight, bias, use_input_stats, eps)
    ),
    "native_layer_norm": lambda x, shape, weight, bias, eps: layer_norm(x, shape, weight, bias, eps),
}

SPATIAL: dict[str, Function] = {
    "nn.functional.conv1d": lambda x, *args, **kw: batched(F.conv1d, x, 3, *args, **kw),
    "nn.functional.conv2d": lambda x, *args, **kw: batched(F.conv2d, x, 4, *args, **kw),
    "nn.functional.conv3d": lambda x, *args, **kw: batched(F.conv3d, x, 5, *args, **kw),
    "nn.functional.conv_transpose1d": lambda x, *args, **kw: batched(F.conv_transpose1d, x, 3, *args, **kw),
    "nn.functional.conv_transpose2d": lambda x, *args, **kw: batched(F.conv_transpose2d, x, 4, *args, **kw),
    "nn.functional.conv_transpose3d": lambda x, *args, **kw: batched(F.conv_transpose3d, x, 5, *args, **kw),
    "nn.functional.avg_pool1d": lambda x, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True: (
        batched(F.avg_pool1d, x, 3, size, stride, padding, count_include_pad, ceil_mode)
    ),
    "nn.functional.avg_pool2d": lambda x, *args, **kw: avg_pool(F.avg_pool2d, x, 4, *args, **kw),
    "nn.functional.avg_pool3d": lambda x, *args, **kw: avg_pool(F.avg_pool3d, x, 5, *args, **kw),
    "nn.functional.max_pool1d": lambda x, **kw: max_pool(F.max_pool1d, F.max_pool1d_with_indices, x, 3, **kw),
    "nn.functional.max_pool2d": lambda x, **kw: max_pool(F.max_pool2d, F.max_pool2d_with_indices, x, 4, **kw),
    "nn.functional.max_pool3d": lambda x, **kw: max_pool(F.max_pool3d, F.max_pool3d_with_indices, x, 5, **kw),
    "nn.functional.max_unpool1d": lambda x, indices, **kw: max_unpool(F.max_unpool1d, x, 3, indices, **kw),
    "nn.functional.max_unpool1d grad": lambda x, indices, **kw: max_unpool(F.max_unpool1d, x, 3, indices, **kw),
    "nn.functional.max_unpool2d": lambda x, indices, **kw: max_unpool(F.max_unpool2d, x, 4, indices, **kw),
    "nn.functional.max_unpool2d grad": lambda x, indices, **kw: max_unpool(F.max_unpool2d, x, 4, indices, **kw),
    "nn.functional.max_unpool3d": lambda x, indices, **kw: max_unpool(F.max_unpool3d, x, 5, indices, **kw),
    "nn.functional.max_unpool3d grad": lambda x, indices, **kw: max_unpool(F.max_unpool3d, x, 5, indices, **kw),
    "nn.functional.adaptive_avg_pool1d": lambda x, size: batched(F.adaptive_avg_pool1d, x, 3, sized(x, size, 1)),
    "nn.functional.adaptive_avg_pool2d": lambda x, size: batched(F.adaptive_avg_pool2d, x, 4, sized(x, size, 2)),
    "nn.functional.adaptive_avg_pool3d": lambda x, size: batched(F.adaptive_avg_pool3d, x, 5, sized(x, size, 3)),
    "nn.functional.adaptive_max_pool1d": lambda x, size, indices: adaptive_max(x, size, indices, 1),
    "nn.functional.adaptive_max_pool2d": lambda x, size, indices: adaptive_max(x, size, indices, 2),
    "nn.functional.adaptive_max_pool3d": lambda x, size, indices: adaptive_max(x, size, indices, 3),
    "nn.functional.unfold": lambda x, size, dilation=1, padding=0, stride=1: batched(
        F.unfold, x, 4, size, dilation, padding, stride
    ),
    "nn.functional.pixel_shuffle": lambda x, upscale_factor: F.pixel_shuffle(x, upscale_factor),
    "nn.functional.pixel_unshuffle": lambda x, downscale_factor: F.pixel_unshuffle(x, downscale_factor),
    "nn.functional.channel_shuffle": "channel_shuffle",
    "nn.functional.grid_sample": "grid_sample",
    "grid_sampler_2d": lambda x, grid, *modes: grid_sampler(x, grid, *modes),
    "grid_sampler_3d": lambda x, grid, *modes: grid_sampler(x, grid, *modes),
    "nn.functional.interpolate nearest": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate nearest-exact": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate linear": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate bilinear": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate bicubic": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate trilinear": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.interpolate area": lambda x, *args, **kw: interpolate(x, *args, **kw),
    "nn.functional.upsample_nearest": lambda x, size=None, scale_factor=None: interpolate(x, size, scale_factor),
    "nn.functional.upsample_bilinear": lambda x, size=None, scale_factor=None: interpolate(
        x, size, scale_factor, "bilinear", True
    ),
    "_upsample_bilinear2d_aa": lambda x, output_size, align_corners, scale_factors=None, **scales: antialiased(
        x, output_size, align_corners, scale_factors, **scales
    ),
}

OTHER: dict[str, Function] = {
    "nn.functional.embedding": lambda weight, indices, padding_idx=None, max_norm=None, **kw: embedding(
        weight, indices, padding_idx, max_norm
    ),
    "nn.functional.embedding_bag": lambda weight, indices, **kw: embedding_bag(weight, indices, **kw),
    "nn.functional.scaled_dot_product_attention": lambda q, k, v, attn_mask=None, dropout_p=0.0, **kw: attention(
        q, k, v, attn_mask, dropout_p, **kw
    ),
    "nn.functional.dropout": lambda x, p=0.5, training=True, inplace=False: dropped(F.dropout, x, p, training),
    "nn.functional.dropout2d": lambda x, p=0.5, training=True, inplace=False: dropped(F.dropout2d, x, p, training, 4),
    "nn.functional.dropout3d": lambda x, p=0.5, training=True, inplace=False: dropped(F.dropout3d, x, p, training, 5),
    "nn.functional.alpha_dropout": lambda x, p=0.5, training=True, inplace=False: dropped(
        F.alpha_dropout, x, p, training
    ),
    "nn.functional.feature_alpha_dropout without_train": lambda x, p=0.5, training=True, inplace=False: dropped(
        F.feature_alpha_dropout, x, p, training
    ),
    "nn.functional.feature_alpha_dropout with_train": lambda x, p=0.5, training=True, inplace=False: dropped(
        F.feature_alpha_dropout, x, p, training
    ),
}

LAYERS: dict[str, Function] = {**ACTIVATIONS, **LOSSES, **NORMALIZATION, **SPATIAL, **OTHER}

_RANDOM = "other random numbers"


def typed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


def vector(sizes: Any) -> Any:
    return fb.tensor(list(sizes)) if isinstance(sizes, tuple | list) else sizes


def softplus(x: Any, beta: float, threshold: float) -> Any:
    only(threshold == 20.0, "no threshold: the function is exact everywhere")
    return F.softplus(x, beta)


def rrelu(x: Any, lower: float, upper: float, training: bool) -> Any:
    only(not training or lower == upper, _RANDOM)
    return F.rrelu(x, lower, upper, training)


def dropped(function: Any, x: Any, p: float, training: bool, rank: int | None = None) -> Any:
    only(not training or p in (0.0, 1.0), _RANDOM)
    only(function is not F.feature_alpha_dropout or x.ndim > 1, "with channels")
    return function(x, p, training) if rank is None else batched(function, x, rank, p, training)


def classes(function: Any, x: Any, *args: Any, **kw: Any) -> Any:
    only(x.ndim > 0, "with an axis of classes")
    return function(x, *args, **kw)


def multi_margin_loss(x: Any, target: Any, *args: Any, **kw: Any) -> Any:
    only(x.ndim == 0 or target.ndim == x.ndim - 1, "targets have no batch where scores have none")
    return classes(F.multi_margin_loss, x, target, *args, **kw)


def gaussian_nll_loss(x: Any, target: Any, *args: Any, **kw: Any) -> Any:
    only(x.shape == target.shape, "input and target have one shape")
    return F.gaussian_nll_loss(x, target, *args, **kw)


def antialiased(x: Any, size: Any, align: bool, factors: Any, **scales: Any) -> Any:
    only(not any(scales.values()), "one way to say a scale")
    return F.interpolate(x, size, factors, "bilinear", align, antialias=True)


def layer_norm(x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    variance, mean = fb.var_mean(x, axes, keepdims=True)
    return F.layer_norm(x, shape, weight, bias, eps), mean, fb.rsqrt(variance + eps)


def batch_norm(
    x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, training: Any = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """With the statistics of the batch, or with those given."""
    only(x.ndim > 1, "with channels")
    if training:
        mean, variance = F.batch_statistics(x)
    return F.batch_norm(x, mean, variance, weight, bias, eps)


def instance_norm(x: Any, weight: Any, bias: Any, own: bool, eps: float) -> Any:
    only(own, "the statistics are those of the instance")
    return F.instance_norm(x, weight, bias, eps)


def batched(function: Any, x: Any, rank: int, *args: Any, **kw: Any) -> Any:
    """Layers take a batch; PyTorch's take one element of it too."""
    if x.ndim == rank:
        return function(x, *args, **kw)
    made = function(x.unsqueeze(0), *args, **kw)
    return tuple(m.squeeze(0) for m in made) if isinstance(made, tuple) else made.squeeze(0)


def avg_pool(
    function: Any, x: Any, rank: int, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    padding = padding[0] if isinstance(padding, tuple) and len(padding) == 1 else padding
    return batched(
        function, x, rank, kernel_size, stride or None, padding, count_include_pad, ceil_mode, divisor_override
    )


def max_pool(plain: Any, indexed: Any, x: Any, rank: int, return_indices: bool, **kw: Any) -> Any:
    return batched(indexed if return_indices else plain, x, rank, **kw)


def max_unpool(function: Any, x: Any, rank: int, indices: Any, output_size: Any, **kw: Any) -> Any:
    only(x.ndim == rank, "with a batch")
    return function(x, indices, output_size=output_size[2:] if output_size else None, **kw)


def sized(x: Any, size: Any, rank: int) -> Any:
    """PyTorch's None is the size that the dim has."""
    if isinstance(size, int):
        return size
    return tuple(own if wanted is None else wanted for own, wanted in zip(x.shape[-rank:], size, strict=True))


def adaptive_max(x: Any, size: Any, indices: bool, rank: int) -> Any:
    function = getattr(F, f"adaptive_max_pool{rank}d" + ("_with_indices" if indices else ""))
    return batched(function, x, rank + 2, sized(x, size, rank))


def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return F.grid_sample(x, grid, modes[mode], paddings[padding], align)


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
    recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    only(not recompute_scale_factor, "the scale is the one that is given")
    return F.interpolate(x, size, scale_factor, mode, bool(align_corners), antialias)


def embedding(weight: Any, indices: Any, padding_idx: int | None, max_norm: float | None) -> Any:
    only(max_norm is None, "weights are not changed by a forward pass")
    return F.embedding(indices, weight, padding_idx)


def embedding_bag(
    weight: Any, indices: Any, offsets: Any = None, mode: str = "mean", per_sample_weights: Any = None,
    padding_idx: int | None = None, max_norm: Any = None, include_last_offset: bool = False, **kw: Any,
) -> Any:  # fmt: skip
    only(max_norm is None, "weights are not changed by a forward pass")
    only(not include_last_offset, "offsets say where bags start")
    only(mode != "max" or offsets is None, "no maxima of bags with offsets")
    return F.embedding_bag(indices, weight, offsets, mode, per_sample_weights, padding_idx)


def pairwise_distance(x: Any, y: Any, p: float, eps: float, keepdims: bool) -> Any:
    only(p >= 0, "p is not negative")
    return F.pairwise_distance(x, y, p, eps, keepdims)


def attention(q: Any, k: Any, v: Any, mask: Any, dropout: float, **kw: Any) -> Any:
    if dropout:
        raise NotTried(_RANDOM)
    return F.scaled_dot_product_attention(q, k, v, mask, **kw)
