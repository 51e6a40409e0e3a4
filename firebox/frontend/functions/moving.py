"""Moving, joining and splitting of dims: NumPy's and PyTorch's functions that compute nothing."""

from collections.abc import Sequence

from firebox import dims
from firebox.dialects.nd.array import normalize_axis
from firebox.dims import DimLike
from firebox.errors import IndexRangeError, ShapeError
from firebox.frontend.functions.shape import concat, narrow, repeat, split
from firebox.frontend.functions.support import A, arange_like, differ, shape_text, static_size

# ---- dims --------------------------------------------------------------------------------------------------------


def moveaxis(x: A, source: int | Sequence[int], destination: int | Sequence[int]) -> A:
    """The named dims put at other places; the others keep their order.

    Raises:
        ShapeError: as many sources as destinations are needed, each once.
    """
    places = [_places(x, given) for given in (source, destination)]
    if len(places[0]) != len(places[1]) or any(len(set(p)) != len(p) for p in places):
        expected = "as many distinct sources as destinations"
        raise ShapeError("bad axes", op="moveaxis", expected=expected, found=f"{source} and {destination}")
    order = [k for k in range(x.rank) if k not in places[0]]
    for at, axis in sorted(zip(places[1], places[0], strict=True)):
        order.insert(at, axis)
    return x.transpose(tuple(order))


movedim = moveaxis


def _places(x: A, given: int | Sequence[int]) -> list[int]:
    return [normalize_axis(a, x.rank) for a in (given if isinstance(given, Sequence) else (given,))]


def swapaxes(x: A, a: int, b: int) -> A:
    """Two dims exchanged."""
    return x.swapaxes(a, b)


swapdims = swapaxes


def matrix_transpose(x: A) -> A:
    """The last two dims exchanged.

    Raises:
        ShapeError: fewer than two dims.
    """
    if x.rank < 2:
        raise ShapeError("needs at least two dims", op="matrix_transpose", found=shape_text(x))
    return x.swapaxes(-1, -2)


def expand_dims(x: A, axis: int | Sequence[int]) -> A:
    """New dims of size 1, where they stand in the result."""
    given = axis if isinstance(axis, Sequence) else (axis,)
    places = {normalize_axis(a, x.rank + len(given)) for a in given}
    if len(places) != len(given):
        raise ShapeError("an axis is named twice", op="expand_dims", found=tuple(given))
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if k in places else next(sizes) for k in range(x.rank + len(given))))


def ravel(x: A) -> A:
    """All elements in one dim."""
    return x.reshape((x.size,))


def flatten(x: A, start: int = 0, end: int = -1) -> A:
    """The dims from ``start`` to ``end`` (both included) as one."""
    return x.flatten(start, end)


def unflatten(x: A, axis: int, sizes: Sequence[DimLike]) -> A:
    """One dim as several, of which one size may be -1."""
    at = normalize_axis(axis, x.rank)
    known = dims.product(s for s in sizes if s != -1)
    full = tuple(dims.floordiv(x.shape[at], known) if s == -1 else s for s in sizes)
    if differ(dims.product(full), x.shape[at]):
        expected = f"a product of {x.shape[at]}"
        raise ShapeError("the sizes do not fit the dim", op="unflatten", expected=expected, found=tuple(sizes))
    return x.reshape((*x.shape[:at], *full, *x.shape[at + 1 :]))


def atleast_1d(x: A) -> A:
    """At least one dim."""
    return x.reshape((1,)) if x.rank == 0 else x


def atleast_2d(x: A) -> A:
    """At least two dims; new ones lead."""
    return x.reshape((*(1,) * (2 - x.rank), *x.shape)) if x.rank < 2 else x


# ---- broadcasting ------------------------------------------------------------------------------------------------


def broadcast_to(x: A, shape: Sequence[DimLike]) -> A:
    """Repeated along new dims and dims of size 1."""
    return x.broadcast_to(tuple(shape))


