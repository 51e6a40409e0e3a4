"""`x[...]` and `x.at[...]` by NumPy's rules: integers, slices, None, Ellipsis, integer arrays and boolean masks."""

from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from firebox import dims, dtypes
from firebox.dims import Dim, DimLike
from firebox.errors import ONE_OF_SEVERAL, DTypeError, IndexRangeError, ShapeError, TraceError, UserError
from firebox.frontend.functions.scattering import put_flat

if TYPE_CHECKING:
    from firebox.frontend.tensor import Tensor


@dataclass(frozen=True)
class Part:
    """What a key says about one dim of ``x``, or a new dim.

    Attributes:
        start, stop, step: elements, with non-negative bounds; ``step`` may be negative.
        kind: ``slice``, ``int``, ``new`` (None) or ``array``.
        array: the index of kind ``array``.
    """

    kind: str
    start: DimLike = 0
    stop: DimLike = 1
    step: int = 1
    array: Any = None


def get(x: "Tensor", key: Any) -> "Tensor":
    """``x[key]``.

    Raises:
        IndexRangeError: too many indices, or one that is out of range. DTypeError: an index that is no integer.
        TraceError: a boolean mask whose values are not known while tracing.
    """
    if getattr(key, "ndim", None) == 0 and key.dtype in (dtypes.bool_, np.bool_):
        return _all_or_nothing(x, key)
    parts = parse(x, key)
    y = _sliced(x, [p for p in parts if p.kind != "new"])
    y = y.reshape(_basic_shape(y, parts))
    arrays = [p.array for p in parts if p.kind == "array"]
    if not arrays:
        return y
    kept = [p for p in parts if p.kind != "int"]
    axes = [axis for axis, p in enumerate(kept) if p.kind == "array"]
    return _gathered(y, axes, arrays, front=_is_split(parts))


# ---- keys --------------------------------------------------------------------------------------------------------


def parse(x: "Tensor", key: Any) -> list[Part]:
    """One part for each dim of ``x``, and one for each new dim, in order."""
    items = _masks_replaced(x, key if isinstance(key, tuple) else (key,))
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > x.rank:
        found = f"{used} indices for {x.aval}"
        raise IndexRangeError("too many indices", op="index", expected=f"at most {x.rank}", found=found)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexRangeError("more than one ellipsis", op="index", found=key)
    position = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    whole = [slice(None)] * (x.rank - used)
    full = [*items[:position], *whole, *items[position + 1 :]]
    parts: list[Part] = []
    axis = 0
    for item in full:
        parts.append(Part("new") if item is None else _part(item, x.shape[axis], axis))
        axis += item is not None
    return parts


def _masks_replaced(x: "Tensor", items: tuple[Any, ...]) -> list[Any]:
    """Items with lists as NumPy arrays, and each boolean mask replaced by the integers that it selects."""
    found: list[Any] = []
    for item in items:
        if item is None or isinstance(item, slice | EllipsisType):
            found.append(item)
            continue
        if isinstance(item, bool | np.bool_):
            hint = "use x.reshape or expand_dims for a new dim"
            raise DTypeError(
                "a single bool is no index", op="index", expected="integers or slices", found=item, hint=hint
            )
        if isinstance(item, list | tuple):
            item = np.asarray(item, np.int64) if not len(item) else np.asarray(item)
        kind = getattr(item, "dtype", None)
        if kind is dtypes.bool_ or kind == np.bool_:
            at = sum(f is not None and f is not Ellipsis for f in found)
            found.extend(_nonzero(item, x.shape[at : at + len(item.shape)], Ellipsis in found))
        else:
            found.append(item)
    return found


def _all_or_nothing(x: "Tensor", mask: Any) -> "Tensor":
    """``x[mask]`` for a 0-d mask: x once or not at all, along a new dim."""
    (rows,) = _nonzero(mask.reshape((1,)), (1,), False)
    return x.expand_dims(0).slice([0] * (x.rank + 1), [len(rows), *x.shape])


