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
        ArtifactError CompilerError DTypeError DeviceError FireboxError IndexRangeError InputError
        ShapeError TraceError UserError
    """,
    "firebox.runtime.device": "Device devices",
    "firebox.signature": "TensorSpec",
    "firebox.frontend.aot": "compile export",
    "firebox.frontend.apply": "apply",
    "firebox.frontend.cells": "Buffer Cell Flat Param",
    "firebox.frontend.creation": """
        arange empty empty_like eye full full_like iota linspace meshgrid ones ones_like tri zeros
        zeros_like
    """,
    "firebox.frontend.devices": "current_device set_default_device",
    "firebox.frontend.execute": "flush",
    "firebox.frontend.grad_mode": "enable_grad is_grad_enabled no_grad",
    "firebox.frontend.inspection": "dim spec",
    "firebox.frontend.jit": "jit",
    "firebox.frontend.random": "Generator manual_seed rand randn",
    "firebox.frontend.stats": "reset_stats stats",
    "firebox.frontend.tensor": "Tensor from_dlpack from_numpy tensor",
    "firebox.frontend.custom": "checkpoint custom_vjp",
    "firebox.frontend.transform": "grad hessian jacobian jvp stop_gradient value_and_grad vjp vmap",
    "firebox.frontend.functions.activations": """
        celu elu gelu glu hard_sigmoid hard_swish hard_tanh leaky_relu log_sigmoid mish prelu relu
        relu6 selu sigmoid silu softplus softsign tanh
    """,
    "firebox.frontend.functions.attention": "causal_mask scaled_dot_product_attention",
    "firebox.frontend.functions.convolution": "conv1d conv2d conv_transpose2d",
    "firebox.frontend.functions.dropout": "dropout",
    "firebox.frontend.functions.linear_algebra": "dot einsum linear matmul norm outer tensordot vecdot",
    "firebox.frontend.functions.losses": """
        bce_with_logits binary_cross_entropy cross_entropy huber_loss kl_div l1_loss mse_loss
        nll_loss smooth_l1_loss soft_cross_entropy
    """,
    "firebox.frontend.functions.normalization": """
        batch_norm batch_statistics group_norm instance_norm layer_norm log_softmax logsumexp mean
        normalize rms_norm softmax std var
    """,
    "firebox.frontend.functions.pooling": "adaptive_avg_pool2d avg_pool2d max_pool2d",
    "firebox.frontend.functions.shape": """
        allclose argsort chunk clip concat diagonal embedding flip isclose narrow one_hot pad repeat
        roll sort split stack tile topk tril triu unbind where
    """,
    "firebox.frontend.elementwise": """
        abs absolute add all amax amin any argmax argmin ceil cos cumprod cumsum divide equal erf
        exp expm1 floor isfinite isinf isnan log log1p max maximum min minimum multiply negative
        permute power prod reshape round rsqrt sign sin sqrt square squeeze subtract sum take
        transpose trunc unsqueeze
    """,
}
_FUNCTIONS = "firebox.frontend.functions"
_RENAMED = {"cat": ("firebox.frontend.functions.shape", "concat")}
_DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"""
_SUBMODULES = {
    "nn": "firebox.frontend.nn",
    "optim": "firebox.frontend.optim",
    "random": "firebox.frontend.random",
    "record": "firebox.frontend.record",
    "runtime": "firebox.runtime",
    "train": "firebox.frontend.train",
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
        if module.startswith(_FUNCTIONS):
            value = importlib.import_module(f"{_FUNCTIONS}.accept").accepting(value)
    else:
        raise AttributeError(f"module 'firebox' has no attribute {name!r}")
    globals()[name] = value
    return value


def _dtype(name: str) -> Any:
    return importlib.import_module("firebox.dtypes").as_dtype(name)


def __dir__() -> list[str]:
    return sorted(__all__)
