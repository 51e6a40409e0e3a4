"""Source locations: the user's line behind a call, taken cheaply and spelled out only when somebody looks."""

import functools
import operator
import sys
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

from firebox import errors

Location = tuple[CodeType, int]
"""Code object and instruction offset: what a frame gives without work."""

_PACKAGE = str(Path(__file__).parents[1]) + "/"
_ARRAYS = tuple(_PACKAGE + f"dialects/nd/{name}.py" for name in ("array", "operators"))
_USED_DIRECTLY = (str(Path(__file__).parent) + "/", *_ARRAYS, _PACKAGE + "dims/")
_LAYERS = str(Path(__file__).parent / "nn") + "/"
_COMMANDS = str(Path(__file__).parent / "cli") + "/"
_WRAPPERS = ("public", "recorded")
"""Functions inside decorators, which hold what they decorate as ``function``."""

_OPERATORS = {"getitem": "index", "truediv": "div", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
_OUTSIDE, _WITHIN, _COMMAND = range(3)
_places: dict[str, int] = {}


def capture(depth: int = 1) -> Location | None:
    """Where the first frame outside this package stands, `depth` frames up from the caller's or further."""
    frame: FrameType | None = sys._getframe(depth)
    known = _places
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        place = known.get(name)
        if place is None:
            place = known[name] = _place(name)
        if place == _OUTSIDE:
            return code, frame.f_lasti
        if place == _COMMAND:  # what calls the command line is nobody's program
            break
        frame = frame.f_back
    return _layer(depth + 1)


def _place(name: str) -> int:
    """Where a file stands: outside of this package, in it, or in its command line."""
    if name.startswith(_COMMANDS):
        return _COMMAND
    return _WITHIN if name.startswith((_PACKAGE, "<frozen ")) else _OUTSIDE


def _layer(depth: int) -> Location | None:
    """The line of one of our layers: all there is where no code of a user runs, as when a tool traces a model."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_LAYERS):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=65536)
def file_and_line(location: Location) -> tuple[str, int]:
    """File name and line number of a location."""
    code, offset = location
    position = next(islice(code.co_positions(), offset // 2, None), None)
    line = position[0] if position else None
    return code.co_filename, line or code.co_firstlineno


def text(location: Location | None) -> str:
    """``file:line``, or an empty string where the location is not known."""
    return "" if location is None else "{}:{}".format(*file_and_line(location))


def here() -> tuple[str, str]:
    """``file:line`` of the user's call into this frontend that runs now, and what it calls; empty when none does."""
    frame: FrameType | None = sys._getframe(1)
    ours: FrameType | None = None
    direct = False
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_COMMANDS):
            break
        if direct and not name.startswith(
            _PACKAGE
        ):  # before that, a rule of another package's op, which we have called
            return text((frame.f_code, frame.f_lasti)), _called(ours)
        if name.startswith(_PACKAGE):
            direct = direct or (name.startswith(_USED_DIRECTLY) and name != __file__)
            ours = frame
        frame = frame.f_back
    return "", ""


def _called(frame: FrameType | None) -> str:
    """The name of a function of ours as users write it; that of its class for what makes or calls an object."""
    if frame is None:
        return ""
    name = frame.f_code.co_name
    if name in ("__init__", "__call__"):
        return type(frame.f_locals.get("self")).__name__
    if name in _WRAPPERS:
        return str(frame.f_locals["function"].__name__)
    if not name.startswith("__"):
        outer = frame.f_code.co_qualname.partition(".<locals>")[0]  # a function inside ours has no name for a user
        return outer.rpartition(".")[2].strip("_<>")
    plain = name.strip("_")
    swapped = plain.startswith("r") and (hasattr(operator, plain[1:]) or hasattr(operator, f"{plain[1:]}_"))
    plain = plain[1:] if swapped else plain
    return _OPERATORS.get(plain, plain)


errors.locate = here