def _nonzero(mask: Any, shape: tuple[DimLike, ...], after_ellipsis: bool) -> list[Any]:
    try:
        known = np.asarray(mask)
    except TraceError as error:
        raise TraceError(
            "the number of elements that a mask selects is not known while tracing",
            op="index",
            expected="a mask whose values are known",
            found=f"a traced mask of shape {tuple(mask.shape)}",
            hint="use fb.where(mask, x, 0), or return the mask and index outside",
        ) from error
    if not after_ellipsis and known.shape != shape:
        raise ShapeError("the mask does not fit", op="index", expected=shape, found=known.shape)
    if not known.ndim:
        hint = "use fb.where, or the 0-d mask alone"
        raise DTypeError(
            "a 0-d bool is no index", op="index", expected="a mask of 1 dim or more", found=known, hint=hint
        )
    return list(np.nonzero(known))


def _part(item: Any, size: DimLike, axis: int) -> Part:
    if isinstance(item, slice):
        return _slice_part(item, size)
    if hasattr(item, "dtype") and not isinstance(item, np.generic):
        return Part("array", array=_checked(item, size, axis))
    try:
        index = item.__index__()
    except (AttributeError, TypeError):
        raise DTypeError(
            "not an index", op="index", expected="integers, slices, None, ... or integer arrays", found=repr(item)
        ) from None
    if isinstance(size, Dim):
        start = size + index if index < 0 else index
        return Part("int", start, start + 1)
    if not -size <= index < size:
        raise IndexRangeError(
            "index out of range", op="index", expected=f"-{size} to {size - 1} at axis {axis}", found=index
        )
    return Part("int", index % size, index % size + 1)


def _slice_part(item: slice, size: DimLike) -> Part:
    for bound in (item.start, item.stop, item.step):
        if bound is not None and not isinstance(bound, Dim) and not hasattr(bound, "__index__"):
            raise DTypeError("a slice needs integers", op="index", expected="integers or None", found=item)
    if item.step == 0:
        raise IndexRangeError("the step of a slice is 0", op="index", found=item)
    if isinstance(size, int) and not any(isinstance(b, Dim) for b in (item.start, item.stop)):
        start, stop, step = item.indices(size)
        count = len(range(start, stop, step))
        return Part("slice", start if count else 0, start + count * step if count else 0, step)
    return _symbolic_slice(item, size)


def _symbolic_slice(item: slice, size: DimLike) -> Part:
    step = 1 if item.step is None else item.step.__index__()
    if step < 0:
        if item.start is None and item.stop is None and step == -1:
            return Part("slice", size - 1, -1, -1)
        raise UserError("a symbolic dim is only reversed as a whole", op="index", expected="[::-1]", found=item)
    start = 0 if item.start is None else _bound(item.start, size)
    stop = size if item.stop is None else _bound(item.stop, size)
    return Part("slice", start, start + dims.ceildiv(stop - start, step) * step, step)


def _bound(bound: Any, size: DimLike) -> DimLike:
    if isinstance(bound, Dim):
        return bound
    value: int = bound.__index__()
    if value < 0:
        return size + value
    return value if value <= 1 else dims.minimum(value, size)


def _checked(index: Any, size: DimLike, axis: int) -> Any:
    """An index array with non-negative values; a NumPy array is checked here, a tensor when the program runs."""
    is_host = isinstance(index, np.ndarray)
    if not (np.issubdtype(index.dtype, np.integer) if is_host else index.dtype.is_int):
        found = str(index.dtype) if is_host else index.dtype.name
        raise DTypeError(
            "indices must be integers", op="index", expected="an int type", found=found, hint="cast with astype"
        )
    if not is_host:
        return _wrapped(index, size) if index.dtype.is_signed else index
    if isinstance(size, int):
        bad = index[(index < -size) | (index >= size)]
        if bad.size:
            expected = f"-{size} to {size - 1} at axis {axis}"
            raise IndexRangeError("index out of range", op="index", expected=expected, found=int(bad.flat[0]))
        return np.where(index < 0, index + size, index).astype(np.int64)
    return index.astype(np.int64)


def _wrapped(index: Any, size: DimLike) -> Any:
    """Negative indices counted from the end; those that are out of range stay as they are, for the message."""
    wide = index.astype(dtypes.i64)  # a narrow type may not hold the size
    extent = wide.size_of(size)
    return ((wide < 0) & (wide >= -extent)).where(wide + extent, wide)


