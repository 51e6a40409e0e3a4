"""`fb.fft` and `fb.signal` against NumPy."""

from typing import Any

import numpy as np
import pytest

import firebox as fb
from firebox import fft, signal
from firebox.errors import DTypeError, ShapeError, UserError
from firebox.runtime.device import Device
from tests.frontend.gradients import check_gradient

RNG = np.random.default_rng(29)
RE: Any
IM: Any
RE, IM = RNG.normal(size=(2, 4, 6, 5))
Z = RE + 1j * IM


def close(found: Any, expected: Any, atol: float = 1e-11) -> None:
    """A tensor, or a pair of them against complex numbers."""
    parts = found if isinstance(found, tuple) else (found,)
    wanted = (expected.real, expected.imag) if isinstance(found, tuple) else (expected,)
    for part, value in zip(parts, wanted, strict=True):
        assert part.shape == value.shape
        np.testing.assert_allclose(part.numpy(), value, rtol=1e-10, atol=atol)


# 1: nothing; 64: one matrix; 96 = 32 * 3; 67: prime; 134 = 2 * 67; 1517 = 37 * 41
@pytest.mark.parametrize("n", [1, 2, 3, 8, 64, 67, 96, 134, 1517])
def test_lengths(n: int) -> None:
    x, y = RNG.normal(size=(2, 2, n))
    z = x + 1j * y
    close(fft.fft(x, y), np.fft.fft(z), 1e-9)
    close(fft.ifft(x, y), np.fft.ifft(z))
    close(fft.rfft(x), np.fft.rfft(x), 1e-9)
    close(fft.irfft(x, y, 2 * n - 1), np.fft.irfft(z, 2 * n - 1))


def test_a_product_of_large_primes() -> None:
    x = RNG.normal(size=67 * 71)
    close(fft.rfft(x), np.fft.rfft(x), 1e-9)


@pytest.mark.parametrize("norm", fft.NORMS)
def test_axes_lengths_and_norms(norm: Any) -> None:
    close(fft.fft(RE, IM, 4, 1, norm), np.fft.fft(Z, 4, 1, norm))
    close(fft.fft(RE, IM, 9, 1, norm), np.fft.fft(Z, 9, 1, norm))
    close(fft.fft(RE, norm=norm), np.fft.fft(RE, norm=norm))
    close(fft.fftn(RE, IM, (3, 8), (0, 1), norm), np.fft.fftn(Z, (3, 8), (0, 1), norm))
    close(fft.ifftn(RE, IM, norm=norm), np.fft.ifftn(Z, norm=norm))
    close(fft.rfftn(RE, norm=norm), np.fft.rfftn(RE, norm=norm))
    close(fft.irfftn(RE, IM, norm=norm), np.fft.irfftn(Z, norm=norm))
    close(fft.irfftn(RE, IM, (4, 6, 9), (0, 1, 2), norm), np.fft.irfftn(Z, (4, 6, 9), (0, 1, 2), norm))
    close(fft.irfft(RE, IM, axis=0, norm=norm), np.fft.irfft(Z, axis=0, norm=norm))
    close(fft.hfft(RE, IM, norm=norm), np.fft.hfft(Z, norm=norm))
    close(fft.ihfft(RE, norm=norm), np.fft.ihfft(RE, norm=norm))


def test_gradients_and_batches() -> None:
    check_gradient(lambda a, b: fft.fft(a, b)[0] * fft.fft(a, b)[1], RE, IM)
    check_gradient(lambda a, b: fft.irfft(a, b, 7), RE, IM)
    check_gradient(lambda a: fft.rfft(a)[1], RNG.normal(size=67))
    close(fb.vmap(lambda a: fft.rfft(a)[0])(fb.tensor(RE)), np.fft.rfft(RE).real)


def test_frequencies() -> None:
    for n in (1, 4, 7):
        close(fft.fftfreq(n, 0.5, fb.float64), np.fft.fftfreq(n, 0.5))
        close(fft.rfftfreq(n, 0.5, fb.float64), np.fft.rfftfreq(n, 0.5))
    close(fft.fftshift(RE), np.fft.fftshift(RE))
    close(fft.ifftshift(RE, 2), np.fft.ifftshift(RE, 2))


