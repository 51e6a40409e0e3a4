"""Normalisation layers: `BatchNorm1d/2d/3d`, `InstanceNorm1d/2d/3d`, `LayerNorm`, `RMSNorm`, `GroupNorm`, and more."""

from collections.abc import Sequence

from firebox import dims
from firebox.errors import ShapeError
from firebox.frontend.cells import Buffer, Param
from firebox.frontend.functions import normalization as F
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module, value_of
from firebox.frontend.tensor import Tensor


class _BatchNorm(Module):
    """Normalise each channel (axis 1): by the batch in training, by running statistics otherwise.

    As in PyTorch the batch is normalised by its biased variance, and the running variance takes the unbiased one:
    ``running = (1 - momentum) * running + momentum * batch``.
    """

    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        shape = (num_features,)
        self.weight = Param(init.ones(shape, dtype, device)) if affine else None
        self.bias = Param(init.zeros(shape, dtype, device)) if affine else None
        self.running_mean = Buffer(init.zeros(shape, dtype, device)) if track_running_stats else None
        self.running_var = Buffer(init.ones(shape, dtype, device)) if track_running_stats else None

    def forward(self, x: Tensor) -> Tensor:
        if x.rank not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise ShapeError("wrong number of dims", op=type(self).__name__, expected=f"rank {ranks}", found=x.shape)
        if x.shape[1] != self.num_features:
            expected = f"{self.num_features} channels (axis 1)"
            raise ShapeError("the channels do not fit", op=type(self).__name__, expected=expected, found=x.shape)
        mean, variance = self._statistics(x)
        return F.batch_norm(x, mean, variance, value_of(self.weight), value_of(self.bias), self.eps)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.running_mean is None or self.running_var is None:
            return F.batch_statistics(x)
        if not self.training:
            return self.running_mean.value, self.running_var.value
        mean, variance = F.batch_statistics(x)
        self._update(self.running_mean, mean)
        self._update(self.running_var, variance * _unbiased(x))
        return mean, variance

    def _update(self, running: Buffer, batch: Tensor) -> None:
        old = running.value
        running.value = old + (batch.detach().astype(old.dtype) - old) * self.momentum

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}"


def _unbiased(x: Tensor) -> Tensor | float:
    """n / (n - 1), n the number of values of a channel; 1 where n is 1."""
    count = dims.product(d for k, d in enumerate(x.shape) if k != 1)
    if isinstance(count, int):
        return count / max(count - 1, 1)
    size = x.size_of(count)
    return size / (size - 1.0).maximum(1.0)


class BatchNorm1d(_BatchNorm):
    """Batch norm over (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm over (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm over (N, C, D, H, W)."""

    ranks = (5,)


class _InstanceNorm(Module):
    """Standardise each channel (axis 1) of each sample, then scale and shift each channel."""

    rank: int

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = False, dtype: object = None, device: object = None
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.weight = Param(init.ones((num_features,), dtype, device)) if affine else None
        self.bias = Param(init.zeros((num_features,), dtype, device)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        if x.rank != self.rank or x.shape[1] != self.num_features:
            expected = f"rank {self.rank} with {self.num_features} channels (axis 1)"
            raise ShapeError("the input does not fit", op=type(self).__name__, expected=expected, found=x.shape)
        return F.instance_norm(x, value_of(self.weight), value_of(self.bias), self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, affine={self.weight is not None}"


class InstanceNorm1d(_InstanceNorm):
    """Instance norm over (N, C, L)."""

    rank = 3


class InstanceNorm2d(_InstanceNorm):
    """Instance norm over (N, C, H, W)."""

    rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Instance norm over (N, C, D, H, W)."""

    rank = 5


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares of neighbouring channels)^beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """Standardise the last dims, then scale and shift; ``normalized_shape`` are their sizes."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        bias: bool = True,
        affine: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.weight = Param(init.ones(self.normalized_shape, dtype, device)) if affine else None
        self.bias = Param(init.zeros(self.normalized_shape, dtype, device)) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, value_of(self.weight), value_of(self.bias), self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Divide the last dims by their root mean square, then scale."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.weight = Param(init.ones(self.normalized_shape, dtype, device)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, value_of(self.weight), self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Standardise groups of channels (axis 1) of each sample, then scale and shift each channel."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: object = None,
        device: object = None,
    ) -> None:
        if num_channels % num_groups:
            found = f"{num_channels} channels, {num_groups} groups"
            raise ShapeError("channels must be a multiple of groups", op="GroupNorm", found=found)
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Param(init.ones((num_channels,), dtype, device)) if affine else None
        self.bias = Param(init.zeros((num_channels,), dtype, device)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, value_of(self.weight), value_of(self.bias), self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
