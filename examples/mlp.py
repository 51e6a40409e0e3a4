"""The shortest training loop: a multi-layer perceptron that tells three interleaved spirals apart.

python examples/mlp.py
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import firebox as fb
from firebox import nn, optim

Array = npt.NDArray[Any]


def spirals(count: int, arms: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """``count`` points on each arm: coordinates (points, 2) as f32, and the number of the arm."""
    radius = np.linspace(0.1, 1.0, count)
    labels = np.repeat(np.arange(arms), count)
    angle = np.tile(4.0 * radius, arms) + labels * (2 * np.pi / arms) + rng.normal(0.0, 0.1, arms * count)
    points = np.tile(radius, arms)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return points.astype(np.float32), labels


class MLP(nn.Module):
    """Linear layers with GELU between them."""

    def __init__(self, *sizes: int) -> None:
        self.layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]

    def forward(self, x: fb.Tensor) -> fb.Tensor:
        for layer in self.layers[:-1]:
            x = fb.gelu(layer(x))
        return self.layers[-1](x)


def train(model: MLP, points: Array, labels: Array, steps: int) -> float:
    """Full-batch training; returns the last loss."""
    x, y = fb.tensor(points), fb.tensor(labels)
    optimizer = optim.Adam(model, lr=1e-2)
    for _ in range(steps):
        loss = fb.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.item())


def main() -> None:
    fb.manual_seed(0)
    points, labels = spirals(100, 3, np.random.default_rng(0))
    model = MLP(2, 32, 32, 3)
    print(model)
    loss = train(model, points, labels, 300)
    found = model(fb.tensor(points)).argmax(-1)
    print(f"loss {loss:.4f}, {float((found == fb.tensor(labels)).float().mean()):.1%} of the points are right")


if __name__ == "__main__":
    main()
