"""Walking a model: modules, lists, tuples, dicts and dataclasses down to its cells, with dotted paths."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from firebox.frontend.cells import Cell


class Node:
    """Base of objects whose attributes are walked; `Module` derives from it."""


def children(value: object) -> Iterator[tuple[str, Any]]:
    """Name and value of the direct parts of a container; nothing for anything else."""
    if isinstance(value, Node):
        yield from vars(value).items()
    elif isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(k), part) for k, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))


def walk(root: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every module and cell below ``root`` (itself included) with its path, in order of definition.

    A shared part is visited once, under its first path; a part that contains itself ends the walk there.
    """
    yield from _walk(root, prefix, set())


def _walk(value: object, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Node | Cell | Mapping | list | tuple) and not dataclasses.is_dataclass(value):
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Node | Cell):
        yield path, value
    if isinstance(value, Cell):
        return
    for name, part in children(value):
        yield from _walk(part, f"{path}.{name}" if path else name, seen)


def all_paths(root: object) -> Iterator[tuple[str, Cell]]:
    """Every path that leads to a cell, so that a shared cell comes up under each of its names."""
    yield from _all_paths(root, "", ())


def _all_paths(value: object, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, Cell]]:
    if isinstance(value, Cell):
        yield path, value
        return
    if id(value) in above:
        return
    for name, part in children(value):
        yield from _all_paths(part, f"{path}.{name}" if path else name, (*above, id(value)))
