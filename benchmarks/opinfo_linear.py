"""Which function of Firebox is which of PyTorch's: decompositions of matrices, Fourier transforms, windows.

Complex results are pairs of arrays here; PyTorch's are compared part by part.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.opinfo_support import Function, NotTried, fb, only

MATRICES: dict[str, Function] = {
    "cholesky": lambda a, upper=False: fb.linalg.cholesky(a, upper),
    "linalg.cholesky": lambda a, upper=False: fb.linalg.cholesky(a, upper),
    "linalg.det": lambda a: fb.linalg.det(a),
    "logdet": lambda a: log_of_determinant(a),
    "linalg.slogdet": lambda a: fb.linalg.slogdet(a),
    "linalg.inv": lambda a: fb.linalg.inv(a),
    "linalg.solve": lambda a, b, left=True: solve(a, b, left),
    "linalg.solve_triangular": lambda a, b, upper, left=True, unitriangular=False: solve_triangular(
        a, b, upper, left, unitriangular
    ),
    "triangular_solve": lambda b, a, upper=True, transpose=False, unitriangular=False: (
        triangular_solve(b, a, upper, transpose, unitriangular),
        a,
    ),
    "linalg.lu": lambda a, pivot=True: tuple(fb.linalg.lu(a)),
    "linalg.qr": lambda a, mode="reduced": fb.linalg.qr(a, mode),
    "qr": lambda a, some=True: fb.linalg.qr(a, "reduced" if some else "complete"),
    "linalg.eigh": lambda a, UPLO="L": fb.linalg.eigh(symmetric(a, UPLO)),
    "linalg.eigvalsh": lambda a, UPLO="L": fb.linalg.eigvalsh(symmetric(a, UPLO)),
    "linalg.svd": lambda a, full_matrices=True: fb.linalg.svd(a, full_matrices),
    "svd": lambda a, some=True, compute_uv=True: fb.linalg.svd(a, not some),
    "linalg.svdvals": lambda a: fb.linalg.svdvals(a),
    "linalg.pinv": lambda a, **kw: fb.linalg.pinv(a, **relative(kw)),
    "linalg.pinv hermitian": lambda a, hermitian=True: fb.linalg.pinv(symmetric(a, "L")),
    "linalg.pinv singular": lambda a, b: fb.linalg.pinv(a @ b.mT),
    "pinverse": lambda a, rcond=None: fb.linalg.pinv(a),
    "linalg.cond": lambda a, p=None: cond(a, p),
    "linalg.matrix_rank": lambda a, tol=None, **kw: fb.linalg.matrix_rank(a, **relative(kw)),
    "linalg.matrix_rank hermitian": lambda a, hermitian=True: fb.linalg.matrix_rank(a),
    "linalg.lstsq": lambda a, b, driver=None: (fb.linalg.lstsq(a, b),),
    "linalg.lstsq grad_oriented": lambda a, b, driver=None: (fb.linalg.lstsq(a, b),),
    "norm nuc": lambda x, p="nuc", axis=None, keepdims=False: nuclear(x, axis, keepdims),
    "linalg.vander": lambda x, N=None: vander(x, N),
}

FOURIER: dict[str, Function] = {
    "fft.fft": lambda x, **kw: fb.fft.fft(x, **one_axis(kw)),
    "fft.ifft": lambda x, **kw: fb.fft.ifft(x, **one_axis(kw)),
    "fft.rfft": lambda x, **kw: fb.fft.rfft(x, **one_axis(kw)),
    "fft.irfft": lambda x, **kw: fb.fft.irfft(x, fb.zeros_like(x), **one_axis(kw)),
    "fft.hfft": lambda x, **kw: fb.fft.hfft(x, fb.zeros_like(x), **one_axis(kw)),
    "fft.ihfft": lambda x, **kw: fb.fft.ihfft(x, **one_axis(kw)),
    "fft.fft2": lambda x, **kw: fb.fft.fftn(x, **two_axes(kw)),
    "fft.ifft2": lambda x, **kw: fb.fft.ifftn(x, **two_axes(kw)),
    "fft.rfft2": lambda x, **kw: fb.fft.rfftn(x, **two_axes(kw)),
    "fft.irfft2": lambda x, **kw: fb.fft.irfftn(x, fb.zeros_like(x), **two_axes(kw)),
    "fft.fftn": lambda x, **kw: fb.fft.fftn(x, **many_axes(kw)),
    "fft.ifftn": lambda x, **kw: fb.fft.ifftn(x, **many_axes(kw)),
    "fft.rfftn": lambda x, **kw: fb.fft.rfftn(x, **many_axes(kw)),
    "fft.irfftn": lambda x, **kw: fb.fft.irfftn(x, fb.zeros_like(x), **many_axes(kw)),
    "fft.fftshift": lambda x, axis=None: fb.fft.fftshift(x, axis),
    "fft.ifftshift": lambda x, axis=None: fb.fft.ifftshift(x, axis),
    "stft": lambda x, n_fft, hop_length=None, win_length=None, window=None, center=True, onesided=None, **kw: stft(
        x, n_fft, hop_length, win_length, window, center, onesided, **kw
    ),
    "signal.windows.hann": lambda size, sym=True, dtype=None: fb.signal.hann_window(size, not sym, dtype),
    "signal.windows.hamming": lambda size, sym=True, dtype=None: fb.signal.hamming_window(size, not sym, dtype),
    "signal.windows.blackman": lambda size, sym=True, dtype=None: fb.signal.blackman_window(size, not sym, dtype),
    "signal.windows.bartlett": lambda size, sym=True, dtype=None: fb.signal.bartlett_window(size, not sym, dtype),
    "signal.windows.kaiser": lambda size, beta=12.0, sym=True, dtype=None: fb.signal.kaiser_window(
        size, beta, not sym, dtype
    ),
}

LINEAR: dict[str, Function] = {**MATRICES, **FOURIER}


def log_of_determinant(a: Any) -> Any:
    sign, size = fb.linalg.slogdet(a)
    return fb.where(sign > 0, size, float("nan"))


def solve(a: Any, b: Any, left: bool) -> Any:
    """PyTorch takes b for vectors if it has one dim less than a."""
    if b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]:
        return solve(a, b.unsqueeze(-1), left).squeeze(-1) if left else solve(a, b.unsqueeze(-2), left).squeeze(-2)
    return fb.linalg.solve(a, b) if left else fb.linalg.solve(a.mT, b.mT).mT


def solve_triangular(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    if left:
        return fb.linalg.solve_triangular(a, b, upper, unit)
    return fb.linalg.solve_triangular(a.mT, b.mT, not upper, unit).mT


def triangular_solve(b: Any, a: Any, upper: bool, transpose: bool, unit: bool) -> Any:
    return fb.linalg.solve_triangular(a.mT if transpose else a, b, upper != transpose, unit)


def symmetric(a: Any, part: str) -> Any:
    """The matrix that one triangle stands for."""
    half, rest = (fb.tril(a), fb.tril(a, -1)) if part == "L" else (fb.triu(a), fb.triu(a, 1))
    return half + rest.mT


def relative(given: dict[str, Any]) -> dict[str, Any]:
    only(given.get("atol") is None and not given.get("hermitian"), "tolerances are relative")
    return {"rtol": given["rtol"]} if given.get("rtol") is not None else {}


def cond(a: Any, p: Any) -> Any:
    only(p in (None, 2), "of the 2-norm")
    return fb.linalg.cond(a)


def nuclear(x: Any, axis: Any, keepdims: bool) -> Any:
    only(x.ndim >= 2, "of matrices")
    return fb.linalg.matrix_norm(x if axis is None else fb.moveaxis(x, axis, (-2, -1)), keepdims, "nuc")


def vander(x: Any, count: int | None) -> Any:
    only(x.ndim == 1, "of vectors")
    return fb.vander(x, count, increasing=True)


def one_axis(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "norm": given.get("norm") or "backward"}


def two_axes(given: dict[str, Any]) -> dict[str, Any]:
    axes = given.get("axis", (-2, -1))
    only(isinstance(axes, Sequence), "axes are a sequence")
    return {"s": given.get("s"), "axes": tuple(axes), "norm": given.get("norm") or "backward"}


def many_axes(given: dict[str, Any]) -> dict[str, Any]:
    """Without axes the last ones, as many as there are sizes."""
    sizes, axes = given.get("s"), given.get("axis")
    only(axes is None or isinstance(axes, Sequence), "axes are a sequence")
    if axes is None and sizes is not None:
        axes = tuple(range(-len(sizes), 0))
    return {"s": sizes, "axes": axes, "norm": given.get("norm") or "backward"}


def stft(
    x: Any, n_fft: int, hop: Any, win_length: Any, window: Any, center: bool, onesided: Any, pad_mode: str = "reflect",
    normalized: bool = False, return_complex: bool = True,
) -> Any:  # fmt: skip
    if pad_mode != "reflect" or normalized or not return_complex:
        raise NotTried("pairs of parts, not normalised")
    found = fb.signal.stft(x, n_fft, hop, win_length, window, center, onesided is not False)
    return tuple(part.mT for part in found)  # PyTorch's frames come last
