"""Reading and writing at indices: gather, scatter with ways to combine, along an axis or at whole positions."""

from collections.abc import Callable
from typing import Any

from firebox import dims, dtypes
from firebox.dialects.nd.array import normalize_axis
from firebox.dialects.nd.base import lookup
from firebox.dims import DimLike
from firebox.errors import ONE_OF_SEVERAL, ShapeError, UserError
from firebox.frontend.functions.moving import broadcast_shapes
from firebox.frontend.functions.support import A, arange_like, positions, require_int, shape_text, static_size

REDUCTIONS = ("set", "add", "mul", "min", "max", "mean")

# ---- reading -----------------------------------------------------------------------------------------------------


def take(x: A, indices: A, axis: int | None = 0) -> A:
    """Rows picked by integers along an axis (None: of all elements in one dim); negative ones count from the end."""
    flat = x.reshape((x.size,)) if axis is None else x
    at = normalize_axis(axis or 0, flat.rank)
    return flat.take(wrapped("take", indices, flat.shape[at]), at)


index_select = take


def take_along_axis(x: A, indices: A, axis: int = -1) -> A:
    """``out[.., i, ..] = x[.., indices[.., i, ..], ..]``; other dims broadcast, negative indices count from the end."""
    at = normalize_axis(axis, x.rank)
    return x.take_along_axis(wrapped("take_along_axis", indices, x.shape[at]), at)


def gather(x: A, axis: int, indices: A) -> A:
    """`take_along_axis` with the arguments in PyTorch's order."""
    return take_along_axis(x, indices, axis)


def gather_nd(x: A, indices: A) -> A:
    """``out[j..] = x[indices[j.., 0], indices[j.., 1], ..]``: the last dim of the indices names leading dims of x."""
    depth = _depth("gather_nd", x, indices)
    merged = x.reshape((dims.product(x.shape[:depth]), *x.shape[depth:]))
    return merged.take(_joint(indices, x.shape[:depth]), 0)


def wrapped(op: str, indices: A, size: DimLike) -> A:
    """Indices with negative ones counted from the end; those out of range stay so."""
    require_int(op, indices, "indices")
    if not indices.dtype.is_signed:
        return indices
    wide = indices.astype(dtypes.i64)  # a narrow type may not hold the size
    extent = wide.size_of(size)
    return ((wide < 0) & (wide >= -extent)).where(wide + extent, wide)


def _depth(op: str, x: A, indices: A) -> int:
    require_int(op, indices, "indices")
    depth = indices.shape[-1] if indices.rank else 0
    if not isinstance(depth, int) or not 1 <= depth <= x.rank:
        expected = f"a last dim of 1 to {x.rank} for {shape_text(x)}"
        raise ShapeError("bad indices", op=op, expected=expected, found=shape_text(indices))
    return depth


def _joint(indices: A, sizes: tuple[DimLike, ...]) -> A:
    """One index into merged dims; `ONE_OF_SEVERAL`, which no dim has, where any of the indices is out of range."""
    total: A | None = None
    valid: A | None = None
    for k, size in enumerate(sizes):
        low, high = [0] * indices.rank, list(indices.shape)
        low[-1], high[-1] = k, k + 1
        one = wrapped("gather_nd", indices.slice(low, high).squeeze(-1), size).astype(dtypes.i64)
        extent = one.size_of(size)
        inside = (one >= 0) & (one < extent)
        valid = inside if valid is None else valid & inside
        total = one if total is None else total * extent + one
    assert total is not None and valid is not None
    return valid.where(total, ONE_OF_SEVERAL) if len(sizes) > 1 else total


# ---- writing -----------------------------------------------------------------------------------------------------


def put_along_axis(x: A, indices: A, values: Any, axis: int = -1, reduce: str = "set") -> A:
    """x with ``values`` written where `take_along_axis` with the same indices would read; values broadcast to them.

    Args:
        reduce: what becomes of an element and all values written to it: ``set`` (the last one), ``add``, ``mul``,
            ``min``, ``max`` or ``mean``; the element itself takes part but in ``set``.

    Raises:
        UserError: another way to combine. ShapeError: indices of another rank than x.
        IndexRangeError: an index is out of range; raised when the result is read.
    """
    at = normalize_axis(axis, x.rank)
    if indices.rank != x.rank:
        raise ShapeError("ranks differ", op="put_along_axis", expected=shape_text(x), found=shape_text(indices))
    for k, (size, total) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if k != at and size != 1 and isinstance(size, int) and isinstance(total, int) and size > total:
            found = f"{size} at axis {k}"
            raise ShapeError("more indices than rows", op="put_along_axis", expected=f"at most {total}", found=found)
    place = wrapped("put_along_axis", indices, x.shape[at]).astype(dtypes.i64)
    place = (place.__ge__(0) & (place < place.size_of(x.shape[at]))).where(place, ONE_OF_SEVERAL)
    inside = place.__ne__(ONE_OF_SEVERAL)
    flat: A | None = None
    for k, size in enumerate(x.shape):
        index = place if k == at else positions(place, k)
        flat = index if flat is None else flat * place.size_of(size) + index
    assert flat is not None
    return put_flat(x, inside.where(flat, ONE_OF_SEVERAL), values, reduce, "put_along_axis")


def scatter(x: A, axis: int, indices: A, values: Any, reduce: str = "set") -> A:
    """`put_along_axis` with the arguments in PyTorch's order."""
    return put_along_axis(x, indices, values, axis, reduce)


