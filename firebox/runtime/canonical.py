"""Canonical JSON: one text per value, without floats, read with suspicion."""

import json
from collections.abc import Mapping
from typing import Any

from firebox.errors import ArtifactError

_MAX_JSON = 1 << 28


def canonical_json(data: Mapping[str, object] | list[object]) -> str:
    """Sorted keys, no spaces, ASCII only: one text per value."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def load_canonical_json(text: str | bytes, what: str) -> Any:
    """The value of a text that `canonical_json` wrote.

    Raises:
        ArtifactError: any other text: malformed, too long or deep, with floats or repeated keys, spelled otherwise.
    """
    if len(text) > _MAX_JSON:
        raise damaged(what, "its description is too long")
    try:
        decoded = text if isinstance(text, str) else text.decode("ascii")
        data = json.loads(decoded, parse_float=_refuse, parse_constant=_refuse)
        canonical = canonical_json(data) == decoded
    except (ValueError, RecursionError):
        raise damaged(what, "its description is not JSON") from None
    if not canonical:
        raise damaged(what, "its description is not in canonical form")
    return data


def _refuse(text: str) -> None:
    raise ValueError(text)


def damaged(what: str, reason: str) -> ArtifactError:
    """The error for content that no writer of ours makes."""
    return ArtifactError(f"damaged: {reason}", op=what)
