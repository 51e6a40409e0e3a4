"""What the tables of oracles share."""

from collections.abc import Callable
from typing import Any

import firebox

fb: Any = firebox
"""Untyped: the tables pass on whatever the samples hold."""

Function = str | Callable[..., Any]
"""The name of a public function, or a function of PyTorch's arguments."""


class NotTried(Exception):
    """Firebox does not offer what one sample asks for; the text says what."""


def named(names: str) -> dict[str, Function]:
    """Functions that have the same name and arguments on both sides."""
    return {name: name for name in names.split()}


def cast_to(dtype: Any) -> Callable[..., Any]:
    """A conversion."""
    return lambda x: x.astype(dtype)


def only(condition: bool, reason: str) -> None:
    """Leave a sample out unless the condition holds.

    Raises:
        NotTried: it does not.
    """
    if not condition:
        raise NotTried(reason)
