"""Fits a circle to points with an op from `hypot.py`, then compiles the result into one file and runs that.

cd examples && python -m plugin_op.fit_circle --out circle.fbox
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import firebox as fb
from firebox import nn, optim
from plugin_op.hypot import hypot

Array = npt.NDArray[Any]


class Circle(nn.Module):
    """A circle; calling it gives how far points of shape (n, 2) are outside of it."""

    def __init__(self) -> None:
        self.centre = fb.Param(fb.zeros(2))
        self.radius = fb.Param(1.0)

    def forward(self, points: fb.Tensor) -> fb.Tensor:
        x, y = fb.unbind(points - self.centre, -1)
        return hypot(x, y) - self.radius


def arc(count: int, rng: np.random.Generator) -> Array:
    """Noisy points on half of the circle with centre (2, -1) and radius 3."""
    angle = rng.uniform(0.0, np.pi, count)
    on = np.stack([2.0 + 3.0 * np.cos(angle), -1.0 + 3.0 * np.sin(angle)], -1)
    return (on + rng.normal(0.0, 0.01, on.shape)).astype(np.float32)


def fit(circle: Circle, points: Array, steps: int) -> float:
    """Minimise the mean squared distance; returns the last one."""
    given = fb.tensor(points)
    optimizer = optim.Adam(circle, lr=0.1)
    for _ in range(steps):
        loss = (circle(given) ** 2).mean()
        loss.backward()
        optimizer.step()
    return float(loss.item())


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit a circle, compile it, run it.")
    parser.add_argument("--out", type=Path, default=Path("circle.fbox"), help="the artifact to write")
    path = parser.parse_args().out
    circle = Circle()
    loss = fit(circle, arc(200, np.random.default_rng(0)), 300)
    print(f"centre {circle.centre.numpy()}, radius {circle.radius.item():.3f}, mean squared distance {loss:.2e}")
    fb.compile(circle, "points: f32[n, 2]", path=path)
    distance = fb.runtime.load(path)(np.zeros((1, 2), np.float32))
    print(f"{path}: the origin is {-float(distance[0]):.3f} inside")


if __name__ == "__main__":
    main()
