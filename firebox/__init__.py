"""Firebox: tensors, automatic differentiation, modules and optimizers on a compiler of its own.

    import firebox as fb

Public names are loaded when they are first used, so that ``import firebox.runtime`` loads no compiler.
"""

import importlib
from typing import Any

from firebox.version import VERSION as __version__

_BY_MODULE: dict[str, str] = {
    "firebox.dtypes": "DType",
    "firebox.errors": """
        ArtifactError CompilerError DTypeError DeviceError FireboxError IndexRangeError
        InputError ShapeError TraceError UserError
    """,
    "firebox.runtime.device": "Device devices",
    "firebox.signature": "TensorSpec",
    "firebox.frontend.aot": "compile export",
    "firebox.frontend.apply": "apply",
    "firebox.frontend.cells": "Buffer Cell Flat Param",
    "firebox.frontend.control": "cond fori_loop scan while_loop",
    "firebox.frontend.creation": """
        arange cartesian_prod empty empty_like eye full full_like iota linspace logspace
        meshgrid ones ones_like tri tril_indices triu_indices zeros zeros_like
    """,
    "firebox.frontend.data_types": "can_cast finfo iinfo isdtype result_type",
    "firebox.frontend.devices": "current_device device set_default_device",
    "firebox.frontend.execute": "flush",
    "firebox.frontend.grad_mode": "enable_grad is_grad_enabled no_grad",
    "firebox.frontend.gradients": "Gradients",
    "firebox.frontend.inspection": "dim spec",
    "firebox.frontend.jit": "jit",
    "firebox.frontend.profile": "profile",
    "firebox.frontend.random": "Generator manual_seed rand randn",
    "firebox.frontend.stats": "reset_stats stats",
    "firebox.frontend.tensor": "Tensor from_dlpack from_numpy tensor",
    "firebox.frontend.custom": "checkpoint custom_vjp",
    "firebox.frontend.custom_jvp": "custom_jvp",
    "firebox.frontend.transform": "grad hessian jacobian jvp stop_gradient value_and_grad vjp vmap",
    "firebox.frontend.functions.activations": """
        celu elu gelu glu hard_shrink hard_sigmoid hard_swish hard_tanh leaky_relu
        log_sigmoid mish prelu relu relu6 selu shrink sigmoid silu soft_shrink softplus
        softsign swiglu tanh tanh_shrink threshold
    """,
    "firebox.frontend.functions.adaptive_pooling": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices adaptive_max_pool3d
        adaptive_max_pool3d_with_indices
    """,
    "firebox.frontend.functions.assembling": """
        block_diag cartesian_grid diag_mask diagflat diagonal_scatter meshgrid_stack
        select_scatter slice_fill slice_scatter tril_mask triu_mask
    """,
    "firebox.frontend.functions.attention": "causal_mask scaled_dot_product_attention",
    "firebox.frontend.functions.bilinear": "bilinear",
    "firebox.frontend.functions.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "firebox.frontend.functions.deform_conv": "deform_conv2d",
    "firebox.frontend.functions.distances": "cdist pairwise_distance pdist",
    "firebox.frontend.functions.distribution_losses": "gaussian_nll_loss kl_div poisson_nll_loss",
    "firebox.frontend.functions.dropout": """
        alpha_dropout categorical dropout dropout1d dropout2d dropout3d
        feature_alpha_dropout gaussian_noise gumbel_softmax rand_like randn_like rrelu
    """,
    "firebox.frontend.functions.einsum": "einsum",
    "firebox.frontend.functions.embedding_bag": "embedding_bag",
    "firebox.frontend.functions.grid_sample": "affine_grid grid_sample",
    "firebox.frontend.functions.interpolate": "interpolate",
    "firebox.frontend.functions.linear_algebra": "dot linear matmul norm outer tensordot vecdot",
    "firebox.frontend.functions.losses": """
        bce_with_logits binary_cross_entropy cross_entropy huber_loss l1_loss lp_loss
        mse_loss nll_loss smooth_l1_loss soft_cross_entropy
    """,
    "firebox.frontend.functions.margin_losses": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss
        triplet_margin_loss triplet_margin_with_distance_loss
    """,
    "firebox.frontend.functions.mathematics": """
        acos acosh array_equal asin asinh atan atanh bitwise_not cbrt contains_nan cosh
        deg2rad exp2 isneginf isposinf lerp log10 log2 logical_not nan_to_num rad2deg
        reciprocal signbit sinc sinh tan
    """,
    "firebox.frontend.functions.matrices": """
        corrcoef cosine_similarity cov cross diag diag_embed diagonal inner kron
        matvec trace vdot vector_norm
    """,
    "firebox.frontend.functions.moving": """
        array_split atleast_1d atleast_2d broadcast_arrays broadcast_shapes
        broadcast_tensors broadcast_to column_stack dstack expand_dims flatten fliplr
        flipud hsplit hstack matrix_transpose moveaxis movedim ravel repeat_interleave
        rot90 select swapaxes swapdims tensor_split unflatten vsplit vstack windows
    """,
    "firebox.frontend.functions.normalization": """
        batch_norm batch_statistics group_norm instance_norm layer_norm
        local_response_norm log_softmax logsumexp mean normalize quiet_softmax rms_norm
        softmax softmin std var weight_norm
    """,
    "firebox.frontend.functions.numeric": """
        addcdiv addcmul aminmax convolve correlate cumulative_trapezoid fmax fmin frexp
        gradient heaviside interp ldexp modf nanargmax nanargmin nancumprod nancumsum
        percentile polyval vander
    """,
    "firebox.frontend.functions.ordering": """
        argtopk bucketize kthvalue max_with_indices median min_with_indices mode quantile searchsorted sort_with_indices
    """,
    "firebox.frontend.functions.padding": "pad",
    "firebox.frontend.functions.pooling": """
        avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_pool1d
        max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
        max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d
    """,
    "firebox.frontend.functions.rotary": "rotary_encoding",
    "firebox.frontend.functions.scattering": """
        gather gather_nd index_add index_put index_select masked_fill masked_scatter
        put_along_axis scatter scatter_nd take take_along_axis
    """,
    "firebox.frontend.functions.sequence_losses": "ctc_loss rnnt_loss",
    "firebox.frontend.functions.sets": """
        argwhere bincount compress flatnonzero isin masked_select nonzero unique
        unique_all unique_counts unique_inverse unique_values
    """,
    "firebox.frontend.functions.shape": """
        allclose argsort chunk clip concat embedding flip isclose narrow one_hot repeat
        roll sort split stack tile topk tril triu unbind where
    """,
    "firebox.frontend.functions.special": """
        betaln digamma entr erfc erfinv i0 i0e i1 i1e lgamma logit ndtr polygamma
        xlog1py
    """,
    "firebox.frontend.functions.statistics": """
        average count_nonzero cummax cummin cumulative_prod cumulative_sum diff histogram linear_scan
        logcumsumexp max_abs nanmax nanmean nanmin nanprod nanstd nansum nanvar ptp
        trapezoid var_mean
    """,
    "firebox.frontend.functions.unfold": "channel_shuffle fold pixel_shuffle pixel_unshuffle unfold",
    "firebox.frontend.linalg": "matrix_norm matrix_power",
    "firebox.frontend.elementwise": """
        abs absolute all amax amin any argmax argmin ceil cos cumprod cumsum erf exp expm1
        floor isfinite isinf isnan log log1p max min negative permute positive prod
        reshape round rsqrt sign sin sqrt square squeeze sum transpose trunc unsqueeze
    """,
    "firebox.frontend.pairs": """
        add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor copysign divide divmod equal floor_divide fmod greater greater_equal
        hypot left_shift less less_equal logaddexp logaddexp2 logical_and logical_or
        logical_xor maximum minimum multiply nextafter not_equal power remainder
        right_shift subtract xlogy
    """,
}
_FUNCTIONS = "firebox.frontend.functions"
_ACCEPTING = (_FUNCTIONS, "firebox.frontend.creation")
_RENAMED = {
    "arccos": ("firebox.frontend.functions.mathematics", "acos"),
    "arccosh": ("firebox.frontend.functions.mathematics", "acosh"),
    "arcsin": ("firebox.frontend.functions.mathematics", "asin"),
    "arcsinh": ("firebox.frontend.functions.mathematics", "asinh"),
    "arctan": ("firebox.frontend.functions.mathematics", "atan"),
    "arctan2": ("firebox.frontend.pairs", "atan2"),
    "arctanh": ("firebox.frontend.functions.mathematics", "atanh"),
    "cat": ("firebox.frontend.functions.shape", "concat"),
    "clamp": ("firebox.frontend.functions.shape", "clip"),
    "permute_dims": ("firebox.frontend.elementwise", "transpose"),
    "pow": ("firebox.frontend.pairs", "power"),
    "unstack": ("firebox.frontend.functions.shape", "unbind"),
}
_DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"""
_SUBMODULES = {
    "array_api": "firebox.frontend.array_api",
    "fft": "firebox.frontend.fft",
    "linalg": "firebox.frontend.linalg",
    "nn": "firebox.frontend.nn",
    "optim": "firebox.frontend.optim",
    "random": "firebox.frontend.random",
    "record": "firebox.frontend.record",
    "runtime": "firebox.runtime",
    "signal": "firebox.frontend.signal",
    "train": "firebox.frontend.train",
    "vision": "firebox.frontend.vision",
}
_WHERE: dict[str, tuple[str, str]] = {name: (m, name) for m, names in _BY_MODULE.items() for name in names.split()}
_WHERE.update(_RENAMED)
_WHERE.update({name: ("firebox.dtypes", name + "_" if name == "bool" else "") for name in _DTYPES.split()})

__all__ = ["__version__", *_WHERE, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        value: Any = importlib.import_module(_SUBMODULES[name])
    elif name in _WHERE:
        module, attribute = _WHERE[name]
        value = getattr(importlib.import_module(module), attribute) if attribute else _dtype(name)
        if module.startswith(_ACCEPTING):
            value = importlib.import_module(f"{_FUNCTIONS}.accept").accepting(value)
    else:
        raise AttributeError(f"module 'firebox' has no attribute {name!r}")
    globals()[name] = value
    return value


def _dtype(name: str) -> Any:
    return importlib.import_module("firebox.dtypes").as_dtype(name)


def __dir__() -> list[str]:
    return sorted(__all__)
