"""What this package adds to xDSL's tools: dialects and passes, found by them through the entry point ``xdsl.universe``."""

import logging
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from firebox.dialects.kernel import Kernel
from firebox.dialects.nd import ND
from firebox.dialects.plan import PLAN
from firebox.frontend.passes import PASSES

GROUP = "xdsl.universe"
_log = logging.getLogger("firebox.plugins")

T = TypeVar("T")


def _constant(dialect: Dialect) -> Callable[[], Dialect]:
    return lambda: dialect


def _pass(cls: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: cls


FIREBOX = Universe(
    all_dialects={dialect.name: _constant(dialect) for dialect in (ND, Kernel, PLAN)},
    all_passes={cls.name: _pass(cls) for cls in PASSES},
)


def universes() -> dict[str, Universe]:
    """xDSL's universe, ours, and those of installed plugins by name. A plugin that cannot be loaded is reported and left out."""
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