def broadcast_shapes(*shapes: Sequence[DimLike]) -> tuple[DimLike, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises:
        ShapeError: they do not broadcast.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[DimLike] = []
    for k in range(-rank, 0):
        sizes = [s[k] for s in shapes if len(s) >= -k and s[k] != 1]
        if any(differ(size, sizes[0]) for size in sizes):
            found = " and ".join(map(str, shapes))
            raise ShapeError("shapes do not broadcast", op="broadcast_shapes", expected="equal sizes or 1", found=found)
        result.append(sizes[0] if sizes else 1)
    return tuple(result)


def broadcast_arrays(*arrays: A) -> list[A]:
    """All arrays in the shape that they broadcast to."""
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [a.broadcast_to(shape) for a in arrays]


broadcast_tensors = broadcast_arrays


# ---- joining and splitting ---------------------------------------------------------------------------------------


def vstack(arrays: Sequence[A]) -> A:
    """Arrays on top of each other; vectors are rows."""
    return concat([atleast_2d(a) for a in arrays], 0)


def hstack(arrays: Sequence[A]) -> A:
    """Arrays side by side: along the second dim, vectors along their only one."""
    wide = [atleast_1d(a) for a in arrays]
    return concat(wide, 0 if wide and wide[0].rank == 1 else 1)


def dstack(arrays: Sequence[A]) -> A:
    """Arrays behind each other: along the third dim."""
    return concat([a.expand_dims(2) if a.rank == 2 else a for a in map(atleast_2d, arrays)], 2)


def column_stack(arrays: Sequence[A]) -> A:
    """Vectors as the columns of a matrix."""
    return concat([a.reshape((-1, 1)) if a.rank < 2 else a for a in arrays], 1)


def tensor_split(x: A, sections: int | Sequence[int], axis: int = 0) -> list[A]:
    """That many pieces, the first ones longer by one if need be; or pieces between the given indices."""
    size = static_size("tensor_split", x, axis)
    if isinstance(sections, int):
        if sections < 1:
            raise ShapeError("bad number of pieces", op="tensor_split", expected="at least 1", found=sections)
        short, extra = divmod(size, sections)
        return split(x, [short + (k < extra) for k in range(sections)], axis)
    ends = [*(slice(None, end).indices(size)[1] for end in sections), size]
    starts = [0, *ends[:-1]]
    at = normalize_axis(axis, x.rank)
    return [narrow(x, at, start, max(start, end)) for start, end in zip(starts, ends, strict=True)]


array_split = tensor_split


def hsplit(x: A, sections: int | Sequence[int]) -> list[A]:
    """`tensor_split` along the second dim, of vectors along their only one."""
    return tensor_split(x, sections, 0 if x.rank == 1 else 1)


def vsplit(x: A, sections: int | Sequence[int]) -> list[A]:
    """`tensor_split` along the first dim."""
    return tensor_split(x, sections, 0)


# ---- turning and repeating ---------------------------------------------------------------------------------------


def fliplr(x: A) -> A:
    """The columns in reverse order."""
    return x.flip(1)


def flipud(x: A) -> A:
    """The rows in reverse order."""
    return x.flip(0)


def rot90(x: A, k: int = 1, axes: tuple[int, int] = (0, 1)) -> A:
    """Turned by k right angles, from the first of the two dims towards the second."""
    a, b = (normalize_axis(axis, x.rank) for axis in axes)
    if a == b:
        raise ShapeError("two different axes are needed", op="rot90", found=axes)
    turned = {0: x, 1: x.flip(b).swapaxes(a, b), 2: x.flip((a, b)), 3: x.swapaxes(a, b).flip(b)}
    return turned[k % 4]


def repeat_interleave(x: A, repeats: int | Sequence[int], axis: int | None = None) -> A:
    """Each element several times in a row along an axis (None: of all elements in one dim).

    Args:
        repeats: how often, the same for all or one number for each position.

    Raises:
        ShapeError: numbers that are negative, or not one for each position.
    """
    if axis is None:
        return repeat_interleave(ravel(x), repeats, 0)
    if isinstance(repeats, int):
        return repeat(x, repeats, axis)
    counts = [int(count) for count in repeats]
    size = static_size("repeat_interleave", x, axis)
    if len(counts) == 1:
        return repeat(x, counts[0], axis)
    if len(counts) != size or min(counts, default=0) < 0:
        expected = f"{size} numbers of 0 or more"
        raise ShapeError("bad repeats", op="repeat_interleave", expected=expected, found=counts)
    pieces = [repeat(narrow(x, axis, k, k + 1), count, axis) for k, count in enumerate(counts) if count]
    return concat(pieces, axis) if pieces else narrow(x, axis, 0, 0)


def windows(x: A, axis: int, size: int, step: int = 1) -> A:
    """Sliding windows of ``size`` elements along an axis, every ``step``, as a new last dim (PyTorch's ``unfold``).

    Raises:
        ShapeError: a size or step below 1, or larger than the dim.
    """
    at = normalize_axis(axis, x.rank)
    total = static_size("windows", x, at)
    if not 1 <= size <= total or step < 1:
        raise ShapeError("bad window", op="windows", expected=f"1 to {total} elements, a step of 1 or more", found=size)
    count = (total - size) // step + 1
    starts = arange_like(x, count).reshape((-1, 1)) * step
    taken = x.take(starts + arange_like(x, size), at)
    return moveaxis(taken, at + 1, -1)


def select(x: A, axis: int, index: int) -> A:
    """The slice at one index of an axis, without that axis."""
    at = normalize_axis(axis, x.rank)
    size = static_size("select", x, at)
    if not -size <= index < size:
        raise IndexRangeError("index out of range", op="select", expected=f"-{size} to {size - 1}", found=index)
    return narrow(x, at, index % size, index % size + 1).squeeze(at)
