"""Fourier transforms, `fb.fft`, of any length: a complex array is a pair (re, im) of real ones.

``out[k] = sum over j of x[j] exp(-2 pi i j k / n)``. Up to 64 elements that is a product with a matrix. A longer length
is taken apart into factors up to 32, largest first (Cooley and Tukey 1965): each is a matrix, applied as one
contraction, and between two of them the elements are multiplied by constants. A larger prime becomes a convolution of
a length that is a power of two (Bluestein 1970). Tables are computed in f64. All of it is linear, so its derivatives
are transforms too.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.frontend.creation import arange, zeros_like
from firebox.frontend.devices import as_device, default_float
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.moving import moveaxis
from firebox.frontend.functions.shape import concat, flip, narrow, roll
from firebox.frontend.functions.support import as_float, contract, shape_text, static_size
from firebox.frontend.tensor import Tensor, as_tensor

Pair = tuple[Tensor, Tensor]
Axes = Sequence[int] | None
NORMS = ("backward", "ortho", "forward")
_RADIX, _DIRECT = 32, 64
Array = np.ndarray[Any, Any]


# ---- the transform along the last dim ----------------------------------------------------------------------------


def _roots(numerators: Array, n: int) -> tuple[Array, Array]:
    """cos and sin of -2 pi numerators / n, in f64; the numerators are reduced first."""
    angle = (-2.0 * np.pi / n) * (numerators % n)
    return np.cos(angle), np.sin(angle)


@functools.cache
def radix_of(n: int) -> int:
    """The largest divisor from 2 to 32; without one the smallest prime factor, which may be n itself."""
    small = [d for d in range(2, _RADIX + 1) if n % d == 0]
    if small:
        return small[-1]
    return next((d for d in range(_RADIX + 1, int(n**0.5) + 1) if n % d == 0), n)


def _constant(x: Tensor, values: Array) -> Tensor:
    return as_tensor(values.astype(x.dtype.numpy), x.device)


def _multiplied(re: Tensor, im: Tensor, factors: tuple[Array, Array]) -> Pair:
    c, s = (_constant(re, f) for f in factors)
    return re * c - im * s, re * s + im * c


def _by_matrix(re: Tensor, im: Tensor | None, spec: str, n: int) -> Pair:
    """The transform of length n as a product with its matrix."""
    c, s = (_constant(re, m) for m in _roots(np.outer(np.arange(n), np.arange(n)), n))
    real = contract(re, c, spec), contract(re, s, spec)
    if im is None:
        return real
    return real[0] - contract(im, s, spec), real[1] + contract(im, c, spec)


def _transform(re: Tensor, im: Tensor | None) -> Pair:
    """Of (batch, n); without an imaginary part that is 0."""
    n = static_size("fft", re, -1)
    if n <= _DIRECT:
        return _by_matrix(re, im, "b j, j k -> b k", n)
    first = radix_of(n)
    if first == n:
        return _bluestein(re, im)
    rest = n // first
    re, im = _first_factor(re, im, first, rest)
    re, im = _multiplied(re, im, _roots(np.outer(np.arange(first), np.arange(rest)), n))
    parts = _transform(re.reshape((-1, rest)), im.reshape((-1, rest)))
    columns = (v.reshape((-1, first, rest)).transpose((0, 2, 1)).reshape((-1, n)) for v in parts)
    re, im = columns
    return re, im


def _first_factor(re: Tensor, im: Tensor | None, first: int, rest: int) -> Pair:
    """Transforms of every ``rest``-th element: (batch, first, rest)."""
    if first <= _DIRECT:
        whole, other = (None if v is None else v.reshape((-1, first, rest)) for v in (re, im))
        assert whole is not None
        return _by_matrix(whole, other, "b j r, j k -> b k r", first)
    columns = [None if v is None else v.reshape((-1, first, rest)).transpose((0, 2, 1)) for v in (re, im)]
    flat = [None if v is None else v.reshape((-1, first)) for v in columns]
    assert flat[0] is not None
    found = (v.reshape((-1, rest, first)).transpose((0, 2, 1)) for v in _transform(flat[0], flat[1]))
    first_part, second_part = found
    return first_part, second_part


def _bluestein(re: Tensor, im: Tensor | None) -> Pair:
    """jk = (j^2 + k^2 - (k - j)^2) / 2: a chirp, the convolution with its inverse, and the chirp again."""
    n = static_size("fft", re, -1)
    size = 1 << (2 * n - 2).bit_length()
    squares = np.arange(n, dtype=np.int64) ** 2
    chirp = _roots(squares, 2 * n)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = chirp[0] - 1j * chirp[1]
    kernel[size - n + 1 :] = kernel[1:n][::-1]
    spectrum = np.fft.fft(kernel)
    given = _multiplied(re, zeros_like(re) if im is None else im, chirp)
    padded = (v.pad((0, 0), (0, size - n)) for v in given)
    product = _multiplied(*_transform(*padded), (spectrum.real, spectrum.imag))
    back = _inverse(*product)
    re, im = (narrow(v, -1, 0, n) for v in back)
    return _multiplied(re, im, chirp)


def _inverse(re: Tensor, im: Tensor) -> Pair:
    """The forward transform with the parts exchanged, before and after."""
    n = static_size("ifft", re, -1)
    b, a = _transform(im, re)
    return a * (1.0 / n), b * (1.0 / n)


# ---- arguments ---------------------------------------------------------------------------------------------------


def _scale(op: str, n: int, norm: str, inverse: bool) -> float:
    """What is left to multiply by: forward transforms are plain sums, inverse ones are divided by n already."""
    if norm not in NORMS:
        raise UserError("no such norm", op=op, expected=" or ".join(NORMS), found=repr(norm))
    plain: float = {"backward": 1.0, "ortho": n**-0.5, "forward": 1.0 / n}[norm]
    return 1.0 / plain if inverse else plain


def _parts(op: str, *given: Tensor | None) -> list[Tensor]:
    """The parts as f32 or f64 of one type and shape."""
    found = [as_float(v) for v in given if v is not None]
    for part in found:
        if part.dtype not in (dtypes.f32, dtypes.f64):
            hint = "cast with astype"
            raise DTypeError("too few digits", op=op, expected="f32 or f64", found=part.dtype.name, hint=hint)
        if part.rank == 0:
            raise ShapeError("needs at least one dim", op=op, found=shape_text(part))
        if part.shape != found[0].shape:
            expected = shape_text(found[0])
            raise ShapeError("the parts differ in shape", op=op, expected=expected, found=shape_text(part))
    dtype = dtypes.f64 if any(v.dtype is dtypes.f64 for v in found) else found[0].dtype
    return [v.astype(dtype) for v in found]


def _fitted(op: str, x: Tensor, n: int | None, axis: int) -> Tensor:
    """Zeros at the end, or the end cut off, so that there are n elements along the axis."""
    size = static_size(op, x, axis)
    wanted = size if n is None else n
    if wanted < 1:
        raise UserError("not a length", op=op, expected="1 or more", found=wanted)
    if wanted <= size:
        return narrow(x, axis, 0, wanted)
    high = [0] * x.rank
    high[axis] = wanted - size
    return x.pad((0,) * x.rank, tuple(high))


def _along(op: str, parts: Sequence[Tensor], n: int | None, axis: int, inverse: bool, norm: str) -> Pair:
    at = normalize_axis(axis, parts[0].rank)
    moved = [moveaxis(_fitted(op, v, n, at), at, -1) for v in parts]
    shape = moved[0].shape
    length = static_size(op, moved[0], -1)
    factor = _scale(op, length, norm, inverse)
    flat = [v.reshape((-1, length)) for v in moved]
    re, im = flat[0], flat[1] if len(flat) > 1 else None
    found = _inverse(re, zeros_like(re) if im is None else im) if inverse else _transform(re, im)
    scaled = found if factor == 1.0 else tuple(v * factor for v in found)
    first, second = (moveaxis(v.reshape(shape), -1, at) for v in scaled)
    return first, second


def _all_axes(op: str, x: Tensor, s: Sequence[int] | None, axes: Axes) -> list[tuple[int | None, int]]:
    """(length, axis) pairs, the last axis first: that is the one that is real."""
    chosen = (
        list(axes) if axes is not None else list(range(x.rank))[-len(s) :] if s is not None else list(range(x.rank))
    )
    sizes: list[int | None] = [None] * len(chosen) if s is None else list(s)
    if len(sizes) != len(chosen):
        raise UserError("as many lengths as axes", op=op, expected=len(chosen), found=len(sizes))
    return [(n, normalize_axis(a, x.rank)) for n, a in zip(sizes, chosen, strict=True)][::-1]


# ---- complex -----------------------------------------------------------------------------------------------------


@accepting
def fft(re: Tensor, im: Tensor | None = None, n: int | None = None, axis: int = -1, norm: str = "backward") -> Pair:
    """The transform along an axis, as a pair (re, im).

    Args:
        im: None for real input.
        n: the length; input is cut off or filled with zeros. By default that of the axis.
        norm: ``"backward"``: only the inverse is divided by n; ``"forward"``: only this; ``"ortho"``: both by sqrt(n).

    Raises:
        UserError: another norm, or no length. ShapeError: the parts differ. DTypeError: f16 or bf16.
    """
    return _along("fft", _parts("fft", re, im), n, axis, False, norm)


@accepting
def ifft(re: Tensor, im: Tensor | None = None, n: int | None = None, axis: int = -1, norm: str = "backward") -> Pair:
    """The inverse of `fft`."""
    return _along("ifft", _parts("ifft", re, im), n, axis, True, norm)


def _over(op: str, parts: list[Tensor], s: Any, axes: Axes, inverse: bool, norm: str) -> Pair:
    for n, axis in _all_axes(op, parts[0], s, axes):
        parts = list(_along(op, parts, n, axis, inverse, norm))
    return (parts[0], parts[1]) if len(parts) > 1 else (parts[0], zeros_like(parts[0]))


@accepting
def fftn(
    re: Tensor, im: Tensor | None = None, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward"
) -> Pair:
    """`fft` along several axes, by default all; ``s`` has their lengths."""
    return _over("fftn", _parts("fftn", re, im), s, axes, False, norm)


@accepting
def ifftn(
    re: Tensor, im: Tensor | None = None, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward"
) -> Pair:
    """The inverse of `fftn`."""
    return _over("ifftn", _parts("ifftn", re, im), s, axes, True, norm)


# ---- real --------------------------------------------------------------------------------------------------------


@accepting
def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Pair:
    """`fft` of real input: the first n // 2 + 1 elements, of which the others are the conjugates."""
    re, im = _along("rfft", _parts("rfft", x), n, axis, False, norm)
    half = static_size("rfft", re, axis) // 2 + 1
    return narrow(re, axis, 0, half), narrow(im, axis, 0, half)


