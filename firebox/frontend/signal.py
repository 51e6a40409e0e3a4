"""Signals, `fb.signal`: windows, short-time Fourier transforms and their inverse. Complex arrays are pairs (re, im)."""

from typing import Any

import numpy as np

from firebox import dtypes
from firebox.errors import ShapeError, UserError
from firebox.frontend.devices import as_device, default_float
from firebox.frontend.fft import irfft, rfft
from firebox.frontend.functions.accept import accepting
from firebox.frontend.functions.moving import windows
from firebox.frontend.functions.padding import pad
from firebox.frontend.functions.shape import narrow
from firebox.frontend.functions.support import as_float, shape_text, static_size
from firebox.frontend.functions.unfold import fold
from firebox.frontend.tensor import Tensor, as_tensor

# ---- windows -----------------------------------------------------------------------------------------------------


def _cosines(op: str, weights: tuple[float, ...], size: int, periodic: bool, dtype: object, device: object) -> Tensor:
    """``sum of (-1)^k weights[k] cos(2 pi k n / d)``, with d = size if periodic, else size - 1."""
    angle = 2.0 * np.pi * _positions(op, size) / max(size if periodic else size - 1, 1)
    values = sum((-1) ** k * w * np.cos(k * angle) for k, w in enumerate(weights))
    return _made(values if size > 1 else np.ones(size), dtype, device)


def _positions(op: str, size: int) -> Any:
    if size < 0:
        raise UserError("not a size", op=op, expected="0 or more", found=size)
    return np.arange(size)


def _made(values: Any, dtype: object, device: object) -> Tensor:
    kind = default_float(device) if dtype is None else dtypes.as_dtype(dtype)
    return as_tensor(values.astype(kind.numpy), as_device(device))


def hann_window(size: int, periodic: bool = True, dtype: object = None, device: object = None) -> Tensor:
    """Hann's window; ``periodic`` ones are for spectra, others are symmetric."""
    return _cosines("hann_window", (0.5, 0.5), size, periodic, dtype, device)


def hamming_window(size: int, periodic: bool = True, dtype: object = None, device: object = None) -> Tensor:
    """Hamming's window: 0.54 - 0.46 cos."""
    return _cosines("hamming_window", (0.54, 0.46), size, periodic, dtype, device)


def blackman_window(size: int, periodic: bool = True, dtype: object = None, device: object = None) -> Tensor:
    """Blackman's window: 0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _cosines("blackman_window", (0.42, 0.5, 0.08), size, periodic, dtype, device)


def bartlett_window(size: int, periodic: bool = True, dtype: object = None, device: object = None) -> Tensor:
    """Bartlett's window, a triangle from 0 to 1 and back."""
    length = max(size if periodic else size - 1, 1)
    values = 1.0 - np.abs(2.0 * _positions("bartlett_window", size) / length - 1.0)
    return _made(values if size > 1 else np.ones(size), dtype, device)


def kaiser_window(
    size: int, beta: float = 12.0, periodic: bool = True, dtype: object = None, device: object = None
) -> Tensor:
    """Kaiser's window: i0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1."""
    x = 2.0 * _positions("kaiser_window", size) / max(size if periodic else size - 1, 1) - 1.0
    values = np.i0(beta * np.sqrt(np.maximum(1.0 - x * x, 0.0))) / np.i0(beta)
    return _made(values if size > 1 else np.ones(size), dtype, device)


# ---- short-time transforms ---------------------------------------------------------------------------------------


