"""`says`: an error is of exactly this class, has exactly these lines, and names the line of the call."""

from collections.abc import Callable

import pytest

from firebox.errors import FireboxError

Call = Callable[[], object]


def says(call: Call, kind: type[FireboxError], *lines: str) -> None:
    """The call, all on one line, fails with this message.

    Args:
        lines: of the message, unindented and without the one that names the place.
    """
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind, caught.value
    found = [line.strip() for line in str(caught.value).splitlines()]
    code = call.__code__
    place = f"at:       {code.co_filename}:{code.co_firstlineno}"
    assert place in found, caught.value
    found.remove(place)
    assert found == list(lines), caught.value
