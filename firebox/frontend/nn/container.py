"""Modules that hold modules, and those that only change a shape: `Sequential`, `Identity`, `Flatten`."""

from collections.abc import Iterator
from typing import Any

from firebox.frontend.nn.module import Module
from firebox.frontend.tensor import Tensor


class Sequential(Module):
    """Modules (or plain functions) one after the other; their paths are ``0``, ``1``, .. as in PyTorch."""

    def __init__(self, *layers: Any) -> None:
        for position, layer in enumerate(layers):
            setattr(self, str(position), layer)

    @property
    def layers(self) -> tuple[Any, ...]:
        return tuple(part for name, part in vars(self).items() if name.isdigit())

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, position: int) -> Any:
        return self.layers[position]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)


class Identity(Module):
    """The input."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """Merge the dims from ``start`` to ``end`` (both included); by default all but the first."""

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start = start
        self.end = end

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start, self.end)

    def extra_repr(self) -> str:
        return f"start={self.start}, end={self.end}"
