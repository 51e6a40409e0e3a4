"""Layers and models: `Module`, the usual layers, and initial values (`init`)."""

from firebox.frontend.cells import Buffer, Param
from firebox.frontend.nn import functional, init
from firebox.frontend.nn.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from firebox.frontend.nn.attention import MultiHeadAttention
from firebox.frontend.nn.container import Flatten, Identity, Sequential
from firebox.frontend.nn.convolution import Conv1d, Conv2d, ConvTranspose2d
from firebox.frontend.nn.dropout import Dropout
from firebox.frontend.nn.linear import Embedding, Linear
from firebox.frontend.nn.module import Module
from firebox.frontend.nn.normalization import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from firebox.frontend.nn.pooling import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Buffer",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool2d",
    "Mish",
    "Module",
    "MultiHeadAttention",
    "Param",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "functional",
    "init",
]
