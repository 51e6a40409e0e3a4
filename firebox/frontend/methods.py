"""Methods of tensors that are other functions under the names that PyTorch and NumPy users know."""

from collections.abc import Sequence
from typing import Any, Self

from firebox import dtypes
from firebox.dialects.nd.array import ArrayLike, Axes
from firebox.dims import DimLike
from firebox.frontend.functions import activations, linear_algebra, normalization, shape


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

    def dot(self, other: Any) -> Self:
        """Inner product of two vectors."""
        return linear_algebra.dot(self, self._as_operand(other))

    def norm(self, order: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Self:
        """Vector norm over axes."""
        return linear_algebra.norm(self, order, axis, keepdims)

    def _as_operand(self, value: Any) -> Self:
        raise NotImplementedError

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

    def repeat(self, count: int, axis: int) -> Self:
        """Each element ``count`` times in a row along an axis."""
        return shape.repeat(self, count, axis)

    def roll(self, shift: int, axis: int) -> Self:
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