# ---- reading -----------------------------------------------------------------------------------------------------


def _sliced(x: "Tensor", parts: list[Part]) -> "Tensor":
    """The slices and integers of a key, integers as slices of one element; array dims stay whole."""
    start, stop, step, reverse = [], [], [], []
    for axis, (part, size) in enumerate(zip(parts, x.shape, strict=True)):
        first, last, stride = (0, size, 1) if part.kind == "array" else (part.start, part.stop, part.step)
        if stride < 0 and first == last:
            first, last, stride = 0, 0, 1
        if stride < 0:  # counted from the other end
            reverse.append(axis)
            first, last, stride = size - 1 - first, size - 1 - last, -stride
        start.append(first)
        stop.append(_tight(first, last, stride))
        step.append(stride)
    y = x.flip(reverse) if reverse else x
    return y.slice(start, stop, step)


def _tight(start: DimLike, stop: DimLike, step: int) -> DimLike:
    """The stop just after the last element, so that it never lies outside of the dim."""
    count = dims.ceildiv(stop - start, step)
    return start + (count - 1) * step + 1 if count != 0 else start


def _basic_shape(y: "Tensor", parts: list[Part]) -> tuple[DimLike, ...]:
    """The shape with integer dims dropped and new dims inserted."""
    sizes = iter(y.shape)
    shape: list[DimLike] = []
    for part in parts:
        size = 1 if part.kind == "new" else next(sizes)
        if part.kind != "int":
            shape.append(size)
    return tuple(shape)


def _is_split(parts: list[Part]) -> bool:
    """Whether the advanced indices (arrays, and integers beside them) are not next to each other: NumPy's rule."""
    advanced = [k for k, p in enumerate(parts) if p.kind in ("int", "array")]
    return advanced[-1] - advanced[0] + 1 != len(advanced)


def _gathered(y: "Tensor", axes: list[int], arrays: list[Any], front: bool) -> "Tensor":
    indices = [y._as_operand(a) for a in arrays]
    if len(axes) == 1 and not front:
        return y.take(indices[0], axes[0])
    at = 0 if front else axes[0]
    rest = [k for k in range(y.rank) if k not in axes]
    moved = y.transpose([*rest[:at], *axes, *rest[at:]])
    sizes = moved.shape[at : at + len(axes)]
    merged = moved.reshape((*moved.shape[:at], dims.product(sizes), *moved.shape[at + len(axes) :]))
    return merged.take(_linear(indices, sizes), at)


def _linear(indices: list["Tensor"], sizes: tuple[DimLike, ...]) -> "Tensor":
    """One index into merged dims; `ONE_OF_SEVERAL`, which no dim has, where any of the indices is out of range."""
    total = indices[0].astype(dtypes.i64)
    valid = None
    for position, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        wide = index.astype(dtypes.i64)
        extent = wide.size_of(size)
        inside = (wide >= 0) & (wide < extent)
        valid = inside if valid is None else valid & inside
        total = wide if position == 0 else total * extent + wide
    assert valid is not None
    return valid.where(total, ONE_OF_SEVERAL) if len(indices) > 1 else total


# ---- writing -----------------------------------------------------------------------------------------------------


class At:
    """``x.at``: index it to say where, then call what to do there."""

    __slots__ = ("x",)

    def __init__(self, x: "Tensor") -> None:
        self.x = x

    def __getitem__(self, key: Any) -> "Place":
        return Place(self.x, key)


