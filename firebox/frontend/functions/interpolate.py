"""`interpolate`: arrays resampled to another size along their spatial dims, one dim after the other.

Each element of the result is a weighted sum of a few elements of the input. Where it looks and with which weights is
computed from its position, in f32 (f64 for f64), by PyTorch's formulas.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from firebox.dialects.nd.array import ArrayLike
from firebox.dtypes import f32, i64
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from firebox.frontend.functions.shape import repeat
from firebox.frontend.functions.spatial import require_spatial
from firebox.frontend.functions.support import A, equals, one_node, require_float, static_size, tuple_of

Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "cubic", "bicubic", "area", "lanczos"]

_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "cubic": 1, "bicubic": 2}
_KERNELS = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}
_LANCZOS = 3  # lobes on each side
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


@dataclass(frozen=True)
class _Axis:
    """One dim to resample. Attributes: its number, its sizes before and after, the step of a position of the result."""

    number: int
    size: int
    out: int
    scale: float


@one_node
def interpolate(
    x: A,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> A:
    """(N, C, spatial..) resampled to ``size``, or to floor(size * scale_factor).

    Args:
        mode: ``"nearest"`` (floor(i * in / out)), ``"nearest-exact"`` (the centre of the pixel), ``"linear"``,
            ``"bilinear"``, ``"trilinear"``, ``"cubic"`` and ``"bicubic"`` (Keys 1981 with a = -0.75; -0.5 with
            ``antialias``), ``"lanczos"`` (three lobes), ``"area"`` (means).
        align_corners: the centres of the first and last pixels stay where they are; else the outer edges do.
        antialias: for fewer pixels the kernel is stretched, so that every pixel of the input counts.

    Raises:
        ShapeError: a number of dims that the mode does not take, or symbolic spatial sizes.
        UserError: no such mode; both or neither of ``size`` and ``scale_factor``; options that the mode does not take.
        DTypeError: a mode that computes, of an array that is not floating.
    """
    rank = require_spatial("interpolate", x)
    _check_mode(mode, rank, align_corners, antialias)
    axes = _axes(x, rank, size, scale_factor, align_corners)
    if mode in ("nearest", "nearest-exact"):
        for axis in axes:
            x = _nearest(x, axis, 0.5 if mode == "nearest-exact" else 0.0)
        return x
    require_float("interpolate", x)
    if mode == "area":
        return _AREA[rank](x, tuple(axis.out for axis in axes))
    wide = x.astype(x.dtype.compute)
    kernel = _KERNELS.get(mode, mode)
    for axis in axes:
        wide = _resampled(wide, axis, kernel, align_corners, antialias)
    return wide.astype(x.dtype)


def _check_mode(mode: str, rank: int, align_corners: bool, antialias: bool) -> None:
    if mode not in get_args(Mode):
        expected = ", ".join(map(repr, get_args(Mode)))
        raise UserError("no such mode", op="interpolate", expected=expected, found=repr(mode))
    if _RANKS.get(mode, rank) != rank:
        expected = f"{_RANKS[mode]} spatial dims for mode {mode!r}"
        raise ShapeError("wrong number of dims", op="interpolate", expected=expected, found=f"{rank}")
    if align_corners and mode in ("nearest", "nearest-exact", "area"):
        raise UserError("the mode does not take align_corners", op="interpolate", found=repr(mode))
    if antialias and (_KERNELS.get(mode, mode) not in _SUPPORT):
        expected = "a linear or cubic mode, or lanczos"
        raise UserError("the mode does not take antialias", op="interpolate", expected=expected, found=repr(mode))


def _axes(
    x: ArrayLike, rank: int, size: int | Sequence[int] | None, factor: float | Sequence[float] | None, align: bool
) -> list[_Axis]:
    if (size is None) == (factor is None):
        raise UserError("needs size or scale_factor", op="interpolate", expected="one of them")
    before = [static_size("interpolate", x, 2 + k) for k in range(rank)]
    if size is not None:
        after = tuple_of("interpolate", size, rank, "size", 1)
        scales = [a / b for a, b in zip(before, after, strict=True)]
    else:
        factors = _factors(factor, rank)
        after = tuple(math.floor(a * f) for a, f in zip(before, factors, strict=True))
        scales = [1.0 / f for f in factors]
    if min((*before, *after)) < 1:
        raise ShapeError(
            "nothing to interpolate", op="interpolate", expected="sizes of 1 or more", found=(before, after)
        )
    if align:
        scales = [(a - 1) / (b - 1) if b > 1 else 0.0 for a, b in zip(before, after, strict=True)]
    return [_Axis(2 + k, *sizes) for k, sizes in enumerate(zip(before, after, scales, strict=True))]


def _factors(factor: float | Sequence[float] | None, rank: int) -> tuple[float, ...]:
    given = tuple(factor) if isinstance(factor, Sequence) else (factor,) * rank
    if len(given) != rank or any(not isinstance(f, int | float) or f <= 0 for f in given):
        expected = f"{rank} positive numbers, or one"
        raise ShapeError("bad scale_factor", op="interpolate", expected=expected, found=factor)
    return tuple(float(f) for f in given if f is not None)


# ---- nearest -----------------------------------------------------------------------------------------------------


def _nearest(x: A, axis: _Axis, offset: float) -> A:
    """The element at floor((i + offset) * scale); a whole multiple repeats elements, which also has a fast gradient."""
    if axis.out % axis.size == 0 and axis.scale == axis.size / axis.out:
        return repeat(x, axis.out // axis.size, axis.number)
    compute = x.dtype.compute if x.dtype.is_float else None
    at = x.one("iota", shape=(axis.out,), axis=0, dtype=compute or f32)
    source = ((at + offset) * axis.scale if offset else at * axis.scale).floor()
    return x.take(source.astype(i64).minimum(axis.size - 1), axis.number)


# ---- weighted sums -----------------------------------------------------------------------------------------------


def _resampled(x: A, axis: _Axis, kernel: str, align: bool, antialias: bool) -> A:
    if axis.size == axis.out and axis.scale == 1.0:
        return x
    at, weight = _stretched(x, axis, kernel, align) if antialias else _taps(x, axis, kernel, align)
    trailing = (1,) * (x.rank - 1 - axis.number)
    return (x.take(at, axis.number) * weight.reshape((*weight.shape, *trailing))).sum(axis.number + 1)


def _taps(x: A, axis: _Axis, kernel: str, align: bool) -> tuple[A, A]:
    """Positions and weights, (out, taps) each, of a kernel as wide as pixels of the input."""
    here = x.one("iota", shape=(axis.out, 1), axis=0, dtype=x.dtype)
    source = here * axis.scale if align else (here + 0.5) * axis.scale - 0.5
    if kernel == "linear":
        source = source.maximum(0.0)
    reach = {"linear": 1, "cubic": 2, "lanczos": _LANCZOS}[kernel]
    first = source.floor()
    step = x.one("iota", shape=(1, 2 * reach), axis=1, dtype=x.dtype) - float(reach - 1)
    distance = (source - first - step).abs()
    weight: A = _SUPPORT[kernel][1](distance, -0.75)
    if kernel == "lanczos":
        weight = weight / weight.sum(1, keepdims=True)
    at = (first + step).maximum(0.0).minimum(float(axis.size - 1)).astype(i64)
    return at, weight


def _stretched(x: A, axis: _Axis, kernel: str, align: bool) -> tuple[A, A]:
    """Positions and weights of a kernel as wide as pixels of the result where those are larger; cut at the ends."""
    reach, function = _SUPPORT[kernel]
    width = max(axis.scale, 1.0)
    support = reach * width
    count = min(2 * math.ceil(support) + 1, axis.size)
    here = x.one("iota", shape=(axis.out, 1), axis=0, dtype=x.dtype)
    centre = (here + 0.5) * axis.scale
    first = (centre - support + 0.5).trunc().maximum(0.0)
    last = (centre + support + 0.5).trunc().minimum(float(axis.size))
    place = first + x.one("iota", shape=(1, count), axis=1, dtype=x.dtype)
    weight = function(((place - centre + 0.5) * (1.0 / width)).abs(), -0.5)
    inside = (place < last).where(weight, 0.0)
    return place.minimum(float(axis.size - 1)).astype(i64), inside / inside.sum(1, keepdims=True)


def linear_weight(distance: A, a: float = 0.0) -> A:
    """max(1 - distance, 0)."""
    return (1.0 - distance).maximum(0.0)


def cubic_weight(distance: A, a: float) -> A:
    """Cubic convolution (Keys 1981) with parameter ``a``, of distances from 0 to 2."""
    near = ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
    far = ((a * distance - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
    return (distance <= 1.0).where(near, (distance < 2.0).where(far, 0.0))


def lanczos_weight(distance: A, a: float = 0.0) -> A:
    """sinc(d) * sinc(d / 3) up to a distance of 3, with sinc(d) = sin(pi d) / (pi d) (Lanczos)."""
    inner = equals(distance, 0.0).where(1.0, distance) * math.pi
    outer = inner * (1.0 / _LANCZOS)
    value = inner.sin() / inner * (outer.sin() / outer)
    return equals(distance, 0.0).where(1.0, (distance < float(_LANCZOS)).where(value, 0.0))


_Weight = Callable[[A, float], A]
_SUPPORT: dict[str, tuple[float, _Weight[A]]] = {  # type: ignore[valid-type]
    "linear": (1.0, linear_weight),
    "cubic": (2.0, cubic_weight),
    "lanczos": (float(_LANCZOS), lanczos_weight),
}
