"""Parameters that are computed from others: `weight_norm`, `spectral_norm`.

A reparametrization is a module with a ``value``, which stands in a layer where the parameter stood. What it is made of
is found by its path below: ``weight.direction``.
"""

from typing import TypeVar

from firebox import dims
from firebox.errors import UserError
from firebox.frontend.cells import Buffer, Param
from firebox.frontend.functions import normalization as F
from firebox.frontend.functions.linear_algebra import matmul
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor

M = TypeVar("M", bound=Module)


class WeightNorm(Module):
    """direction / |direction| * magnitude, the norm over all axes but one (None: over all) (Salimans, Kingma 2016)."""

    def __init__(self, param: Param, axis: int | None = 0) -> None:
        value = param.value.detach()
        kept = () if axis is None else (axis % value.rank,)
        others = tuple(k for k in range(value.rank) if k not in kept)
        self.axis = axis
        self.direction = Param(value)
        self.magnitude = Param((value * value).sum(others, keepdims=True).sqrt())

    @property
    def value(self) -> Tensor:
        """The parameter."""
        return F.weight_norm(self.direction.value, self.magnitude.value, self.axis)


class SpectralNorm(Module):
    """weight / sigma, its largest singular value as a matrix (axis, all others) (Miyato et al. 2018).

    A vector follows the singular one: each use in training improves it by ``iterations`` steps of power iteration.
    """

    def __init__(self, param: Param, axis: int = 0, iterations: int = 1, eps: float = 1e-12) -> None:
        value = param.value.detach()
        self.axis = axis % value.rank
        self.iterations = iterations
        self.eps = eps
        self.weight = Param(value)
        start = init.normal((value.shape[self.axis],), 0.0, 1.0, value.dtype, value.device)
        self.vector = Buffer(self._improved(self._matrix(value), F.normalize(start, eps=eps), 15))

    @property
    def value(self) -> Tensor:
        """The parameter."""
        weight = self.weight.value
        matrix = self._matrix(weight)
        if self.training:
            self.vector.value = self._improved(matrix.detach(), self.vector.value, self.iterations)
        left = self.vector.value.detach()
        right = F.normalize(matmul(left, matrix.detach()), eps=self.eps)
        return weight / matmul(matmul(left, matrix), right)

    def _matrix(self, weight: Tensor) -> Tensor:
        order = (self.axis, *(k for k in range(weight.rank) if k != self.axis))
        columns = dims.product(weight.shape[k] for k in order[1:])
        return weight.transpose(order).reshape((weight.shape[self.axis], columns))

    def _improved(self, matrix: Tensor, left: Tensor, iterations: int) -> Tensor:
        for _ in range(iterations):
            right = F.normalize(matmul(left, matrix), eps=self.eps)
            left = F.normalize(matmul(matrix, right), eps=self.eps)
        return left.detach()


def weight_norm(layer: M, name: str = "weight", axis: int | None = 0) -> M:
    """The layer, its parameter ``name`` replaced by a `WeightNorm`.

    Raises:
        UserError: the layer has no such parameter.
    """
    setattr(layer, name, WeightNorm(_param(layer, name), axis))
    return layer


def spectral_norm(layer: M, name: str = "weight", axis: int = 0, iterations: int = 1) -> M:
    """The layer, its parameter ``name`` replaced by a `SpectralNorm`; of transposed convolutions ``axis`` is 1.

    Raises:
        UserError: the layer has no such parameter.
    """
    setattr(layer, name, SpectralNorm(_param(layer, name), axis, iterations))
    return layer


def _param(layer: Module, name: str) -> Param:
    found = getattr(layer, name, None)
    if not isinstance(found, Param):
        names = [n for n, value in vars(layer).items() if isinstance(value, Param)]
        expected = ", ".join(names) or "a layer with parameters"
        raise UserError("no such parameter", op=type(layer).__name__, expected=expected, found=repr(name))
    return found
