"""Options of a compilation; apart from the pipeline, so that a cached program is found without loading the compiler."""

import re
from dataclasses import dataclass

from firebox.errors import UserError

_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_BUDGET = "budget:"
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMG]?I?B)?", re.IGNORECASE)


@dataclass(frozen=True)
class Options:
    """What may differ between two compilations of one program for one target.

    Attributes:
        name: of the program and its entry point.
        checkpoint: what backward keeps: a strategy of the pass `checkpoint`, or the most bytes that the arena may take,
            as a number or as text such as ``budget:64MiB``. It is kept as text, budgets in bytes.
        verify: verify the module after each phase.

    Raises:
        UserError: not a number of bytes.
    """

    name: str = "main"
    checkpoint: str | int = "none"
    verify: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint", _checkpoint(self.checkpoint))

    @property
    def strategy(self) -> str:
        """What `checkpoint` says, without the bytes of a budget."""
        return str(self.checkpoint).partition(":")[0]

    @property
    def budget(self) -> int | None:
        """The most bytes that the arena may take; None where nothing is said of it."""
        text = str(self.checkpoint)
        return int(text.removeprefix(_BUDGET)) if text.startswith(_BUDGET) else None


def _checkpoint(value: str | int) -> str:
    """A strategy or budget as text, budgets in bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{_BUDGET}{_positive(value, value)}"
    if not isinstance(value, str):
        raise _refused(value)
    if not value.startswith("budget"):
        return value
    found = _SIZE.fullmatch(value.removeprefix(_BUDGET).strip())
    if found is None or (found[2] or "").upper() not in _UNITS:
        raise _refused(value)
    return f"{_BUDGET}{_positive(int(float(found[1]) * _UNITS[(found[2] or '').upper()]), value)}"


def _positive(count: int, value: object) -> int:
    if count <= 0:
        raise _refused(value)
    return count


def _refused(value: object) -> UserError:
    return UserError("not a budget", op="checkpoint", expected="bytes, as budget:64MiB or as an int", found=repr(value))
