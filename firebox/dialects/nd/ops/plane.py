"""Element-wise functions of two floats as a point of the plane, and the sign of one on another."""
# mypy: disable-error-code="override"
# Ops spell out their parameters where the base class has **params.

from collections.abc import Iterable
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.base import Rng, Sample, register
from firebox.dialects.nd.ops.common import FLOAT, Arrays, Grads
from firebox.dialects.nd.ops.elementwise_binary import Binary
from firebox.dialects.nd.ops.trigonometric import HALF_PI, atan_of


class OfFloats(Binary):
    """A function of two floats."""

    accepts = FLOAT

    @classmethod
    def samples(cls, rng: Rng) -> Iterable[Sample]:
        yield from super().samples(rng)
        special = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan])
        for dtype in (dtypes.f32, dtypes.f64):
            yield Sample((special.astype(dtype.numpy), special[:, None].astype(dtype.numpy)), differentiable=())


@register
class Atan2(OfFloats):
    """The angle in [-pi, pi] of the point (x, y) = (b, a) to the x axis; the gradient at (0, 0) is 0."""

    name = "nd.atan2"
    transcendental = True
    function = np.arctan2

    @classmethod
    def scalar(cls, s: Any, a: Any, b: Any) -> Any:
        """The angle within the octant, of a ratio that is at most 1, then mirrored to where the point is."""
        high, low = HALF_PI[a.dtype]
        y, x = s.abs(a), s.abs(b)
        small, large = s.min(x, y), s.max(x, y)
        diagonal = s.select(s.eq(small, 0.0), 0.0, s.const(1.0, a.dtype))  # the ratio of two zeros or infinities is NaN
        ratio = s.select(s.eq(small, large), diagonal, s.div(small, large))
        angle = atan_of(s, ratio)
        angle = s.select(s.gt(y, x), s.sub(high, s.sub(angle, low)), angle)
        left = s.lt(s.copysign(1.0, b), 0.0)
        angle = s.select(left, s.sub(2 * high, s.sub(angle, 2 * low)), angle)
        return s.copysign(angle, a)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        length = a.one("hypot", a, b)
        length = (length == 0.0).where(1.0, length)
        return [cts[0] * (b / length / length), -cts[0] * (a / length / length)]


@register
class Hypot(OfFloats):
    """sqrt(a*a + b*b) without the overflow and underflow of the squares; the gradient at (0, 0) is 0."""

    name = "nd.hypot"
    transcendental = True
    function = np.hypot

    @classmethod
    def scalar(cls, s: Any, a: Any, b: Any) -> Any:
        """The larger number times sqrt(1 + ratio^2), so that nothing is squared but the ratio."""
        a, b = s.abs(a), s.abs(b)
        large, small = s.max(a, b), s.min(a, b)
        ratio = s.div(small, s.select(s.eq(large, 0.0), 1.0, large))
        length = s.mul(large, s.sqrt(s.fma(ratio, ratio, 1.0)))
        return s.select(s.or_(s.isinf(a), s.isinf(b)), float("inf"), length)

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        a, b = operands
        length = (results[0] == 0.0).where(1.0, results[0])
        return [cts[0] * (a / length), cts[0] * (b / length)]


@register
class Copysign(OfFloats):
    """The magnitude of a with the sign of b, the sign of zeros and NaNs included; the gradient at a = 0 is 0."""

    name = "nd.copysign"
    function = np.copysign

    @classmethod
    def vjp(cls, cts: Arrays, operands: Arrays, results: Arrays) -> Grads:
        return [cts[0] * (operands[0].sign() * results[0].sign()), None]
