"""What this package adds to xDSL's tools, found by them through the entry point ``xdsl.universe``: dialects, passes."""

import importlib
import logging
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

GROUP = "xdsl.universe"
_log = logging.getLogger("firebox.plugins")

T = TypeVar("T")

_DIALECTS = {"nd": "ND", "kernel": "Kernel", "plan": "PLAN"}
_PASSES = (
    "nd-expand", "nd-canonicalize", "nd-checkpoint", "nd-decompose", "nd-layout", "nd-fuse", "nd-slim", "nd-order",
    "nd-schedule", "nd-bufferize", "nd-lower",
)  # fmt: skip


def _late(module: str, find: Callable[[Any], Any]) -> Callable[[], Any]:
    """Load a module of ours when what is in it is first used: xDSL's tools ask every universe for all of its names."""
    return lambda: find(importlib.import_module(module))


def _dialect(name: str) -> Callable[[], Dialect]:
    return _late(f"firebox.dialects.{name}", lambda module: getattr(module, _DIALECTS[name]))


def _pass(name: str) -> Callable[[], type[ModulePass]]:
    return _late("firebox.frontend.passes", lambda module: module.PASSES[name])


FIREBOX = Universe(
    all_dialects={name: _dialect(name) for name in _DIALECTS},
    all_passes={name: _pass(name) for name in _PASSES},
)


def universes() -> dict[str, Universe]:
    """xDSL's universe, ours, and those of installed plugins by name; one that cannot be loaded is reported."""
    found = {"xdsl": XDSL_UNIVERSE, "firebox": FIREBOX}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.name not in found:
            universe = _load(point)
            if universe is not None:
                found[point.name] = universe
    return found


def dialects() -> dict[str, Callable[[], Dialect]]:
    """Dialects of all universes; of two with one name the first in order stands, and the other is reported."""
    found: dict[str, Callable[[], Dialect]] = {}
    for owner, universe in universes().items():
        for name, factory in universe.all_dialects.items():
            _add(found, owner, name, factory)
    return found


def passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Passes of all universes, as `dialects`."""
    found: dict[str, Callable[[], type[ModulePass]]] = {}
    for owner, universe in universes().items():
        for name, factory in universe.all_passes.items():
            _add(found, owner, name, factory)
    return found


def _add(found: dict[str, T], owner: str, name: str, factory: T) -> None:
    if name in found:
        _log.warning("plugin %s defines %s, which exists already: left out", owner, name)
        return
    found[name] = factory


def _load(point: EntryPoint) -> Universe | None:
    try:
        universe = point.load()
    except Exception as error:  # whatever a plugin's import raises must not break our tools
        _log.warning("plugin %s cannot be loaded: %s: %s", point.name, type(error).__name__, error)
        return None
    if not isinstance(universe, Universe):
        _log.warning("plugin %s is not an xDSL Universe: left out", point.name)
        return None
    return universe
