"""Nested structures as arguments and results: lists, tuples, dicts and dataclasses down to their leaves."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from firebox.errors import UserError
from firebox.signature import TensorSpec


class TreeDef(NamedTuple):
    """The structure of a value without its leaves; hashable. ``kind`` is None for a leaf.

    Attributes:
        kind: the type of the container.
        keys: keys of a dict, or names of fields.
        children: structures of the parts.
    """

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: "tuple[TreeDef, ...]" = ()

    @property
    def size(self) -> int:
        """Number of leaves."""
        return 1 if self.kind is None else sum(c.size for c in self.children)


LEAF = TreeDef(None)


def flatten(value: Any) -> tuple[list[Any], TreeDef]:
    """The leaves in order, and the structure. What is no container is a leaf; None is a container of nothing."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> TreeDef:
    kind = type(value)
    if value is None:
        return TreeDef(kind)
    if isinstance(value, dict):
        keys = tuple(value)
        return TreeDef(kind, keys, tuple(_flatten(value[k], leaves) for k in keys))
    if isinstance(value, list | tuple):
        return TreeDef(kind, (), tuple(_flatten(v, leaves) for v in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | TensorSpec):
        names = tuple(f.name for f in dataclasses.fields(value) if f.init)
        return TreeDef(kind, names, tuple(_flatten(getattr(value, n), leaves) for n in names))
    leaves.append(value)
    return LEAF


def unflatten(definition: TreeDef, leaves: Sequence[Any]) -> Any:
    """The value with that structure and these leaves."""
    position = iter(leaves)
    return _unflatten(definition, position)


def _unflatten(definition: TreeDef, leaves: Any) -> Any:
    kind, keys, children = definition
    if kind is None:
        return next(leaves)
    parts = [_unflatten(c, leaves) for c in children]
    if kind is type(None):
        return None
    if issubclass(kind, dict):
        return dict(zip(keys, parts, strict=True))
    if issubclass(kind, tuple):
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if issubclass(kind, list):
        return parts
    return kind(**dict(zip(keys, parts, strict=True)))


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with ``function(leaf)`` in place of each leaf."""
    leaves, definition = flatten(value)
    return unflatten(definition, [function(v) for v in leaves])


def broadcast_prefix(prefix: Any, definition: TreeDef, what: str) -> list[Any]:
    """A value for each leaf from a structure that may stop early: one value then holds for all leaves below.

    Raises:
        UserError: the structure is no beginning of the other.
    """
    if not isinstance(prefix, list | tuple | dict):
        return [prefix] * definition.size
    keys = tuple(prefix) if isinstance(prefix, dict) else ()
    parts = list(prefix.values()) if isinstance(prefix, dict) else list(prefix)
    if definition.kind is None or len(parts) != len(definition.children) or (keys and keys != definition.keys):
        raise UserError(f"{what} does not fit the structure of the values", op="vmap", found=prefix)
    found: list[Any] = []
    for part, child in zip(parts, definition.children, strict=True):
        found.extend(broadcast_prefix(part, child, what))
    return found
