"""Maps of the plane, applied to images."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from firebox.errors import ShapeError
from firebox.frontend.functions.grid_sample import affine_grid, grid_sample
from firebox.frontend.functions.support import shape_text
from firebox.frontend.tensor import Tensor, as_tensor

Matrix = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class Transform2d:
    """An affine map of positions, in coordinates from -1 to 1 of the image: where each element of the result looks.

    Attributes:
        matrix: two rows (a, b, shift).
        padding_mode: what lies outside of the image, as in `grid_sample`.
    """

    matrix: Matrix
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros"

    @staticmethod
    def identity() -> "Transform2d":
        """Every element where it is."""
        return Transform2d(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))

    @staticmethod
    def rotation(angle: float, cx: float = 0.0, cy: float = 0.0) -> "Transform2d":
        """By an angle in radians about a centre."""
        c, s = math.cos(angle), math.sin(angle)
        return Transform2d(((c, -s, cx - c * cx + s * cy), (s, c, cy - s * cx - c * cy)))

    @staticmethod
    def scale(sx: float, sy: float, cx: float = 0.0, cy: float = 0.0) -> "Transform2d":
        """By factors about a centre."""
        return Transform2d(((sx, 0.0, cx - sx * cx), (0.0, sy, cy - sy * cy)))

    @staticmethod
    def translation(tx: float, ty: float) -> "Transform2d":
        """By distances."""
        return Transform2d(((1.0, 0.0, tx), (0.0, 1.0, ty)))

    @staticmethod
    def shear(sx: float, sy: float, cx: float = 0.0, cy: float = 0.0) -> "Transform2d":
        """Along both axes, with a centre that stays."""
        return Transform2d(((1.0, sx, -sx * cy), (sy, 1.0, -sy * cx)))

    @staticmethod
    def composed(*transforms: "Transform2d") -> "Transform2d":
        """One after the other, the first first."""
        whole = np.eye(3)
        for each in transforms:
            whole = np.vstack([each.matrix, (0.0, 0.0, 1.0)]) @ whole
        (a, b, c), (d, e, f) = whole[:2].tolist()
        return Transform2d(((a, b, c), (d, e, f)))

    def with_padding_mode(self, mode: Literal["zeros", "border", "reflection"]) -> "Transform2d":
        """The same map with something else outside of the image."""
        return Transform2d(self.matrix, mode)

    def __call__(self, images: Any, mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear") -> Tensor:
        """Images (N, C, H, W) seen through the map.

        Raises:
            ShapeError: another rank.
        """
        x = as_tensor(images)
        if x.rank != 4:
            raise ShapeError("not images", op="Transform2d", expected="(N, C, H, W)", found=shape_text(x))
        theta = as_tensor(np.array([self.matrix], x.dtype.numpy), x.device).broadcast_to((x.shape[0], 2, 3))
        return grid_sample(x, affine_grid(theta, x.shape), mode, self.padding_mode)