def _mirrored(op: str, parts: Sequence[Tensor], n: int | None, axis: int) -> list[Tensor]:
    """Both halves from the first; what makes the first and the middle element complex is ignored, as in NumPy."""
    at = normalize_axis(axis, parts[0].rank)
    length = 2 * (static_size(op, parts[0], at) - 1) if n is None else n
    if length < 1:
        raise UserError("not a length", op=op, expected="1 or more", found=length)
    half = length // 2 + 1
    found = []
    for part, sign in zip(parts, (1.0, -1.0), strict=True):
        head = _fitted(op, part, half, at)
        tail = flip(narrow(head, at, 1, half - 1 + length % 2), at) * sign
        if sign < 0:
            place = arange(half, device=head.device).reshape(tuple(half if k == at else 1 for k in range(head.rank)))
            alone = (place == 0) | (place == length / 2) if length % 2 == 0 else place == 0
            head = alone.where(0.0, head)
        found.append(concat([head, tail], at))
    return found


@accepting
def irfft(re: Tensor, im: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`; ``n`` is the length of the result, by default 2 (m - 1) for m elements."""
    return _along("irfft", _mirrored("irfft", _parts("irfft", re, im), n, axis), None, axis, True, norm)[0]


@accepting
def rfftn(x: Tensor, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Pair:
    """`fftn` of real input: of the last axis the first n // 2 + 1 elements."""
    (x,) = _parts("rfftn", x)
    (n, last), *others = _all_axes("rfftn", x, s, axes)
    re, im = rfft(x, n, last, norm)
    for n, axis in others:
        re, im = fft(re, im, n, axis, norm)
    return re, im


@accepting
def irfftn(re: Tensor, im: Tensor, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`; ``s`` are the lengths of the result."""
    re, im = _parts("irfftn", re, im)
    (n, last), *others = _all_axes("irfftn", re, s, axes)
    for size, axis in reversed(others):
        re, im = ifft(re, im, size, axis, norm)
    found: Tensor = irfft(re, im, n, last, norm)
    return found


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@accepting
def hfft(re: Tensor, im: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real transform of the first half of a signal that equals its mirrored conjugate."""
    re, im = _parts("hfft", re, im)
    found: Tensor = irfft(re, -im, n, axis, _OPPOSITE.get(norm, norm))
    return found


@accepting
def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Pair:
    """The inverse of `hfft`."""
    (x,) = _parts("ihfft", x)
    re, im = rfft(x, n, axis, _OPPOSITE.get(norm, norm))
    return re, -im


# ---- frequencies -------------------------------------------------------------------------------------------------


def fftfreq(n: int, d: float = 1.0, dtype: object = None, device: object = None) -> Tensor:
    """The frequency of each element of `fft`, in cycles for a sampling distance of d: 0, 1, .., -2, -1 over n d."""
    return _frequencies("fftfreq", np.fft.ifftshift(np.arange(n) - n // 2), n, d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, dtype: object = None, device: object = None) -> Tensor:
    """The frequency of each element of `rfft`: 0, 1, .., n // 2 over n d."""
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device)


def _frequencies(op: str, numbers: Array, n: int, d: float, dtype: object, device: object) -> Tensor:
    if n < 1 or d == 0:
        raise UserError("no frequencies", op=op, expected="n of 1 or more, and d other than 0", found=(n, d))
    kind = default_float(device) if dtype is None else dtypes.as_dtype(dtype)
    return as_tensor((numbers / (n * d)).astype(kind.numpy), as_device(device))


@accepting
def fftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 in the middle."""
    return _shifted("fftshift", x, axes, 0)


@accepting
def ifftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, 1)


def _shifted(op: str, x: Tensor, axes: int | Sequence[int] | None, up: int) -> Tensor:
    chosen = list(range(x.rank)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    sizes = [static_size(op, x, a) for a in chosen]
    return roll(x, tuple(-(n // 2) if up else n // 2 for n in sizes), tuple(chosen))


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
