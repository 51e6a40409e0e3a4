"""Methods of tensors that are other functions under the names that PyTorch and NumPy users know."""

import importlib
from collections.abc import Sequence
from typing import Any, Self

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike, Axes
from firebox.dims import DimLike
from firebox.errors import UserError
from firebox.frontend.functions import (
    activations,
    linear_algebra,
    mathematics,
    matrices,
    moving,
    normalization,
    ordering,
    scattering,
    sets,
    shape,
    special,
    statistics,
)


class Methods(ArrayLike):
    """An array with more methods; each is one call of a function or of another method."""

    __slots__ = ()

    # ---- products ------------------------------------------------------------------------------------------------

    def matmul(self, other: Any) -> Self:
        """Matrix product over the last two dims; see `firebox.matmul`."""
        return linear_algebra.matmul(self, self._as_operand(other))

    def __matmul__(self, other: Any) -> Self:
        return linear_algebra.matmul(self, self._as_operand(other))

    def __rmatmul__(self, other: Any) -> Self:
        return linear_algebra.matmul(self._as_operand(other), self)

    def atan2(self, other: Any) -> Self:
        """The angle of the point (other, self)."""
        return self._binary("atan2", other)

    def hypot(self, other: Any) -> Self:
        """sqrt(self**2 + other**2) without overflow."""
        return self._binary("hypot", other)

    def copysign(self, other: Any) -> Self:
        """This magnitude with the sign of the other."""
        return self._binary("copysign", other)

    def clamp(self, low: Any = None, high: Any = None) -> Self:
        """As `clip`."""
        return self.clip(low, high)

    def square(self) -> Self:
        """x * x."""
        return self * self

    def dot(self, other: Any) -> Self:
        """Inner product of two vectors."""
        return linear_algebra.dot(self, self._as_operand(other))

    def norm(self, order: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Self:
        """Vector norm over axes."""
        return linear_algebra.norm(self, order, axis, keepdims)

    def _as_operand(self, value: Any) -> Self:
        raise NotImplementedError

    # ---- the array API standard ----------------------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace of the array API standard: `firebox.array_api`.

        Raises:
            UserError: another version of the standard than 2021.12 to 2024.12.
        """
        # Loaded late: it consists of functions of tensors.
        namespace = importlib.import_module("firebox.frontend.array_api")
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            expected = "2021.12 to 2024.12"
            raise UserError("no such version", op="__array_namespace__", expected=expected, found=api_version)
        return namespace

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """On another device (the standard's name of ``to``); there are no streams to choose.

        Raises:
            UserError: a stream is given.
        """
        if stream is not None:
            raise UserError("there are no streams", op="to_device", expected="None", found=stream)
        result: Self = self.to(device=device)
        return result

    def to(self, target: object = None, *, device: object = None, dtype: object = None) -> Any:
        raise NotImplementedError

    def __complex__(self) -> complex:
        return complex(self.__float__())

    def __float__(self) -> Any:
        raise NotImplementedError

    def __rlshift__(self, other: Any) -> Self:
        return self._binary("shift_left", other, swap=True)

    def __rrshift__(self, other: Any) -> Self:
        return self._binary("shift_right", other, swap=True)

    # ---- statistics and activations ------------------------------------------------------------------------------

    def var(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Self:
        """Variance over axes; ``correction=1`` for the sample variance."""
        return normalization.var(self, axis, keepdims, correction)

    def std(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Self:
        """Standard deviation over axes."""
        return normalization.std(self, axis, keepdims, correction)

    def softmax(self, axis: int = -1) -> Self:
        return normalization.softmax(self, axis)

    def log_softmax(self, axis: int = -1) -> Self:
        return normalization.log_softmax(self, axis)

    def logsumexp(self, axis: Axes = None, keepdims: bool = False) -> Self:
        return normalization.logsumexp(self, axis, keepdims)

    def relu(self) -> Self:
        return activations.relu(self)

    def gelu(self) -> Self:
        return activations.gelu(self)

    def silu(self) -> Self:
        return activations.silu(self)

    # ---- shape ---------------------------------------------------------------------------------------------------

    def view(self, *shape: Any) -> Self:
        """As `reshape`."""
        return self.reshape(*shape)

    def permute(self, *axes: Any) -> Self:
        """As `transpose` with all axes."""
        return self.transpose(*axes)

    def t(self) -> Self:
        """The last two dims swapped."""
        return self.T

    @property
    def mT(self) -> Self:
        """The last two dims swapped."""
        return self.swapaxes(-1, -2)

    def unsqueeze(self, axis: int) -> Self:
        """As `expand_dims`."""
        return self.expand_dims(axis)

    def expand(self, *shape: Any) -> Self:
        """Broadcast; -1 keeps a size."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        offset = len(wanted) - self.rank
        sizes: list[DimLike] = [self.shape[k - offset] if d == -1 else d for k, d in enumerate(wanted)]
        return self.broadcast_to(sizes)

    def split(self, size: int | Sequence[int], axis: int = 0) -> list[Self]:
        return shape.split(self, size, axis)

    def chunk(self, chunks: int, axis: int = 0) -> list[Self]:
        return shape.chunk(self, chunks, axis)

    def repeat(self, count: int, axis: int | None = None) -> Self:
        """Each element ``count`` times in a row along an axis; None: of all elements in one dim."""
        return shape.repeat(self, count, axis)

    def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Self:
        return shape.roll(self, shift, axis)

    def tril(self, diagonal: int = 0) -> Self:
        return shape.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        return shape.triu(self, diagonal)

    # ---- order ---------------------------------------------------------------------------------------------------

    def sort(self, axis: int = -1, descending: bool = False) -> Self:
        return shape.sort(self, axis, descending)

    def argsort(self, axis: int = -1, descending: bool = False) -> Self:
        return shape.argsort(self, axis, descending)

    def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Self, Self]:
        """The ``k`` largest (or smallest) elements along an axis, and their indices."""
        return shape.topk(self, k, axis, largest)

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """``value`` where the mask holds, these elements elsewhere."""
        condition: Self = self._as_operand(mask)
        return condition.where(value, self)

    # ---- functions whose first argument is the array: see there --------------------------------------------------

    tan, asin, acos, atan = mathematics.tan, mathematics.asin, mathematics.acos, mathematics.atan
    sinh, cosh = mathematics.sinh, mathematics.cosh
    asinh, acosh, atanh = mathematics.asinh, mathematics.acosh, mathematics.atanh
    exp2, log2, log10, cbrt = mathematics.exp2, mathematics.log2, mathematics.log10, mathematics.cbrt
    deg2rad, rad2deg, sinc = mathematics.deg2rad, mathematics.rad2deg, mathematics.sinc
    reciprocal, signbit, nan_to_num = mathematics.reciprocal, mathematics.signbit, mathematics.nan_to_num
    isposinf, isneginf, contains_nan = mathematics.isposinf, mathematics.isneginf, mathematics.contains_nan
    nextafter, logaddexp, fmod = mathematics.nextafter, mathematics.logaddexp, mathematics.fmod
    remainder, divmod, lerp, xlogy = mathematics.remainder, mathematics.divmod, mathematics.lerp, mathematics.xlogy
    logical_not, bitwise_not = mathematics.logical_not, mathematics.bitwise_not
    erfc, erfinv, lgamma, digamma = special.erfc, special.erfinv, special.lgamma, special.digamma
    array_equal, isclose, allclose = mathematics.array_equal, shape.isclose, shape.allclose

    diagonal, diag, diag_embed, trace = matrices.diagonal, matrices.diag, matrices.diag_embed, matrices.trace
    inner, vdot, cross, kron, matvec = matrices.inner, matrices.vdot, matrices.cross, matrices.kron, matrices.matvec
    matrix_power, matrix_norm, vector_norm = matrices.matrix_power, matrices.matrix_norm, matrices.vector_norm
    cov, outer, vecdot = matrices.cov, linear_algebra.outer, linear_algebra.vecdot

    moveaxis, movedim, swapdims, ravel = moving.moveaxis, moving.movedim, moving.swapaxes, moving.ravel
    matrix_transpose, unflatten, rot90 = moving.matrix_transpose, moving.unflatten, moving.rot90
    fliplr, flipud, tensor_split = moving.fliplr, moving.flipud, moving.tensor_split
    hsplit, vsplit, windows, select = moving.hsplit, moving.vsplit, moving.windows, moving.select
    repeat_interleave, tile, narrow, unbind = moving.repeat_interleave, shape.tile, shape.narrow, shape.unbind

    kthvalue, quantile, median, mode = ordering.kthvalue, ordering.quantile, ordering.median, ordering.mode
    argtopk, bucketize = ordering.argtopk, ordering.bucketize
    sort_with_indices = ordering.sort_with_indices
    max_with_indices, min_with_indices = ordering.max_with_indices, ordering.min_with_indices

    gather, scatter, index_select = scattering.gather, scattering.scatter, scattering.index_select
    gather_nd, scatter_nd, masked_scatter = scattering.gather_nd, scattering.scatter_nd, scattering.masked_scatter
    index_add, index_put, put_along_axis = scattering.index_add, scattering.index_put, scattering.put_along_axis

    nonzero, argwhere, masked_select, unique = sets.nonzero, sets.argwhere, sets.masked_select, sets.unique
    isin, bincount = sets.isin, sets.bincount

    count_nonzero, nansum, nanmean = statistics.count_nonzero, statistics.nansum, statistics.nanmean
    nanmax, nanmin, ptp, max_abs = statistics.nanmax, statistics.nanmin, statistics.ptp, statistics.max_abs
    logcumsumexp, diff = statistics.logcumsumexp, statistics.diff

    # ---- element types -------------------------------------------------------------------------------------------

    def float(self) -> Self:
        return self.astype(dtypes.f32)

    def double(self) -> Self:
        return self.astype(dtypes.f64)

    def half(self) -> Self:
        return self.astype(dtypes.f16)

    def bfloat16(self) -> Self:
        return self.astype(dtypes.bf16)

    def int(self) -> Self:
        return self.astype(dtypes.i32)

    def long(self) -> Self:
        return self.astype(dtypes.i64)

    def bool(self) -> Self:
        return self.astype(dtypes.bool_)
