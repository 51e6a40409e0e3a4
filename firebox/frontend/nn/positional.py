"""Positions as numbers that are added to vectors or turn them: `PositionalEncoding`, `RotaryEncoding`."""

import math

import numpy as np
import numpy.typing as npt

from firebox.dtypes import as_dtype
from firebox.errors import ShapeError
from firebox.frontend.cells import Buffer
from firebox.frontend.devices import default_float
from firebox.frontend.functions.rotary import rotary_encoding
from firebox.frontend.nn.dropout import Dropout
from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor, tensor


def sinusoids(length: int, width: int, max_timescale: float = 10000.0) -> npt.NDArray[np.float64]:
    """(length, width): sin and cos of position * max_timescale^(-2k / width) at 2k and 2k + 1 (Vaswani et al. 2017)."""
    rates = np.exp(np.arange(0, width, 2) * (-math.log(max_timescale) / width))
    angles = np.arange(length)[:, None] * rates
    table = np.zeros((length, width))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)[:, : width // 2]
    return table


class PositionalEncoding(Module):
    """Adds `sinusoids` to (batch, length, width), then drops elements in training.

    Raises:
        ShapeError: a sequence longer than ``max_length``, or of another width.
    """

    def __init__(
        self,
        width: int,
        max_length: int = 5000,
        max_timescale: float = 10000.0,
        dropout: float = 0.0,
        dtype: object = None,
        device: object = None,
    ) -> None:
        self.width = width
        self.max_length = max_length
        table = sinusoids(max_length, width, max_timescale)
        kind = default_float(device) if dtype is None else as_dtype(dtype)
        self.table = Buffer(tensor(table, dtype=kind, device=device))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """``start`` is the position of the first vector."""
        length = x.shape[-2] if x.rank > 1 else 0
        too_long = isinstance(length, int) and start + length > self.max_length
        if x.rank < 2 or x.shape[-1] != self.width or too_long:
            expected = f"(.., up to {self.max_length}, {self.width})"
            raise ShapeError("the sequence does not fit", op="PositionalEncoding", expected=expected, found=x.shape)
        rows = self.table.value.slice((start, 0), (start + length, self.width))
        result: Tensor = self.dropout(x + rows.astype(x.dtype))
        return result

    def extra_repr(self) -> str:
        return f"{self.width}, max_length={self.max_length}"


class RotaryEncoding(Module):
    """Turns pairs of elements of (.., length, width) by angles that grow with the position (Su et al. 2021).

    Args:
        width: even; that of the vectors, or of the part of them that is turned.
        theta: the longest wavelength is 2 pi * theta.
        interleaved: pairs are elements 2k and 2k + 1; else k and k + width / 2.
    """

    def __init__(self, width: int, theta: float = 10000.0, interleaved: bool = True) -> None:
        if width % 2:
            raise ShapeError("the width must be even", op="RotaryEncoding", found=width)
        self.width = width
        self.theta = theta
        self.interleaved = interleaved

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """``start`` is the position of the first vector."""
        return rotary_encoding(x, self.width, self.theta, start, self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.width}, theta={self.theta}"
