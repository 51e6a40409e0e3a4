"""Every function that layers are made of, under one name: ``F = fb.nn.functional``."""

from firebox.frontend.functions.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    shrink,
    sigmoid,
    silu,
    soft_shrink,
    softplus,
    softsign,
    swiglu,
    tanh,
    tanh_shrink,
    threshold,
)
from firebox.frontend.functions.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
)
from firebox.frontend.functions.attention import causal_mask, scaled_dot_product_attention
from firebox.frontend.functions.bilinear import bilinear
from firebox.frontend.functions.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from firebox.frontend.functions.deform_conv import deform_conv2d
from firebox.frontend.functions.distances import cdist, pairwise_distance, pdist
from firebox.frontend.functions.distribution_losses import gaussian_nll_loss, kl_div, poisson_nll_loss
from firebox.frontend.functions.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    gaussian_noise,
    gumbel_softmax,
    rrelu,
)
from firebox.frontend.functions.einsum import einsum
from firebox.frontend.functions.embedding_bag import embedding_bag
from firebox.frontend.functions.grid_sample import affine_grid, grid_sample
from firebox.frontend.functions.interpolate import interpolate
from firebox.frontend.functions.linear_algebra import dot, linear, matmul, norm, outer, tensordot, vecdot
from firebox.frontend.functions.losses import (
    bce_with_logits,
    binary_cross_entropy,
    cross_entropy,
    huber_loss,
    l1_loss,
    lp_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    soft_cross_entropy,
)
from firebox.frontend.functions.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from firebox.frontend.functions.matrices import cosine_similarity, diagonal
from firebox.frontend.functions.normalization import (
    batch_norm,
    batch_statistics,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    log_softmax,
    logsumexp,
    mean,
    normalize,
    quiet_softmax,
    rms_norm,
    softmax,
    softmin,
    std,
    var,
    weight_norm,
)
from firebox.frontend.functions.padding import pad
from firebox.frontend.functions.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from firebox.frontend.functions.rotary import rotary_encoding
from firebox.frontend.functions.sequence_losses import ctc_loss, rnnt_loss
from firebox.frontend.functions.shape import (
    allclose,
    argsort,
    chunk,
    clip,
    concat,
    embedding,
    flip,
    isclose,
    narrow,
    one_hot,
    repeat,
    roll,
    sort,
    split,
    stack,
    tile,
    topk,
    tril,
    triu,
    unbind,
    where,
)
from firebox.frontend.functions.unfold import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "allclose", "alpha_dropout", "argsort",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "batch_statistics", "bce_with_logits", "bilinear",
    "binary_cross_entropy", "causal_mask", "cdist", "celu", "channel_shuffle", "chunk", "clip", "concat", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "ctc_loss", "deform_conv2d", "diagonal", "dot", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "einsum", "elu", "embedding", "embedding_bag", "feature_alpha_dropout", "flip", "fold",
    "gaussian_nll_loss", "gaussian_noise", "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hard_shrink",
    "hard_sigmoid", "hard_swish", "hard_tanh", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate",
    "isclose", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "local_response_norm", "log_sigmoid",
    "log_softmax", "logsumexp", "lp_loss", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "matmul",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mean", "mish", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "narrow", "nll_loss", "norm",
    "normalize", "one_hot", "outer", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "quiet_softmax", "relu", "relu6", "repeat", "rms_norm", "rnnt_loss", "roll",
    "rotary_encoding", "rrelu", "scaled_dot_product_attention", "selu", "shrink", "sigmoid", "silu", "smooth_l1_loss",
    "soft_cross_entropy", "soft_margin_loss", "soft_shrink", "softmax", "softmin", "softplus", "softsign", "sort",
    "split", "stack", "std", "swiglu", "tanh", "tanh_shrink", "tensordot", "threshold", "tile", "topk", "tril",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "triu", "unbind", "unfold", "var", "vecdot",
    "weight_norm", "where",
]  # fmt: skip
