"""Errors, by who is at fault: the user, the compiler, the device. They carry op, expected, found and the way out."""

from collections.abc import Callable, Iterable

locate: Callable[[], tuple[str, str]] | None = None
"""Tells the user's line (``file:line``) and what is called there while an error is raised; the frontend sets it."""

ONE_OF_SEVERAL = -(1 << 63)
"""Stands in index arithmetic for a position that is out of range because one of the indices behind it is."""


class FireboxError(Exception):
    """Base of all Firebox errors.

    Raisers give facts; when the frontend is on the stack it adds the line of the user's call, unless `at` names
    another, and the function called there, unless `op` names something.

    Args:
        message: one sentence that says what is wrong.
        op: the op or input concerned, e.g. ``"matmul"`` or ``"input x"``.
        expected: what would have been right.
        found: what was there instead.
        hint: the way out.
    """

    def __init__(
        self, message: str, *, op: str = "", expected: object = None, found: object = None, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.op = op
        self.expected = expected
        self.found = found
        self.hint = hint
        self.location = ""
        self.computed: object = None
        """What the failing program made of its other results, for those who know which of them are right."""
        self.raised_at, self.called = locate() if locate is not None else ("", "")

    def at(self, location: str) -> "FireboxError":
        """Name the user's line (``file:line``); the innermost call wins, so the first location stays."""
        if not self.location:
            self.location = location
        return self

    def __str__(self) -> str:
        op = self.op or self.called
        head = f"{op}: {self.message}" if op else self.message
        return "\n".join([head, *(f"  {line}" for line in self._details())])

    def _details(self) -> Iterable[str]:
        if self.expected is not None:
            yield f"expected: {self.expected}"
        if self.found is not None:
            yield f"found:    {self.found}"
        if self.location or self.raised_at:
            yield f"at:       {self.location or self.raised_at}"
        if self.hint:
            yield f"hint:     {self.hint}"


class UserError(FireboxError):
    """The program asks for something that has no meaning (also a ValueError for callers that expect one)."""


class ShapeError(UserError, ValueError):
    """Shapes, axes or sizes do not fit."""


class DTypeError(UserError, TypeError):
    """An element type or kind is not accepted here."""


class IndexRangeError(UserError, IndexError):
    """An index or axis is out of range."""


def index_error(op: str, index: int, size: int) -> IndexRangeError:
    """The error for an index that was found out of range while a program ran, along an axis of that size."""
    if index == ONE_OF_SEVERAL:
        return IndexRangeError("one of several indices is out of range", op=op, expected="each within its own dim")
    expected = f"an index from 0 to {size - 1}" if size > 0 else "none: the axis is empty"
    hint = "negative indices count from the end in x[...] and fb.take, not here" if -size <= index < 0 else ""
    return IndexRangeError("index out of range", op=op, expected=expected, found=index, hint=hint)


class TraceError(UserError):
    """A traced value is used where a concrete one is needed."""


class InputError(UserError, ValueError):
    """A value given to a compiled model does not meet its signature (exit code 3)."""


class ArtifactError(FireboxError):
    """An artifact is damaged, truncated, of another format version, or not for this machine (exit code 4)."""


class CompilerError(FireboxError):
    """A defect or missing part of the compiler itself."""


class DeviceError(FireboxError):
    """The device, its driver or its memory failed."""