def _window(op: str, window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window of the frames, zeros on both sides where it is shorter."""
    if not 1 <= length <= n_fft:
        raise UserError("bad win_length", op=op, expected=f"1 to n_fft = {n_fft}", found=length)
    found = like.literal(1.0).broadcast_to((length,)) if window is None else window.astype(like.dtype)
    if found.shape != (length,):
        raise ShapeError("the window does not fit", op=op, expected=f"({length})", found=shape_text(found))
    before = (n_fft - length) // 2
    return found.pad((before,), (n_fft - length - before,))


def _frames(op: str, n_fft: int, hop: int | None, length: int | None) -> tuple[int, int]:
    step = n_fft // 4 if hop is None else hop
    if n_fft < 1 or step < 1:
        raise UserError("bad frames", op=op, expected="n_fft and hop of 1 or more", found=(n_fft, step))
    return step, n_fft if length is None else length


@accepting
def stft(
    x: Tensor,
    n_fft: int,
    hop: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    onesided: bool = True,
) -> tuple[Tensor, Tensor]:
    """Transforms of overlapping frames of signals (.., time), as a pair (re, im) of (.., frames, frequencies).

    Args:
        n_fft: elements of a frame.
        hop: from frame to frame; by default n_fft // 4.
        win_length: elements of the window, by default n_fft.
        window: what frames are multiplied by, such as `hann_window`; None for ones.
        center: frames are centred at multiples of ``hop``: the signal is mirrored by n_fft // 2 at its ends.
        onesided: the first n_fft // 2 + 1 frequencies only.

    Raises:
        UserError: bad sizes. ShapeError: a window of another size, or a signal shorter than a frame.
    """
    step, length = _frames("stft", n_fft, hop, win_length)
    x = as_float(x)
    if x.rank == 0 or static_size("stft", x, -1) + 2 * center * (n_fft // 2) < n_fft:
        expected = f"(.., {n_fft} elements or more)"
        raise ShapeError("no frame fits", op="stft", expected=expected, found=shape_text(x))
    shaped = _window("stft", window, length, n_fft, x)
    if center:
        x = pad(x, [n_fft // 2], mode="reflect")
    re, im = rfft(windows(x, -1, n_fft, step) * shaped)
    if onesided:
        return re, im
    return _both_sides(re, n_fft, 1.0), _both_sides(im, n_fft, -1.0)


def _both_sides(half: Tensor, n: int, sign: float) -> Tensor:
    """All frequencies from the first half: the others are their conjugates."""
    place = np.arange(n)
    mirrored = place > n // 2
    index = as_tensor(np.where(mirrored, n - place, place), half.device)
    signs = as_tensor(np.where(mirrored, sign, 1.0).astype(half.dtype.numpy), half.device)
    return half.take(index, -1) * signs


@accepting
def istft(
    re: Tensor,
    im: Tensor,
    n_fft: int,
    hop: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    onesided: bool = True,
    size: int | None = None,
) -> Tensor:
    """Signals (.., time) from `stft`: frames are windowed again, added up and divided by the sum of squared windows.

    Args:
        re, im: (.., frames, frequencies).
        size: elements of the result, which is cut off or filled with zeros; by default as many as the frames cover.

    Where no window reaches, the result is 0.

    Raises:
        UserError: bad sizes. ShapeError: parts that do not fit each other or ``n_fft``.
    """
    step, length = _frames("istft", n_fft, hop, win_length)
    found = n_fft // 2 + 1 if onesided else n_fft
    if re.rank < 2 or re.shape != im.shape or static_size("istft", re, -1) != found:
        expected = f"two arrays (.., frames, {found})"
        raise ShapeError(
            "not a spectrum", op="istft", expected=expected, found=f"{shape_text(re)} and {shape_text(im)}"
        )
    half = n_fft // 2 + 1
    shaped = _window("istft", window, length, n_fft, as_float(re))
    frames: Tensor = irfft(narrow(re, -1, 0, half), narrow(im, -1, 0, half), n_fft) * shaped
    count = static_size("istft", frames, -2)
    total = n_fft + step * (count - 1)
    batch = frames.shape[:-2]
    added = _overlapped(frames.reshape((-1, count, n_fft)), total, step).reshape((*batch, total))
    weight = _overlapped((shaped * shaped).broadcast_to((1, count, n_fft)), total, step).reshape((total,))
    reached = weight > 1e-11
    signal: Tensor = reached.where(added / reached.where(weight, 1.0), 0.0)
    start = n_fft // 2 if center else 0
    stop = total - start if size is None else min(start + size, total)
    signal = narrow(signal, -1, start, stop)
    missing = 0 if size is None else size - (stop - start)
    return signal.pad((0,) * signal.rank, (*(0,) * (signal.rank - 1), missing)) if missing else signal


def _overlapped(frames: Tensor, total: int, step: int) -> Tensor:
    """Frames (batch, count, n) added up at multiples of the step: (batch, total)."""
    size = static_size("istft", frames, -1)
    return fold(frames.swapaxes(1, 2), (1, total), (1, size), stride=(1, step)).reshape((-1, total))


__all__ = [
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "istft",
    "kaiser_window",
    "stft",
]