class Place:
    """``x.at[key]``. Each method returns x with the elements ``x[key]`` changed; x itself stays as it is.

    An element that the key names several times is set to the last value, or takes part once for each time.
    """

    __slots__ = ("key", "parts", "x")

    def __init__(self, x: "Tensor", key: Any) -> None:
        self.x = x
        self.key = key
        self.parts = parse(x, key)

    def get(self) -> "Tensor":
        """``x[key]``."""
        return get(self.x, self.key)

    def set(self, value: Any) -> "Tensor":
        """The elements replaced by ``value``, which broadcasts to the shape of ``x[key]``."""
        block = self._block(value)
        if block is not None:
            inside, padded = block
            return inside.where(padded, self.x)
        positions, values = self._scattered(value)
        return put_flat(self.x, positions, values, "set", "at")

    def add(self, value: Any) -> "Tensor":
        """``value`` added to the elements."""
        block = self._block(value)
        if block is not None:
            return self.x + block[1]
        rows = self._rows()
        if rows is not None:
            axis, index = rows
            values = self.x._as_operand(value).astype(self.x.dtype)
            shape = (*self.x.shape[:axis], *index.shape, *self.x.shape[axis + 1 :])
            return self.x.scatter_add(index, values.broadcast_to(shape), axis)
        positions, values = self._scattered(value)
        return self._flat().scatter_add(positions, values, 0).reshape(self.x.shape)

    def mul(self, value: Any) -> "Tensor":
        """The elements multiplied by ``value``."""
        block = self._block(value)
        if block is not None:
            return block[0].where(self.x * block[1], self.x)
        positions, values = self._scattered(value)
        return put_flat(self.x, positions, values, "mul", "at")

    def min(self, value: Any) -> "Tensor":
        """The lesser of each element and ``value``."""
        return self._extreme("min", value)

    def max(self, value: Any) -> "Tensor":
        """The greater of each element and ``value``."""
        return self._extreme("max", value)

    def _extreme(self, reduce: str, value: Any) -> "Tensor":
        block = self._block(value)
        if block is not None:
            inside, padded = block
            extreme = self.x.minimum(padded) if reduce == "min" else self.x.maximum(padded)
            return inside.where(extreme, self.x)
        positions, values = self._scattered(value)
        return put_flat(self.x, positions, values, reduce, "at")

    # A key of slices with step 1 and integers is a block: a map over x, without any scatter.

    def _block(self, value: Any) -> "tuple[Tensor, Tensor] | None":
        """Where the block is, and ``value`` laid out in the shape of x; None for other keys."""
        parts = [p for p in self.parts if p.kind != "new"]
        if any(p.kind == "array" or p.step != 1 for p in parts):
            return None
        x = self.x
        target = get(x, self.key).shape
        block = x._as_operand(value).astype(x.dtype).broadcast_to(target)
        block = block.reshape(tuple(p.stop - p.start for p in parts))
        padded = block.pad([p.start for p in parts], [d - p.stop for p, d in zip(parts, x.shape, strict=True)])
        inside = x.literal(True, dtypes.bool_)
        for axis, (part, size) in enumerate(zip(parts, x.shape, strict=True)):
            if part.start != 0 or part.stop != size:
                shape = tuple(size if k == axis else 1 for k in range(x.rank))
                counts = x.one("iota", shape=shape, axis=axis, dtype=dtypes.i64)
                low, high = counts.size_of(part.start), counts.size_of(part.stop)
                inside = inside & (counts >= low) & (counts < high)
        return inside, padded

    def _rows(self) -> "tuple[int, Tensor] | None":
        """The axis and the index of a key that is one index array and whole dims."""
        arrays = [k for k, p in enumerate(self.parts) if p.kind == "array"]
        if len(arrays) != 1 or self.x.dtype.is_bool:
            return None
        rest = [(p, d) for p, d in zip(self.parts, self.x.shape, strict=False) if p.kind != "array"]
        if len(self.parts) != self.x.rank or any(p != Part("slice", 0, d, 1) for p, d in rest):
            return None
        return arrays[0], self.x._as_operand(self.parts[arrays[0]].array)

    def _flat(self) -> "Tensor":
        return self.x.reshape((self.x.size,))

    def _scattered(self, value: Any) -> "tuple[Tensor, Tensor]":
        """Flat positions of the elements, and a value for each, both 1-D."""
        x = self.x
        counts = x.one("iota", shape=(x.size,), axis=0, dtype=dtypes.i64).reshape(x.shape)
        positions = get(counts, self.key)
        values = x._as_operand(value).astype(x.dtype).broadcast_to(positions.shape)
        return positions.reshape((positions.size,)), values.reshape((positions.size,))