def scatter_nd(x: A, indices: A, values: Any, reduce: str = "set") -> A:
    """x with values written where `gather_nd` with the same indices would read; see `put_along_axis`."""
    depth = _depth("scatter_nd", x, indices)
    rows = _joint(indices, x.shape[:depth])
    rest = dims.product(x.shape[depth:])
    inside = rows.__ne__(ONE_OF_SEVERAL)
    spread = rows.reshape((*rows.shape, *(1,) * (x.rank - depth)))
    inner = arange_like(rows, rest).reshape(x.shape[depth:])
    place = spread * rows.size_of(rest) + inner
    inside = inside.reshape(spread.shape)
    return put_flat(x, inside.where(place, ONE_OF_SEVERAL), values, reduce, "scatter_nd")


def index_add(x: A, axis: int, indices: A, values: Any) -> A:
    """x with ``values`` added to the rows that `take` with the same indices would read; equal indices add up."""
    at = normalize_axis(axis, x.rank)
    place = wrapped("index_add", indices, x.shape[at])
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    return x.scatter_add(place, _as_values(x, values).broadcast_to(shape), at)


def index_put(x: A, axis: int, indices: A, values: Any, reduce: str = "set") -> A:
    """x with ``values`` written to the rows that `take` with the same vector of indices would read.

    Raises:
        ShapeError: the indices are not 1-D.
    """
    at = normalize_axis(axis, x.rank)
    if indices.rank != 1:
        raise ShapeError("needs a vector of indices", op="index_put", expected="1 dim", found=shape_text(indices))
    wide = indices.reshape((*(1,) * at, -1, *(1,) * (x.rank - 1 - at)))
    full = (*x.shape[:at], indices.shape[0], *x.shape[at + 1 :])
    return put_along_axis(x, wide.broadcast_to(full), values, at, reduce)


def put_flat(x: A, place: A, values: Any, reduce: str, op: str) -> A:
    """x with values combined into its elements at flat positions, of any shape, to which the values broadcast."""
    if reduce not in REDUCTIONS:
        raise UserError("no such way to combine", op=op, expected=" or ".join(REDUCTIONS), found=repr(reduce))
    flat = x.reshape((x.size,))
    given = _as_values(x, values).broadcast_to(place.shape).reshape((place.size,))
    at = place.reshape((place.size,))
    if reduce == "add":
        return flat.scatter_add(at, given, 0).reshape(x.shape)
    if reduce == "mean":
        ones = given.literal(1).broadcast_to(given.shape)
        count = given.literal(1).broadcast_to(flat.shape).scatter_add(at, ones, 0)
        total = flat.scatter_add(at, given, 0)
        return (total / count if x.dtype.is_float else total // count).reshape(x.shape)
    if reduce in ("min", "max"):  # so that of equal positions the right value comes last
        order = _sorted(given, descending=reduce == "min")[1]
        at, given = at.take(order, 0), given.take(order, 0)
    ordered, order = _sorted(at)
    chosen = given.take(order, 0)
    if reduce != "set":
        chosen = _products(ordered, chosen) if reduce == "mul" else chosen
        chosen = _COMBINE[reduce](chosen, flat.take(ordered, 0))
    return _put_sorted(flat, ordered, chosen).reshape(x.shape)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda a, b: a * b,
    "min": lambda a, b: a.minimum(b),
    "max": lambda a, b: a.maximum(b),
}


def _sorted(x: A, descending: bool = False) -> tuple[A, A]:
    values, order = x.apply(lookup("nd.sort"), (x,), {"axis": 0, "descending": descending})
    return values, order


def _as_values(x: A, values: Any) -> A:
    lifted = x.lift(values)
    return lifted.astype(x.dtype)  # type: ignore[return-value]  # of x's own implementation


def _products(ordered: A, values: A) -> A:
    """Each value times all before it at the same position, in log2(values) steps over doubling distances."""
    count = static_size("scatter", values, 0)
    distance = 1
    while distance < count:
        shifted = values.slice((0,), (count - distance,)).pad((distance,), (0,), 1)
        same = ordered.__eq__(ordered.slice((0,), (count - distance,)).pad((distance,), (0,), -1))
        values = same.where(values * shifted, values)
        distance *= 2
    return values


def _put_sorted(flat: A, ordered: A, values: A) -> A:
    """A vector with the last value of each run of equal positions in its place; no sum meets another value."""
    count = ordered.shape[0]
    following = ordered.slice((1,), (count,)).pad((0,), (1,), -1) if count != 0 else ordered
    carrier = dtypes.u8 if flat.dtype.is_bool else flat.dtype
    kept = ordered.__ne__(following).where(values, values.literal(0)).astype(carrier)
    ones = ordered.literal(1).broadcast_to(ordered.shape)
    hit = ordered.literal(0).broadcast_to(flat.shape).scatter_add(ordered, ones, 0) > 0
    cleared = hit.where(flat.literal(0), flat).astype(carrier)
    return cleared.scatter_add(ordered, kept, 0).astype(flat.dtype)


# ---- masks -------------------------------------------------------------------------------------------------------


def masked_fill(x: A, mask: A, value: Any) -> A:
    """``value`` where the mask holds, x elsewhere; the mask broadcasts."""
    return mask.where(value, x)


def masked_scatter(x: A, mask: A, values: A) -> A:
    """x with the elements where the mask holds replaced by those of ``values``, one after the other.

    x and the mask broadcast.

    Raises:
        IndexRangeError: fewer values than places; raised when the result is read.
    """
    shape = broadcast_shapes(x.shape, mask.shape)
    x, spread = x.broadcast_to(shape), mask.broadcast_to(shape)
    flat = spread.reshape((x.size,)).astype(dtypes.i64)
    number = (flat.cumsum(0) - 1).maximum(0)
    source = values.astype(x.dtype).reshape((values.size,)).take(number, 0)
    return spread.where(source.reshape(x.shape), x)
