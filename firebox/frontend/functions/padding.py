"""`pad`: arrays surrounded by a value, or by their own elements."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from firebox.dialects.nd.operators import Scalar
from firebox.dims import DimLike
from firebox.errors import ShapeError, UserError
from firebox.frontend.functions.shape import concat, narrow
from firebox.frontend.functions.support import A, shape_text

PadMode = Literal["constant", "reflect", "replicate", "circular"]


def pad(x: A, widths: Sequence[int | tuple[int, int]], value: Scalar = 0, mode: PadMode = "constant") -> A:
    """The array with more elements at the ends of its last dims.

    Args:
        widths: (before, after), or one number for both, for each of the last dims.
        value: what surrounds the array in mode ``"constant"``.
        mode: ``"constant"``; ``"reflect"``, mirrored at the first and last element, which are not repeated (width <
            size); ``"replicate"``, the first and last element again; ``"circular"``, the array from its other end
            (width <= size).

    Raises:
        ShapeError: more widths than dims, a negative one, or one that is too large for the mode.
        UserError: no such mode.
    """
    pairs = [(w, w) if isinstance(w, int) else tuple(w) for w in widths]
    if len(pairs) > x.rank or any(len(p) != 2 or any(isinstance(w, int) and w < 0 for w in p) for p in pairs):
        expected = f"at most {x.rank} pairs of integers >= 0"
        raise ShapeError("bad widths", op="pad", expected=expected, found=list(widths))
    full = [(0, 0)] * (x.rank - len(pairs)) + pairs
    if mode == "constant":
        return x.pad([low for low, _ in full], [high for _, high in full], value)
    if mode not in _SIDES:
        expected = ", ".join(map(repr, get_args(PadMode)))
        raise UserError("no such mode", op="pad", expected=expected, found=repr(mode))
    for axis, (low, high) in enumerate(full):
        x = _extended(x, axis, low, high, mode)
    return x


def _extended(x: A, axis: int, low: int, high: int, mode: str) -> A:
    """The array with its own elements before and after an axis."""
    if low == 0 and high == 0:
        return x
    size, spare = x.shape[axis], {"reflect": 1, "replicate": 0, "circular": 0}[mode]
    least = 1 if mode == "replicate" else max(low, high) + spare
    if isinstance(size, int) and size < least:
        expected = f"at least {least} elements at axis {axis}"
        raise ShapeError(f"too few elements to {mode}", op="pad", expected=expected, found=shape_text(x))
    before, after = _SIDES[mode]
    parts = [before(x, axis, low)] * (low > 0) + [x] + [after(x, axis, high)] * (high > 0)
    return concat(parts, axis)


def _mirrored_before(x: A, axis: int, width: int) -> A:
    return narrow(x, axis, 1, 1 + width).flip(axis)


def _mirrored_after(x: A, axis: int, width: int) -> A:
    size = x.shape[axis]
    return narrow(x, axis, size - 1 - width, size - 1).flip(axis)


def _first_again(x: A, axis: int, width: int) -> A:
    return _repeated(narrow(x, axis, 0, 1), axis, width)


def _last_again(x: A, axis: int, width: int) -> A:
    size = x.shape[axis]
    return _repeated(narrow(x, axis, size - 1, size), axis, width)


def _repeated(edge: A, axis: int, width: DimLike) -> A:
    return edge.broadcast_to((*edge.shape[:axis], width, *edge.shape[axis + 1 :]))


def _end(x: A, axis: int, width: int) -> A:
    size = x.shape[axis]
    return narrow(x, axis, size - width, size)


def _start(x: A, axis: int, width: int) -> A:
    return narrow(x, axis, 0, width)


_Side = Callable[[A, int, int], A]
_SIDES: dict[str, tuple[_Side[A], _Side[A]]] = {  # type: ignore[valid-type]
    "reflect": (_mirrored_before, _mirrored_after),
    "replicate": (_first_again, _last_again),
    "circular": (_end, _start),
}
