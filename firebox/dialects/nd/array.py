"""`ArrayLike`, the operator protocol that rules and public functions are written against.

`Value` (inserts nd ops into IR) and the frontend's `Tensor` (records them) both implement it, so a rule, a function or
a layer is written once. Everything here is one primitive or a few; bigger functions live in the frontend.
"""

import operator
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from firebox import dims, dtypes
from firebox.dialects.nd.aval import Shape
from firebox.dialects.nd.operators import Operators, Scalar
from firebox.dialects.nd.params import Literal
from firebox.dims import Dim, DimLike
from firebox.dtypes import as_dtype
from firebox.errors import DTypeError, IndexRangeError, ShapeError

Axes = int | Sequence[int] | None


class ArrayLike(Operators):
    """An array with functions, reductions and movement besides operators."""

    __slots__ = ()

    def axes(self, axis: Axes) -> tuple[int, ...]:
        """Axes as sorted non-negative integers; None is all.

        Raises:
            IndexRangeError: out of range. ShapeError: named twice.
        """
        if axis is None:
            return tuple(range(self.rank))
        given = tuple(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else (axis,)
        found = tuple(sorted(normalize_axis(a, self.rank) for a in given))
        if len(set(found)) != len(found):
            raise ShapeError("an axis is named twice", found=given)
        return found

    # ---- element-wise functions ----------------------------------------------------------------------------------

    def bitcast(self, dtype: object) -> Self:
        """The same bits as another type of the same size."""
        return self.one("bitcast", self, dtype=as_dtype(dtype))

    def abs(self) -> Self:
        return self.one("abs", self)

    def sign(self) -> Self:
        return self.one("sign", self)

    def exp(self) -> Self:
        return self.one("exp", self)

    def expm1(self) -> Self:
        return self.one("expm1", self)

    def log(self) -> Self:
        return self.one("log", self)

    def log1p(self) -> Self:
        return self.one("log1p", self)

    def rsqrt(self) -> Self:
        return self.one("rsqrt", self)

    def sin(self) -> Self:
        return self.one("sin", self)

    def cos(self) -> Self:
        return self.one("cos", self)

    def tanh(self) -> Self:
        return self.one("tanh", self)

    def erf(self) -> Self:
        return self.one("erf", self)

    def sigmoid(self) -> Self:
        return self.one("sigmoid", self)

    def floor(self) -> Self:
        return self.one("floor", self)

    def ceil(self) -> Self:
        return self.one("ceil", self)

    def round(self) -> Self:
        """To the nearest integer, halves to even."""
        return self.one("round", self)

    def trunc(self) -> Self:
        return self.one("trunc", self)

    def isnan(self) -> Self:
        return self.one("isnan", self)

    def isinf(self) -> Self:
        return self.one("isinf", self)

    def isfinite(self) -> Self:
        return self.one("isfinite", self)

    # ---- reductions ----------------------------------------------------------------------------------------------

    def _reduce(self, name: str, axis: Axes, keepdims: bool) -> Self:
        axes = self.axes(axis)
        if not axes:
            return self
        return self.one(name, self, axes=axes, keepdims=keepdims)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """Sum over axes; small integers and bools are summed as i64."""
        wide = self.astype(dtypes.i64) if not self.dtype.is_float and self.dtype.itemsize < 8 else self
        return wide._reduce("reduce_sum", axis, keepdims)

    def prod(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """Product over axes; small integers and bools are multiplied as i64."""
        wide = self.astype(dtypes.i64) if not self.dtype.is_float and self.dtype.itemsize < 8 else self
        return wide._reduce("reduce_prod", axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Self:
        return self._reduce("reduce_max", axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Self:
        return self._reduce("reduce_min", axis, keepdims)

    def any(self, axis: Axes = None, keepdims: bool = False) -> Self:
        return self.astype(dtypes.bool_)._reduce("reduce_any", axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Self:
        return self.astype(dtypes.bool_)._reduce("reduce_all", axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """Arithmetic mean as a float; the mean of nothing is NaN."""
        x = self._float()
        count = dims.product(self.shape[a] for a in self.axes(axis))
        total = x.sum(axis, keepdims)
        return total * (1.0 / count if count else float("nan")) if isinstance(count, int) else total / x.size_of(count)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Index (i64) of the first maximum; over everything flattened when axis is None."""
        return self._arg("argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Index (i64) of the first minimum."""
        return self._arg("argmin", axis, keepdims)

    def _arg(self, name: str, axis: int | None, keepdims: bool) -> Self:
        if axis is not None:
            return self.one(name, self, axes=self.axes(axis), keepdims=keepdims)
        flat = self.reshape((self.size,))
        found = flat.one(name, flat, axes=(0,), keepdims=False)
        return found.reshape((1,) * self.rank) if keepdims else found

    def cumsum(self, axis: int = 0) -> Self:
        return self._scan("cumsum", axis)

    def cumprod(self, axis: int = 0) -> Self:
        return self._scan("cumprod", axis)

    def cummax(self, axis: int = 0) -> Self:
        return self._scan("cummax", axis)

    def cummin(self, axis: int = 0) -> Self:
        return self._scan("cummin", axis)

    def _scan(self, name: str, axis: int) -> Self:
        return self.one(name, self, axis=normalize_axis(axis, self.rank), reverse=False)

    # ---- shape and movement --------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Self:
        """The same elements in row-major order under another shape; one dim may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        full = resolve_shape(self.shape, as_sizes("reshape", wanted))
        return self if full == self.shape else self.one("reshape", self, shape=full)

    def flatten(self, start: int = 0, end: int = -1) -> Self:
        """Merge the dims from ``start`` to ``end`` (both included) into one."""
        if self.rank == 0:
            return self.reshape((1,))
        first, last = normalize_axis(start, self.rank), normalize_axis(end, self.rank)
        merged = dims.product(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], merged, *self.shape[last + 1 :]))

    def transpose(self, *axes: Any) -> Self:
        """Permute the dims; without arguments reverse them."""
        wanted = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        order = tuple(normalize_axis(a, self.rank) for a in wanted) or tuple(reversed(range(self.rank)))
        if order == tuple(range(self.rank)):
            return self
        return self.one("transpose", self, permutation=order)

    @property
    def T(self) -> Self:
        return self.swapaxes(-1, -2) if self.rank >= 2 else self

    def swapaxes(self, a: int, b: int) -> Self:
        order = list(range(self.rank))
        first, second = normalize_axis(a, self.rank), normalize_axis(b, self.rank)
        order[first], order[second] = order[second], order[first]
        return self.transpose(tuple(order))

    def broadcast_to(self, shape: Sequence[DimLike]) -> Self:
        wanted = as_sizes("broadcast_to", shape)
        return self if wanted == self.shape else self.one("broadcast_to", self, shape=wanted)

    def expand_dims(self, axis: int) -> Self:
        """Insert a dim of size 1."""
        at = normalize_axis(axis, self.rank + 1)
        return self.reshape((*self.shape[:at], 1, *self.shape[at:]))

    def squeeze(self, axis: Axes = None) -> Self:
        """Drop dims of size 1: the named ones, or all."""
        drop = self.axes(axis) if axis is not None else tuple(k for k, d in enumerate(self.shape) if d == 1)
        bad = [k for k in drop if self.shape[k] != 1]
        if bad:
            raise ShapeError("only dims of size 1 can be squeezed", found=f"size {self.shape[bad[0]]} at axis {bad[0]}")
        return self.reshape(tuple(d for k, d in enumerate(self.shape) if k not in drop))

    def slice(self, start: Sequence[DimLike], stop: Sequence[DimLike], step: Sequence[int] | None = None) -> Self:
        """``x[start:stop:step]`` in each dim, with non-negative bounds and positive steps."""
        steps = tuple(step) if step is not None else (1,) * self.rank
        whole = all(a == 0 and b == d and s == 1 for a, b, s, d in zip(start, stop, steps, self.shape, strict=True))
        return self if whole else self.one("slice", self, start=tuple(start), stop=tuple(stop), step=steps)

    def pad(self, low: Sequence[DimLike], high: Sequence[DimLike], value: Scalar = 0) -> Self:
        """Surround with a value; ``low``/``high`` elements before and after in each dim, all >= 0."""
        if all(a == 0 for a in (*low, *high)):
            return self
        fill = Literal.of(np.asarray(value).astype(self.dtype.numpy))
        return self.one("pad", self, low=tuple(low), high=tuple(high), value=fill)

    def flip(self, axis: Axes = None) -> Self:
        axes = self.axes(axis)
        return self.one("flip", self, axes=axes) if axes else self

    def take(self, indices: "ArrayLike", axis: int = 0) -> Self:
        """Rows picked by integers along an axis; shape ``x.shape[:axis] + indices.shape + x.shape[axis+1:]``."""
        return self.one("gather", self, indices, axis=normalize_axis(axis, self.rank))

    def take_along_axis(self, indices: "ArrayLike", axis: int = -1) -> Self:
        """``out[.., i, ..] = x[.., indices[.., i, ..], ..]``; other dims equal or broadcast."""
        return self.one("take_along_axis", self, indices, axis=normalize_axis(axis, self.rank))

    def scatter_add(self, indices: "ArrayLike", updates: "ArrayLike", axis: int = 0) -> Self:
        """Add ``updates`` to the rows that `take` with the same indices would read; in index order, deterministic."""
        return self.one("scatter_add", self, indices, updates, axis=normalize_axis(axis, self.rank))


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis.

    Raises:
        IndexRangeError: not in [-rank, rank). DTypeError: not an integer.
    """
    if not hasattr(axis, "__index__"):
        raise DTypeError("an axis must be an integer", expected="an int", found=repr(axis))
    position = operator.index(axis)
    if not -rank <= position < rank:
        expected = f"-{rank} <= axis < {rank}" if rank else "no axis: the array is 0-d"
        raise IndexRangeError("axis out of range", expected=expected, found=position)
    return position % rank


def as_sizes(op: str, shape: Sequence[Any]) -> Shape:
    """Sizes as plain integers and dims; what counts as an integer elsewhere in Python does here.

    Raises:
        ShapeError: something that is neither.
    """
    if not all(isinstance(size, Dim) or hasattr(size, "__index__") for size in shape):
        raise ShapeError("not a shape", op=op, expected="integers", found=tuple(shape))
    return tuple(size if isinstance(size, Dim) else operator.index(size) for size in shape)


def resolve_shape(old: Shape, new: Shape) -> Shape:
    """Fill in a -1 and check that the number of elements stays.

    Raises:
        ShapeError: the sizes differ, or more than one dim is -1.
    """
    unknown = [k for k, d in enumerate(new) if d == -1]
    total = dims.product(old)
    if len(unknown) > 1:
        raise ShapeError("only one dim may be -1", op="reshape", found=new)
    if any(isinstance(d, int) and d < -1 for d in new):
        raise ShapeError("a size is negative", op="reshape", expected="sizes of 0 or more, or one -1", found=new)
    if unknown:
        rest = dims.product(d for d in new if d != -1)
        if rest == 0 or dims.mod(total, rest) != 0:
            raise ShapeError("the size is not divisible", op="reshape", expected=f"{total} elements", found=new)
        new = tuple(dims.floordiv(total, rest) if d == -1 else d for d in new)
    if dims.product(new) != total:
        raise ShapeError(
            "the number of elements must stay", op="reshape", expected=f"{total} elements of {old}", found=new
        )
    return new
