"""Activations with parameters: `PReLU`, `SwiGLU`."""

from firebox.frontend.cells import Param
from firebox.frontend.functions.activations import prelu, silu
from firebox.frontend.nn import init
from firebox.frontend.nn.linear import Linear
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class PReLU(Module):
    """x for x > 0, else weight * x, with one learned weight, or one for each channel (axis 1)."""

    def __init__(
        self, num_parameters: int = 1, initial: float = 0.25, dtype: object = None, device: object = None
    ) -> None:
        self.num_parameters = num_parameters
        self.weight = Param(init.constant((num_parameters,), initial, dtype, device))

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self.weight.value)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class SwiGLU(Module):
    """silu(inner(x)) * outer(x) with two linear layers (Shazeer 2020)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, dtype: object = None, device: object = None
    ) -> None:
        self.inner = Linear(in_features, out_features, bias, dtype, device)
        self.outer = Linear(in_features, out_features, bias, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = silu(self.inner(x)) * self.outer(x)
        return result