def test_transforms_on_every_device(each_device: Device) -> None:
    x = RNG.normal(size=96).astype(np.float32)
    with fb.device(each_device):
        re, im = fft.rfft(fb.tensor(x))
    np.testing.assert_allclose(re.numpy(), np.fft.rfft(x).real, atol=1e-5)
    np.testing.assert_allclose(im.numpy(), np.fft.rfft(x).imag, atol=1e-5)


# ---- signals -----------------------------------------------------------------------------------------------------


def test_windows() -> None:
    f64 = fb.float64
    for n in (1, 2, 7, 8):
        close(signal.hann_window(n, False, f64), np.hanning(n))
        close(signal.hamming_window(n, False, f64), np.hamming(n))
        close(signal.blackman_window(n, False, f64), np.blackman(n))
        close(signal.bartlett_window(n, False, f64), np.bartlett(n))
        close(signal.kaiser_window(n, 5.0, False, f64), np.kaiser(n, 5.0))
        if n > 1:
            close(signal.hann_window(n, True, f64), np.hanning(n + 1)[:-1])
            close(signal.kaiser_window(n, 5.0, True, f64), np.kaiser(n + 1, 5.0)[:-1])


def frames(x: Any, n: int, hop: int, window: Any) -> Any:
    """The frames of a mirrored signal, one after the other."""
    x = np.pad(x, n // 2, mode="reflect")
    return np.array([np.fft.fft(x[k : k + n] * window) for k in range(0, len(x) - n + 1, hop)])


@pytest.mark.parametrize(("n", "hop", "length"), [(8, 2, 8), (8, 3, 5), (12, 5, 12)])
def test_short_time_transforms(n: int, hop: int, length: int) -> None:
    x = RNG.normal(size=31)
    window = signal.hann_window(length, dtype=fb.float64)
    before = (n - length) // 2
    expected = frames(x, n, hop, np.pad(window.numpy(), (before, n - length - before)))
    close(signal.stft(x, n, hop, length, window), expected[:, : n // 2 + 1])
    for onesided in (False, True):
        found = signal.stft(x, n, hop, length, window, onesided=onesided)
        back = signal.istft(*found, n, hop, length, window, onesided=onesided, size=31)
        covered = (len(expected) - 1) * hop
        close(back[:covered], x[:covered], 1e-9)
        assert back.shape == (31,)
    assert not found[0].requires_grad


def test_gradients_of_short_time_transforms() -> None:
    x = RNG.normal(size=(2, 20))
    window = signal.hamming_window(8, dtype=fb.float64)
    check_gradient(lambda a: signal.stft(a, 8, window=window)[1], x)
    re, im = signal.stft(x, 8, window=window)
    check_gradient(lambda a, b: signal.istft(a, b, 8, window=window), re.numpy(), im.numpy())


def test_bad_input() -> None:
    with pytest.raises(UserError, match="fft: no such norm"):
        fft.fft(RE, norm="none")
    with pytest.raises(UserError, match="fft: not a length"):
        fft.fft(RE, n=0)
    with pytest.raises(ShapeError, match="fft: the parts differ"):
        fft.fft(RE, IM[0])
    with pytest.raises(DTypeError, match="fft: too few digits"):
        fft.fft(np.ones(4, np.float16))
    with pytest.raises(UserError, match="fftn: as many lengths as axes"):
        fft.fftn(RE, s=(2, 3), axes=(0,))
    with pytest.raises(ShapeError, match="stft: no frame fits"):
        signal.stft(np.ones(3), 8, center=False)
    with pytest.raises(ShapeError, match="stft: the window does not fit"):
        signal.stft(np.ones(30), 8, window=np.ones(7))
    with pytest.raises(ShapeError, match="istft: not a spectrum"):
        signal.istft(np.ones((2, 4)), np.ones((2, 4)), 8)
